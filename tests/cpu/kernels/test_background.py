"""Answers while kernels compile: the same, from the twins; forks, exits and failures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kernelite

SOURCE = Path(kernelite.__file__).parents[1]
ROOT = Path(__file__).parents[2]
PROLOGUE = f"""
import json, os, sys, time
import numpy as np
import kernelite as kl
from kernelite.cpu.kernels import cache
from pathlib import Path
cache.kernel_folders = lambda: [Path(CACHE)]
from kernelite.cpu.kernels import background
model = kl.load({str(ROOT / "store" / "version_1" / "regression.kernelite")!r})
answers = json.loads(open({str(ROOT / "store" / "version_1" / "answers.json")!r}).read())
rows, expected = np.array(answers["regression"]["rows"]), answers["regression"]["predict"]

def right():
    return np.allclose(model.predict(rows), expected, rtol=1e-12, atol=0.0)
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    script = f"CACHE = {str(folder / 'cache')!r}\n{PROLOGUE}\n{code}"
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "KERNELITE_COMPILE": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_answers_come_before_the_kernel_and_after_it(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "print(right(), background._worker.busy)\n"
        "while background._worker.busy: time.sleep(0.05)\n"
        "print(right())",
    )
    assert ran.stdout.split() == ["True", "True", "True"]
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("kernelite: compiling kernels")
    # Only what the model needs, and it is kept.
    assert {file.name.split("-")[0] for file in (tmp_path / "cache").iterdir()} == {
        "cpu.kernels.pointwise._exp_kernel",
        "cpu.kernels.panel_sums.double_scores",
    }
    for path in [*(tmp_path / "cache").iterdir(), tmp_path / "cache"]:
        path.chmod(path.stat().st_mode & 0o555)  # as in an image that cannot be written
    again = run(tmp_path, "print(right(), len(background._prepared))")
    assert again.stdout.split() == ["True", "2"]
    assert again.stderr == ""


def test_a_process_that_ends_at_once_leaves_the_kernel_to_the_next(tmp_path: Path) -> None:
    assert run(tmp_path, "print(right())").stdout == "True\n"
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_while_a_kernel_compiles(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "print(right(), flush=True)\n"
        "child = os.fork()\n"
        "good = right() and background.prepare_now(background.declared()[0]) is None and right()\n"
        "if child == 0: os._exit(0 if good else 1)\n"
        "print(good, os.waitpid(child, 0)[1])",
    )
    assert ran.stdout.split() == ["True", "True", "0"]


def test_a_kernel_that_fails_to_compile_says_so_when_it_is_called(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "from kernelite.cpu.kernels.compiling import array_type, kernel, ready\n"
        "@kernel(array_type(1))\n"
        "def bad(x):\n"
        "    return x.no_such_thing\n"
        "print(ready(bad))\n"
        "while background._worker.busy: time.sleep(0.05)\n"
        "try: ready(bad)\n"
        "except Exception as error: print(type(error).__name__)",
    )
    assert ran.stdout.split() == ["False", "TypingError"]
