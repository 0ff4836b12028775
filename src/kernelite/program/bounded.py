"""The one result type: scores of some rows, how far they may be off, and who settled each row.

`Stats` counts, for one call, what the stages did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "EXACT",
    "EXACT_QUICK",
    "EXACT_SINGLE",
    "FIRST",
    "FULL",
    "NEAR",
    "NOT_COUNTED",
    "OPEN",
    "PAIRS",
    "STAGES",
    "THIRD",
    "Bounded",
    "Factored",
    "Settled",
    "Stats",
    "Tally",
    "spelled_out",
]

OPEN = 127
"""Stands for the number of a stage where none has answered yet."""


class Factored(NamedTuple):
    """Bounds row (m,) x weight (k,) + constant (k,): with many outputs, one number per row.

    Examples
    --------
    >>> bounds = Factored(np.array([1.0, 3.0]), np.array([2.0, 0.0]), np.array([0.5, 0.5]))
    >>> bounds.within(np.array([4.0, 1.0]))
    array([ True, False])
    >>> spelled_out(bounds)
    array([[2.5, 0.5],
           [6.5, 0.5]])
    """

    row: FloatArray
    weight: FloatArray
    constant: FloatArray

    def within(self, tolerance: FloatArray) -> NDArray[np.bool_]:
        """Rows whose bounds are all at most the outputs' tolerances: one number per row decides."""
        room = tolerance - self.constant
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            most = np.where(self.weight > 0.0, room / self.weight, np.inf).min(initial=np.inf)
            # The quotient rounds; a billionth is more than that.
            near = self.row <= most * (1.0 - 1e-9)
        return near & bool((room >= 0.0).all())


class Bounded(NamedTuple):
    """What an evaluator found for m rows.

    Parameters
    ----------
    scores : ndarray of shape (m, k)
    bounds : ndarray of shape (m, k) or Factored, optional
        How far scores may be off; None where nothing is proven.
    sq_norms : ndarray of shape (m,), optional
        |u|^2 of the form's rows: not finite where a row is not.
    kept : ndarray of shape (m,), optional
        |V'u|^2 of a truncated form.
    valid : ndarray of shape (m,), optional
        Rows inside the paper's validity bound; None where all are.
    stage : ndarray of shape (m,), optional
        The number of the stage that answered; `OPEN` while none has.
    settled : ndarray of shape (m,), optional
        Whether the criterion holds for the answer; None where it was not asked.
    tried : int
        How many stages this result went through: a fused one may stand for two.
    parts : tuple of Bounded
        Of a sum: what each part found.
    winners : ndarray of shape (m,), optional
        The label of each row, as an index, where a stage finds it without scores: such rows have
        none. Below 0 where scores tell.
    finite_if_bounded : bool
        Whether a row with finite bounds is surely finite itself, where |u|^2 does not show it.
    """

    scores: FloatArray
    bounds: FloatArray | Factored | None = None
    sq_norms: FloatArray | None = None
    kept: FloatArray | None = None
    valid: NDArray[np.bool_] | None = None
    stage: NDArray[np.int8] | None = None
    settled: NDArray[np.bool_] | None = None
    tried: int = 1
    parts: tuple[Bounded, ...] = ()
    winners: NDArray[np.int64] | None = None
    finite_if_bounded: bool = False

    def rows(self, index: NDArray[np.intp]) -> Bounded:
        """The same for some rows, without the stages."""
        return Bounded(
            self.scores[index],
            None if self.bounds is None else spelled_out(self.bounds)[index],
            None if self.sq_norms is None else self.sq_norms[index],
            None if self.kept is None else self.kept[index],
            parts=tuple(part.rows(index) for part in self.parts),
        )


def spelled_out(bounds: FloatArray | Factored) -> FloatArray:
    """Bounds of shape (m, k)."""
    if not isinstance(bounds, Factored):
        return bounds
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out = np.multiply.outer(bounds.row, bounds.weight)
        out += bounds.constant
    if not np.isfinite(bounds.constant).all():
        out[np.isnan(out)] = np.inf  # no distance makes coefficients known that overflow
    return out


class Settled(NamedTuple):
    """Which rows of a `Bounded` need no further stage.

    Parameters
    ----------
    rows : ndarray of bool of shape (m,)
    n_open : int
        How many are not among them.
    outside : int
        How many lie outside the paper's validity bound, where that was asked.
    finite : bool
        Whether |u|^2, or else the bounds, show that all rows are finite.
    """

    rows: NDArray[np.bool_]
    n_open: int
    outside: int
    finite: bool


