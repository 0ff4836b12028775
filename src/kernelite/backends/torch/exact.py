"""Exact sums in doubles: products, exponentials, products with coefficients.

The last stage: in torch operations, and of one output in `kernels.doubles` too. In: rows. Out:
scores and what they err by, as `cpu.exact_rounding` bounds it; coefficients are summed `CENTERS` at
a time, as that counts.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.exact_rounding import (
    CENTERS,
    LOST,
    SURELY,
    UNDERFLOWS,
    ExactRounding,
)
from kernelite.backends.torch.buffers import Bounded, Buffers, Tensor
from kernelite.data.rows.inputs import FloatArray
from kernelite.series.rounding import (
    SAFETY,
    UNIT,
    VALUES_OVERFLOW,
    polynomial_error,
    polynomial_units,
)

__all__ = ["ExactBound", "ExactSums"]

TILE, FEW_TILE = 1 << 26, 1 << 23  # kernel values held at once, and of few rows: 512 and 64 MB
CPU_TILE = 1 << 20
FEW, NARROW, OUTPUTS = 4096, 64, 16  # rows, features, outputs
SOME = 256  # centers that stand for rows


class ExactSums(Buffers):
    """An expansion in doubles.

    Parameters
    ----------
    dense : DenseExact
        The expansion as the CPU's engine lays it out.
    """

    def __init__(self, dense: DenseExact) -> None:
        super().__init__()
        expansion, rounding = dense.expansion, dense.rounding
        self.gamma, self.coef0 = expansion.gamma, expansion.coef0
        self.n_outputs = expansion.n_outputs
        self.bound = ExactBound(rounding)
        self.polynomial, self.by_differences = rounding.polynomial, rounding.by_differences
        n, k = expansion.coefficients.shape
        blocks = -(-max(n, 1) // CENTERS)
        coefficients = np.zeros((blocks * CENTERS, k))
        coefficients[:n] = expansion.coefficients
        width = dense.centers.shape[1]
        if self.polynomial or self.by_differences:
            table = np.zeros((blocks * CENTERS, width))
            table[:n] = dense.centers
        else:
            table = np.zeros((blocks * CENTERS, dense.factors.shape[1]))
            table[:n] = dense.factors
        columns = dense.layout.order
        self.hold(
            point=dense.point,
            columns=columns,
            table=table,
            coefficients=coefficients.reshape(blocks, CENTERS, k),
            intercept=expansion.intercept,
            some=dense.point + dense.centers[:: max(1, n // SOME)][:SOME],
        )

    @property
    def has_kernel(self) -> bool:
        """Whether `kernels.doubles` serves: exponents by products."""
        return not (self.polynomial or self.by_differences) and self.n_outputs > 0

    def forward(
        self, rows: Tensor, *, kernel: bool = False, tally: Tensor | None = None
    ) -> Bounded:
        """Scores and bounds of shape (m, k), rows taken in tiles; by the kernel if it serves.

        Parameters
        ----------
        rows : tensor of shape (m, d)
        kernel : bool
        tally : int32 tensor, optional
            To whose entry 1 the number of rows is added that are not finite, or huge.
        """
        # Of many wide rows or outputs, products by a library are faster.
        narrow = len(self.columns) <= NARROW and self.n_outputs <= OUTPUTS
        if kernel and self.has_kernel and (narrow or len(rows) <= FEW):
            from kernelite.backends.torch.kernels.doubles import run_doubles

            return Bounded(*run_doubles(self, rows.contiguous(), tally))
        if tally is not None:
            tally[1] += (~torch.isfinite(rows).all(dim=1)).sum()
        most = (TILE if len(rows) > FEW else FEW_TILE) if rows.is_cuda else CPU_TILE
        tile = max(16, most // max(len(self.table), 1))
        parts = [self._tile(part) for part in rows.split(tile)] or [self._tile(rows)]
        return Bounded(*(torch.cat(part) for part in zip(*parts)))

    def _tile(self, rows: Tensor) -> Bounded:
        u = rows.double() - self.point
        squares = (u * u).sum(dim=1)
        values = self._kernel(u, squares)
        values = values.view(len(u), len(self.coefficients), CENTERS)
        if len(u) <= FEW and self.coefficients.shape[2] == 1:  # where batched products start slowly
            sums = (values * self.coefficients[:, :, 0]).sum(dim=2).sum(dim=1, keepdim=True)
        else:
            sums = torch.bmm(values.transpose(0, 1), self.coefficients).sum(dim=0)
        sums = sums + self.intercept
        if not (self.polynomial or self.by_differences):
            sums = torch.where(self.bound.far(squares)[:, None], self.intercept, sums)
        return Bounded(sums, self.bound(squares))

    def kernel_values(self, rows: Tensor) -> Tensor:
        """Kernel values of few rows with all centers, shape (m, n), padded."""
        u = rows.double() - self.point
        return self._kernel(u, (u * u).sum(dim=1))

    def log_sums(self, rows: Tensor) -> Tensor:
        """log sum_i A_i K_i of one output without negative coefficients: shape (m,)."""
        tile = max(16, (TILE if rows.is_cuda else CPU_TILE) // len(self.table))
        logarithms = self.coefficients.reshape(-1).log()
        found = []
        for part in rows.split(tile):
            u = part.double() - self.point
            exponents = self._exponents(u, (u * u).sum(dim=1))
            found.append(torch.logsumexp(exponents + logarithms, dim=1))
        return torch.cat(found)

    def _kernel(self, u: Tensor, squares: Tensor) -> Tensor:
        """Kernel values of shape (m, n), padded."""
        if self.polynomial:
            return (self.gamma * (u @ self.table.T) + self.coef0).square()
        return self._exponents(u, squares).exp_()

    def _exponents(self, u: Tensor, squares: Tensor) -> Tensor:
        """-gamma |x_i - z|^2 of shape (m, n), padded."""
        if self.by_differences:
            root = math.sqrt(self.gamma)  # inside the square, where it keeps that in range
            out = torch.zeros(len(u), len(self.table), dtype=u.dtype, device=u.device)
            for feature in range(u.shape[1]):
                out -= ((u[:, feature, None] - self.table[:, feature]) * root).square()
            return out
        ones = torch.ones_like(squares)
        lifted = torch.column_stack([u[:, self.columns], ones, self.gamma * squares])
        return (lifted @ self.table.T).clamp_(max=0.0)


class ExactBound(Buffers):
    """`ExactRounding.bounds` in torch operations.

    Parameters
    ----------
    rounding : ExactRounding
    """

    def __init__(self, rounding: ExactRounding) -> None:
        super().__init__()
        self.polynomial, self.by_differences = rounding.polynomial, rounding.by_differences
        self.gamma, self.largest = rounding.expansion.gamma, rounding.largest
        self.lengths = rounding._lengths
        if self.polynomial:
            self.lengths += polynomial_units(rounding.expansion, mapped=rounding.mapped)
        self.length = rounding.length
        self.unsound = not bool(np.isfinite(rounding.constant).all())
        self.radius = math.inf
        if not self.polynomial and rounding._sound:
            self.radius = math.sqrt(rounding.largest / self.gamma)
        moments = rounding._moments if self.polynomial else np.zeros((3, 1))
        self.reach = self.gamma * float(rounding.norms.max(initial=0.0))
        self.coef0 = abs(rounding.expansion.coef0)
        weight = SAFETY * UNIT * rounding.weight
        self.hold(weight=weight, constant=rounding.constant, moments=moments)
        self.hold(error=polynomial_error(rounding.expansion))
        self.hold(finish=self._constants())

    def _constants(self) -> FloatArray:
        """What `kernels.doubles.exact_bound` takes, of the first output: shape (10,)."""
        listed = (
            self.gamma,
            1.0 - SURELY,
            self.radius * (1.0 + SURELY),
            math.sqrt(self.gamma),
            self.lengths,
            3.0 * self.length + 24.0,
            self.largest,
            UNDERFLOWS,
            float(self.weight[0]) if len(self.weight) else 0.0,
            float(self.constant[0]) if len(self.constant) else 0.0,
        )
        return np.array(listed)

    def forward(self, squares: Tensor) -> Tensor:
        """Bounds of shape (m, k) from |u|^2 of shape (m,)."""
        if self.polynomial:
            return self._of_powers(squares)
        bounds = self.relative(squares)[:, None] * self.weight + self.constant
        return torch.where(bounds.isnan(), math.inf, bounds) if self.unsound else bounds

    def far(self, squares: Tensor) -> Tensor:
        """Rows so far from all centers that f is b."""
        return ~(self._nearest(squares) < UNDERFLOWS)

    def relative(self, squares: Tensor) -> Tensor:
        """What the weights are multiplied with, shape (m,); not for a polynomial kernel."""
        if self.by_differences:
            return torch.full_like(squares, self.lengths + self.length + 8)
        nearest = self._nearest(squares)
        spread = (3.0 * self.length + 24.0) * (self.largest + self.gamma * squares)
        relative = torch.exp(-nearest) * (self.lengths + spread)
        return torch.where(nearest < UNDERFLOWS, relative, 0.0)

    def _nearest(self, squares: Tensor) -> Tensor:
        gap = squares.sqrt() * (1.0 - SURELY) - self.radius * (1.0 + SURELY)
        gap = gap.clamp(min=0.0) * math.sqrt(self.gamma)
        return gap * gap * (1.0 - SURELY)

    def _of_powers(self, squares: Tensor) -> Tensor:
        lengths = squares.sqrt() + LOST
        powers = torch.stack([torch.ones_like(lengths), lengths, lengths * lengths], dim=1)
        grown = (self.lengths + 2 * self.length + 8) * (powers @ self.moments)
        power = (self.coef0 + (self.reach + LOST * self.gamma) * lengths).square()
        bounds = SAFETY * UNIT * grown + self.constant + SAFETY * power[:, None] * self.error
        known = ~bounds.isnan() & (power < VALUES_OVERFLOW)[:, None]
        return torch.where(known, bounds, math.inf)
