"""What one call of a compiled model did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["EXACT", "FIRST", "FULL", "NEAR", "PAIRS", "SINGLE", "THIRD", "Stats"]

FIRST, FULL, THIRD = "form", "full form", "third order"
NEAR = "near centers"
EXACT, SINGLE, PAIRS = "exact", "exact, single precision", "exact, the winner's pairs"
"""Stages, in the words of statistics."""


@dataclass(frozen=True)
class Stats:
    """How many rows each stage answered, and the time in each.

    Parameters
    ----------
    rows : int
    stages : mapping of str to int
        Rows that each stage answered, by its name: "form", "full form", "third order", "near
        centers", "exact", and "exact, ..." where a faster exact engine was enough.
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

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.rows + other.rows,
            _added(self.stages, other.stages),
            self.undecidable + other.undecidable,
            self.outside_validity + other.outside_validity,
            _added(self.seconds, other.seconds),
        )


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in [*one, *other]}  # type: ignore[misc]
