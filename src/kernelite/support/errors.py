"""The errors that a user's input can cause. Each message is one sentence that names the cure.

All derive from `ValueError`, so code written against scikit-learn's habits keeps working; the
command line turns any `KerneliteError` into one line on stderr and exit code 1. Tracebacks call
them by their public names, `kernelite.InputError` and so on.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any

from kernelite.support.terminal import printable

__all__ = [
    "OLDEST_SCIKIT_LEARN",
    "FileFormatError",
    "InputError",
    "InputTypeError",
    "KerneliteError",
    "MissingExtraError",
    "OutsideValidityError",
    "UnsupportedModelError",
    "missing_extra",
    "optional",
    "require_scikit_learn",
]


class KerneliteError(ValueError):
    """Base of every error that kernelite raises for bad input.

    A message may quote a file: as text it holds nothing that a terminal would obey.

    Examples
    --------
    >>> str(KerneliteError("the label \\x1b[2J"))
    'the label \\\\x1b[2J'
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(KerneliteError):
    """An argument is wrong: the message names it, what was expected and what came.

    `row` is the first row that is meant, counted from 0; `problem` the message without it.

    Examples
    --------
    >>> str(InputError("`X` holds no numbers.", row=3))
    'in row 3 (counted from 0): `X` holds no numbers.'
    """

    def __init__(self, problem: str = "", *, row: int | None = None) -> None:
        self.problem, self.row = problem, row
        place = "" if row is None else f"in row {row} (counted from 0): "
        super().__init__(f"{place}{problem}")


class InputTypeError(InputError, TypeError):
    """Rows that are of no type that holds numbers: a `TypeError` too, as from scikit-learn.

    Examples
    --------
    >>> isinstance(InputTypeError("`X` must be rows, got None."), TypeError)
    True
    """


class UnsupportedModelError(KerneliteError):
    """A model that cannot be served: the message names what was found and what is accepted."""


class OutsideValidityError(KerneliteError):
    """Rows lie outside the paper's validity bound and the caller asked for an error."""


class MissingExtraError(KerneliteError, ImportError):
    """What is asked for is not on this machine, which no data is to blame for.

    An optional library, of which the message names the extra that installs it, or kernels.
    """


def missing_extra(need: str, packages: str, extra: str) -> MissingExtraError:
    """The error about an absent library, with a command that installs it.

    Examples
    --------
    >>> str(missing_extra("exporting to ONNX needs onnx", "onnx", "onnx"))
    'exporting to ONNX needs onnx: pip install onnx (the extra `onnx`).'
    """
    return MissingExtraError(f"{need}: pip install {packages} (the extra `{extra}`).")


def optional(module: str, need: str, packages: str, extra: str) -> Any:
    """A module of an optional library, or the error about its absence.

    Examples
    --------
    >>> optional("no_such_library", "this example needs it", "nothing", "all")
    Traceback (most recent call last):
    kernelite.MissingExtraError: this example needs it: pip install nothing (the extra `all`).
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise missing_extra(need, packages, extra) from None
    except ImportError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise MissingExtraError(
            f"{need}, which is installed but does not load ({reason}); install it anew: "
            f"pip install --force-reinstall {packages}."
        ) from error


class FileFormatError(KerneliteError):
    """A file that does not parse: the message names file, line (when there is one) and token.

    Examples
    --------
    >>> str(FileFormatError("m.model", "`gamma` is missing", line=3))
    'm.model:3: `gamma` is missing'
    """

    def __init__(
        self, path: str | os.PathLike[str], problem: str, *, line: int | None = None
    ) -> None:
        self.path = os.fsdecode(path)
        self.problem = problem
        self.line = line
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {problem}")

    def __reduce__(self) -> tuple[object, ...]:
        # Worker processes send errors back pickled; the default would lose the keyword.
        return _rebuild_format_error, (self.path, self.problem, self.line)


def _rebuild_format_error(path: str, problem: str, line: int | None) -> FileFormatError:
    return FileFormatError(path, problem, line=line)


OLDEST_SCIKIT_LEARN = (1, 5)
"""The oldest version that is served; pyproject.toml names it too."""


def require_scikit_learn(need: str) -> None:
    """Refuse by one sentence if scikit-learn is absent or too old.

    Parameters
    ----------
    need : str
        What needs it: the subject of the sentence, with its verb.

    Examples
    --------
    >>> require_scikit_learn("`score` needs")
    """
    sklearn = optional("sklearn", f"{need} scikit-learn", "scikit-learn", "sklearn")
    found = tuple(int(number) for number in re.findall(r"\d+", sklearn.__version__)[:2])
    if found < OLDEST_SCIKIT_LEARN:
        oldest = ".".join(map(str, OLDEST_SCIKIT_LEARN))
        raise MissingExtraError(
            f"{need} scikit-learn {oldest} or newer, and {sklearn.__version__} is installed: "
            "pip install --upgrade scikit-learn (the extra `sklearn`)."
        )


for _error in (KerneliteError, InputTypeError, *KerneliteError.__subclasses__()):
    _error.__module__ = "kernelite"
