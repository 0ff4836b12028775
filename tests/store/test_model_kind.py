"""Any model file, opened by its content."""

from __future__ import annotations

import bz2
import gzip
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from kernelite.model.compiler import open_model
from kernelite.store import approxsvm
from kernelite.store.files import load, model_kind
from kernelite.support.errors import FileFormatError, InputError, UnsupportedModelError
from tests.store.models import compiled

LIBSVM = """svm_type epsilon_svr
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 1
rho -0.25
SV
2 1:1 3:-1
"""


@pytest.mark.parametrize("name", ["m", "m.txt", "m.kernelite"])
def test_names_do_not_matter(name: str, tmp_path: Path) -> None:
    model, path = compiled(), tmp_path / name
    model.save(path)
    assert model_kind(path) == "kernelite"
    assert open_model(path).n_features_in_ == 4
    approxsvm.write(model, path)
    assert model_kind(path) == "approxsvm"
    assert open_model(path).n_features_in_ == 4


@pytest.mark.parametrize(
    ("pack", "name"),
    [(bytes, "a.model"), (gzip.compress, "a.model.gz"), (bz2.compress, "a.model.bz2")],
)
def test_libsvm_models_are_exact_or_refused(pack: object, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(pack(LIBSVM.encode()))  # type: ignore[operator]
    with pytest.raises(UnsupportedModelError, match=r"compile it first .* --exact"):
        open_model(path)
    model = open_model(path, exact=True)
    assert model.guarantee == "exact"
    np.testing.assert_allclose(model.predict([[1.0, 0.0, -1.0]]), [2.25])


def test_exact_is_not_for_compiled_models(tmp_path: Path) -> None:
    compiled().save(tmp_path / "m.kernelite")
    with pytest.raises(InputError, match="--exact needs the LIBSVM model"):
        open_model(tmp_path / "m.kernelite", exact=True)
    compiled(exact=True).save(tmp_path / "e.kernelite")
    assert open_model(tmp_path / "e.kernelite", exact=True).guarantee == "exact"


def test_corrupt_compression_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.model.gz"
    path.write_bytes(gzip.compress(LIBSVM.encode())[:20])
    with pytest.raises(FileFormatError, match="gzip stream is corrupt"):
        open_model(path)


def test_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="directory"):
        open_model(tmp_path)
    read, write = os.pipe()
    try:
        with pytest.raises(FileFormatError, match="not from a pipe"):
            open_model(f"/dev/fd/{read}")
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "pipe.kernelite"
    os.mkfifo(path)
    signal.alarm(20)  # opening a pipe that nobody writes to waits for ever
    try:
        for reads in (load, open_model, model_kind):
            with pytest.raises(FileFormatError, match="from a regular file, not from a pipe"):
                reads(path)
    finally:
        signal.alarm(0)
