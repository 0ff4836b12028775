"""The guide's advice, followed as it is printed: which search to make, and how to serve."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelite as kl
from kernelite.backends.cpu.threads import thread_count
from tests.docs.pages import DOCS, blocks
from tests.docs.test_examples import run_python
from tests.helpers import PATIENCE

WORKER = """
import json, sys
import kernelite as kl
model = kl.load("cancer.kernelite")
with kl.limit_threads(1):
    print(json.dumps([model.predict([row])[0].item() for row in json.load(sys.stdin)]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def followed(page: Path, *said: str) -> dict[str, Any]:
    """What the page's Python blocks leave that hold these texts, one block after the other."""
    python = [block for block in blocks(page) if block.language == "python"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for text in said:
        (block,) = (block for block in python if text in block.text)
        run_python(block.text, namespace, page)
    return namespace


@pytest.mark.usefixtures("folder")
def test_search_with_a_plain_machine_then_compile_the_winner() -> None:
    found = followed(
        DOCS / "guide" / "pipelines.md",
        "fast = kl.compile(pipeline, X)  # rows as",
        "search = GridSearchCV(",
    )
    search, fast, X = (found[name] for name in ("search", "fast", "X"))
    machine = search.estimator[-1]
    assert type(machine).__module__.startswith("sklearn.")
    assert isinstance(fast, kl.CompiledModel)
    np.testing.assert_array_equal(fast.predict(X), search.predict(X))
    assert search.best_params_["svc__gamma"] == search.best_estimator_[-1].gamma
    asked = (DOCS / "project" / "faq.md").read_text(encoding="utf-8")
    assert "pipelines.md#compile-the-winner-of-a-search" in asked


def test_serve_by_a_process_per_core_and_one_thread_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "guide" / "serving.md"
    before = thread_count()
    found = followed(page, "machine = make_pipeline", "with kl.limit_threads(1)")
    assert capsys.readouterr().out.split()[-1] == "True"
    assert thread_count() == before  # in this block alone
    X, labels = found["X"], found["machine"].predict(found["X"])
    with_workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    parts = (slice(0, 300), slice(300, None))
    for worker, part in zip(with_workers, parts, strict=True):
        out, _ = worker.communicate(json.dumps(X[part].tolist()), timeout=PATIENCE)
        assert json.loads(out) == labels[part].tolist()
    text = page.read_text(encoding="utf-8")
    assert re.search(r"`kl\.limit_threads\(1\)` and one process per core", text)
    assert re.search(r"\| 8 processes \|", text)  # beside the figures that speak for it
