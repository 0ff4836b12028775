"""The latent mean and variance of a Gaussian process, exactly, in blocks of rows.

    k = sum_p a_p K_p(X, z) + constant,   v = L^-1 (weights * k),   variance = diagonal - |v|^2

K_p is an expansion's kernel, X its centers and L a triangular factor that fitting left behind: of
the covariance of the training rows (regression, weights 1) or of B = 1 + W^1/2 K W^1/2 (the
Laplace approximation of classification, weights W^1/2). Solving with L costs n^2 / 2 a row; for
many rows an explicit inverse of a small, well-conditioned L takes half the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, row_blocks, rows_within
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion, kernel_function
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["LatentVariance", "Posterior"]

VARIANCE_NUMBERS_PER_TILE = 1 << 15  # kernel values: they stay in cache from step to step
LARGEST_SQUARABLE = 1e150  # of numbers whose squares are numbers
MANY, LARGEST_INVERSE = 32, 600  # rows for which an inverse pays, and training rows
WELL_CONDITIONED = 1e6  # of L: products with its inverse then err by 1e-10 at most


@dataclass(frozen=True, eq=False)
class Posterior:
    """What fitting left behind of a Gaussian process, besides its mean.

    Parameters
    ----------
    factor : ndarray of shape (n, n)
        L; its lower triangle is used.
    weights : ndarray of shape (n,)
    amplitude : float, or ndarray of shape (p,)
        Of the covariance; one for each kernel where it is a sum of several.
    constant, diagonal : float
        Likewise; `diagonal` is that of a row with itself, noise included, but for kernels that vary
        with the row.
    output_scales : ndarray of shape (k,)
        Standard deviations are multiplied by these, an output each.
    """

    factor: FloatArray
    weights: FloatArray
    amplitude: float | FloatArray
    constant: float
    diagonal: float
    output_scales: FloatArray

    def __post_init__(self) -> None:
        for name in ("weights", "output_scales"):
            if getattr(self, name).ndim != 1:
                raise InputError(f"`{name}` of a posterior must have one axis.")
        n = len(self.weights)
        if self.factor.shape != (n, n):
            raise InputError(f"`factor` must be of shape ({n}, {n}), got {self.factor.shape}.")
        if not (np.diagonal(self.factor) > 0).all():
            raise InputError("`factor` must have a positive diagonal.")
        for name in ("factor", "weights", "amplitude", "constant", "diagonal", "output_scales"):
            if not (np.abs(getattr(self, name)) <= LARGEST_SQUARABLE).all():
                raise InputError(f"`{name}` of a posterior must hold finite numbers, none huge.")

    def block(self) -> int:
        """Rows at a time, so that memory stays bounded."""
        return rows_within(len(self.weights), 16)

    def check_belongs(self, *expansions: KernelExpansion | None) -> None:
        """Refuse a factor of another number of rows than there are centers, or other kernels."""
        if np.ndim(self.amplitude) > 1 or np.size(self.amplitude) != len(expansions):
            raise InputError(
                f"`amplitude` of a posterior has shape {np.shape(self.amplitude)}, but there are "
                f"{len(expansions)} kernels."
            )
        for expansion in expansions:
            n = 0 if expansion is None else expansion.n_centers
            if n != len(self.weights):
                raise InputError(
                    f"the posterior is of {len(self.weights)} rows, but there are {n}."
                )

    def deviations(self, variances: FloatArray) -> FloatArray:
        """Standard deviations in output units, shape (m,) for one output, else (m, k)."""
        negative = variances < 0
        if negative.any():
            warnings.warn(
                "Predicted variances smaller than 0. Setting those variances to 0.", stacklevel=4
            )
        return np.sqrt(self.scaled(np.where(negative, 0.0, variances)))

    def scaled(self, latent: FloatArray) -> FloatArray:
        """Variances or covariances in output units, one more axis for more than one output."""
        all_outputs = np.multiply.outer(latent, self.output_scales**2)
        return all_outputs[..., 0] if len(self.output_scales) == 1 else all_outputs

    def laid_out(self, expansions: Sequence[KernelExpansion]) -> LatentVariance:
        """Made ready for rows: one expansion for each kernel, whose n centers L belongs to."""
        kernels = tuple(kernel_function(expansion) for expansion in expansions)
        return LatentVariance(self, tuple(expansions), kernels)


@dataclass(frozen=True, eq=False)
class LatentVariance:
    """A posterior with what depends on its training rows alone computed once.

    Parameters
    ----------
    posterior : Posterior
    expansions : tuple of KernelExpansion
    kernels : tuple of callable
        Their kernel values: rows of shape (m, d) come in, (m, n) goes out.
    """

    posterior: Posterior
    expansions: tuple[KernelExpansion, ...]
    kernels: tuple[Callable[[FloatArray], FloatArray], ...]

    def variance(self, rows: Sequence[FloatArray]) -> FloatArray:
        """The latent variance of at most `block()` rows, shape (m,); below zero by rounding only.

        Parameters
        ----------
        rows : sequence of ndarray of shape (m, d)
            The same rows, as each expansion sees them.
        """
        return self._left(rows, self._solved(rows))

    def moments(self, rows: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The latent mean and variance of one output, each (m,), from the same kernel values."""
        means = np.full(len(rows[0]), sum(float(one.intercept[0]) for one in self.expansions))
        return means, self._left(rows, self._solved(rows, means))

    def lost(self, rows: Sequence[FloatArray], variances: FloatArray) -> NDArray[np.bool_]:
        """Rows whose variance is less than its own rounding, shape (m,): no digit is known.

        It is the rest of k(z, z) - |v|^2, of which each rounds by about n units: a kernel that is
        large at z, as products of features far from the origin are, leaves nothing.
        """
        units = 2.0 * UNIT * (len(self.posterior.weights) + 16)
        return np.asarray(~(variances > units * self._diagonal(rows)))

    def _left(self, rows: Sequence[FloatArray], V: FloatArray) -> FloatArray:
        """k(z, z) - |v|^2, shape (m,)."""
        return _known(self._diagonal(rows), lambda: np.einsum("ij,ij->j", V, V))

    def covariance(self, rows: Sequence[FloatArray]) -> FloatArray:
        """The latent covariance of rows with each other, shape (m, m); not in blocks."""
        m = len(rows[0])
        own = [
            kernel_function(
                replace(
                    expansion,
                    centers=seen,
                    coefficients=np.zeros((m, 0)),
                    intercept=np.zeros(0),
                    uncertainty=None,
                )
            )
            for expansion, seen in zip(self.expansions, rows)
        ]
        joint = self._between(own, rows, m)
        joint[np.diag_indices(m)] = self._diagonal(rows)
        V = self._solved(rows)
        return _known(joint, lambda: V.T @ V)

    def _diagonal(self, rows: Sequence[FloatArray]) -> FloatArray | float:
        """k(z, z), shape (m,): `diagonal`, and what varies with the row."""
        total: FloatArray | float = self.posterior.diagonal
        amplitudes = np.atleast_1d(self.posterior.amplitude)
        for amplitude, expansion, seen in zip(amplitudes, self.expansions, rows):
            kernel = expansion.kernel
            if not kernel.shifts:
                total = total + amplitude * kernel.diagonal(seen)
        return total

    def _between(
        self,
        kernels: Sequence[Callable[[FloatArray], FloatArray]],
        rows: Sequence[FloatArray],
        n: int,
        means: FloatArray | None = None,
    ) -> FloatArray:
        """k of rows and n centers, shape (m, n); their sums are added to `means`."""
        m, amplitudes = len(rows[0]), np.atleast_1d(self.posterior.amplitude)
        total = np.full((m, n), float(self.posterior.constant))
        for tile in row_blocks(m, max(8, VARIANCE_NUMBERS_PER_TILE // max(n, 1))):
            each = zip(amplitudes, kernels, rows, self.expansions)
            for amplitude, kernel, seen, expansion in each:
                K = kernel(seen[tile])
                if means is not None:
                    means[tile] += K @ expansion.coefficients[:, 0]
                K *= amplitude
                total[tile] += K
        return total

    def _solved(self, rows: Sequence[FloatArray], means: FloatArray | None = None) -> FloatArray:
        """v of each row, shape (n, m)."""
        from scipy.linalg.blas import dtrmm, dtrsv

        weights, factor = self.posterior.weights, self.posterior.factor
        K = self._between(self.kernels, rows, len(weights), means)
        K *= weights
        if len(K) == 1 and len(weights):
            by_columns = factor.flags.f_contiguous
            given = factor if by_columns else factor.T
            v = dtrsv(given, K[0], lower=by_columns, trans=not by_columns, overwrite_x=1)
            return np.asarray(v)[:, None]
        # K' is in the order that LAPACK wants, so the solution takes its place.
        if len(K) >= MANY and self._inverse is not None:
            return np.asarray(dtrmm(1.0, self._inverse, K.T, lower=1, overwrite_b=1))
        from scipy.linalg import solve_triangular

        return solve_triangular(factor, K.T, lower=True, overwrite_b=True, check_finite=False)

    @cached_property
    def _inverse(self) -> FloatArray | None:
        """Of L, where products with it are faster than solving, and no less exact."""
        from scipy.linalg.lapack import dtrtri

        factor = np.tril(self.posterior.factor)
        if not 0 < len(factor) <= LARGEST_INVERSE:
            return None
        inverse, failed = dtrtri(factor, lower=1)
        condition = np.linalg.norm(factor) * np.linalg.norm(inverse)
        return inverse if not failed and condition <= WELL_CONDITIONED else None


def _known(prior: FloatArray | float, learned: Callable[[], FloatArray]) -> FloatArray:
    """What is left of a prior: all of it where a factor that is all but singular overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        left = prior - learned()
    return left if np.isfinite(left).all() else np.where(np.isfinite(left), left, prior)
