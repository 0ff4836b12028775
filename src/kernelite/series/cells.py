"""Cells: one or several expansion points, each with its form and constants; the nearest serves.

In: rows. Out: the cell of each row. One cell is the plain case. `LocalSums` has the settings of
sums over near centers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.arithmetic import NUMPY, Arithmetic
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import DirectionalBound
from kernelite.series.series import (
    CERTIFY,
    GATHER,
    PRODUCT,
    Evaluated,
    QuadraticForm,
    quadratic_cost,
)
from kernelite.series.spectral import SpectralForm
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["Approximation", "Cell", "LocalSums", "cell_points", "cells_cost", "open_row_cost"]

FEWEST_ROWS = 10  # a center that averages fewer rows gives them away
STARTS = 3  # of clustering; the one with the smallest distances is kept
MOST_ITERATIONS = 100  # of one start


@dataclass(frozen=True, eq=False)
class Cell:
    """A form about a point, and what is known of its error.

    Parameters
    ----------
    form : QuadraticForm or SpectralForm
        The first tier.
    certificate : Certificate, optional
    full : QuadraticForm, optional
        Where `form` is truncated: what the second tier starts from instead.
    cubic : CubicForm or DirectionalBound, optional
        What the second tier adds.
    """

    form: QuadraticForm | SpectralForm
    certificate: Certificate | None = None
    full: QuadraticForm | None = None
    cubic: CubicForm | DirectionalBound | None = None

    def __post_init__(self) -> None:
        d, k = self.form.n_features, self.form.n_outputs
        if self.certificate is not None and self.certificate.rho.shape[1] != k:
            raise InputError(f"the certificate of a cell must be for its {k} outputs.")
        for name in ("full", "cubic"):
            part = getattr(self, name)
            if part is not None and (part.n_features, part.n_outputs) != (d, k):
                raise InputError(f"`{name}` of a cell must have {d} features and {k} outputs.")
        if self.full is not None and not np.array_equal(self.full.point, self.form.point):
            raise InputError("`full` of a cell must be about the same point as its form.")

    @property
    def has_second_tier(self) -> bool:
        """Whether open rows have somewhere to go before the exact model."""
        return self.certificate is not None and not (self.full is None and self.cubic is None)

    def second(
        self, rows: FloatArray, first: Evaluated | None = None, arithmetic: Arithmetic = NUMPY
    ) -> tuple[Evaluated, FloatArray]:
        """The second tier by its definition: what it gives for rows, and bounds (m, k).

        Parameters
        ----------
        rows : ndarray of shape (m, d)
        first : Evaluated, optional
            What the untruncated form gave for these rows.
        arithmetic : Arithmetic
        """
        assert self.certificate is not None
        form = self.form if self.full is None else self.full
        found = form.evaluate(rows) if first is None else first
        if self.cubic is None:
            return found, form.bounds(self.certificate, found, arithmetic=arithmetic)
        third, left_out = self.cubic.term(rows - form.point, found.sq_norms, form.gamma, arithmetic)
        found = found._replace(scores=found.scores + third)
        bounds = form.bounds(self.certificate, found, 3, arithmetic)
        return found, bounds + left_out

    def second_cost(self, *, at_once: bool = False) -> float:
        """Nanoseconds of one core per row of the second tier; `at_once`: with the first."""
        if not self.has_second_tier:
            return 0.0
        third = 0.0 if self.cubic is None else self.cubic.cost
        return open_row_cost(self.full, self.form.n_outputs, at_once=at_once) + third


@dataclass(frozen=True, eq=False)
class Approximation:
    """Cells whose points share a width and outputs; rows belong to the nearest point."""

    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        if not self.cells:
            raise InputError("an approximation needs at least one cell.")
        shapes = {cell.form.linear.shape for cell in self.cells}
        if len(shapes) > 1:
            raise InputError("the cells of an approximation differ in width or outputs.")

    @property
    def points(self) -> FloatArray:
        """The expansion points, shape (c, d)."""
        return np.stack([cell.form.point for cell in self.cells])

    @property
    def form(self) -> QuadraticForm | SpectralForm:
        """The first cell's form: for what all cells share."""
        return self.cells[0].form

    @property
    def first_cost(self) -> float:
        """Nanoseconds of one core per row of the first tier, with its bound."""
        d, k, count = self.form.n_features, self.form.n_outputs, len(self.cells)
        nearest = count * d * PRODUCT + GATHER if count > 1 else 0.0
        return self.form.cost + nearest + (CERTIFY * k if self.certified else 0.0)

    @property
    def certified(self) -> bool:
        """Whether every cell has a certificate."""
        return all(cell.certificate is not None for cell in self.cells)

    def assign(self, rows: FloatArray) -> NDArray[np.intp]:
        """The cell of each row, shape (m,). Any choice is sound; the nearest is the tightest."""
        if len(self.cells) == 1:
            return np.zeros(len(rows), dtype=np.intp)
        points = self.points
        with np.errstate(over="ignore", invalid="ignore"):
            # |z|^2 is the same for all cells, so z.p - |p|^2 / 2 ranks them.
            nearness = rows @ points.T
            nearness -= 0.5 * np.einsum("ij,ij->i", points, points)
        return np.argmax(np.nan_to_num(nearness), axis=1)


