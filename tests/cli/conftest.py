"""Fixtures of the command line's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernelite.cli import main
from tests.cli.toys import Toys, make_toys


class Ran(NamedTuple):
    """What a command left: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    """Shared files; tests write elsewhere."""
    return make_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def kernelite(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `kernelite` in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ran(code, out, err)

    return run


@pytest.fixture
def good(kernelite: Callable[..., Ran]) -> Callable[..., Ran]:
    """Run `kernelite` and insist that it succeeds."""

    def run(*arguments: object) -> Ran:
        ran = kernelite(*arguments)
        assert ran.code == 0, ran.err
        return ran

    return run


@pytest.fixture(scope="session")
def compiled(toys: Toys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of compiled models: svc, binary, svr, one_class, platt (.kernelite)."""
    folder = tmp_path_factory.mktemp("compiled")
    for name in ("svc", "binary", "svr", "one_class", "platt"):
        output = folder / f"{name}.kernelite"
        arguments = ["compile", toys.path(f"{name}.model"), "-o", str(output)]
        assert main([*arguments, "--sample", toys.path("train.svm")]) == 0
    return folder
