"""A form of one output laid out for `kernels.form`: one pass over rows, in doubles.

A full form is one square matrix: with w = (u, 1), c + v.u + u'Mu = w'Bw, B = (M, v/2; v'/2, c).
A truncated one is a product with (V, v), then sum_i (l_i - mid) y_i^2.

The bound is evaluated in single precision, which costs a tenth as much, and rounded up. With
x = 2 gamma |u|^2 and h = sqrt(x), the certificate is scale ((rho' root(x) + E (a_0' + a_1' h +
a_2' x) (K + (d + 5) x)) plus terms in doubles, where primed constants are divided by `scale`, a
power of two, so that none overflows. Nothing here cancels: each step errs by a few units 2^-24,
exp by its argument's 2^-23 * 90 where it is not zero, 1 - exp(-x) (1 + x + x^2/2) >= 0.08 by 1e-5.
`LOOSER` = 2^-10 covers all of that together; `FLOOR` covers what underflows beside `scale`.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from kernelite.approximation.cells import Cell
from kernelite.approximation.quadratic import QuadraticForm
from kernelite.approximation.rounding import SAFETY, UNIT
from kernelite.approximation.spectral import SpectralForm
from kernelite.gpu.buffers import Bounded, Buffers, Tensor
from kernelite.inputs import FloatArray

__all__ = ["KernelLayout", "padded"]

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
    """Matrices and constants of one cell, as the kernel wants them.

    Parameters
    ----------
    cell : Cell
        That `serves` accepts.
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        form = cell.form
        self.n_features = form.n_features
        self.truncated = isinstance(form, SpectralForm)
        if isinstance(form, SpectralForm):
            matrix, weights = _truncated(form)
            self.chunk = 32
            self.hold(weights=weights)
        else:
            matrix = _square(form)
            self.chunk = len(matrix)
        point = np.zeros(len(matrix))
        point[: form.n_features] = form.point
        scale, singles = _singles(cell)
        rounding = cell.certificate.rounding  # type: ignore[union-attr]
        outside = 4.0 * SAFETY * UNIT
        doubles = [
            form.intercept[0],
            form.gamma,
            2.0 * form.gamma * (1.0 + 4.0 * rounding.per_square * UNIT),
            scale,
            outside,
            outside * rounding.magnitude[0] + rounding.underflow[0] + FLOOR * scale,
            form.constant[0],
            form.mid[0] if isinstance(form, SpectralForm) else 0.0,
        ]
        self.hold(matrix=matrix, point=point, doubles=np.array(doubles), singles=singles)

    @staticmethod
    def serves(cell: Cell) -> bool:
        """Whether the kernel can run a cell's form."""
        form = cell.form
        if form.n_outputs != 1 or form.kernel != "rbf" or cell.certificate is None:
            return False
        wide = form.rank + 1 if isinstance(form, SpectralForm) else form.n_features + 1
        scale, singles = _singles(cell)
        return wide <= WIDEST and math.isfinite(scale) and bool(np.isfinite(singles).all())

    def forward(self, rows: Tensor) -> Bounded:
        """Scores and bounds of shape (m, 1); bounds are infinite where |u|^2 is not finite."""
        from kernelite.gpu.kernels.form import run_form

        scores = torch.empty(len(rows), 1, dtype=torch.float64, device=rows.device)
        bounds = torch.empty_like(scores)
        run_form(self, rows.contiguous(), scores, bounds)
        return Bounded(scores, bounds)


def _square(form: QuadraticForm) -> FloatArray:
    """B, padded: shape (D, D)."""
    d, D = form.n_features, padded(form.n_features + 1)
    B = np.zeros((D, D))
    B[:d, :d] = form.quadratic[0]
    B[:d, d] = B[d, :d] = 0.5 * form.linear[:, 0]
    B[d, d] = form.constant[0]
    return B


def _truncated(form: SpectralForm) -> tuple[FloatArray, FloatArray]:
    """(V, v) padded to (D, R), and (l - mid, zeros) of shape (R,)."""
    d, r = form.n_features, form.rank
    D, R = -(-d // 32) * 32, padded(r + 1)
    matrix, weights = np.zeros((D, R)), np.zeros(R)
    matrix[:d, :r], matrix[:d, r] = form.basis, form.linear[:, 0]
    weights[:r] = np.diag(form.cores[0])
    return matrix, weights


def _singles(cell: Cell) -> tuple[float, np.ndarray]:
    """`scale`, and the constants of the bound in single precision, rounded up."""
    form, certificate = cell.form, cell.certificate
    assert certificate is not None
    rounding, gamma = certificate.rounding, cell.form.gamma
    K = rounding.sums + rounding.per_square * (8.0 + 2.0 * gamma * rounding.radius_sq)
    with np.errstate(over="ignore", invalid="ignore"):
        roots = (1.0 / (2.0 * gamma)) ** (0.5 * np.arange(3))
        amplitudes = SAFETY * UNIT * rounding.moments[:3, 0] * roots
        rest = np.zeros(2)
        if isinstance(form, SpectralForm):
            rest = SAFETY * np.array([form.spread[0], form.leftover[0]]) / (2.0 * gamma)
        largest = max(float(certificate.rho[0, 0]), float(amplitudes.max() * K), float(rest.max()))
        scale = 2.0 ** math.ceil(math.log2(largest)) if 0.0 < largest < math.inf else largest or 1.0
        listed = np.array([certificate.rho[0, 0], *amplitudes, *rest]) / scale
    rank = form.rank - 0.5 if isinstance(form, SpectralForm) else 0.0
    listed = np.append(listed, [K, rounding.per_square, rank])
    return scale, (listed * (1.0 + 2.0**-20)).astype(np.float32)
