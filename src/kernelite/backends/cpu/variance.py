"""Latent variances of Gaussian processes, row by row, with proven bounds.

    x = weights * k(X, z),    variance = k(z, z) - |L^-1 x|^2

Kernel values come from compiled loops; what they err by is their kernel's word (`machine.kernels`).
`factors` has the products that take the place of solving. `LatentVariance` is the definition: it
answers the first rows, before a product has paid for itself, and where no bound is to be had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_rounding import PointwiseRounding
from kernelite.backends.cpu.factors import (
    MARGIN,
    Eigenvectors,
    InverseFactor,
    Number,
    deviation_bound,
)
from kernelite.backends.cpu.fused_pointwise import Factor
from kernelite.backends.cpu.panels import middle
from kernelite.backends.cpu.short_rest import ShortRest, leading_columns
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Kernel
from kernelite.machine.variance import LatentVariance, Posterior
from kernelite.series.rounding import UNIT
from kernelite.support.records import dataclass

__all__ = ["Covariances", "Variances"]

VALUE_UNITS = 40.0  # that a kernel value errs by besides its kernel's word: amplitudes and sums
VALUES_TOGETHER = 16  # that are added up first, where means are: a panel of any processor
STEP = 16  # eigenvectors come in such groups
INVERTED = 0.25  # rows per training row after which an inverse has paid,
SHORTENED = 2.0  # the same in single precision,
DECOMPOSED = 24.0  # and eigenvectors
MOST_INVERTED, MOST_DECOMPOSED = 8_192, 2_560  # training rows
FEWEST_SHORTENED = 256  # with fewer, other work is most of it
ROWS_PER_VARIANCE_TILE = 96
FEWEST_ROWS = 64  # of a call that eigenvectors are computed in: no single row waits for them
WORTH = 0.9  # of the products with an inverse
SINGLES = 0.65  # of these, where they are in single precision
PRODUCTS = 1.8  # as long takes a multiply-add with eigenvectors
DIGITS_LOST = 1e-6  # of a variance: an inverse that may be further off is not asked alone
AGAIN = 4.0  # times as long takes a row that comes alone or with a few others
NEARBY = 4.0  # times the centers' radius: rows so near share one bound of kernel values
TRIED_CENTERS = 64  # where rows to try are too few
TRIED_ALONE, LEAST_SETTLED = 64, 0.8  # rows, and the share of them that go on to no second triangle
STEPS_AS_BYTES = 2.5e6  # read from the cache while Python takes the steps with eigenvectors


@dataclass(frozen=True, eq=False)
class Covariances:
    """k(X, z) of rows, with a bound on what each value errs by.

    Parameters
    ----------
    kernels : tuple of Kernel
    centers : tuple of ndarray of shape (n, d)
    fused : tuple of Factor or None
        Compiled loops, where there are some for the kernel.
    points : tuple of ndarray of shape (d,)
        Amid the centers.
    roundings : tuple of PointwiseRounding
    amplitudes : ndarray of shape (p,)
    constant : float
    """

    kernels: tuple[Kernel, ...]
    centers: tuple[FloatArray, ...]
    fused: tuple[Factor | None, ...]
    points: tuple[FloatArray, ...]
    roundings: tuple[PointwiseRounding, ...]
    amplitudes: FloatArray
    constant: float

    @classmethod
    def prepare(
        cls, posterior: Posterior, expansions: Sequence[KernelExpansion], mapped: Sequence[bool]
    ) -> Covariances | None:
        """Lay centers out; None where a kernel's own k(z, z) depends on the row, or is unproven."""
        kernels, centers, fused, points, roundings = [], [], [], [], []
        for expansion, through_map in zip(expansions, mapped):
            kernel = expansion.kernel
            if not kernel.shifts or not kernel.proven or not expansion.n_centers:
                return None
            rows = np.ascontiguousarray(expansion.dense_centers())
            one = np.full((len(rows), 1), 1.0 / len(rows))
            unit = KernelExpansion(rows, one, np.zeros(1), kernel=kernel)
            if expansion.uncertainty is not None:
                known = expansion.uncertainty
                unit = unit.rounded(
                    gamma=known.gamma,
                    centers=known.centers,
                    rows=known.rows,
                    relative=known.relative,
                )
            point = middle(rows)
            kernels.append(kernel)
            centers.append(rows)
            fused.append(Factor.prepare(kernel, rows))
            points.append(point)
            roundings.append(
                PointwiseRounding.of(unit, point, VALUE_UNITS, mapped=bool(through_map))
            )
        return cls(
            *(tuple(kernels), tuple(centers), tuple(fused), tuple(points), tuple(roundings)),
            np.atleast_1d(posterior.amplitude).astype(np.float64),
            float(posterior.constant),
        )

    def __call__(self, rows: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Values of shape (m, width), zeros beyond n, and what each of a row's may be off by."""
        total, errors = None, np.zeros(1)
        for p, (amplitude, seen) in enumerate(zip(self.amplitudes, rows)):
            K = self.values_of(p, seen)
            if amplitude != 1.0:
                K *= amplitude
            if total is None:
                total = K
            else:
                total += K
            errors = errors + abs(float(amplitude)) * self._errors(p, seen)
        assert total is not None
        if self.constant:
            total[:, : len(self.centers[0])] += self.constant
        return total, (errors + self._summing) * MARGIN

    def of_near_row(self, K: FloatArray) -> FloatArray:
        """The value of a row from that of the only kernel there is, in its place."""
        if self.amplitudes[0] != 1.0:
            K *= self.amplitudes[0]
        if self.constant:
            K[:, : len(self.centers[0])] += self.constant
        return K

    @cached_property
    def near_error(self) -> float:
        """That of each value of a near row, likewise."""
        _, _, error = self.near[0]
        return float((abs(self.amplitudes[0]) * error[0] + self._summing) * MARGIN)

    @cached_property
    def _summing(self) -> float:
        """What amplitudes and sums of kernels round."""
        size = float(np.abs(self.amplitudes).sum()) + abs(self.constant)
        return 4.0 * len(self.kernels) * UNIT * size

    def _errors(self, p: int, rows: FloatArray) -> FloatArray:
        """Of kernel values, shape (m,), or (1,) where one number does for all these rows."""
        reach, _, error = self.near[p]
        U = rows - self.points[p]
        if float(np.abs(U).max(initial=0.0)) <= reach:
            return error
        with np.errstate(over="ignore", invalid="ignore"):
            return self.roundings[p].bounds(np.einsum("ij,ij->i", U, U))[:, 0]

    @cached_property
    def near(self) -> list[tuple[float, float, FloatArray]]:
        """Per kernel: what no feature of an ordinary row is farther from the point by, and errors.

        Errors do not become smaller with the distance, so that those of the farthest do for all:
        the square of its distance stands between.
        """
        found = []
        for rounding, point in zip(self.roundings, self.points):
            reach = NEARBY * rounding.radius
            most = reach * reach * len(point) * MARGIN
            found.append((reach, most, rounding.bounds(np.array([most]))[:, 0]))
        return found

    def values_of(self, p: int, rows: FloatArray) -> FloatArray:
        """Of one kernel without its amplitude, shape (m, width)."""
        fused, n = self.fused[p], len(self.centers[p])
        if fused is None:
            tile = np.zeros((len(rows), self.width))
            tile[:, :n] = self.kernels[p].values(rows, self.centers[p])
            return tile
        tile = np.empty((len(rows), self.width))
        fused.fill(fused.seen(rows), slice(0, self.width), tile)
        tile[:, n:] = 0.0
        return tile

    @cached_property
    def width(self) -> int:
        """n and what fills up the last of equal parts, or panels of compiled loops."""
        n = len(self.centers[0])
        wide = [one.width for one in self.fused if one is not None]
        return max([n + -n % VALUES_TOGETHER, *wide])


class Variances:
    """Latent variances of one posterior.

    Parameters
    ----------
    latent : LatentVariance
        The definition.
    mapped : sequence of bool
        Whether rows of each expansion come through an affine map.
    tolerance : float, optional
        What standard deviations may be off by; None: nothing but rounding.
    """

    def __init__(
        self, latent: LatentVariance, mapped: Sequence[bool], tolerance: float | None
    ) -> None:
        self.latent, self.tolerance = latent, tolerance
        self.posterior = latent.posterior
        self.covariances = Covariances.prepare(latent.posterior, latent.expansions, mapped)
        n = len(self.posterior.weights)
        self.weighted = not bool((self.posterior.weights == 1.0).all())
        self.spread = math.sqrt(n) * float(np.abs(self.posterior.weights).max(initial=0.0))
        self.inverse: InverseFactor | None = None
        self.quick: Eigenvectors | ShortRest | None = None
        self.alone: InverseFactor | ShortRest | Eigenvectors | None = None
        self._asked, self._inverted, self._shortened = 0, n > MOST_INVERTED, n > MOST_INVERTED
        self._decomposed = n > MOST_DECOMPOSED

    def expects(self, count: int, *, proven: bool = False) -> bool:
        """Whether so many rows more make it worth while to see some of them: `expect`."""
        self._asked += count
        if self.covariances is None:
            return False
        inverts = not self._inverted and (proven or self._pays(INVERTED))
        return inverts or self._shortens() or self._decomposes(count)

    def expect(self, count: int, some: Sequence[FloatArray]) -> None:
        """Make ready what pays for so many rows, of which `some` are shown.

        Parameters
        ----------
        count : int
        some : sequence of ndarray
            Rows as each expansion sees them.
        """
        assert self.covariances is not None
        factor, width = self.posterior.factor, self.covariances.width
        if not self._inverted:
            self._inverted = True
            self.inverse = self.alone = InverseFactor.of(factor, width)
        shortens, decomposes = self._shortens(), self._decomposes(count)
        self._shortened |= shortens
        self._decomposed |= decomposes
        if self.inverse is None or not (shortens or decomposes):
            return
        if len(some[0]) < FEWEST_ROWS:
            n = len(factor)
            few = slice(0, n, max(1, n // TRIED_CENTERS))
            some = [centers[few] for centers in self.covariances.centers]
        if shortens:
            short = ShortRest.of(self.inverse, leading_columns(factor))
            if short is not None:
                self._try_short(short, some)
        if decomposes:
            self._choose_eigenvectors(some)

    def _pays(self, rows: float) -> bool:
        """Whether so many rows per training row have been asked."""
        return self._asked >= rows * len(self.posterior.weights)

    def _shortens(self) -> bool:
        few = len(self.posterior.weights) < FEWEST_SHORTENED
        pays = not self._shortened and not few and self._pays(SHORTENED)
        return pays and self.tolerance is not None

    def _decomposes(self, count: int) -> bool:
        pays = not self._decomposed and self._pays(DECOMPOSED) and count >= FEWEST_ROWS
        return pays and self.tolerance is not None

    def __call__(self, rows: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Variances of shape (m,), and how far they may be off; infinite where nothing is known."""
        if self.inverse is None or self.covariances is None:
            return self.latent.variance(rows), np.full(len(rows[0]), np.inf)
        if len(rows[0]) == 1 and self.tolerance is not None:
            x, moved = self._inputs(rows)
            if (one := self.of_row(x[0], moved.item())) is not None:
                return np.array(one[:1]), np.array(one[1:])
        if self.quick is None:
            return self._by_inverse(self.inverse, rows)
        variances, errors = self._by(self.quick, rows)
        still = np.flatnonzero(~self._settles(variances, errors))
        if len(still):
            found = self._by_inverse(self.inverse, [seen[still] for seen in rows])
            variances[still], errors[still] = found
        return variances, errors

    def of_row(self, x: FloatArray, moved: float) -> tuple[float, float] | None:
        """The variance of one row, and how far it may be off; None where solving is asked for.

        Parameters
        ----------
        x : ndarray of shape (width,)
            May be overwritten.
        moved : float
            As `InverseFactor.squares` takes it.
        """
        each = (self.alone,) if self.alone is self.inverse else (self.alone, self.inverse)
        for factor in each:
            assert factor is not None
            variance, error = self._left(*factor.square(x, moved))
            if self._settles_one(variance, error):
                return variance, error
        return (variance, error) if error <= DIGITS_LOST * variance else None

    def _settles_one(self, variance: float, error: float) -> bool:
        """Whether the root of a variance is within the tolerance t, by what takes few steps.

        If the error is at most t (2 root - t), the variance is at least (root - t)^2, so that its
        root is at least root - t; upwards, roots change less. Neither of two variances of which
        one is at most t^2, and the other no more than t^2 above it, has a root t from the other's.
        """
        if self.tolerance is None:
            return False
        small = self.tolerance**2 / MARGIN**3
        if not variance > small:
            return variance <= small and error <= small
        root = math.sqrt(variance)
        t = self.tolerance - 8.0 * UNIT * root  # the root itself rounds
        return error * MARGIN**2 <= t * (2.0 * root - t)

    def _by_inverse(
        self, inverse: InverseFactor, rows: Sequence[FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """By the inverse; where that lost digits, what solving says, as far off as both may be."""
        variances, errors = self._by(inverse, rows)
        good = errors <= DIGITS_LOST * variances
        if self.tolerance is not None and not good.all():
            good |= self._settles(variances, errors)
        if not good.all():
            lost = np.flatnonzero(~good)
            solved = self.latent.variance([seen[lost] for seen in rows])
            errors[lost] += np.abs(solved - variances[lost])
            variances[lost] = solved
        return variances, errors

    def _by(
        self, factor: InverseFactor | Eigenvectors | ShortRest, rows: Sequence[FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """By one of them, tile by tile."""
        m = len(rows[0])
        if m <= ROWS_PER_VARIANCE_TILE:
            return self._left(*factor.squares(*self._inputs(rows)))
        variances, errors = np.empty(m), np.empty(m)
        for tile in row_blocks(m, ROWS_PER_VARIANCE_TILE):
            found = factor.squares(*self._inputs([seen[tile] for seen in rows]))
            variances[tile], errors[tile] = self._left(*found)
        return variances, errors

    def _inputs(self, rows: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """x of shape (m, n), and how far each is from where it should be."""
        assert self.covariances is not None
        K, errors = self.covariances(rows)
        return self.of_values(K), errors * (self.spread * MARGIN)

    def of_values(self, K: FloatArray) -> FloatArray:
        """x of rows from their kernel values, in their place."""
        if self.weighted:
            K[:, : len(self.posterior.weights)] *= self.posterior.weights
        return K

    def _left(self, q: Number, errors: Number) -> tuple[Number, Number]:
        """k(z, z) - q, and what that may be off by."""
        prior = self.posterior.diagonal
        return prior - q, errors + 4.0 * UNIT * (abs(prior) + q)

    def _settles(self, variances: FloatArray, errors: FloatArray) -> NDArray[np.bool_]:
        assert self.tolerance is not None
        return np.asarray(deviation_bound(variances, errors) <= self.tolerance)

    def _choose_eigenvectors(self, some: Sequence[FloatArray]) -> None:
        """Have products of rows like these with eigenvectors, if that is cheapest."""
        assert self.covariances is not None
        n = len(self.posterior.weights)
        every = Eigenvectors.all_of(self.posterior.factor, self.covariances.width)
        if every is None or n <= 2 * STEP:
            return
        cheapest = WORTH if self.quick is None else self._cost(self.quick, some)
        X, moved = self._inputs(some)
        C, squares = X @ every.vectors, np.einsum("ij,ij->i", X, X)
        best = 0
        for m in range(STEP, n // 2, STEP):
            cost = PRODUCTS * 2.0 * m / n
            if cost >= cheapest:
                break
            found = every.leading(m).of_products(C[:, :m], squares, moved)
            if (cost := cost + self._unsettled(found)) < cheapest:
                best, cheapest = m, cost
        if best:
            self.quick = every.leading(best).kept()
            if self.quick.vectors.nbytes + STEPS_AS_BYTES < self._bytes_alone():
                self.alone = self.quick

    def _bytes_alone(self) -> float:
        """That a row alone waits for."""
        size = 8.0 if self.alone is self.inverse else 4.0
        return 0.5 * size * len(self.posterior.weights) ** 2

    def _try_short(self, short: ShortRest, some: Sequence[FloatArray]) -> None:
        """Serve rows by single precision where most of those like these are settled by it."""
        if self._cost(short, some) < WORTH:
            self.quick = short
        X, moved = self._inputs([seen[:TRIED_ALONE] for seen in some])
        left = [self._left(*short.square(x, float(moved[-1]))) for x in X]
        if np.mean([self._settles_one(*one) for one in left]) >= LEAST_SETTLED:
            self.alone = short

    def _cost(self, short: Eigenvectors | ShortRest, some: Sequence[FloatArray]) -> float:
        """Of rows like these in single precision, in the time of the inverse."""
        with np.errstate(over="ignore", invalid="ignore"):
            return SINGLES + self._unsettled(short.squares(*self._inputs(some)))

    def _unsettled(self, found: tuple[FloatArray, FloatArray]) -> float:
        """What rows cost that the inverse has to answer as well, in its own time for all."""
        return AGAIN * (1.0 - float(self._settles(*self._left(*found)).mean()))