def open_row_cost(full: QuadraticForm | None, k: int, *, at_once: bool = False) -> float:
    """What an open row costs in a second tier besides the third order."""
    return (0.0 if at_once else GATHER) + CERTIFY * k + (0.0 if full is None else full.cost)


def cells_cost(d: int, k: int, count: int) -> float:
    """What a row of `count` cells with full forms costs before any second tier."""
    return quadratic_cost(d, k) + count * d * PRODUCT + GATHER + CERTIFY * k


def cell_points(rows: FloatArray, count: int, random_state: int) -> FloatArray:
    """Means of `count` clusters of `rows`, each of at least ten rows: shape (<= count, d)."""
    count = max(1, min(count, len(rows) // FEWEST_ROWS))
    if count == 1:
        return rows.mean(axis=0, keepdims=True)
    rng = np.random.default_rng(random_state)
    found = [_clusters(rows, count, rng) for _ in range(STARTS)]
    means, sizes, _ = min(found, key=lambda one: one[2])
    kept = means[sizes >= FEWEST_ROWS]
    return kept if len(kept) else rows.mean(axis=0, keepdims=True)


def _clusters(
    rows: FloatArray, count: int, rng: np.random.Generator
) -> tuple[FloatArray, NDArray[np.intp], float]:
    """Means (count, d) by Lloyd's iterations, how many rows each has, and the squared distances.

    The first means are rows, each drawn with a probability that grows with the squared distance
    to those before it (k-means++).
    """
    lengths = np.einsum("ij,ij->i", rows, rows)
    means = np.empty((count, rows.shape[1]))
    nearest = np.full(len(rows), np.inf)
    for i in range(count):
        weights = None if i == 0 or not nearest.any() else nearest / nearest.sum()
        means[i] = rows[rng.choice(len(rows), p=weights)]
        nearest = np.minimum(nearest, np.sum((rows - means[i]) ** 2, axis=1))
    labels = np.full(len(rows), -1)
    for _ in range(MOST_ITERATIONS):
        distances = np.einsum("ij,ij->i", means, means) - 2.0 * (rows @ means.T)
        previous, labels = labels, np.argmin(distances, axis=1)
        if np.array_equal(labels, previous):
            break
        for i in np.unique(labels):  # a mean that has lost its rows stays where it is
            means[i] = rows[labels == i].mean(axis=0)
    spread = float(lengths.sum() + distances[np.arange(len(rows)), labels].sum())
    return means, np.bincount(labels, minlength=count), spread


# How much of an expansion may be left out: the settings of sums over near centers only.
#
# Centers are sorted into boxes; those far from a row are left out of its sum, and what they could
# add at most is in its error bound. No arrays: the boxes are made when a model is first run.


@dataclass(frozen=True, eq=False)
class LocalSums:
    """What may be left out of a row's sum: absolute + relative * sum, an output.

    Parameters
    ----------
    absolute : ndarray of shape (k,)
    relative : float
        For one output whose coefficients are all positive; else 0.
    start : float
        gamma distance^2 up to which boxes are summed at once, before what is left out is looked
        at. Any value is sound; a good one saves looking.

    Examples
    --------
    >>> LocalSums(np.array([1e-3])).start
    6.0
    """

    absolute: FloatArray
    relative: float = 0.0
    start: float = 6.0

    def __post_init__(self) -> None:
        if self.absolute.ndim != 1 or not (self.absolute >= 0).all():
            raise InputError("`absolute` must hold numbers not below zero, one an output.")
        if not (0.0 <= self.relative < 1.0 and 0.0 <= self.start < np.inf):
            raise InputError("`relative` must lie between 0 and 1, and `start` not below 0.")
        if self.relative and len(self.absolute) != 1:
            raise InputError("a relative budget is for one output.")
