"""Sums of any kernel's values by compiled loops: a kernel is a sum of products of factors.

    sum_i A_i k(x_i, z),    k = sum_p a_p prod_q k_pq

A factor of distances goes by panels of centers, with its own profile in the loop, and one output's
sums stay in registers (`kernels.radial`). Products x.z come from BLAS, tile by tile, and a function
follows in place (`kernels.exp`). Products of factors go by tiles of values.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from kernelite.backends.cpu.exact_rounding import CENTERS
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.kernels.providers import provides
from kernelite.backends.cpu.threads import share_rows, thread_count
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine import kernels as kl
from kernelite.support.records import dataclass

__all__ = ["SUMS_PER_EXPONENTIAL", "Factor", "FusedPointwise"]

ROWS_PER_POINTWISE_TILE = 64  # with CENTERS a tile of kernel values: a quarter of a megabyte
LEAST_POINTWISE_WORK = 1e6  # multiply-adds that are worth a thread: some tens of microseconds
LEAST_POINTWISE_ROWS = 24  # that a thread takes at once
CACHED_POINTWISE_NUMBERS = 1 << 15  # of rows that meet one panel after the other
SUMS_PER_EXPONENTIAL = 22.5  # multiply-adds of a product in the time of one kernel value
SERVED_SCALES = 1e-60, 1e60  # of distances, whose squares are scaled by one number
PRODUCT_LOOPS = {kl.SigmoidKernel: "sigmoid"}  # of others, the argument alone is compiled


@dataclass(frozen=True, eq=False)
class Factor:
    """Centers laid out for one kernel's loops; padded to whole panels by centers of no weight.

    Parameters
    ----------
    kernel : Kernel
        With a `statistic`, as `machine.kernels` states it.
    centers : ndarray
        Panels of centers, flat, scaled where features have scales of their own; of kernels of
        x.z, shape (d, n).
    numbers : tuple of two floats
        What the statistic is multiplied with, and the kernel's own number; of kernels of x.z,
        gamma and coef0.
    width : int
        Of whole panels, at least n.
    """

    kernel: kl.Kernel
    centers: FloatArray
    numbers: tuple[float, float]
    width: int

    @classmethod
    def prepare(cls, kernel: Any, centers: FloatArray) -> Factor | None:
        """Lay the centers out; None where there is no loop for the kernel."""
        if not jit_available() or not kernel.statistic or not len(centers):
            return None
        from kernelite.backends.cpu.kernels.radial import PANEL

        # The last center fills panels up: its kernel value is a number if any is.
        centers = np.pad(centers, ((0, -len(centers) % PANEL), (0, 0)), mode="edge")
        width = len(centers)
        if kernel.statistic == "products":
            return cls(kernel, np.ascontiguousarray(centers.T), (kernel.gamma, kernel.coef0), width)
        numbers = [getattr(kernel, name) for name in kernel.numbers]
        if not all(
            SERVED_SCALES[0] < number < SERVED_SCALES[1] for number in (kernel.scale, *numbers)
        ):
            return None
        if not _is_compiled(kernel):
            return None
        scale = kernel.scale
        if kernel.statistic == "squares":
            centers = centers if kernel.isotropic else kernel.scaled(centers)
            scale = scale**2 if kernel.isotropic else 1.0
        lines = centers.reshape(-1, PANEL, centers.shape[1]).transpose(0, 2, 1).ravel()
        return cls(kernel, lines, (scale, *numbers, 0.0)[:2], width)

    @cached_property
    def loop(self) -> Any:
        """Of a kernel of distances: what writes values, or sums them up."""
        return _loop(self.kernel)

    @cached_property
    def n_panels(self) -> int:
        """Whole panels of centers."""
        from kernelite.backends.cpu.kernels.radial import PANEL

        return self.width // PANEL

    @cached_property
    def by_products(self) -> bool:
        """Whether k is a function of x.z."""
        return self.kernel.statistic == "products"

    def seen(self, rows: FloatArray) -> FloatArray:
        """Rows as the loops take them."""
        return np.ascontiguousarray(self.kernel.taken(rows))

    def fill(self, rows: FloatArray, part: slice, tile: FloatArray) -> None:
        """tile[i, j] = k of some rows, as `seen` gives them, and some whole panels of centers."""
        if self.by_products:
            from kernelite.backends.cpu.kernels import exp

            name = PRODUCT_LOOPS.get(type(self.kernel))  # type: ignore[arg-type]
            np.matmul(rows, self.centers[:, part], out=tile)
            getattr(exp, name or "affine")(tile.reshape(-1), *self.numbers)
            if name is None:
                kernel: Any = self.kernel
                found = kernel.function(tile)
                if found is not tile:
                    tile[...] = found
            return
        from kernelite.backends.cpu.kernels.radial import PANEL

        which = part.start // PANEL, (part.stop - part.start) // PANEL
        self.loop(rows, self.centers, self.centers, *which, *self.numbers, False, tile)

    def add(self, rows: FloatArray, weights: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of one output and a function of distances, shape (m, 1)."""
        m, d = rows.shape
        given = self.centers, weights.reshape(-1), 0, self.n_panels, *self.numbers, True
        if m < LEAST_POINTWISE_ROWS:
            self.loop(self.seen(rows), *given, sums)
            return
        least = LEAST_POINTWISE_WORK / (self.width * (d + SUMS_PER_EXPONENTIAL))
        least = max(LEAST_POINTWISE_ROWS, int(least))
        for block in row_blocks(m, max(1, CACHED_POINTWISE_NUMBERS // d) * thread_count()):
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                own = self.seen(rows[block])
            share_rows(self.loop, len(own), least, own, *given, sums[block])


def _loop(kernel: Any) -> Any:
    """The compiled loop of a kernel of distances."""
    from kernelite.backends.cpu.kernels.radial import radial_kernel

    kind: Any = type(kernel)
    return radial_kernel(kind, tuple(getattr(kernel, name) for name in kernel.variants))


def _is_compiled(kernel: Any) -> bool:
    """Whether the kernel's profile is in a library, or can be compiled now."""
    from kernelite.backends.cpu.kernels.lanes import traceable
    from kernelite.backends.cpu.kernels.radial import stand_in

    variant = tuple(getattr(kernel, name) for name in kernel.variants)
    if not all(one in served for one, served in zip(variant, kernel.variants.values())):
        return False
    traced = traceable(lambda s: stand_in(type(kernel), variant, s).profile(s))
    return traced and provides(_loop(kernel).kernel)


@dataclass(frozen=True, eq=False)
class FusedPointwise:
    """Terms of a kernel, each with its factors and its weights.

    Parameters
    ----------
    terms : tuple of (factors, weights)
        Weights of shape (n, k) are coefficients times the amplitude of the term.
    """

    terms: tuple[tuple[tuple[Factor, ...], FloatArray], ...]

    @classmethod
    def prepare(
        cls, kernel: kl.Kernel, centers: FloatArray, coefficients: FloatArray
    ) -> FusedPointwise | None:
        """Lay the centers out; None where there is no loop for a factor of the kernel."""
        terms = []
        for amplitude, kernels in kernel.terms:
            made = (Factor.prepare(one, centers) for one in kernels)
            factors = tuple(factor for factor in made if factor is not None)
            if len(factors) < len(kernels):
                return None
            beyond = factors[0].width - len(centers)
            terms.append((factors, np.pad(amplitude * coefficients, ((0, beyond), (0, 0)))))
        return cls(tuple(terms))

    @cached_property
    def in_registers(self) -> bool:
        """Whether nothing but compiled loops is called."""
        return all(
            len(factors) == 1 and weights.shape[1] == 1 and not factors[0].by_products
            for factors, weights in self.terms
        )

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z) of dense rows, shape (m, k)."""
        for factors, weights in self.terms:
            if len(factors) > 1 or weights.shape[1] > 1 or factors[0].by_products:
                _add_tiles(factors, weights, rows, sums)
            else:
                factors[0].add(rows, weights, sums)


def _add_tiles(
    factors: tuple[Factor, ...], weights: FloatArray, rows: FloatArray, sums: FloatArray
) -> None:
    """sums += sum_i A_i prod_q k_q(x_i, z), tile by tile."""
    n = len(weights)
    seen = [factor.seen(rows) for factor in factors]
    # Of few rows, more centers at a time: calls would dominate.
    wide = CENTERS * max(1, 16 // max(len(rows), 1))
    room = np.empty((min(len(factors), 2), min(ROWS_PER_POINTWISE_TILE, len(rows)) * min(wide, n)))
    for block in row_blocks(len(rows), ROWS_PER_POINTWISE_TILE):
        for part in row_blocks(n, wide):
            shape = block.stop - block.start, part.stop - part.start
            tiles = [one[: shape[0] * shape[1]].reshape(shape) for one in room]
            factors[0].fill(seen[0][block], part, tiles[0])
            for factor, own in zip(factors[1:], seen[1:]):
                factor.fill(own[block], part, tiles[1])
                tiles[0] *= tiles[1]
            tile, own = tiles[0], weights[part]
            if shape[1] <= CENTERS:
                sums[block] += tile @ own
                continue
            for some in row_blocks(shape[1], CENTERS):
                sums[block] += tile[:, some] @ own[some]
