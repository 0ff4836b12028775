"""The paper's models: exports answer as the compiled model on every test row."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelite
from kernelite.backends.c import to_c
from kernelite.data.rows.inputs import dense_block
from kernelite.data.tables.data import read_data
from kernelite.model.export import export
from tests.helpers import shared_path
from tests.model.export.cases import constant_bytes

pytestmark = pytest.mark.campaign  # the data are large

READER = """
#include <stdio.h>
#include "m.h"
int main(void)
{
    double x[m_FEATURES];
    while (fread(x, sizeof x, 1, stdin) == 1)
        printf("%ld\\n", m_label(x));
    return 0;
}
"""
MODELS = {
    "a9a": ("a9a_g0.01_c1.model.bz2", "a9a.t.bz2", {"guarantee": "none"}),
    "ijcnn1": ("ijcnn1_g0.05_c100.model.bz2", "ijcnn1.t.bz2", {"guarantee": "certified"}),
    "mnist1": ("mnist1_g0.0001_c32.model.bz2", "mnist.scale.t.bz2", {"guarantee": "none"}),
}


@cache
def compiled(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model, the test rows and its labels of them."""
    model, data, options = MODELS[name]
    fast = kernelite.compile(str(shared_path("models", model)), **options)
    table = read_data(shared_path("data", data), labels="ignore")
    rows = dense_block(table.fit_width(fast.n_features_in_)[0], slice(None))
    return fast, rows, fast.predict(rows, on_invalid="ignore")


@pytest.mark.parametrize("name", MODELS)
def test_onnx_labels(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    fast, rows, labels = compiled(name)
    export(fast, tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    got = [session.run(["label"], {"X": part})[0] for part in np.array_split(rows, 20)]
    np.testing.assert_array_equal(np.concatenate(got), labels)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", MODELS)
def test_c_labels(name: str, tmp_path: Path) -> None:
    fast, rows, labels = compiled(name)
    (tmp_path / "m.h").write_text(to_c(fast, name="m"))
    (tmp_path / "m.c").write_text(READER)
    program = tmp_path / "m"
    subprocess.run(["gcc", "-std=c99", "-O2", tmp_path / "m.c", "-o", program, "-lm"], check=True)
    done = subprocess.run([program], input=rows.tobytes(), capture_output=True, check=True)
    np.testing.assert_array_equal(np.array(done.stdout.split(), dtype=np.int64), labels)


def test_the_header_of_ijcnn1_is_small() -> None:
    model = str(shared_path("models", MODELS["ijcnn1"][0]))
    fast = kernelite.compile(model, guarantee="none", certificate=True)
    header = to_c(fast, name="ijcnn1", part="approximation", decided=True)
    assert len(header) < 20_000
    assert constant_bytes(header) < 5_000
