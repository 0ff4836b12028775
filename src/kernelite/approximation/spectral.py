"""Spectral truncation: the quadratic parts of all outputs on a common basis V of few columns.

    u'M_j u  ~  y' C_j y + mid_j (|u|^2 - |y|^2),    y = V'u,   C_j = V'M_j V

For one output V holds eigenvectors of M, such that the discarded eigenvalues form the narrowest
window [l_min, l_max]; mid is its middle. With v = u - Vy, the error is at most
spread |v|^2 + 2 cross |y| |v| + leftover |u|^2, the last for what rounding leaves over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.approximation.quadratic import QuadraticForm
from kernelite.approximation.rounding import SAFETY, UNIT, round_up
from kernelite.approximation.series import SeriesForm
from kernelite.errors import InputError
from kernelite.inputs import FloatArray

__all__ = ["SpectralForm", "Spectrum", "spectrum", "truncate"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SpectralForm(SeriesForm):
    """A series whose quadratic parts live on a basis of r columns.

    Parameters
    ----------
    basis : ndarray of shape (d, r)
        V.
    cores : ndarray of shape (k, r, r)
        C_j - mid_j I, symmetric.
    mid : ndarray of shape (k,)
    spread, cross, leftover : ndarray of shape (k,)
        The error terms, rounded up.
    """

    basis: FloatArray
    cores: FloatArray
    mid: FloatArray
    spread: FloatArray
    cross: FloatArray
    leftover: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        k, r = self.n_outputs, self.rank
        self._check_arrays(
            basis=(self.n_features, r),
            cores=(k, r, r),
            mid=(k,),
            spread=(k,),
            cross=(k,),
            leftover=(k,),
        )
        for name in ("spread", "cross", "leftover"):
            if not (getattr(self, name) >= 0).all():
                raise InputError(f"`{name}` of a spectral form must not be negative.")

    @property
    def rank(self) -> int:
        """r."""
        return int(self.basis.shape[1])

    def truncation_bound(self, sq_norms: FloatArray, kept: FloatArray) -> FloatArray:
        """The error of the truncated quadratic parts, without rounding at run time: (m, k).

        Parameters
        ----------
        sq_norms, kept : ndarray of shape (m,)
            |u|^2 and |y|^2.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rest = np.maximum(sq_norms - kept, 0.0)
            size = (
                rest[:, None] * self.spread
                + np.sqrt(kept * rest)[:, None] * (2.0 * self.cross)
                + sq_norms[:, None] * self.leftover
            )
            if self.kernel == "poly2":
                return size
            E = np.exp(-self.gamma * sq_norms)
            bound = SAFETY * E[:, None] * size
        bound[E == 0.0] = 0.0  # in the underflow term
        return bound


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenpairs from which a form can be cut to any rank: prepare once, truncate often."""

    form: QuadraticForm
    values: FloatArray
    vectors: FloatArray
    skew: float
    residual: float


def spectrum(form: QuadraticForm) -> Spectrum:
    """Eigenpairs of M (one output), or of the sum of the scaled M_j^2 (several)."""
    matrices = form.quadratic
    if form.n_outputs == 1:
        values, vectors = np.linalg.eigh(matrices[0])
        residual = float(np.linalg.norm(matrices[0] @ vectors - vectors * values))
    else:
        residual = 0.0
        total = np.zeros_like(matrices[0])
        for matrix in matrices:
            scale = float(np.linalg.norm(matrix)) or 1.0
            total += (matrix / scale) @ (matrix / scale)
        values, vectors = np.linalg.eigh(total)
    skew = float(np.linalg.norm(vectors.T @ vectors - np.eye(form.n_features)))
    return Spectrum(form, values, vectors, skew, residual)


def truncate(spectrum: Spectrum, rank: int) -> SpectralForm:
    """Cut a form to `rank` directions and compute what that may cost.

    Examples
    --------
    >>> from kernelite.approximation import spectral
    >>> from kernelite.approximation.quadratic import quadratic_form
    >>> from kernelite.expansion import KernelExpansion
    >>> rng = np.random.default_rng(0)
    >>> model = KernelExpansion(rng.normal(size=(9, 4)), rng.normal(size=9), 0.0, gamma=0.1)
    >>> form = quadratic_form(model, np.zeros(4))
    >>> truncate(spectral.spectrum(form), 2).basis.shape
    (4, 2)
    """
    form = spectrum.form
    d, k = form.n_features, form.n_outputs
    keep = _kept(spectrum, rank)
    V = np.ascontiguousarray(spectrum.vectors[:, keep])
    r = V.shape[1]
    mid, spread, cross = np.zeros(k), np.zeros(k), np.zeros(k)
    cores = np.empty((k, r, r))
    for j, M in enumerate(form.quadratic):
        ends, core, cross[j] = _split(spectrum, keep, M)
        mid[j], spread[j] = 0.5 * (ends[1] + ends[0]), 0.5 * (ends[1] - ends[0])
        cores[j] = core - mid[j] * np.eye(r)
    # What eigenvectors that are not orthonormal to the last bit leave over, and the rounding of
    # products and eigenvalues here and of V'u at run time, all relative to the size of M.
    size = np.linalg.norm(form.quadratic, axis=(1, 2)) + np.abs(mid)
    leftover = size * (8.0 * spectrum.skew + 16.0 * (d + 8) * (r + 4) * UNIT)
    leftover += 2.0 * spectrum.residual
    return SpectralForm(
        point=form.point,
        constant=form.constant,
        linear=form.linear,
        intercept=form.intercept,
        gamma=form.gamma,
        max_sq_norm=form.max_sq_norm,
        kernel=form.kernel,
        basis=V,
        cores=cores,
        mid=mid,
        spread=round_up(spread),
        cross=round_up(cross),
        leftover=round_up(leftover),
    )


def _split(
    spectrum: Spectrum, keep: np.ndarray[tuple[int], np.dtype[np.intp]], M: FloatArray
) -> tuple[tuple[float, float], FloatArray, float]:
    """Ends of the discarded spectrum, V'MV, and the norm of V'MW that couples the two."""
    if spectrum.form.n_outputs == 1:
        lost = np.delete(spectrum.values, keep)
        ends = (float(lost.min()), float(lost.max())) if len(lost) else (0.0, 0.0)
        return ends, np.diag(spectrum.values[keep]), 0.0
    V, W = spectrum.vectors[:, keep], np.delete(spectrum.vectors, keep, axis=1)
    core = V.T @ M @ V
    core = 0.5 * (core + core.T)
    if not W.shape[1]:
        return (0.0, 0.0), core, 0.0
    rest = W.T @ M @ W
    gone = np.linalg.eigvalsh(0.5 * (rest + rest.T))
    cross = float(np.linalg.norm(V.T @ M @ W, 2)) if V.shape[1] else 0.0
    return (float(gone[0]), float(gone[-1])), core, cross


def _kept(spectrum: Spectrum, rank: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The eigenpairs to keep: all but the narrowest window of d - rank sorted values."""
    values = spectrum.values
    d = len(values)
    if spectrum.form.n_outputs > 1:
        return np.arange(d - rank, d)  # the largest of the squares
    width = d - rank
    if width <= 0:
        return np.arange(d)
    starts = np.arange(rank + 1)
    first = int(np.argmin(values[starts + width - 1] - values[starts]))
    return np.concatenate([np.arange(first), np.arange(first + width, d)])
