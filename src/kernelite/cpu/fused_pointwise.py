"""Sums of any kernel's values, tile by tile in cache: distances, a function in place, weights.

One table says which loop of `kernels.pointwise` serves which kernel. Products x.z come from BLAS.
A sum of kernels is one such sum after the other, each with its own amplitude.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.cpu.exact_rounding import CENTERS
from kernelite.cpu.kernels.compiling import jit_available, ready
from kernelite.machine import kernels as kl
from kernelite.rows.inputs import FloatArray, row_blocks

__all__ = ["FusedPointwise", "FusedProduct", "FusedSum"]

ROWS = 128  # with CENTERS a tile of kernel values: half a megabyte
SCALES = 1e-60, 1e60  # of distances, whose squares are scaled by one number

# The loop, its two numbers, and the loop that makes its distances; none where it takes products.
Loop = tuple[str, float, float, str | None]
LOOPS: dict[type, Callable[[Any], Loop | None]] = {
    kl.Rbf: lambda k: ("exponential", 0.5 * k.scale**2, 0.0, "square_distances"),
    kl.Matern: lambda k: (
        (f"matern_{int(2 * k.nu)}", math.sqrt(2.0 * k.nu) * k.scale, 0.0, "square_distances")
        if k.proven
        else None
    ),
    kl.RationalQuadratic: lambda k: (
        *("rational", k.scale**2 / (2.0 * k.alpha), k.alpha),
        "square_distances",
    ),
    kl.Multiquadric: lambda k: ("multiquadric", k.epsilon**2, 0.0, "square_distances"),
    kl.InverseMultiquadric: lambda k: (
        *("inverse_multiquadric", k.epsilon**2, 0.0),
        "square_distances",
    ),
    kl.InverseQuadratic: lambda k: ("inverse_quadratic", k.epsilon**2, 0.0, "square_distances"),
    kl.PowerSpline: lambda k: ("power_spline", k.epsilon**2, float(k.power), "square_distances"),
    kl.ThinPlateSpline: lambda k: ("thin_plate", k.epsilon**2, 0.0, "square_distances"),
    kl.Laplacian: lambda k: ("exponential", k.gamma, 0.0, "city_distances"),
    kl.SigmoidKernel: lambda k: ("sigmoid", k.gamma, k.coef0, None),
    kl.PolynomialKernel: lambda k: ("affine", k.gamma, k.coef0, None),
}


@dataclass(frozen=True, eq=False)
class FusedPointwise:
    """Centers laid out for one kernel's loops.

    Parameters
    ----------
    kernel : Kernel
    centers : ndarray of shape (d, n)
        A line per feature, scaled where features have scales of their own.
    coefficients : ndarray of shape (n, k)
    loop : tuple
        As in `LOOPS`.
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
        if not jit_available():
            return None
        if isinstance(kernel, kl.SumKernel):
            parts = [
                cls.prepare(one, centers, amplitude * coefficients)
                for amplitude, one in zip(kernel.amplitudes, kernel.kernels)
            ]
            return FusedSum(tuple(parts)) if all(part is not None for part in parts) else None  # type: ignore[arg-type]
        if isinstance(kernel, kl.ProductKernel):
            factors = [cls.prepare(one, centers, coefficients) for one in kernel.kernels]
            if not all(isinstance(factor, cls) for factor in factors):
                return None
            return FusedProduct(tuple(factors), coefficients)  # type: ignore[arg-type]
        make = LOOPS.get(type(kernel))
        loop = None if make is None else make(kernel)
        if loop is None:
            return None
        if isinstance(kernel, kl.Radial):
            if not SCALES[0] < kernel.scale < SCALES[1]:
                return None
            if not kernel.isotropic:
                centers = kernel.scaled(centers)
                unscaled = LOOPS[type(kernel)](_unscaled(kernel))
                assert unscaled is not None
                loop = unscaled
        return cls(kernel, np.ascontiguousarray(centers.T), coefficients, loop)

    @property
    def ready(self) -> bool:
        """Whether its kernels are compiled; if not, that is begun."""
        return all([ready(one) for one in self._kernels()])  # noqa: C419  # begin them all

    def _kernels(self) -> list[Any]:
        from kernelite.cpu.kernels import pointwise

        names = [name for name in (self.loop[0], self.loop[3]) if name is not None]
        return [getattr(pointwise, name) for name in names]

    def seen(self, rows: FloatArray) -> FloatArray:
        """Rows as the loops take them, scaled where features have scales of their own."""
        if isinstance(self.kernel, kl.Radial) and not self.kernel.isotropic:
            rows = self.kernel.scaled(rows)
        return np.ascontiguousarray(rows)

    def fill(self, rows: FloatArray, part: slice, tile: FloatArray) -> None:
        """tile[i, j] = k of some rows, as `seen` gives them, and some centers."""
        function, *distances = self._kernels()
        if distances:
            distances[0](rows, self.centers, part.start, part.stop - part.start, tile)
        else:
            np.matmul(rows, self.centers[:, part], out=tile)
        function(tile.reshape(-1), self.loop[1], self.loop[2])
        if isinstance(self.kernel, kl.PolynomialKernel) and self.kernel.degree > 1:
            tile[...] = self.kernel.function(tile)

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        _add_tiles([self], self.coefficients, rows, sums)


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
    coefficients: FloatArray

    @property
    def ready(self) -> bool:
        """Whether all kernels are compiled; if not, that is begun."""
        return all([factor.ready for factor in self.factors])  # noqa: C419  # begin them all

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        _add_tiles(self.factors, self.coefficients, rows, sums)


@dataclass(frozen=True, eq=False)
class FusedSum:
    """A sum of kernels: one after the other."""

    parts: tuple[FusedPointwise | FusedProduct, ...]

    @property
    def ready(self) -> bool:
        """Whether all kernels are compiled; if not, that is begun."""
        return all([part.ready for part in self.parts])  # noqa: C419  # begin them all

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        for part in self.parts:
            part.add(rows, sums)


def _unscaled(kernel: Any) -> Any:
    """The same kernel for coordinates that are scaled already."""
    from dataclasses import replace

    return replace(kernel, length_scale=(1.0,))
