"""Quadratic forms, full and truncated, with their certificates: in torch operations or one kernel.

    f^(z) = E (c + v.u + u'Mu) + b,    u = z - p,    E = exp(-gamma |u|^2), or 1

In: rows of shape (m, d), doubles or singles (which are doubles without rounding). Out: `Bounded`.
All is computed in doubles; `kernels.form` does the same in one pass where it serves.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from kernelite.backends.torch.buffers import Bounded, Buffers, Tensor
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.approximation import Approximation
from kernelite.series.certificate import Certificate
from kernelite.series.rounding import SAFETY, UNIT, square_error
from kernelite.series.series import QuadraticForm
from kernelite.series.spectral import SpectralForm, spectrum, truncate
from kernelite.support.errors import UnsupportedModelError

__all__ = ["CHUNK", "FirstForm", "KernelLayout", "lower_gamma", "padded"]

# A form of one output laid out for `kernels.form`: one pass over rows, in doubles.
#
# Rows of up to 32 features stay in a thread's registers: a full form is sum_i u_i (v_i + sum_j>=i
# T_ij u_j) with T the upper triangle of M, what is off its diagonal twice; a truncated one, and any
# of wider rows, is one product y = (V, v)'u, then c + y_v + mid |u|^2 + sum_i (l_i - mid) y_i^2. A
# full one of wider rows is taken as a truncated one that keeps all directions, so that rows are
# needed once; its bound then contains what the eigenvectors are off by (`spectral`), a few 1e-13.
#
# The bound is evaluated in single precision, which costs a tenth as much, and rounded up. With x =
# 2 gamma |u|^2 and h = sqrt(x), the certificate is scale ((rho' root(x) + E (a_0' + a_1' h + a_2'
# x) (K + (d + 5) x)) plus terms in doubles, where primed constants are divided by `scale`, a power
# of two, so that none overflows. Nothing here cancels: each step errs by a few units 2^-24, exp by
# its argument's 2^-23 * 90 where it is not zero, 1 - exp(-x) (1 + x + x^2/2) >= 0.08 by 1e-5.
# `LOOSER` = 2^-10 covers all of that together; `FLOOR` covers what underflows beside `scale`.


NARROW, CHUNK = 32, 32  # features of a row that registers hold; of a wider one, at a time
WIDEST = 64  # columns of the product: more of them do not fit beside the rows
LOOSER, FLOOR = 1.0 + 2.0**-10, 1e-30


def padded(size: int, least: int = 16) -> int:
    """The next power of two: a tile's side.

    Examples
    --------
    >>> padded(22), padded(3)
    (32, 16)
    """
    return max(least, 1 << max(size - 1, 0).bit_length())


class KernelLayout(Buffers):
    """Matrices and constants of a form, as the kernel wants them.

    Parameters
    ----------
    approximation : Approximation
        That `serves` accepts.
    """

    def __init__(self, approximation: Approximation) -> None:
        super().__init__()
        approximation = _for_kernel(approximation)
        form = approximation.form
        assert isinstance(form, QuadraticForm | SpectralForm)
        self.narrow, self.truncated = form.n_features <= NARROW, isinstance(form, SpectralForm)
        if isinstance(form, QuadraticForm):
            self.rank, mid = form.n_features, 0.0
            self.hold(matrix=_triangle(form.quadratic[0]), weights=np.zeros(1))
        else:
            self.rank, mid = form.rank, form.mid[0]
            matrix, weights = _product(form, narrow=self.narrow)
            self.hold(matrix=matrix, weights=weights)
        length = form.n_features if self.narrow else len(self.matrix)
        point = np.zeros(length)
        point[: form.n_features] = form.point
        scale, singles = _singles(approximation)
        rounding = approximation.certificate.rounding  # type: ignore[union-attr]
        outside = 4.0 * SAFETY * UNIT
        doubles = [
            form.intercept[0],
            form.gamma,
            2.0 * form.gamma * (1.0 + square_error(rounding.per_square)),
            scale,
            outside,
            outside * rounding.magnitude[0] + rounding.underflow[0] + FLOOR * scale,
            form.constant[0],
            mid,
        ]
        self.hold(linear=form.linear[:, 0], point=point)
        self.hold(doubles=np.array(doubles), singles=singles)

    @staticmethod
    def serves(approximation: Approximation) -> bool:
        """Whether the kernel can run a form."""
        form = approximation.form
        if form.n_outputs != 1 or not form.damped or approximation.certificate is None:
            return False
        rank = form.rank if isinstance(form, SpectralForm) else form.n_features
        if rank >= WIDEST:
            return False
        try:
            scale, singles = _singles(_for_kernel(approximation))
        except UnsupportedModelError:
            return False
        return math.isfinite(scale) and bool(np.isfinite(singles).all())

    def forward(self, rows: Tensor) -> Bounded:
        """Scores and bounds of shape (m, 1); bounds are infinite where |u|^2 is not finite."""
        from kernelite.backends.torch.kernels.form import run_form

        scores = torch.empty(len(rows), 1, dtype=torch.float64, device=rows.device)
        bounds = torch.empty_like(scores)
        run_form(self, rows.contiguous(), scores, bounds)
        return Bounded(scores, bounds)


def _for_kernel(approximation: Approximation) -> Approximation:
    """The same, if its form is full and its rows are wide with the form on all its directions."""
    form = approximation.form
    if isinstance(form, SpectralForm) or form.n_features <= NARROW:
        return approximation
    return Approximation(truncate(spectrum(form), form.n_features), approximation.certificate)


def _triangle(matrix: FloatArray) -> FloatArray:
    """T with u'Tu = u'Mu: the upper triangle, what is off the diagonal twice.

    Examples
    --------
    >>> _triangle(np.array([[1.0, 2.0], [2.0, 5.0]]))
    array([[1., 4.],
           [0., 5.]])
    """
    return np.ascontiguousarray(np.triu(matrix) + np.triu(matrix, 1))


def _product(form: SpectralForm, *, narrow: bool) -> tuple[FloatArray, FloatArray]:
    """V' of shape (r, d) and l - mid of shape (r,); of wide rows (V, v) and l - mid, padded."""
    d, r = form.n_features, form.rank
    if narrow:
        return np.ascontiguousarray(form.basis.T), np.diag(form.cores[0]).copy()
    matrix, weights = np.zeros((-(-d // CHUNK) * CHUNK, padded(r + 1))), np.zeros(padded(r + 1))
    matrix[:d, :r], matrix[:d, r] = form.basis, form.linear[:, 0]
    weights[:r] = np.diag(form.cores[0])
    return matrix, weights


def _singles(approximation: Approximation) -> tuple[float, np.ndarray]:
    """`scale`, and the constants of the bound in single precision, rounded up."""
    form, certificate = approximation.form, approximation.certificate
    assert certificate is not None
    rounding, gamma, per_square = certificate.rounding, form.gamma, certificate.rounding.per_square
    K, left_out = rounding.at_center, np.zeros(2)
    if isinstance(form, SpectralForm):
        left_out = np.array([form.spread[0], form.leftover[0]])
    with np.errstate(over="ignore", invalid="ignore"):
        roots = (1.0 / (2.0 * gamma)) ** (0.5 * np.arange(3))
        amplitudes = SAFETY * UNIT * rounding.moments[:3, 0] * roots
        rest = SAFETY * left_out / (2.0 * gamma)
        largest = max(float(certificate.rho[0, 0]), float(amplitudes.max() * K), float(rest.max()))
        scale = 2.0 ** math.ceil(math.log2(largest)) if 0.0 < largest < math.inf else largest or 1.0
        listed = np.array([certificate.rho[0, 0], *amplitudes, *rest]) / scale
    listed = np.append(listed, [K, per_square])
    return scale, (listed * (1.0 + 2.0**-20)).astype(np.float32)


# Certificates in torch operations: what `series.certificate` computes, on the rows' device.
#
#     bound = rho sqrt(P(3, 2 gamma |u|^2)) + rounding(|u|)        shape (m, k), doubles
#
# The constants come from the model's own certificate; the formulas are those of
# `series.rounding` and `series.remainder`, and a test compares them.

SERIES = 20  # terms beyond the first, as in `series.remainder`


class FormBound(Buffers):
    """The error of a quadratic form's scores, from |u|^2 alone.

    Parameters
    ----------
    certificate : Certificate
    """

    def __init__(self, certificate: Certificate) -> None:
        super().__init__()
        rounding = certificate.rounding
        self.hold(
            rho=certificate.rho[0],
            moments=rounding.moments[:3],
            magnitude=rounding.magnitude,
            underflow=rounding.underflow,
        )
        self.gamma, self.sums = rounding.gamma, rounding.sums
        self.per_square, self.radius_sq = rounding.per_square, rounding.radius_sq
        self.has_remainder = bool(np.any(certificate.rho))

    def forward(self, sq_norms: Tensor, scores: Tensor) -> Tensor:
        """Bounds of shape (m, k) for |u|^2 of shape (m,) and scores of shape (m, k)."""
        norms, squares = sq_norms.sqrt(), self.gamma * sq_norms
        if not self.gamma:
            squares = torch.zeros_like(sq_norms)
        powers = torch.stack([torch.ones_like(norms), norms, sq_norms], dim=1)
        amplitude = (powers @ self.moments) * torch.exp(-squares)[:, None]
        spread = self.gamma * self.radius_sq if self.gamma else 0.0
        factor = self.sums + self.per_square * (8.0 + 2.0 * (spread + squares))
        grown = torch.where(squares[:, None] > 700.0, 0.0, factor[:, None] * amplitude)
        total = grown + 4.0 * (self.magnitude + scores.abs())
        bound = SAFETY * UNIT * total + self.underflow
        if self.has_remainder:
            x = 2.0 * self.gamma * sq_norms * (1.0 + square_error(self.per_square))
            bound = bound + lower_gamma(3, x).sqrt()[:, None] * self.rho
        return torch.where(bound.isnan(), math.inf, bound)


def lower_gamma(order: int, x: Tensor) -> Tensor:
    """An upper bound of P(m, x), tight to 4e-13 relatively, for x >= 0 (infinity gives 1)."""
    t = x.clamp(max=1.0)
    series = torch.ones_like(t)
    for j in range(order + SERIES, order, -1):
        series = 1.0 + series * t / j
    small = torch.exp(-t) * t**order / math.factorial(order) * series
    t = x.clamp(min=1.0, max=800.0)
    head = torch.zeros_like(t)
    for j in range(order - 1, -1, -1):
        head = 1.0 / math.factorial(j) + head * t
    large = torch.where(x < 800.0, 1.0 - torch.exp(-t) * head, 1.0)
    return torch.clamp(torch.where(x < 1.0, small, large) * (1.0 + 4e-13) + 1e-300, max=1.0)


# The form itself.


class FirstForm(Buffers):
    """An approximation's first form and its bound.

    Parameters
    ----------
    approximation : Approximation
    """

    def __init__(self, approximation: Approximation) -> None:
        super().__init__()
        form, certificate = approximation.form, approximation.certificate
        self.gamma, self.radial = form.gamma, form.damped
        self.validity = form.max_sq_norm * form.gamma * form.gamma
        self.hold(
            point=form.point, constant=form.constant, linear=form.linear, intercept=form.intercept
        )
        self.truncated = isinstance(form, SpectralForm)
        if isinstance(form, SpectralForm):
            self.hold(basis=form.basis, cores=form.cores, mid=form.mid)
            self.hold(spread=form.spread, cross=form.cross, leftover=form.leftover)
        else:
            self.hold(quadratic=form.quadratic)
        self.bound = None if certificate is None else FormBound(certificate)
        self.layout = KernelLayout(approximation) if KernelLayout.serves(approximation) else None

    def forward(self, rows: Tensor, *, kernel: bool = False) -> Bounded:
        """Scores and bounds; by the Triton kernel if asked for and if it serves the form."""
        if kernel and self.layout is not None:
            found: Bounded = self.layout(rows)
            return found
        u = rows.double() - self.point
        squares = (u * u).sum(dim=1)
        g = u @ self.linear + self.constant
        kept = None
        if self.truncated:
            y = u @ self.basis
            kept = (y * y).sum(dim=1)
            g = g + squares[:, None] * self.mid
            g = g + torch.stack([((y @ core) * y).sum(dim=1) for core in self.cores], dim=1)
        else:
            g = g + torch.stack([((u @ M) * u).sum(dim=1) for M in self.quadratic], dim=1)
        scores = self._damped(g, squares) + self.intercept
        bounds = self._bounds(scores, squares, kept)
        # |u|^2 overflowed, or an entry is not a number: a later stage looks at such rows.
        return Bounded(scores, torch.where(squares[:, None] < math.inf, bounds, math.inf))

    def valid(self, rows: Tensor) -> Tensor:
        """Rows inside the paper's validity bound, shape (m,)."""
        squares = ((rows.double() - self.point) ** 2).sum(dim=1)
        if not self.radial:
            return torch.ones_like(squares, dtype=torch.bool)
        return squares * self.validity < 1.0 / 16.0

    def _damped(self, g: Tensor, squares: Tensor) -> Tensor:
        if not self.radial:
            return g
        E = torch.exp(-self.gamma * squares)[:, None]
        return torch.where(E == 0.0, 0.0, g * E)  # even if g overflowed

    def _bounds(self, scores: Tensor, squares: Tensor, kept: Tensor | None) -> Tensor:
        if self.bound is None:
            return torch.zeros_like(scores)
        bounds: Tensor = self.bound(squares, scores)
        return bounds if kept is None else bounds + self._truncation(squares, kept)

    def _truncation(self, squares: Tensor, kept: Tensor) -> Tensor:
        """As `SpectralForm.truncation_bound`: shape (m, k)."""
        rest = (squares - kept).clamp(min=0.0)
        size = rest[:, None] * self.spread
        size = size + (kept * rest).sqrt()[:, None] * (2.0 * self.cross)
        size = SAFETY * (size + squares[:, None] * self.leftover)
        if not self.radial:
            return torch.where(size.isnan(), math.inf, size)
        E = torch.exp(-self.gamma * squares)[:, None]
        return torch.where(E == 0.0, 0.0, E * size)
