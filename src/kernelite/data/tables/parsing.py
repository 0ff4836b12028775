"""What all readers of text share: strict decimal numbers, then defects and what is done about them.

`float()` also reads `1_000`, `nan`, `inf` and digits of other scripts; files may hold none of them.
Parsing never looks at the locale, and doubles are correctly rounded, as Python's are.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.records import dataclass

__all__ = [
    "C_INT",
    "DECIMAL",
    "BadNumber",
    "Defect",
    "Line",
    "Report",
    "check_delimiter",
    "chunked",
    "parse_float",
    "parse_int",
    "quote",
    "raise_first",
    "report_row",
    "right_lines",
    "shortened",
    "without_truth_values",
]

DECIMAL = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
"""Regular expression of one decimal number; possessive, so it never backtracks over digits."""

C_INT = 2**31 - 1
"""The largest of C's int, in which LIBSVM and approxsvm keep counts, labels and indices."""

_DECIMAL = re.compile(DECIMAL)
_INTEGER = re.compile(r"[+-]?[0-9]++")
_COMMA_DECIMAL = re.compile(r"[+-]?[0-9]*+,[0-9]++(?:[eE][+-]?[0-9]++)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan(?:\(.*\))?|inf(?:inity)?)", re.IGNORECASE)
_SOME_TRUTH = re.compile("true|false", re.IGNORECASE)
_TRUTH = re.compile(r"^[ \t]*+(?:(true)|false)[ \t]*+$", re.IGNORECASE | re.MULTILINE)
_SHOWN = 40  # characters of a token that a message repeats


class BadNumber(ValueError):
    """A token that is not an acceptable number; the message names it and says why."""


def quote(token: str) -> str:
    """`token` in backticks, printable and short enough for one line.

    Parameters
    ----------
    token : str
        Any text from a file.

    Returns
    -------
    str
        At most 40 characters of it, control characters escaped.

    Examples
    --------
    >>> quote("1:2\\x00"), quote("7" * 100) == "`" + "7" * 40 + "...`"
    ('`1:2\\\\x00`', True)
    """
    return f"`{shortened(token)}`"


def shortened(token: str) -> str:
    """What `quote` puts between its backticks."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in token[:_SHOWN]
    )
    return f"{shown}..." if len(token) > _SHOWN else shown


def check_delimiter(mark: str | None) -> None:
    """Refuse what cannot stand between cells; None passes.

    Examples
    --------
    >>> check_delimiter(",,")
    Traceback (most recent call last):
    kernelite.InputError: `delimiter` must be one character outside numbers, got ',,'
    """
    one = mark is None or (isinstance(mark, str) and len(mark) == 1 and mark.isascii())
    if not one or (mark is not None and mark in '\0\r\n"#.+-eE0123456789'):
        raise InputError(f"`delimiter` must be one character outside numbers, got {mark!r}")


def parse_float(token: str, what: str = "value") -> float:
    """The finite double nearest to a decimal token.

    Parameters
    ----------
    token : str
        ASCII digits with optional sign, point and exponent; no surrounding blanks.
    what : str
        What the number is, for the message.

    Returns
    -------
    float
        Correctly rounded; numbers under the smallest denormal become zero.

    Raises
    ------
    BadNumber
        For anything else: NaN, infinities, overflow, hexadecimal, underscores, decimal commas.

    Examples
    --------
    >>> parse_float("-1.5e3")
    -1500.0
    >>> parse_float("1e999", "label")
    Traceback (most recent call last):
    kernelite.data.tables.parsing.BadNumber: label `1e999` is too large for a double
    """
    if _DECIMAL.fullmatch(token) is None:
        raise BadNumber(f"{what} {quote(token)} {_why_not_decimal(token)}")
    number = float(token)
    if math.isinf(number):
        raise BadNumber(f"{what} {quote(token)} is too large for a double")
    return number


def without_truth_values(cells: str) -> str:
    """Cells, one per line, with 1 for `true` and 0 for `false` in any case, as Python counts them.

    Examples
    --------
    >>> without_truth_values("0.5\\nTrue\\nfalse")
    '0.5\\n1\\n0'
    """
    if not _SOME_TRUTH.search(cells):
        return cells
    return _TRUTH.sub(lambda found: "1" if found[1] else "0", cells)


def parse_int(token: str, what: str = "count", *, low: int = 0, high: int = 2**63 - 1) -> int:
    """The integer that a decimal token writes, within bounds.

    Parameters
    ----------
    token : str
        ASCII digits with an optional sign; no surrounding blanks.
    what : str
        What the number is, for the message.
    low, high : int
        Smallest and largest accepted value.

    Returns
    -------
    int
        A value in [low, high].

    Raises
    ------
    BadNumber
        If the token is not an integer, or is out of bounds.

    Examples
    --------
    >>> parse_int("12")
    12
    >>> parse_int("-3", "total_sv", low=1)
    Traceback (most recent call last):
    kernelite.data.tables.parsing.BadNumber: total_sv `-3` is out of range, expected 1 or more
    """
    if _INTEGER.fullmatch(token) is None:
        raise BadNumber(f"{what} {quote(token)} is not an integer")
    # Python refuses to convert thousands of digits; no bound here has more than 19.
    digits = token.lstrip("+-").lstrip("0")
    number = int(digits or "0") if len(digits) <= 30 else 10**30
    number = -number if token.startswith("-") else number
    if low <= number <= high:
        return number
    accepted = f"{low} or more" if number < low else f"at most {high}"
    raise BadNumber(f"{what} {quote(token)} is out of range, expected {accepted}")


def _why_not_decimal(token: str) -> str:
    if not token:
        return "is empty, expected a number"
    if _NOT_FINITE.fullmatch(token):
        return "is not finite"
    if _COMMA_DECIMAL.fullmatch(token):
        return "has a decimal comma, write a decimal point"
    return "is not a decimal number"


# Defects of a file, and what is done about them: raise at the first, or collect them all.
#
# Readers call `report(Defect(...))` and then skip what is wrong. `raise_first` makes a report that
# raises, for reading; `list.append` is one that collects, for `kernelite check`. So both run the
# same parser.


Line: TypeAlias = tuple[int, str]
"""A line of a file: its number, from 1, and its text."""


def chunked(
    lines: Iterable[Line], most_characters: int, most_rows: int | None = None
) -> Iterator[list[Line]]:
    """Lines to be parsed at once: a chunk ends when it is long enough.

    Examples
    --------
    >>> [len(chunk) for chunk in chunked([(1, "ab"), (2, "cd"), (3, "e")], most_characters=4)]
    [2, 1]
    """
    chunk: list[Line] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line[1])
        if len(chunk) == most_rows or size >= most_characters:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


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
    kernelite.FileFormatError: a.svm:3: label `x` is not a decimal number
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


def right_lines(
    lines: Sequence[Line],
    right: Sequence[bool],
    problems: Callable[[str], Iterable[tuple[str, str]]],
    report: Report,
) -> list[Line]:
    """The lines that are right; the defects of the others are reported, in order.

    Parameters
    ----------
    lines : sequence of (int, str)
    right : sequence of bool
        Which these are.
    problems : callable
        Of a line that is not: token and problem of each defect.
    report : callable
        Called with each `Defect`.

    Examples
    --------
    >>> right_lines([(1, "5"), (2, "x")], [True, False], lambda text: [(text, "no number")], print)
    Defect(line=2, token='x', problem='no number')
    [(1, '5')]
    """
    for (number, text), fine in zip(lines, right):
        if not fine:
            report_row(number, problems(text), report)
    return [line for line, fine in zip(lines, right) if fine]
