"""Several machines on the same rows in one call: calibration folds, one-vs-one, bags of SVCs.

Their kernels may differ in gamma, as those of gamma="scale" on different rows do. All centers stand
about one point, so that a row is made ready once; then each machine is summed as `fused_sums` does,
with its own bound. Scores that share an output are added up, and the bounds hold that rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact_dense import WIDEST_PANEL_FEATURES, DenseExact
from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.fused_sums import (
    LEAST_SUM_ROWS,
    LEAST_SUM_WORK,
    MOST_PANEL_NUMBERS,
    rbf_sums,
)
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.panels import (
    Layout,
    aligned,
    feature_order,
    feature_sums,
    middle,
    shown_centers,
)
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray, is_sparse
from kernelite.program.criteria import Criterion
from kernelite.series.rounding import sum_error
from kernelite.support.records import dataclass

__all__ = ["FusedParts", "PartsLayout"]


@dataclass(frozen=True, eq=False)
class PartsLayout:
    """Machines of one output about a common point.

    Parameters
    ----------
    layouts : tuple of Layout
        With the same point and order.
    roundings : tuple of ExactRounding
    outputs : ndarray of shape (P,)
        Where the score of each machine is added.
    n_outputs : int
        k.
    """

    layouts: tuple[Layout, ...]
    roundings: tuple[ExactRounding, ...]
    outputs: NDArray[np.int64]
    n_outputs: int
    steady: ClassVar[bool] = True
    doubles_are_quick: ClassVar[bool] = False

    @classmethod
    def of(
        cls, engines: Sequence[Any], outputs: Sequence[NDArray[np.int64]], n_outputs: int
    ) -> PartsLayout | None:
        """Lay the centers of all engines out; None where panels cannot serve some of them."""
        dense = [engine.dense for engine in engines]
        if not jit_available() or not all(isinstance(one, DenseExact) for one in dense):
            return None
        for one in dense:
            e, rounding = one.expansion, one.rounding
            served = e.kernel.damps and e.n_outputs == 1 and rounding.in_range
            if not served or not e.coefficients.any() or e.n_features > WIDEST_PANEL_FEATURES:
                return None
        widths = {one.expansion.n_features for one in dense}
        if len(widths) > 1 or sum(one.expansion.centers.size for one in dense) > MOST_PANEL_NUMBERS:
            return None
        centers = [one.expansion.dense_centers() for one in dense]
        point = middle(np.concatenate(centers))
        order = feature_order(np.sum([feature_sums(point, own)[0] for own in centers], axis=0))
        layouts = tuple(
            Layout(point, order, own, one.expansion.gamma, 1.0) for own, one in zip(centers, dense)
        )
        roundings = tuple(one.rounding for one in dense)
        return cls(layouts, roundings, np.concatenate(outputs).astype(np.int64), n_outputs)

    @property
    def n_numbers(self) -> int:
        """Numbers of all centers."""
        return sum(layout.size for layout in self.layouts)

    @cached_property
    def shown(self) -> FloatArray:
        """Some centers, as rows like those to come."""
        return shown_centers(self.layouts[0].centers)

    def fewer_digits(
        self, rows: Any, criterion: Criterion, *, quick: bool
    ) -> tuple[FusedParts, FloatArray] | None:
        """What sums up all machines, and the rows that they share, if these are dense."""
        sums, shared = self.quick if quick else self.single, rows.rows[0]
        return None if sums is None or is_sparse(shared) else (sums, shared)

    @cached_property
    def single(self) -> FusedParts | None:
        """In single precision."""
        from kernelite.backends.cpu.kernels.exp2 import SINGLE

        return FusedParts.prepare(self, SINGLE)

    @cached_property
    def quick(self) -> FusedParts | None:
        """In doubles with quick exponentials."""
        from kernelite.backends.cpu.kernels.exp2 import QUICK

        return FusedParts.prepare(self, QUICK)


@dataclass(frozen=True, eq=False)
class FusedParts:
    """Machines laid out in panels of one precision.

    Parameters
    ----------
    parts : PartsLayout
    kernel : callable
        Of `kernels.part_sums`.
    fixed : tuple
        What it takes between rows and answers.
    """

    parts: PartsLayout
    kernel: Any
    fixed: tuple[Any, ...]
    most_error: ClassVar[float] = math.inf  # not known

    @classmethod
    def prepare(cls, parts: PartsLayout, precision: Any) -> FusedParts | None:
        """Lay the panels out; None where numbers would not fit."""
        from kernelite.backends.cpu.kernels.part_sums import PART_SCORES

        found = [
            rbf_sums(rounding, layout, precision)
            for rounding, layout in zip(parts.roundings, parts.layouts)
        ]
        each = [one for one in found if one is not None]
        if len(each) < len(found):
            return None
        centers = np.cumsum([0, *(len(one.panels.exponents) for one in each)])
        blocks = np.cumsum([0, *(one.panels.n_blocks for one in each)])
        places = np.stack([centers[:-1], centers[1:], blocks[:-1], blocks[1:], parts.outputs], 1)
        shared = len(set(parts.outputs.tolist())) < len(parts.outputs)
        first = parts.layouts[0]
        fixed = (
            *(first.point, first.order, np.array([layout.g for layout in parts.layouts])),
            np.ascontiguousarray(places, dtype=np.int64),
            aligned(np.concatenate([one.panels.lines for one in each])),
            aligned(np.concatenate([one.panels.exponents for one in each])),
            np.concatenate([one.panels.starts for one in each]),
            np.concatenate([one.signs for one in each]),
            np.concatenate([one.terms for one in each]),
            np.stack([one.constants for one in each]),
            sum_error(len(each)) if shared else 0.0,
        )
        return cls(parts, PART_SCORES[precision], fixed)

    def run(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and bounds, each of shape (m, k)."""
        shape = len(rows), self.parts.n_outputs
        scores, bounds = np.empty(shape), np.empty(shape)
        rows = np.ascontiguousarray(rows)
        share_rows(self.kernel, len(rows), self._least_rows, rows, *self.fixed, scores, bounds)
        return scores, bounds

    @cached_property
    def _least_rows(self) -> int:
        """Rows that are worth a thread."""
        return max(LEAST_SUM_ROWS, int(LEAST_SUM_WORK / max(self.parts.n_numbers, 1)))
