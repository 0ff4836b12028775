"""What can go wrong becomes an exit code and one line."""

from __future__ import annotations

import ctypes
import errno
import time
import warnings

import pytest

from kernelite.cli.console import guarded
from kernelite.support.errors import FileFormatError, InputError
from tests.helpers import PATIENCE


def raiser(error: BaseException):
    def command() -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (InputError("`x` is wrong."), 1, "prog: error: `x` is wrong.\n"),
        (FileFormatError("a.svm", "is empty", line=3), 1, "prog: error: a.svm:3: is empty\n"),
        (FileNotFoundError(errno.ENOENT, "No such file", "f"), 1, "prog: error: f: No such file\n"),
        (OSError(errno.ENOSPC, "No space left"), 1, "prog: error: No space left\n"),
        (OSError(), 1, "prog: error: OSError\n"),
        (InputError("two\nlines"), 1, "prog: error: two lines\n"),
        (MemoryError("8 GB"), 1, "prog: error: not enough memory (8 GB)\n"),
        (
            ImportError("no Parquet (a.so: failed to map segment from shared object)"),
            1,
            "prog: error: not enough memory (a library cannot be loaded: no Parquet (a.so: failed "
            "to map segment from shared object))\n",
        ),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
        (BrokenPipeError(), 141, ""),
        (SystemExit(2), 2, ""),
        (SystemExit(None), 0, ""),
    ],
)
def test_errors(error, code, says, capsys) -> None:
    assert guarded("prog", raiser(error)) == code
    captured = capsys.readouterr()
    assert captured.err == says
    assert captured.out == ""


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        guarded("prog", raiser(ZeroDivisionError()))


def test_a_library_that_is_missing_is_not_called_memory() -> None:
    with pytest.raises(ImportError, match="no module"):
        guarded("prog", raiser(ImportError("no module")))


def test_the_commands_own_code_is_kept() -> None:
    assert guarded("prog", lambda: 7) == 7


def test_warnings_are_lines_said_once(capsys) -> None:
    def command() -> int:
        for _ in range(3):
            warnings.warn("mind the gap", stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)
        return 0

    assert guarded("prog", command) == 0
    assert capsys.readouterr().err == "prog: warning: mind the gap\n"


def test_an_interrupt_while_c_calls_python_is_not_lost(capsys) -> None:
    @ctypes.CFUNCTYPE(None)
    def called_from_c() -> None:
        raise KeyboardInterrupt

    def command() -> int:
        called_from_c()
        for _ in range(20 * PATIENCE):
            time.sleep(0.05)
        return 0

    assert guarded("kernelite", command) == 130
    assert capsys.readouterr().err == "kernelite: interrupted\n"
