"""Quadratic forms, full and truncated, with their certificates: in torch operations or one kernel.

    f^(z) = E (c + v.u + u'Mu) + b,    u = z - p,    E = exp(-gamma |u|^2), or 1

In: rows of shape (m, d), doubles or singles (which are doubles without rounding). Out: `Bounded`.
All is computed in doubles; `kernels.form` does the same in one pass where it serves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from kernelite.backends.torch.tensors import Buffers, Formula, Tensor, TensorValue, TorchOps
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.ops import TORCH
from kernelite.program.bounded import Bounded
from kernelite.series.approximation import Approximation
from kernelite.series.rounding import SAFETY, UNIT, square_error
from kernelite.series.series import QuadraticForm
from kernelite.series.spectral import SpectralForm, spectrum, truncate
from kernelite.support.errors import UnsupportedModelError

__all__ = ["CHUNK", "FirstForm", "KernelLayout", "padded"]

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
# The kernel's factor 1 + 2^-10 covers all of that; `BOUND_FLOOR` what underflows beside `scale`.


NARROW, CHUNK = 32, 32  # features of a row that registers hold; of a wider one, at a time
MOST_FORM_COLUMNS = 64  # columns of the product: more of them do not fit beside the rows
BOUND_FLOOR = 1e-30


def padded(size: int) -> int:
    """The next power of two: a tile's side.

    Examples
    --------
    >>> padded(22), padded(3)
    (32, 16)
    """
    return max(16, 1 << max(size - 1, 0).bit_length())


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
            outside * rounding.magnitude[0] + rounding.underflow[0] + BOUND_FLOOR * scale,
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
        if rank >= MOST_FORM_COLUMNS:
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
    """The approximation, with a full form of wide rows as a spectral one of all directions."""
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


# The form itself: its definition in `series`, on tensors.


class FirstForm(Buffers):
    """An approximation's first form and its bound.

    Parameters
    ----------
    approximation : Approximation
    """

    def __init__(self, approximation: Approximation) -> None:
        super().__init__()
        self.form, self.certificate = approximation.form, approximation.certificate
        self.layout = KernelLayout(approximation) if KernelLayout.serves(approximation) else None

    def forward(self, rows: Tensor, *, kernel: bool = False) -> Bounded:
        """Scores and bounds; by the Triton kernel if asked for and if it serves the form."""
        if kernel and self.layout is not None:
            found: Bounded = self.layout(rows)
            return found
        evaluate: Formula = self.form.evaluate
        certified: Formula = self.form.bounds
        each = evaluate(TensorValue(rows.double()))
        scores, squares = each.scores.tensor, each.sq_norms.tensor
        if self.certificate is None:
            return Bounded(scores, torch.zeros_like(scores))
        bounds = certified(self.certificate, each, arithmetic=TORCH).tensor
        # |u|^2 overflowed, or an entry is not a number: a later stage looks at such rows.
        return Bounded(scores, torch.where(squares[:, None] < math.inf, bounds, math.inf))

    def valid(self, rows: Tensor) -> Tensor:
        """Rows inside the paper's validity bound, shape (m,)."""
        u: Any = TensorValue(rows.double()) - self.form.point
        formula: Formula = self.form.valid
        return formula(TorchOps(rows.device).squared_norms(u)).tensor
