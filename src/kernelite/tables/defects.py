"""Defects of a file, and what is done about them: raise at the first, or collect them all.

Readers call `report(Defect(...))` and then skip what is wrong. `raise_first` makes a report that
raises, for reading; `list.append` is one that collects, for `kernelite check`. So both run the
same parser.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernelite.errors import FileFormatError

__all__ = ["Defect", "Report", "raise_first", "report_row"]


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


_MOST_DEFECTS = 100

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


def report_row(line: int, problems: Iterable[tuple[str, str]], report: Report) -> None:
    """Report the defects of one row, at most 100 of them: a row with more is no data at all.

    Parameters
    ----------
    line : int
        1-based line number.
    problems : iterable of (str, str)
        Token and problem of each defect; there must be at least one.
    report : callable
        Called with each `Defect`.

    Examples
    --------
    >>> found = []
    >>> report_row(2, [("x", "`x` is not a number")] * 1000, found.append)
    >>> len(found), found[-1].problem
    (101, 'more than 100 defects are on this line')
    """
    count = 0
    for token, problem in problems:
        if count == _MOST_DEFECTS:
            report(Defect(line, None, f"more than {_MOST_DEFECTS} defects are on this line"))
            return
        report(Defect(line, token, problem))
        count += 1
    if count == 0:
        raise AssertionError(f"line {line} was refused without a reason")
