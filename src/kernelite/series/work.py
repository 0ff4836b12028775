"""What answering a row takes of each form, counted before the form is built; and how large it is.

The planner knows how long one operation of each kind takes, and so what a row costs.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Work",
    "cubic_work",
    "directional_work",
    "packed_size",
    "product_work",
    "quadratic_work",
    "spectral_work",
]

SUMS_PER_MONOMIAL = 0.96  # multiply-adds in the time of a monomial's, whose weight comes in order
SUMS_PER_PRODUCT = 48 / 17  # and of a product of two features, which all outputs share
LOOPS_PER_COORDINATE = 4  # multiply-adds, for a feature's part in one of the directions
ROWS_PER_TRUNCATED_ROW = 8  # rows, while products of vectors begin and end


class Work(NamedTuple):
    """What answering a row takes: how many operations of each kind.

    The planner knows how long one of each takes, and so what a row costs.

    Parameters
    ----------
    rows : float
        A row's own exponential, its scores written and turned into an answer.
    loads : float
        Entries of a row that are read, shifted, transposed and squared.
    bounds : float
        Outputs whose bound is computed.
    products, loops, sums : float
        Multiply-adds in a matrix product, in a fused loop, and in a loop whose sums of doubles
        stay in registers.
    values : float
        Kernel values: an exponential, and its share of a weighted sum.
    meetings : float
        Entries of a row that meet one of a center, found by lists of features.
    votes : float
        Votes of pairs of classes.
    fetched : float
        Bytes brought from memory.

    Examples
    --------
    >>> Work(rows=1, loads=4) + Work(loads=2).times(3)
    Work(rows=1.0, loads=10.0, ...)
    """

    rows: float = 0.0
    loads: float = 0.0
    bounds: float = 0.0
    products: float = 0.0
    loops: float = 0.0
    sums: float = 0.0
    values: float = 0.0
    meetings: float = 0.0
    votes: float = 0.0
    fetched: float = 0.0

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*(float(a + b) for a, b in zip(self, other, strict=True)))

    def times(self, count: float) -> Work:
        """The same, so many times."""
        return Work(*(count * one for one in self))


def quadratic_work(d: int, k: int) -> Work:
    """What a row takes of a form of d features and k outputs."""
    return Work(rows=1, loads=d, loops=k * d * (d + 3) / 2)


def spectral_work(d: int, k: int, rank: int) -> Work:
    """What a row takes of a form of d features and k outputs, cut to so many directions."""
    columns = (rank + k + 7) // 8 * 8  # taken by vectors
    pairs = k * rank * (rank + 1) / 2
    return Work(rows=ROWS_PER_TRUNCATED_ROW, loads=d, products=d * columns, loops=pairs)


def packed_size(rank: int) -> int:
    """r (r + 1) (r + 2) / 6 coefficients."""
    return rank * (rank + 1) * (rank + 2) // 6


def cubic_work(d: int, k: int, rank: int) -> Work:
    """What a row takes of a third order on so many directions, in full on d."""
    products, monomials = rank * (rank + 1) / 2, k * packed_size(rank)
    sums = SUMS_PER_PRODUCT * products + SUMS_PER_MONOMIAL * monomials
    loops = LOOPS_PER_COORDINATE * d * rank if rank < d else 0
    return Work(loops=loops, sums=sums)


def directional_work(d: int, k: int, rank: int) -> Work:
    """What a row takes of a bound on so many directions."""
    return Work(products=d * rank + k * rank * rank)


def product_work(d: int, k: int) -> Work:
    """What a row takes of a product in the third order's place, and its bound."""
    return Work(bounds=k, loops=d * (d + 1) / 2 + k * d)
