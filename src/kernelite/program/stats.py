"""What one call of a compiled model did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stats"]


@dataclass(frozen=True)
class Stats:
    """How many rows each tier decided, and the time in each.

    Parameters
    ----------
    rows : int
    form, cubic, exact : int
        Rows that the quadratic form, the cubic tier and the exact model decided.
    undecidable : int
        Rows, among the exact ones, whose answer lies within the rounding of the exact engine.
    outside_validity : int
        Rows outside the paper's validity bound.
    form_seconds, cubic_seconds, exact_seconds : float

    Examples
    --------
    >>> Stats(rows=10, form=8, cubic=1, exact=1).open_share
    0.1
    """

    rows: int = 0
    form: int = 0
    cubic: int = 0
    exact: int = 0
    undecidable: int = 0
    outside_validity: int = 0
    form_seconds: float = 0.0
    cubic_seconds: float = 0.0
    exact_seconds: float = 0.0

    @property
    def open_share(self) -> float:
        """The share of rows that fell back to the exact model."""
        return self.exact / self.rows if self.rows else 0.0

    def __add__(self, other: Stats) -> Stats:
        names = self.__dataclass_fields__
        return Stats(**{name: getattr(self, name) + getattr(other, name) for name in names})
