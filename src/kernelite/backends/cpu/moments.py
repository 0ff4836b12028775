"""Latent means and variances of several machines from one pass of kernel values.

Machines whose kernels and training rows are the same share k(X, z). With P = [a | w * U] of each
machine, coefficients and weighted leading eigenvectors side by side, and S their squared weights,

    k P    has every mean and every U'x,    k^2 S    every |x|^2,    x = w * k,

so that two products answer for all machines (`factors` has what follows, and the bounds).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelite.backends.cpu.exact_rounding import PointwiseRounding
from kernelite.backends.cpu.factors import MARGIN, Eigenvectors
from kernelite.backends.cpu.variance import (
    STEP,
    VALUE_UNITS,
    VALUES_TOGETHER,
    Covariances,
    Variances,
)
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.variance import LatentVariance
from kernelite.series.rounding import UNIT
from kernelite.support.records import dataclass

__all__ = ["JointMoments", "RowMoments"]

ROWS_PER_JOINT_TILE = 256
MOST_TRAINING_ROWS = 2_048  # training rows, with which eigenvectors are still a matter of seconds
MOST_PROBED = 256
LARGEST_OPEN_SHARE = 0.002  # of the rows probed, that may be left to the definition
MOST_SHARE = 0.4  # of all eigenvectors: with more of them the definition is as fast


@dataclass(frozen=True, eq=False)
class _Machine:
    """What one machine takes from the products."""

    leading: Eigenvectors
    start: int
    intercept: float
    prior: float
    spread: float


@dataclass(frozen=True, eq=False)
class JointMoments:
    """Machines on the same rows and kernels, made ready.

    Parameters
    ----------
    covariances : Covariances
    machines : tuple
    matrix : ndarray of shape (n, sum of 1 + m)
        P.
    weights : ndarray of shape (n, machines)
        S.
    """

    covariances: Covariances
    machines: tuple[_Machine, ...]
    matrix: FloatArray
    weights: FloatArray

    @classmethod
    def prepare(
        cls,
        latents: Sequence[LatentVariance],
        mapped: Sequence[bool],
        some: FloatArray,
        tolerance: float,
    ) -> JointMoments | None:
        """Lay out; None where machines differ, or where eigenvectors do not pay.

        Parameters
        ----------
        latents : sequence of LatentVariance
            One expansion each.
        mapped : sequence of bool
        some : ndarray of shape (s, d)
            Rows as the expansions see them, like those to come.
        tolerance : float
            Of variances.
        """
        first = latents[0]
        n = len(first.posterior.weights)
        if not STEP < n <= MOST_TRAINING_ROWS or not all(_shares(first, one) for one in latents):
            return None
        covariances = Covariances.prepare(first.posterior, first.expansions, mapped[:1])
        if covariances is None or len(set(mapped)) > 1:
            return None
        width = covariances.width
        K, errors = covariances([some[:MOST_PROBED]])
        machines, columns, start = [], [], 0
        for latent in latents:
            posterior = latent.posterior
            weights = np.zeros(width)
            weights[:n] = posterior.weights
            spread = float(np.sqrt(n) * np.abs(weights).max())
            leading = _enough(posterior.factor, K * weights, errors * spread, tolerance)
            if leading is None:
                return None
            own = np.zeros((width, 1))
            # k has the amplitude in it, which the mean's own kernel has not.
            own[:n, 0] = latent.expansions[0].coefficients[:, 0] / covariances.amplitudes[0]
            columns += [own, weights[:, None] * leading.vectors]
            intercept = float(latent.expansions[0].intercept[0])
            machines.append(_Machine(leading, start, intercept, posterior.diagonal, spread))
            start += 1 + leading.vectors.shape[1]
        every = np.zeros((width, len(latents)))
        every[:n] = np.stack([one.posterior.weights for one in latents], axis=1) ** 2
        return cls(covariances, tuple(machines), np.hstack(columns), every)

    def __call__(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, variances, and how far the latter may be off: shape (m, machines) each."""
        shape = len(rows), len(self.machines)
        means, variances, errors = np.empty(shape), np.empty(shape), np.empty(shape)
        for tile in row_blocks(len(rows), ROWS_PER_JOINT_TILE):
            K, off = self.covariances([rows[tile]])
            products = K @ self.matrix
            squares = np.square(K, out=K) @ self.weights
            for i, machine in enumerate(self.machines):
                C = products[:, machine.start + 1 :][:, : len(machine.leading.values)]
                means[tile, i] = products[:, machine.start] + machine.intercept
                # Weighted eigenvectors are rounded once more, and so are squared weights.
                moved = MARGIN * (off * machine.spread + 8.0 * UNIT * np.sqrt(squares[:, i]))
                q, error = machine.leading.of_products(C, squares[:, i], moved)
                variances[tile, i] = machine.prior - q
                errors[tile, i] = error + 4.0 * UNIT * (abs(machine.prior) + q)
        return means, variances, errors


