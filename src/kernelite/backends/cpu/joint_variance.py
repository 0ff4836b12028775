"""Latent means and variances of several machines from one pass of kernel values.

Machines whose kernels and training rows are the same share k(X, z). With P = [a | w * U] of each
machine, coefficients and weighted leading eigenvectors side by side, and S their squared weights,

    k P    has every mean and every U'x,    k^2 S    every |x|^2,    x = w * k,

so that two products answer for all machines (`factors` has what follows, and the bounds).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelite.backends.cpu.factors import MARGIN, Eigenvectors
from kernelite.backends.cpu.variance import STEP, Covariances
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.variance import LatentVariance
from kernelite.series.rounding import UNIT
from kernelite.support.records import dataclass

__all__ = ["JointMoments"]

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
