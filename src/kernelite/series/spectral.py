"""Spectral truncation: the quadratic parts of all outputs on a common basis V of few columns.

    u'M_j u  ~  y' C_j y + mid_j (|u|^2 - |y|^2),    y = V'u,   C_j = V'M_j V

For one output V holds eigenvectors of M, such that the discarded eigenvalues form the narrowest
window [l_min, l_max]; mid is its middle. With x = W'u, the other directions, the error is at most
spread |x|^2 + 2 cross |x| |y| + leftover |u|^2, the last for what rounding leaves over:

Q = (V W) is square with Q'Q = I + F, |F| <= skew. So u = Q (I + F)^-1 Q'u, and replacing that by
QQ'u costs 3 skew |M| |u|^2; |x|^2 + |y|^2 = |Q'u|^2 is |u|^2 up to skew |u|^2; MQ = Q diag(l) + E
costs |E| (1 + skew) |u|^2. F and E are computed, by products of length d, which may hide d u times
the norms of their factors. The numbers computed for Q'MQ err by 2 d u |Q|_F^2 |M|_F and its
eigenvalues by 4 d^2 u |M|_F; y, at run time, by (d + 1) sqrt(r) u |u|.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.ops import ops
from kernelite.series.rounding import SAFETY, UNIT, damped, damping, round_up
from kernelite.series.series import SeriesForm
from kernelite.series.work import Work, spectral_work
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["SpectralForm", "frobenius", "skewness", "spectrum", "truncate"]


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

    @property
    def name(self) -> str:
        """What plans call it."""
        return f"rank {self.rank} form"

    @property
    def work(self) -> Work:
        """What a row takes, bounds aside."""
        return spectral_work(self.n_features, self.n_outputs, self.rank)

    @property
    def terms(self) -> dict[str, FloatArray]:
        """With what stands for M."""
        return super().terms | {"cores": self.cores, "mid": self.mid}

    @cached_property
    def _squares(self) -> FloatArray | None:
        """What y_i^2 is multiplied with, shape (r, k), where nothing else is: no y_i y_j."""
        diagonals = np.einsum("kii->ki", self.cores)
        plain = np.count_nonzero(self.cores) == np.count_nonzero(diagonals)
        return np.ascontiguousarray(diagonals.T) if plain else None

    def quadratic_part(
        self, U: FloatArray, sq_norms: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """y'Cy + mid |u|^2, and |y|^2."""
        xp, Y = ops(U), U @ self.basis
        inner = xp.contract(Y, self.cores) if self._squares is None else (Y * Y) @ self._squares
        return inner + sq_norms[:, None] * self.mid, xp.squared_norms(Y)

    def truncation_bound(self, sq_norms: FloatArray, kept: FloatArray | None) -> FloatArray:
        """The error of the truncated quadratic parts, without rounding at run time: (m, k).

        Parameters
        ----------
        sq_norms, kept : ndarray of shape (m,)
            |u|^2 and |y|^2.
        """
        assert kept is not None
        xp = ops(sq_norms)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rest = xp.maximum(sq_norms - kept, 0.0)
            size = rest[:, None] * self.spread + sq_norms[:, None] * self.leftover
            if self.cross.any():
                size = size + xp.sqrt(kept * rest)[:, None] * self.cross * 2.0
            size = size * SAFETY
            if self.damped:
                return damped(size, damping(sq_norms, self.gamma))  # else in the underflow term
            return xp.where(xp.isnan(size), np.inf, size)  # overflowed: nothing is known


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs of a form's matrices, by which it can be cut to any rank, as often as needed."""

    form: SeriesForm
    values: FloatArray
    vectors: FloatArray
    skew: float
    residual: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.skew) and self.skew < 1e-3):
            raise UnsupportedModelError("the eigenvectors of the quadratic form did not converge.")


def spectrum(form: SeriesForm) -> Spectrum:
    """Eigenpairs of M (one output), or of the sum of the scaled M_j^2 (several)."""
    matrices, d = form.terms["quadratic"], form.n_features
    if form.n_outputs == 1:
        values, vectors = np.linalg.eigh(matrices[0])
        residual = frobenius(matrices[0] @ vectors - vectors * values)
        residual += 2.0 * (d + 4) * math.sqrt(d) * UNIT * frobenius(matrices[0])
    else:
        residual = 0.0
        total = np.zeros_like(matrices[0])
        for matrix in matrices:
            scale = frobenius(matrix) or 1.0
            total += (matrix / scale) @ (matrix / scale)
        values, vectors = np.linalg.eigh(total)
    return Spectrum(form, values, vectors, skewness(vectors), residual)


def skewness(basis: FloatArray) -> float:
    """A bound of |V'V - I| for a (d, r) basis, in Frobenius norm.

    Examples
    --------
    >>> skewness(np.eye(3)) < 1e-14
    True
    """
    d, r = basis.shape
    return frobenius(basis.T @ basis - np.eye(r)) + 2.0 * (d + 4) * r * UNIT


def frobenius(array: FloatArray) -> float:
    """The root of the sum of squares of all entries, none of which over- or underflows.

    Examples
    --------
    >>> frobenius(np.array([[3e-200, 4e-200]]))
    5e-200
    """
    largest = float(np.abs(array).max(initial=0.0))
    return largest * float(np.linalg.norm(array / largest)) if largest else 0.0


def truncate(spectrum: Spectrum, rank: int) -> SpectralForm:
    """Cut a form to `rank` directions and compute what that may cost.

    Examples
    --------
    >>> from kernelite.series import spectral
    >>> from kernelite.series.series import quadratic_form
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> rng = np.random.default_rng(0)
    >>> model = KernelExpansion(rng.normal(size=(9, 4)), rng.normal(size=9), 0.0, gamma=0.1)
    >>> form = quadratic_form(model, np.zeros(4))
    >>> truncate(spectral.spectrum(form), 2).basis.shape
    (4, 2)
    """
    form = spectrum.form
    d, k, matrices = form.n_features, form.n_outputs, form.terms["quadratic"]
    keep = _kept(spectrum, rank)
    V = np.ascontiguousarray(spectrum.vectors[:, keep])
    r = V.shape[1]
    mid, spread, cross = np.zeros(k), np.zeros(k), np.zeros(k)
    cores = np.empty((k, r, r))
    for j, M in enumerate(matrices):
        ends, core, cross[j] = _split(spectrum, keep, M)
        mid[j], spread[j] = 0.5 * (ends[1] + ends[0]), 0.5 * (ends[1] - ends[0])
        cores[j] = core - mid[j] * np.eye(r)
    # See above. The rounding of y hides some of |x|^2 = |u|^2 - |y|^2, under a root in the cross
    # term: sqrt(|x|^2 + hidden |u|^2) <= |x| + sqrt(hidden) |u|.
    size = np.array([frobenius(M) for M in matrices]) + np.abs(mid)
    hidden = spectrum.skew + 4.0 * (d + 4) * (math.sqrt(r) + 2.0) * UNIT
    leftover = size * (8.0 * spectrum.skew + 16.0 * (d + 8) ** 2 * UNIT)
    leftover += 2.0 * spectrum.residual + 2.0 * cross * math.sqrt(hidden)
    return SpectralForm(
        point=form.point,
        constant=form.constant,
        linear=form.linear,
        intercept=form.intercept,
        gamma=form.gamma,
        max_sq_norm=form.max_sq_norm,
        damped=form.damped,
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
