"""Several outputs' exact sums in double precision: kernel values from panels, then their weights.

Kernel values of a tile of rows and centers are written once and multiplied with the coefficients
while they are in cache. One-vs-one centers stand class by class and have K - 1 coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.exact_rounding import CENTERS
from kernelite.cpu.fused_sums import MOST_NUMBERS
from kernelite.cpu.kernels.compiling import ready
from kernelite.cpu.panels import Layout, Panels
from kernelite.machine.pairs import classes_of_centers, columns_of_class, n_classes, sides_of_pairs
from kernelite.rows.inputs import FloatArray, row_blocks

__all__ = ["FusedValues"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Coefficients of the centers from `start` to `stop`, and the columns that they go to."""

    start: int
    stop: int
    columns: slice
    coefficients: FloatArray


@dataclass(frozen=True, eq=False)
class FusedValues:
    """An expansion of several outputs in panels of double precision.

    Parameters
    ----------
    panels : Panels
    weights : tuple of Weights
        In the order of the centers. One-vs-one: K - 1 columns per class.
    sides : ndarray of shape (2, k), optional
        One-vs-one: where the two classes of a pair have their sums.
    """

    panels: Panels
    weights: tuple[Weights, ...]
    sides: NDArray[np.intp] | None

    @classmethod
    def prepare(cls, layout: Layout, coefficients: FloatArray) -> FusedValues | None:
        """Lay the centers out; None where they would take gigabytes."""
        from kernelite.cpu.kernels.exp2 import DOUBLE

        n, k = coefficients.shape
        if layout.shifted.size > MOST_NUMBERS or not n:
            return None
        owner = classes_of_centers(coefficients)
        K = n_classes(k) or 1
        kinds = [np.arange(n)] if owner is None else [np.flatnonzero(owner == c) for c in range(K)]
        weights, first = [], 0
        for c, kind in enumerate(kinds):
            columns = slice(0, k) if owner is None else slice(c * (K - 1), (c + 1) * (K - 1))
            mine = columns if owner is None else columns_of_class(K, c)
            own = coefficients[kind][:, mine]
            for part in row_blocks(len(kind), CENTERS):
                held = np.ascontiguousarray(own[part])
                weights.append(Weights(first + part.start, first + part.stop, columns, held))
            first += len(kind)
        order = np.concatenate(kinds)
        panels = Panels.lay_out(layout, DOUBLE, [order], np.zeros(n))
        return cls(panels, tuple(weights), None if owner is None else sides_of_pairs(K))

    @property
    def ready(self) -> bool:
        """Whether its kernels are compiled; if not, that is begun."""
        from kernelite.cpu.kernels import panel_rows
        from kernelite.cpu.kernels import panels as panels_kernels

        kernels = [panel_rows.double_rows, panels_kernels.double_values]
        return all([ready(kernel) for kernel in kernels])  # noqa: C419  # begin them all

    def add(self, rows: FloatArray, out: FloatArray) -> FloatArray:
        """out += sums without intercept, shape (m, k); returns |u|^2, shape (m,)."""
        from kernelite.cpu.kernels import panel_rows
        from kernelite.cpu.kernels import panels as panels_kernels

        rows, panels, layout = np.ascontiguousarray(rows), self.panels, self.panels.layout
        precision, width = panels.precision, panels.precision.panel
        w, shifts = np.empty((len(rows), len(layout.order))), np.empty(len(rows))
        norms = np.empty((len(rows), 2))
        panel_rows.double_rows(rows, layout.point, layout.order, layout.g, w, shifts, norms)
        per_center, step = len(layout.order), CENTERS // width
        tile: NDArray[Any] = np.empty((len(rows), CENTERS))
        sums = out if self.sides is None else np.zeros((len(rows), 2 * self.sides.shape[1]))
        for first in range(0, int(panels.starts[-1]), step):
            count = min(step, int(panels.starts[-1]) - first)
            a, b = first * width, (first + count) * width
            lines, exponents = panels.lines[a * per_center : b * per_center], panels.exponents[a:b]
            starts = np.array([0, count], dtype=np.int64)
            panels_kernels.double_values(w, shifts, lines, exponents, starts, precision.rows, tile)
            for weight in self.weights:
                start, stop = max(weight.start, a), min(weight.stop, b)
                if start < stop:
                    own = weight.coefficients[start - weight.start : stop - weight.start]
                    sums[:, weight.columns] += tile[:, start - a : stop - a] @ own
        if self.sides is not None:
            for side in self.sides:
                out += sums[:, side]
        return norms[:, 0]
