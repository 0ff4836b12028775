"""Exact sums from digits: products of eight-bit integers, exponentials as good as values need.

In: rows. Out: scores of one output and bounds, some fifty times as tight as those of `fused`, at
twice its time. It needs Triton; the tests have the same in torch operations, its twin.

*Digits.* A row u = z - p is scaled by a power of two until its largest entry is below 64, and cut
into five digits base 128, each a whole number within +-64: what is left is at most 2^-29. The
centers' y = 2 g s, g = gamma log2(e), likewise with one scale for all. Of u.y the products of
digits l and l' with l + l' <= 4 are summed, all of one level q = l + l' in one accumulator: sums of
integers, and exact, for at most (q + 1) L 2^12 < 2^31. Left out are L (4 2^12 2^-35 + ...) from the
levels 5 to 8, and L 2^-22 from what digits leave: together less than L 1.53 2^-21, in units that
are the product of both scales.

*Sums.* hi = 128 a0 + a1 and lo = 128 a2 + a3 + (a4 >> 7) are integers below 2^31 for up to 1024
features; the shift errs by less than a unit of lo, 2^-21. u.y is (2^14 hi + lo) 2^-21 units, which
is a double. So, with P = 2 g R |u|,

    |e^ - e| <= eps = unit (L 1.53 + 1) 2^-21 + 2^-50 (4 P + 3 g R^2 + 2 g |u|^2)

of which the second part is more than what doubles round on the way.

*Exponentials.* 2^f of |f| <= 1/2 is a polynomial of degree 6, the Chebyshev series cut off there:
the coefficients left out are 2 I_n(log(2) / 2), n > 6, which sum to less than 2e-9, so
`FINE_EXP2` holds relatively. 2^norm, norm = -g |u|^2, is a factor of all terms of a row; where
g (|u| + R)^2 is beyond 1000, nothing is known, so no exponent leaves the range of doubles. All sums
are of doubles, over a tile's centers first: no term is added more than n / 64 + 64 times.

*Doubles.* What s, u and |u|^2 themselves are off by is in the bound of the exact engine, which is
added, as in `fused`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.exact import ExactBound
from kernelite.backends.torch.fused import LOG2E, bound_constants, by_side
from kernelite.backends.torch.tensors import Buffers, Tensor
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import Bounded
from kernelite.series.rounding import UNIT

if TYPE_CHECKING:
    from kernelite.backends.torch.kernels.rows import OpenRows

__all__ = ["DIGITS", "FINE_EXP2", "POWERS", "FineSums", "RowDigits"]

DIGITS, BITS, LARGEST = 5, 7, 6  # a row's digits, their bits, and log2 of the largest entry
MOST_FINE_FEATURES = 128  # features: so that all digits of a tile fit beside the tensor cores
FARTHEST_FINE = 1000.0  # g (|u| + R)^2
FINE_EXP2 = 4e-9  # relative error of the polynomial
NEAREST, BEYOND = -200, 200  # exponents of a row's largest entry


def _powers() -> FloatArray:
    """Coefficients of 2^f, lowest first: Chebyshev's series on [-1/2, 1/2] up to degree 6."""
    chebyshev: Any = np.polynomial.chebyshev
    series = chebyshev.chebinterpolate(lambda t: np.exp2(0.5 * t), 40)[:7]
    return np.asarray(chebyshev.cheb2poly(series) * 2.0 ** np.arange(7))


POWERS = _powers()


class RowDigits(NamedTuple):
    """Digits of rows, int8 of shape (5, m, D), and what scales products back, doubles of (m,).

    norms are -g |u|^2; squares are |u|^2, infinite where nothing is known.
    """

    table: Tensor
    units: Tensor
    norms: Tensor
    squares: Tensor


class FineSums(Buffers):
    """An expansion of one output in digits.

    Parameters
    ----------
    dense : DenseExact
        That `serves` accepts.
    """

    def __init__(self, dense: DenseExact) -> None:
        super().__init__()
        expansion, rounding = dense.expansion, dense.rounding
        width = dense.factors.shape[1] - 2
        factors = dense.factors[:, :width] * LOG2E
        self.scale = LARGEST - math.frexp(float(np.abs(factors).max(initial=0.0)))[1]
        self.width = 32 if width <= 32 else 64 if width <= 64 else MOST_FINE_FEATURES
        table = np.zeros((len(factors), self.width))
        table[:, :width] = np.ldexp(factors, self.scale)
        a = expansion.coefficients[:, 0]
        index, self.positive, weights, exponent = by_side(a)
        held = index >= 0
        self.gamma, self.n_features = expansion.gamma, len(dense.layout.order)
        self.bound = ExactBound(rounding)
        self.hold(
            point=dense.point,
            columns=dense.layout.order,
            table=np.where(held[:, None], _digits(table)[:, index], np.int8(0)),
            shifts=np.where(held, dense.factors[index, width] * LOG2E, 0.0),
            weights=weights,
            powers=POWERS,
            rate=np.array([expansion.gamma * LOG2E, math.sqrt(rounding.largest * LOG2E)]),
        )
        n, L = expansion.n_centers, float(width)
        products = 1.01 * (1.53 * L + 1.0) * 2.0**-21
        sums = FINE_EXP2 + 2.0 * UNIT * (n / 64.0 + 64.0)
        floor = 2.0 ** (exponent - 900) * n
        self.hold(
            finish=bound_constants(
                rounding, 2.0**-50, (products, sums), tiny=0.0, exponent=exponent, floor=floor
            )
        )

    @staticmethod
    def serves(dense: DenseExact) -> bool:
        """Whether the proof covers an expansion."""
        rounding, A = dense.rounding, dense.expansion.coefficients
        if rounding.polynomial or rounding.by_differences or not len(A) or A.shape[1] != 1:
            return False
        size, factors = float(np.abs(A).max()), dense.factors
        largest = float(np.abs(factors[:, :-2]).max(initial=0.0))
        in_range = 1e-12 <= dense.expansion.gamma <= 1e12 and 1e-30 < largest < 1e30
        fits = factors.shape[1] - 2 <= MOST_FINE_FEATURES and factors.size <= 1 << 28
        near = rounding.largest * LOG2E < 0.5 * FARTHEST_FINE
        return in_range and fits and near and 1e-200 < size < 1e200

    def forward(
        self,
        rows: Tensor,
        *,
        into: tuple[Tensor, Tensor] | None = None,
        still: OpenRows | None = None,
        keep: bool = False,
    ) -> Bounded:
        """Scores and bounds of shape (m, 1); as `kernels.fused.run_one` takes the others."""
        from kernelite.backends.torch.kernels.fine import run_fine
        from kernelite.backends.torch.kernels.rows import run_digits

        digits = run_digits(self, rows.contiguous(), still)
        return Bounded(*run_fine(self, digits, into, still, keep=keep))


def _digits(values: FloatArray) -> NDArray[np.int8]:
    """Five digits base 128 of numbers below 64: shape (5, *shape)."""
    found: list[Any] = []
    left = values
    for _ in range(DIGITS):
        found.append(np.rint(left))
        left = (left - found[-1]) * 2.0**BITS
    return np.stack(found).astype(np.int8)
