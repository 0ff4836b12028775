"""A table of text, and how its cells are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.paper.facts import ROWS
from benchmarks.report import times

__all__ = [
    "NOTHING",
    "PAPER",
    "Table",
    "count",
    "differ",
    "name_of",
    "notes_of",
    "percent",
    "ratio",
    "seconds",
    "size",
]

PAPER = {row.name: row for row in ROWS}
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table of text.

    Parameters
    ----------
    title, caption : str
    columns : list of str
    rows : list of list of str
        A row of one cell is a heading over those that follow.
    notes : list of str
    marked : set of int
        Rows to show in bold.
    where : str
        What was measured where, in a sentence.
    """

    title: str
    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    marked: frozenset[int] = frozenset()
    where: str = ""


def name_of(one: dict[str, Any]) -> str:
    """The set's name; stand-ins are called generated."""
    return f"{one['name']} (generated)" if one["generated"] else str(one["name"])


def notes_of(found: Iterable[dict[str, Any]]) -> list[str]:
    """Each set's notes as one line."""
    return [f"{one['name']}: {' '.join(one['notes'])}" for one in found if one.get("notes")]


def count(value: int | None) -> str:
    """A whole number.

    Examples
    --------
    >>> count(1234), count(None)
    ('1,234', '–')
    """
    return NOTHING if value is None else f"{value:,}"


def percent(share: float | None, digits: int = 2) -> str:
    """A share.

    Examples
    --------
    >>> percent(0.12345), percent(None)
    ('12.35%', '–')
    """
    return NOTHING if share is None else f"{100 * share:.{digits}f}%"


def ratio(value: float | None) -> str:
    """How many times.

    Examples
    --------
    >>> ratio(123.4), ratio(None)
    ('123x', '–')
    """
    return NOTHING if value is None else times(value)


def differ(mode: dict[str, Any]) -> str:
    """Share and number of labels that differ."""
    if "absent" in mode:
        return NOTHING
    return f"{percent(mode['differ_share'])} ({mode['differ']:,})"


def seconds(mean: float | None, deviation: float | None) -> str:
    """A mean and its deviation, neither with more digits than it deserves.

    Examples
    --------
    >>> seconds(0.01234, 0.0004), seconds(15812.0, 41.0), seconds(2.0, None), seconds(None, None)
    ('0.0123 ± 0.0004', '15,800 ± 40', '2', '–')
    """
    if mean is None:
        return NOTHING
    text = _digits(mean, 3)
    return text if deviation is None else f"{text} ± {_digits(deviation, 1)}"


def size(value: float | None) -> str:
    """Bytes in units that people read.

    Examples
    --------
    >>> size(4_648), size(848_912), size(256_729_835), size(None)
    ('4.65 KB', '849 KB', '257 MB', '–')
    """
    if value is None:
        return NOTHING
    power, unit = (1e6, "MB") if value >= 999_500 else (1e3, "KB")
    return f"{_digits(value / power, 3)} {unit}"


def _digits(value: float, digits: int) -> str:
    """So many significant digits, never an exponent."""
    rounded = float(f"{value:.{digits}g}")
    text = f"{rounded:,.12f}"
    return text.rstrip("0").rstrip(".")
