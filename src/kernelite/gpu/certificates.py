"""Certificates in torch operations: what `approximation.certificate` computes, on the rows' device.

    bound = rho sqrt(P(3, 2 gamma |u|^2)) + rounding(|u|)        shape (m, k), doubles

The constants come from the model's own certificate; the formulas are those of
`approximation.rounding` and `approximation.remainder`, and a test compares them.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from kernelite.gpu.buffers import Buffers, Tensor
from kernelite.series.certificate import Certificate
from kernelite.series.rounding import SAFETY, UNIT, square_error

__all__ = ["FormBound", "lower_gamma"]

SERIES = 20  # terms beyond the first, as in `approximation.remainder`


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
