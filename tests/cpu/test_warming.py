"""Compiling all kernels ahead, from Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kernelite
from kernelite import errors
from kernelite.cli import main
from kernelite.cpu.kernels import background


def test_every_kernel_is_ready_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    done = kernelite.warm_up()
    assert done.kernels == len(background.declared()) >= 14
    assert all(map(background.ready, background.declared()))
    names = {kernel.py_func.__module__ for kernel in background.declared()}
    source = Path(kernelite.__file__).parent
    with_kernels = {
        ".".join(("kernelite", *path.relative_to(source).with_suffix("").parts))
        for path in source.rglob("*.py")
        if "\n@kernel(" in path.read_text(encoding="utf-8")
    }
    assert with_kernels
    assert with_kernels <= names
    assert main(["warm-up"]) == 0
    assert capsys.readouterr().out.startswith(f"all {done.kernels} kernels")
    assert main(["warm-up", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == done.kernels


def test_without_numba_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelite.cpu.kernels.compiling.jit_available", lambda: False)
    with pytest.raises(errors.KerneliteError, match="nothing to warm up"):
        kernelite.warm_up()
