"""Defects of a file, and what is done about them: raise at the first, or collect them all.

Readers call `report(Defect(...))` and then skip what is wrong. `raise_first` makes a report that
raises, for reading; `list.append` is one that collects, for `kernelite check`. So both run the
same parser.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from kernelite.errors import FileFormatError

__all__ = ["Defect", "Report", "raise_first"]


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing wrong with a file.

    Parameters
    ----------
    line : int or None
        1-based line number; None where the file has no lines or the whole file is meant.
    token : str or None
        The text that is wrong, when there is one.
    problem : str
        One sentence that names the token and the cure, without file and line.

    Examples
    --------
    >>> Defect(3, "0:1", "index `0` is out of range, expected 1 or more").line
    3
    """

    line: int | None
    token: str | None
    problem: str


Report = Callable[[Defect], None]


def raise_first(path: str | os.PathLike[str]) -> Report:
    """A report that raises `FileFormatError` for the first defect of the file `path`.

    Parameters
    ----------
    path : path-like
        The file, for the message.

    Returns
    -------
    callable
        Takes a `Defect`, never returns.

    Examples
    --------
    >>> raise_first("a.svm")(Defect(3, "x", "label `x` is not a decimal number"))
    Traceback (most recent call last):
    kernelite.errors.FileFormatError: a.svm:3: label `x` is not a decimal number
    """

    def report(defect: Defect) -> None:
        raise FileFormatError(path, defect.problem, line=defect.line)

    return report
