"""Exact sums in doubles: kernel values in tiles, products with coefficients.

The last stage: in torch operations, and of RBF kernels in `kernels.doubles` too. In: rows. Out:
scores and what they err by, as `cpu.exact_rounding` bounds it; centers are summed `CENTERS` at a
time, as that counts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.exact_packed import LinearExact
from kernelite.backends.cpu.exact_rounding import CENTERS, ExactRounding
from kernelite.backends.torch.tensors import Buffers, Formula, Tensor, TensorValue, TorchOps
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import CosineKernel
from kernelite.program.bounded import Bounded, Factored
from kernelite.series.rounding import SAFETY, UNIT
from kernelite.support.errors import KerneliteError, UnsupportedModelError

__all__ = ["ExactBound", "ExactSums", "KernelSums"]

TILE, FEW_TILE = 1 << 26, 1 << 23  # kernel values held at once, and of few rows: 512 and 64 MB
KERNEL_TILE = 1 << 24  # where several tables of them are held at once
CPU_TILE = 1 << 20
FEW, NARROW, OUTPUTS = 4096, 64, 16  # rows, features, outputs
SOME = 256  # centers that stand for rows


class ExactSums(Buffers):
    """An expansion in doubles: of an RBF kernel, or of a polynomial one of degree 2.

    Parameters
    ----------
    dense : DenseExact
        The expansion as the CPU's engine lays it out.
    """

    most = TILE

    def __init__(self, dense: DenseExact) -> None:
        super().__init__()
        expansion, rounding = dense.expansion, dense.rounding
        self.kernel, self.gamma, self.coef0 = expansion.kernel, expansion.gamma, expansion.coef0
        self.n_outputs = expansion.n_outputs
        self.bound = ExactBound(rounding)
        self.polynomial, self.by_differences = rounding.polynomial, rounding.by_differences
        n, plain = expansion.n_centers, self.polynomial or self.by_differences
        self.hold(
            point=dense.point,
            columns=dense.layout.order,
            table=in_blocks_of_centers(dense.centers if plain else dense.factors, n),
            some=dense.point + dense.centers[:: max(1, n // SOME)][:SOME],
        )
        self.hold_coefficients(expansion)

    def hold_coefficients(self, expansion: KernelExpansion) -> None:
        """Of all centers, `CENTERS` at a time, and the intercept."""
        n, k = expansion.coefficients.shape
        padded = in_blocks_of_centers(expansion.coefficients, n)
        self.hold(coefficients=padded.reshape(-1, CENTERS, k), intercept=expansion.intercept)

    @property
    def has_kernel(self) -> bool:
        """Whether `kernels.doubles` serves: exponents by products."""
        return not (self.polynomial or self.by_differences) and self.n_outputs > 0

    @property
    def _is_narrow(self) -> bool:
        """If not, products by a library are faster for many rows."""
        return len(self.columns) <= NARROW and self.n_outputs <= OUTPUTS

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
        if kernel and self.has_kernel and (self._is_narrow or len(rows) <= FEW):
            from kernelite.backends.torch.kernels.doubles import run_doubles

            return Bounded(*run_doubles(self, rows.contiguous(), tally))
        if tally is not None:
            tally[1] += (~torch.isfinite(rows).all(dim=1)).sum()
        most = (self.most if len(rows) > FEW else FEW_TILE) if rows.is_cuda else CPU_TILE
        tile = max(16, most // max(len(self.table), 1))
        parts = [self._tile(part) for part in rows.split(tile)] or [self._tile(rows)]
        scores, bounds = zip(*((part.scores, part.bounds) for part in parts))
        return Bounded(torch.cat(scores), torch.cat(bounds))

    def _tile(self, rows: Tensor) -> Bounded:
        u = rows.double() - self.point
        squares = (u * u).sum(dim=1)
        sums = self._sums(self._kernel(u, squares))
        if not (self.polynomial or self.by_differences):
            sums = torch.where(self.bound.far(squares)[:, None], self.intercept, sums)
        return Bounded(sums, self.bound(squares))

    def _sums(self, values: Tensor) -> Tensor:
        """Scores of shape (m, k) from kernel values of shape (m, n), padded."""
        m = len(values)
        values = values.view(m, len(self.coefficients), CENTERS)
        if m <= FEW and self.coefficients.shape[2] == 1:  # where batched products start slowly
            sums = (values * self.coefficients[:, :, 0]).sum(dim=2).sum(dim=1, keepdim=True)
        else:
            sums = torch.bmm(values.transpose(0, 1), self.coefficients).sum(dim=0)
        return sums + self.intercept

    def kernel_values(self, rows: Tensor) -> Tensor:
        """Kernel values of few rows with all centers, shape (m, n), padded."""
        u = rows.double() - self.point
        return self._kernel(u, (u * u).sum(dim=1))

    def varying(self, rows: Tensor) -> Tensor | float:
        """k(z, z) of kernels for which that depends on the row: shape (m,); else zero."""
        diagonal: Formula = self.kernel.diagonal
        return 0.0 if self.kernel.shifts else diagonal(TensorValue(rows.double())).tensor

    def log_sums(self, rows: Tensor) -> Tensor:
        """log sum_i A_i K_i of one output without negative coefficients: shape (m,)."""
        tile = max(16, (self.most if rows.is_cuda else CPU_TILE) // len(self.table))
        logarithms = self.coefficients.reshape(-1).log()
        parts = (self._logarithms(part.double()) + logarithms for part in rows.split(tile))
        return torch.cat([torch.logsumexp(part, dim=1) for part in parts])

    has_logarithms = True  # of kernel values, where these underflow

    def _logarithms(self, rows: Tensor) -> Tensor:
        u = rows - self.point
        return self._exponents(u, (u * u).sum(dim=1))

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


def in_blocks_of_centers(table: FloatArray, n: int) -> FloatArray:
    """A line per center, and zeros up to whole blocks of `CENTERS`."""
    lines = max(1, -(-n // CENTERS)) * CENTERS
    return np.concatenate([table[:n], np.zeros((lines - len(table[:n]), table.shape[1]))])


# Any other kernel: its definition and its own word on errors, in torch operations.


class KernelSums(ExactSums):
    """An expansion of a kernel without a series, in doubles.

    Parameters
    ----------
    expansion : KernelExpansion
    mapped : bool
        Whether rows come through an affine map, whose rounding then counts.
    """

    most = KERNEL_TILE
    polynomial = by_differences = has_kernel = False

    def __init__(self, expansion: KernelExpansion, *, mapped: bool) -> None:
        Buffers.__init__(self)
        self.kernel, self.n_outputs = expansion.kernel, expansion.n_outputs
        engine: Any = ExactEngine(expansion, mapped).dense
        self.linear = isinstance(engine, LinearExact)
        if not self.linear:  # no packed tensors: a product with all centers is as fast here
            engine = DenseExact.by_values(expansion, mapped=mapped)
        self.rounding = engine.rounding
        centers = expansion.dense_centers()
        # Padded by a center that is there already: its values are no larger than the others.
        table = in_blocks_of_centers(centers, len(centers))
        table[len(centers) :] = centers[-1:] if len(centers) else 0.0
        self.hold(table=table, point=np.zeros(0) if self.linear else engine.point)
        self.hold_coefficients(expansion)
        if self.linear:
            W = np.zeros((expansion.n_features, self.n_outputs))
            W[slice(None) if engine.columns is None else engine.columns] = engine.weights
            self.hold(weights=W, intercept=engine.intercept)
        self.has_logarithms = self.kernel.exponents(np.zeros(1)) is not None
        row = torch.zeros(1, expansion.n_features, dtype=torch.float64)
        try:
            self.kernel_values(row)
            self._tile(row)
        except (KerneliteError, AttributeError, NotImplementedError, TypeError) as error:
            raise UnsupportedModelError(
                f"the kernel of this model ({expansion.kernel_name}) is not lowered to torch; pass "
                "rows as an array instead of a tensor."
            ) from error

    def _tile(self, rows: Tensor) -> Bounded:
        rows = rows.double()
        u = rows - self.point if len(self.point) else rows
        bounds = self.rounding.bounds(TensorValue((u * u).sum(dim=1))).tensor
        if not self.linear:
            return Bounded(self._sums(self.kernel_values(rows)), bounds)
        if self.kernel.unit_rows:
            normalized: Formula = CosineKernel.normalized
            rows = normalized(TensorValue(rows)).tensor
        return Bounded(rows @ self.weights + self.intercept, bounds)

    def kernel_values(self, rows: Tensor) -> Tensor:
        values: Formula = self.kernel.values
        return values(TensorValue(rows.double()), TensorValue(self.table)).tensor

    def _logarithms(self, rows: Tensor) -> Tensor:
        exponents: Formula = self.kernel.exponents
        xp = TorchOps(rows.device)
        return exponents(xp.squared_distances(TensorValue(rows), TensorValue(self.table))).tensor


class ExactBound(Buffers):
    """`ExactRounding.bounds` on tensors.

    Parameters
    ----------
    rounding : ExactRounding
    """

    def __init__(self, rounding: ExactRounding) -> None:
        super().__init__()
        self.rounding = rounding
        self.unsound = not bool(np.isfinite(rounding.constant).all())
        plain = rounding.polynomial or rounding.by_differences or not len(rounding.weight)
        self.hold(
            weight=SAFETY * UNIT * rounding.weight,
            constant=rounding.constant,
            finish=np.zeros(0) if plain else rounding.numbers(),
        )

    def forward(self, squares: Tensor) -> Tensor:
        """Bounds of shape (m, k) from |u|^2 of shape (m,)."""
        formula: Formula = self.rounding.bounds
        found = formula(TensorValue(squares), self.rounding.length)
        if not isinstance(found, Factored):
            return found.tensor
        row: Any = found.row
        bounds = row.tensor[:, None] * self.weight + self.constant
        return torch.where(bounds.isnan(), math.inf, bounds) if self.unsound else bounds

    def far(self, squares: Tensor) -> Tensor:
        """Rows so far from all centers that f is b."""
        formula: Formula = self.rounding.far
        return formula(TensorValue(squares)).tensor

    def relative(self, squares: Tensor) -> Tensor:
        """What the weights are multiplied with, shape (m,); not for a polynomial kernel."""
        formula: Formula = self.rounding.relative
        return formula(TensorValue(squares), self.rounding.length).tensor