def _shares(one: LatentVariance, other: LatentVariance) -> bool:
    """Whether two machines have the same kernel values."""
    if len(one.expansions) != 1 or len(other.expansions) != 1:
        return False
    a, b = one.expansions[0], other.expansions[0]
    return bool(
        np.ndim(one.posterior.amplitude) <= 1
        and np.array_equal(one.posterior.amplitude, other.posterior.amplitude)
        and np.all(np.asarray(one.posterior.amplitude) > 0)
        and one.posterior.constant == other.posterior.constant == 0.0
        and a.kernel == b.kernel
        and np.array_equal(a.dense_centers(), b.dense_centers())
    )


def _enough(
    factor: FloatArray, X: FloatArray, moved: FloatArray, tolerance: float
) -> Eigenvectors | None:
    """As few eigenvectors as settle rows like these; None if that takes too many."""
    n = len(factor)
    every = Eigenvectors.all_of(factor, X.shape[1])
    if every is None:
        return None
    C, squares = X @ every.vectors, np.einsum("ij,ij->i", X, X)
    for m in range(STEP, int(MOST_SHARE * n), STEP):
        _, errors = every.leading(m).of_products(C[:, :m], squares, moved)
        if float((errors > tolerance).mean()) <= LARGEST_OPEN_SHARE:
            return every.leading(m).kept()
    return None


# Mean and variance of one row of a Gaussian process, from the same kernel values, in few steps.
#
#     mean = a'k + b,    variance of x = amplitude k + constant, as `variance` has it
#
# A row alone spends most of its time between compiled loops: the triangle of its variance has
# filled the caches that Python's next steps need. So the quick way takes few steps. It is for rows
# so near the centers that one bound of kernel values does for all of them (`Covariances.near`), and
# for variances that their tolerance settles; others take the longer way. The mean is off by the
# terms of `PointwiseRounding`, for sums of 16 products and sums of these, in any order.


@dataclass(frozen=True, eq=False)
class RowMoments:
    """What answers a near row alone.

    Parameters
    ----------
    variances : Variances
        Of one expansion.
    coefficients : ndarray of shape (k, width / 16, 16)
        a of each output, zeros beyond n.
    intercept : ndarray of shape (k,)
        b.
    reach : float
        What no feature of a near row is farther from the point amid the centers by.
    moved : float
        How far x may be from where it should be.
    least : float
        Of variances whose digits are not lost.
    """

    variances: Variances
    coefficients: FloatArray
    intercept: FloatArray
    reach: float
    moved: float
    least: float

    @classmethod
    def prepare(
        cls, variances: Variances, expansion: KernelExpansion, most: FloatArray, *, mapped: bool
    ) -> RowMoments | None:
        """Lay out; None where no bound is to be had, or where means may be off by more than `most`.

        Parameters
        ----------
        variances : Variances
        expansion : KernelExpansion
            That of the mean.
        most : ndarray of shape (k,)
        mapped : bool
            Whether rows come through an affine map.
        """
        covariances, n = variances.covariances, expansion.n_centers
        if covariances is None or len(covariances.kernels) > 1:
            return None
        point = covariances.points[0]
        lengths = VALUE_UNITS + VALUES_TOGETHER + covariances.width / VALUES_TOGETHER
        rounding = PointwiseRounding.of(expansion, point, lengths, mapped=mapped)
        reach, farthest, _ = covariances.near[0]
        off = rounding.bounds(np.array([farthest]))[0]
        if not (off <= most).all():
            return None
        coefficients = np.zeros((expansion.n_outputs, covariances.width))
        coefficients[:, :n] = expansion.coefficients.T
        return cls(
            variances,
            coefficients.reshape(len(coefficients), -1, VALUES_TOGETHER),
            expansion.intercept,
            reach,
            covariances.near_error * variances.spread * MARGIN,
            2.0 * UNIT * (n + 16) * abs(variances.posterior.diagonal),
        )

    def __call__(self, row: FloatArray) -> tuple[FloatArray, float] | None:
        """Scores (k,) and the variance of a row (1, d), mapped; None for what takes more steps."""
        variances = self.variances
        covariances = variances.covariances
        assert covariances is not None
        if not np.abs(row[0] - covariances.points[0]).max(initial=0.0) <= self.reach:
            return None
        K = covariances.values_of(0, row)
        parts = np.einsum("ij,kij->ki", K.reshape(-1, VALUES_TOGETHER), self.coefficients)
        found = variances.of_row(variances.of_values(covariances.of_near_row(K))[0], self.moved)
        if found is None or not found[0] > self.least:
            return None
        return parts.sum(axis=1) + self.intercept, found[0]
