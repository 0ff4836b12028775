"""Sums of any kernel's values by compiled loops, which `LOOPS` names.

Radial kernels go by panels of centers, and one output's sums stay in registers (`kernels.radial`).
Products x.z come from BLAS, tile by tile, and a function follows in place (`kernels.pointwise`). A
sum of kernels is one such sum after the other, each with its own amplitude; a product of kernels
goes by tiles of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kernelite.backends.cpu.exact_rounding import CENTERS
from kernelite.backends.cpu.kernels.compiling import jit_available, ready
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine import kernels as kl
from kernelite.machine.kernels.exponential import CLOSED
from kernelite.support.records import dataclass

__all__ = ["FusedPointwise", "FusedProduct", "FusedSum"]

ROWS = 64  # with CENTERS a tile of kernel values: a quarter of a megabyte
SCALES = 1e-60, 1e60  # of distances, whose squares are scaled by one number


class Loop(NamedTuple):
    """A function of `kernels.radial` or `kernels.pointwise`, and what it is called with.

    Parameters
    ----------
    name : str
    a, b : float
        Its numbers.
    of : {"squares", "city", "products"}
        What it is a function of.
    factor : float
        What values still have to be multiplied with.
    """

    name: str
    a: float
    b: float = 0.0
    of: str = "squares"
    factor: float = 1.0


LOOPS: dict[type, Callable[[Any], Loop | None]] = {
    kl.Gaussian: lambda k: Loop("exponential", k.gamma),
    kl.Rbf: lambda k: Loop("exponential", 0.5 * k.scale**2),
    kl.Matern: lambda k: (
        Loop(f"matern_{int(2 * k.nu)}", math.sqrt(2.0 * k.nu) * k.scale) if k.nu in CLOSED else None
    ),
    kl.RationalQuadratic: lambda k: Loop("rational", k.scale**2 / (2.0 * k.alpha), k.alpha),
    kl.ExpSineSquared: lambda k: (
        Loop("periodic", k.scale, 2.0 / math.log(2.0) / k.length_scale**2)
        if SCALES[0] < k.length_scale < SCALES[1]
        else None
    ),
    kl.Multiquadric: lambda k: Loop("multiquadric", k.epsilon**2),
    kl.InverseMultiquadric: lambda k: Loop("inverse_multiquadric", k.epsilon**2),
    kl.InverseQuadratic: lambda k: Loop("inverse_quadratic", k.epsilon**2),
    kl.PowerSpline: lambda k: Loop(f"power_{k.power}", k.epsilon**2),
    kl.ThinPlateSpline: lambda k: Loop("thin_plate", k.epsilon**2, factor=0.5 * math.log(2.0)),
    kl.Laplacian: lambda k: Loop("exponential", k.gamma, of="city"),
    kl.SigmoidKernel: lambda k: Loop("sigmoid", k.gamma, k.coef0, "products"),
    kl.PolynomialKernel: lambda k: Loop("affine", k.gamma, k.coef0, "products"),
}


@dataclass(frozen=True, eq=False)
class FusedPointwise:
    """Centers laid out for one kernel's loops; padded to whole panels by centers of no weight.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray
        Panels of centers, flat, scaled where features have scales of their own; of kernels of
        x.z, shape (d, n).
    coefficients : ndarray of shape (n, k)
        Times the loop's factor.
    loop : Loop
    """

    kernel: kl.Kernel
    centers: FloatArray
    coefficients: FloatArray
    loop: Loop

    @classmethod
    def prepare(
        cls, kernel: kl.Kernel, centers: FloatArray, coefficients: FloatArray
    ) -> FusedPointwise | FusedProduct | FusedSum | None:
        """Lay the centers out; None where there is no loop for the kernel."""
        if not jit_available() or not len(centers):
            return None
        if isinstance(kernel, kl.SumKernel):
            parts = [
                cls.prepare(one, centers, amplitude * coefficients)
                for amplitude, one in zip(kernel.amplitudes, kernel.kernels)
            ]
            return FusedSum(tuple(parts)) if all(part is not None for part in parts) else None  # type: ignore[arg-type]
        if isinstance(kernel, kl.ProductKernel):
            # All weights are the first factor's; those of the others only say how values are scaled
            factors = [cls.prepare(one, centers, coefficients) for one in kernel.kernels]
            if not all(isinstance(factor, cls) for factor in factors):
                return None
            return FusedProduct(tuple(factors))  # type: ignore[arg-type]
        loop = _loop(kernel)
        if loop is None:
            return None
        if isinstance(kernel, kl.Radial) and not kernel.isotropic:
            centers = kernel.scaled(centers)
        return cls._laid_out(kernel, centers, loop.factor * coefficients, loop)

    @classmethod
    def _laid_out(
        cls, kernel: kl.Kernel, centers: FloatArray, coefficients: FloatArray, loop: Loop
    ) -> FusedPointwise:
        """Whole panels; the last center fills up, since its kernel value is a number if any is."""
        from kernelite.backends.cpu.kernels.radial import PANEL

        n, d = centers.shape
        panels = -(-n // PANEL)
        padded = np.empty((panels * PANEL, d))
        padded[:n], padded[n:] = centers, centers[-1]
        weights = np.zeros((panels * PANEL, coefficients.shape[1]))
        weights[:n] = coefficients
        if loop.of == "products":
            return cls(kernel, np.ascontiguousarray(padded.T), weights, loop)
        lines = padded.reshape(panels, PANEL, d).transpose(0, 2, 1).ravel()
        return cls(kernel, lines, weights, loop)

    @property
    def ready(self) -> bool:
        """Whether its kernels can be called."""
        return ready(self._function(summed=len(self.coefficients[0]) == 1))

    def _function(self, *, summed: bool) -> Any:
        """The compiled loop; of products, there is but one."""
        from kernelite.backends.cpu.kernels import pointwise, radial

        if self.loop.of == "products":
            return getattr(pointwise, self.loop.name)
        return radial.radial_kernel(self.loop.name, self.loop.of == "city", summed)

    def seen(self, rows: FloatArray) -> FloatArray:
        """Rows as the loops take them, scaled where features have scales of their own."""
        if isinstance(self.kernel, kl.Radial) and not self.kernel.isotropic:
            rows = self.kernel.scaled(rows)
        return np.ascontiguousarray(rows)

    def fill(self, rows: FloatArray, part: slice, tile: FloatArray) -> None:
        """tile[i, j] = k of some rows, as `seen` gives them, and some whole panels of centers."""
        function, loop = self._function(summed=False), self.loop
        if loop.of != "products":
            from kernelite.backends.cpu.kernels.radial import PANEL

            which = part.start // PANEL, (part.stop - part.start) // PANEL
            function(rows, self.centers, self.centers, *which, loop.a, loop.b, tile)
            return
        np.matmul(rows, self.centers[:, part], out=tile)
        function(tile.reshape(-1), loop.a, loop.b)
        if isinstance(self.kernel, kl.PolynomialKernel) and self.kernel.degree > 1:
            tile[...] = self.kernel.function(tile)

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        n, k = self.coefficients.shape
        if k > 1 or self.loop.of == "products":
            _add_tiles([self], self.coefficients, rows, sums)
            return
        from kernelite.backends.cpu.kernels.radial import PANEL

        function, weights = self._function(summed=True), self.coefficients.reshape(-1)
        numbers = self.loop.a, self.loop.b
        function(self.seen(rows), self.centers, weights, 0, n // PANEL, *numbers, sums)


def _loop(kernel: kl.Kernel) -> Loop | None:
    """What `LOOPS` says of a kernel; where features have scales of their own, rows are scaled."""
    if isinstance(kernel, kl.Radial):
        if not SCALES[0] < kernel.scale < SCALES[1]:
            return None
        if not kernel.isotropic:
            kernel = replace(kernel, length_scale=(1.0,))  # type: ignore[type-var]
    make = LOOPS.get(type(kernel))
    return None if make is None else make(kernel)


def _add_tiles(
    factors: Sequence[FusedPointwise], coefficients: FloatArray, rows: FloatArray, sums: FloatArray
) -> None:
    """sums += sum_i A_i prod_q k_q(x_i, z), tile by tile."""
    n = len(coefficients)
    seen = [factor.seen(rows) for factor in factors]
    size = min(ROWS, len(rows)) * min(CENTERS, n)
    room = np.empty((min(len(factors), 2), size))
    for block in row_blocks(len(rows), ROWS):
        for part in row_blocks(n, CENTERS):
            shape = block.stop - block.start, part.stop - part.start
            tiles = [one[: shape[0] * shape[1]].reshape(shape) for one in room]
            factors[0].fill(seen[0][block], part, tiles[0])
            for factor, own in zip(factors[1:], seen[1:]):
                factor.fill(own[block], part, tiles[1])
                tiles[0] *= tiles[1]
            sums[block] += tiles[0] @ coefficients[part]


@dataclass(frozen=True, eq=False)
class FusedProduct:
    """A product of kernels: tile by tile, one factor after the other."""

    factors: tuple[FusedPointwise, ...]

    @property
    def ready(self) -> bool:
        """Whether its kernels can be called."""
        kernels = [factor._function(summed=False) for factor in self.factors]
        return all(ready(kernel) for kernel in kernels)

    @cached_property
    def coefficients(self) -> FloatArray:
        """A_i times what values of the other factors have to be multiplied with."""
        scale = math.prod(factor.loop.factor for factor in self.factors[1:])
        return scale * self.factors[0].coefficients

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        _add_tiles(self.factors, self.coefficients, rows, sums)


@dataclass(frozen=True, eq=False)
class FusedSum:
    """A sum of kernels: one after the other."""

    parts: tuple[FusedPointwise | FusedProduct, ...]

    @property
    def ready(self) -> bool:
        """Whether its kernels can be called."""
        return all(part.ready for part in self.parts)

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        for part in self.parts:
            part.add(rows, sums)
