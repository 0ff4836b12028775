"""The latent mean and variance of a Gaussian process, exactly, in blocks of rows.

    k = sum_p a_p K_p(X, z) + constant,   v = L^-1 (weights * k),   variance = diagonal - |v|^2

K_p is an expansion's kernel, X its centers and L a triangular factor that fitting left behind: of
the covariance of the training rows (regression, weights 1) or of B = 1 + W^1/2 K W^1/2 (the
Laplace approximation of classification, weights W^1/2). Solving with L costs n^2 / 2 a row; an
explicit inverse of L was measured and saves a tenth of that, for a worse condition.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.expansion import KernelExpansion, kernel_function
from kernelite.machine.kernels import Kernel, PolynomialKernel
from kernelite.rows.inputs import FloatArray, row_blocks

__all__ = ["Posterior"]

BLOCK_ELEMENTS = 1 << 21  # kernel values held at once: 16 MB
TILE_ELEMENTS = 1 << 15  # of which so many at a time: they stay in cache from step to step
LARGEST = 1e150  # of numbers whose squares are numbers


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
            if not (np.abs(getattr(self, name)) <= LARGEST).all():
                raise InputError(f"`{name}` of a posterior must hold finite numbers, none huge.")

    def block(self) -> int:
        """Rows at a time, so that memory stays bounded."""
        return max(16, BLOCK_ELEMENTS // max(len(self.weights), 1))

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

    def variance(
        self, expansions: Sequence[KernelExpansion], rows: Sequence[FloatArray]
    ) -> FloatArray:
        """The latent variance of at most `block()` rows, shape (m,); below zero by rounding only.

        Parameters
        ----------
        expansions : sequence of KernelExpansion
            One for each kernel; their n centers are the rows that L belongs to.
        rows : sequence of ndarray of shape (m, d)
            The same rows, as each expansion sees them.
        """
        prior = self._diagonal(expansions, rows)
        V = self._solved(expansions, rows)
        return _known(prior, lambda: np.einsum("ij,ij->j", V, V))

    def _diagonal(
        self, expansions: Sequence[KernelExpansion], rows: Sequence[FloatArray]
    ) -> FloatArray | float:
        """k(z, z), shape (m,): `diagonal`, and what varies with the row."""
        total: FloatArray | float = self.diagonal
        for amplitude, expansion, seen in zip(np.atleast_1d(self.amplitude), expansions, rows):
            kernel = expansion.kernel
            if kernel == "poly2":
                kernel = PolynomialKernel(2, expansion.gamma, expansion.coef0)
            if isinstance(kernel, Kernel) and not kernel.shifts:
                total = total + amplitude * kernel.diagonal(seen)
        return total

    def covariance(
        self, expansions: Sequence[KernelExpansion], rows: Sequence[FloatArray]
    ) -> FloatArray:
        """The latent covariance of rows with each other, shape (m, m); not in blocks."""
        m = len(rows[0])
        own = [
            replace(
                expansion,
                centers=seen,
                coefficients=np.zeros((m, 0)),
                intercept=np.zeros(0),
                uncertainty=None,
            )
            for expansion, seen in zip(expansions, rows)
        ]
        joint = self._between(own, rows)
        joint[np.diag_indices(m)] = self._diagonal(expansions, rows)
        V = self._solved(expansions, rows)
        return _known(joint, lambda: V.T @ V)

    def _between(
        self, expansions: Sequence[KernelExpansion], rows: Sequence[FloatArray]
    ) -> FloatArray:
        """k of rows and centers, shape (m, n)."""
        m, n = len(rows[0]), expansions[0].n_centers
        kernels = [kernel_function(expansion) for expansion in expansions]
        amplitudes, total = np.atleast_1d(self.amplitude), np.full((m, n), float(self.constant))
        for tile in row_blocks(m, max(8, TILE_ELEMENTS // max(n, 1))):
            for amplitude, kernel, seen in zip(amplitudes, kernels, rows):
                K = kernel(seen[tile])
                K *= amplitude
                total[tile] += K
        return total

    def _solved(
        self, expansions: Sequence[KernelExpansion], rows: Sequence[FloatArray]
    ) -> FloatArray:
        from scipy.linalg import solve_triangular

        K = self._between(expansions, rows)
        K *= self.weights
        # K' is in the order that LAPACK wants, so the solution takes its place.
        return solve_triangular(self.factor, K.T, lower=True, overwrite_b=True, check_finite=False)


def _known(prior: FloatArray | float, learned: Callable[[], FloatArray]) -> FloatArray:
    """What is left of a prior: all of it where a factor that is all but singular overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        left = prior - learned()
    return left if np.isfinite(left).all() else np.where(np.isfinite(left), left, prior)
