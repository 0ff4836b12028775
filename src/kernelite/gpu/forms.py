"""Quadratic forms, full and truncated, with their certificates: in torch operations or one kernel.

    f^(z) = E (c + v.u + u'Mu) + b,    u = z - p,    E = exp(-gamma |u|^2), or 1 for "poly2"

In: rows of shape (m, d), doubles or singles (which are doubles without rounding). Out: `Bounded`.
All is computed in doubles; `kernels.form` does the same in one pass where it serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from kernelite.gpu.buffers import Bounded, Buffers, Tensor
from kernelite.gpu.form_layout import KernelLayout
from kernelite.series.cells import Approximation, Cell
from kernelite.series.certificate import Certificate
from kernelite.series.rounding import SAFETY, UNIT, square_error
from kernelite.series.spectral import SpectralForm

__all__ = ["CellForm", "Forms", "lower_gamma"]

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


# The forms themselves: of one cell, and of all.


class CellForm(Buffers):
    """One cell's form and its bound.

    Parameters
    ----------
    cell : Cell
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        form = cell.form
        self.gamma, self.radial = form.gamma, form.kernel == "rbf"
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
        self.bound = None if cell.certificate is None else FormBound(cell.certificate)
        self.layout = KernelLayout(cell) if KernelLayout.serves(cell) else None

    def forward(self, rows: Tensor) -> tuple[Bounded, Tensor]:
        """Scores and bounds, and |u|^2 of shape (m,), in torch operations."""
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
        return Bounded(scores, torch.where(squares[:, None] < math.inf, bounds, math.inf)), squares

    def valid(self, squares: Tensor) -> Tensor:
        """Rows inside the paper's validity bound, shape (m,)."""
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


class Forms(Buffers):
    """All cells of an approximation: each row is answered by the nearest.

    Parameters
    ----------
    approximation : Approximation
    """

    def __init__(self, approximation: Approximation) -> None:
        super().__init__()
        self.cells = torch.nn.ModuleList([CellForm(cell) for cell in approximation.cells])
        points = approximation.points
        self.hold(points=points, half_norms=0.5 * np.einsum("ij,ij->i", points, points))

    def forward(self, rows: Tensor, *, kernel: bool = False) -> Bounded:
        """Scores and bounds; by the Triton kernel if asked for and if it serves the form."""
        if len(self.cells) == 1:
            cell = self.cells[0]
            if kernel and cell.layout is not None:
                return cell.layout(rows)
            return cell(rows)[0]
        return Bounded(*self._each(rows, lambda cell, part: cell(part)[0]))

    def valid(self, rows: Tensor) -> Tensor:
        """Rows inside the paper's validity bound, shape (m,)."""

        def one(cell: CellForm, part: Tensor) -> tuple[Tensor]:
            return (cell.valid(((part.double() - cell.point) ** 2).sum(dim=1)),)

        return self._each(rows, one)[0]

    def _each(self, rows: Tensor, run: Callable[[Any, Tensor], tuple[Tensor, ...]]) -> list[Tensor]:
        """What `run` finds for the rows of each cell, in the rows' order."""
        nearness = torch.nan_to_num(rows.double() @ self.points.T - self.half_norms)
        cell_of_row = nearness.argmax(dim=1)
        places = [torch.nonzero(cell_of_row == i)[:, 0] for i in range(len(self.cells))]
        parts = [run(cell, rows[mine]) for cell, mine in zip(self.cells, places)]
        back = torch.argsort(torch.cat(places))
        return [torch.cat(columns)[back] for columns in zip(*parts)]
