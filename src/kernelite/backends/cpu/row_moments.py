"""Mean and variance of one row of a Gaussian process, from the same kernel values, in few steps.

    mean = a'k + b,    variance of x = amplitude k + constant, as `variance` has it

A row alone spends most of its time between compiled loops: the triangle of its variance has filled
the caches that Python's next steps need. So the quick way takes few steps. It is for rows so near
the centers that one bound of kernel values does for all of them (`Covariances.near`), and for
variances that their tolerance settles; others take the longer way. The mean is off by the terms of
`PointwiseRounding`, for sums of 16 products and sums of these, in any order.
"""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.exact_rounding import PointwiseRounding
from kernelite.backends.cpu.factors import MARGIN
from kernelite.backends.cpu.variance import VALUE_UNITS, VALUES_TOGETHER, Variances
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.rounding import UNIT
from kernelite.support.records import dataclass

__all__ = ["RowMoments"]


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