# Statistics of a call: the names of the stages, and what each of them did.

FIRST, FULL, THIRD = "form", "full form", "third order"
NEAR = "near centers"
EXACT, EXACT_SINGLE, PAIRS = "exact", "exact, single precision", "exact, the winner's pairs"
EXACT_QUICK = "exact, quick exponentials"
"""Stages, in the words of statistics."""

STAGES = {
    FIRST: "the quadratic form: its bound proves the answer",
    FULL: "the form with all its directions, for rows that a shortened one left open",
    THIRD: "the form with the third order of the series",
    NEAR: "the support vectors near the row; what the others can add is bounded",
    EXACT_SINGLE: "all support vectors, in single precision, with a bound on its rounding",
    PAIRS: "all support vectors; of one-vs-one scores only the pairs of the class that wins",
    EXACT_QUICK: "all support vectors, with exponentials just as good as the tolerance asks",
    EXACT: "all support vectors, in double precision",
}
"""What a stage does, in a line; `print(stats)` shows those that answered."""


@dataclass(frozen=True)
class Stats:
    """How many rows each stage answered, and the time in each.

    Parameters
    ----------
    rows : int
    stages : mapping of str to int
        Rows that each stage answered, by its name; `print` says what each one does. Names of
        stages that look at all support vectors begin with "exact".
    undecidable : int
        Rows, among the exact ones, whose answer lies within the rounding of the exact engine.
    outside_validity : int
        Rows outside the paper's validity bound.
    seconds : mapping of str to float
        Time in each stage.

    Examples
    --------
    >>> stats = Stats(rows=10, stages={"form": 8, "third order": 1, "exact": 1})
    >>> stats.open_share, (stats + stats).early
    (0.1, 18)
    >>> print(stats)
    10 rows
      8  form         the quadratic form: its bound proves the answer
      1  third order  the form with the third order of the series
      1  exact        all support vectors, in double precision
    """

    rows: int = 0
    stages: Mapping[str, int] = field(default_factory=dict)
    undecidable: int = 0
    outside_validity: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def exact(self) -> int:
        """Rows that fell back to the exact model."""
        return sum(count for name, count in self.stages.items() if name.startswith(EXACT))

    @property
    def early(self) -> int:
        """Rows that were answered before the exact model was asked."""
        return self.rows - self.exact

    @property
    def open_share(self) -> float:
        """The share of rows that fell back to the exact model."""
        return self.exact / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        """Rows by stage, each with what the stage does."""
        shown = [(f"{n:,}", name, STAGES.get(name, "")) for name, n in self.stages.items() if n]
        if self.undecidable:
            why = "of these: so near to a boundary that double precision cannot tell the label"
            shown.append((f"{self.undecidable:,}", "undecidable", why))
        if self.outside_validity:
            why = "of these: outside the paper's validity bound; a proof does not need it"
            shown.append((f"{self.outside_validity:,}", "outside validity", why))
        widths = [max(len(row[i]) for row in shown) for i in range(2)] if shown else [0, 0]
        lines = [f"  {n:>{widths[0]}}  {name:<{widths[1]}}  {what}" for n, name, what in shown]
        return "\n".join([f"{self.rows:,} rows", *(line.rstrip() for line in lines)])

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.rows + other.rows,
            _added(self.stages, other.stages),
            self.undecidable + other.undecidable,
            self.outside_validity + other.outside_validity,
            _added(self.seconds, other.seconds),
        )


NOT_COUNTED = Stats()  # where nobody asks


class Tally:
    """What the stages did with a block, as it goes: `Stats` in the making.

    Parameters
    ----------
    names : sequence of str
        Of the stages.
    """

    __slots__ = ("answered", "finite", "names", "outside", "rows", "seconds", "undecidable")

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.rows = names, 0
        self.answered, self.seconds = [0] * len(names), [0.0] * len(names)
        self.undecidable = self.outside = 0
        self.finite = False

    def stats(self) -> Stats:
        """By name; stages of one name count together."""
        if len(set(self.names)) == len(self.names):
            answered = dict(zip(self.names, self.answered))
            seconds = dict(zip(self.names, self.seconds))
        else:
            answered, seconds = dict.fromkeys(self.names, 0), dict.fromkeys(self.names, 0.0)
            for name, count, taken in zip(self.names, self.answered, self.seconds):
                answered[name] += count
                seconds[name] += taken
        return Stats(self.rows, answered, self.undecidable, self.outside, seconds)


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in [*one, *other]}  # type: ignore[misc]
