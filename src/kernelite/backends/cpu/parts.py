"""A model of several parts: all forms first, then ever more parts exactly until rows are settled.

scores[:, outputs_p] += f_p(z),   bounds likewise;   what settles a row is the head of them all
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.approximation import FirstForms
from kernelite.backends.cpu.exact import FewerDigits
from kernelite.backends.cpu.exact_dense import WIDEST_PANEL_FEATURES, DenseExact
from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.cpu.fused_sums import (
    LEAST_SUM_ROWS,
    LEAST_SUM_WORK,
    MOST_PANEL_NUMBERS,
    rbf_sums,
)
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.local import NearCenters
from kernelite.backends.cpu.panels import (
    Layout,
    aligned,
    feature_order,
    feature_sums,
    middle,
    shown_centers,
)
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.program.bounded import EXACT, FIRST, Bounded, spelled_out
from kernelite.program.cascade import Asked, Cascade, Found, Room
from kernelite.program.criteria import Criterion
from kernelite.series.rounding import sum_error
from kernelite.support.records import dataclass

__all__ = [
    "FusedParts",
    "PartRows",
    "PartStages",
    "PartsExactly",
    "PartsLayout",
    "SumOfParts",
    "sum_stages",
    "together_stages",
]

FEW_JUDGED_ROWS = 16  # rows for which judging takes longer than evaluating one more part


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of each part: the same ones, unless transformers stand before a part."""

    rows: tuple[Rows, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(m, the features of all parts together): what a block of rows takes."""
        return self.rows[0].shape[0], sum(rows.shape[1] for rows in self.rows)

    def __getitem__(self, index: Any) -> PartRows:
        return PartRows(tuple(rows[index] for rows in self.rows))


@dataclass(frozen=True, eq=False)
class PartStages:
    """A part made ready to run.

    Parameters
    ----------
    early : Cascade
        What runs first: forms, or near centers and then all; the exact model where that is the
        part's plan.
    whole : Cascade
        All stages of the part, for bounds.
    outputs : ndarray of int
        Where its scores are added.
    criterion : callable, optional
        What the part alone would have to decide: its second form works on those rows. None where
        the exact model is the plan.
    has_more : bool
        Whether the exact model has still to be asked for rows that stay open.
    valid : callable, optional
        Which rows are inside the validity bound of its forms.
    """

    early: Cascade
    whole: Cascade
    outputs: NDArray[np.int64]
    criterion: Criterion | None
    has_more: bool
    valid: Callable[[Bounded], NDArray[np.bool_] | None] | None = None

    @classmethod
    def of(
        cls,
        whole: Cascade,
        outputs: NDArray[np.int64],
        criterion: Criterion | None,
        *,
        has_exact: bool,
        first: FirstForms | None = None,
        near: NearCenters | None = None,
    ) -> PartStages:
        """The early stages of a cascade, and all; single precision is for whole models only."""
        last = whole.stages[-1]
        if first is not None:
            forms = tuple(s for s in whole.stages if not s.name.startswith(EXACT))
            early = Cascade(forms, answers_all=False)
            return cls(early, whole, outputs, criterion, has_exact, first.valid)
        if near is not None:
            return cls(Cascade((near, last)), whole, outputs, criterion, True)
        return cls(Cascade((last,)), whole, outputs, None, False)


def sum_stages(
    parts: tuple[PartStages, ...], n_outputs: int
) -> tuple[SumOfParts | PartsExactly, ...]:
    """All parts once, then one part exactly, two more, four more: judging takes time as well."""
    first = SumOfParts(parts, n_outputs)
    left = [number for number, part in enumerate(parts) if part.has_more]
    more: list[PartsExactly] = []
    while left:
        count = 1 << len(more)
        more.append(PartsExactly(first, tuple(left[:count]), last=count >= len(left)))
        left = left[count:]
    return (first, *more)


@dataclass(frozen=True, eq=False)
class SumOfParts:
    """Parts side by side; their scores are added up where they share an output."""

    parts: tuple[PartStages, ...]
    n_outputs: int
    accepts_all = True

    @property
    def name(self) -> str:
        """What statistics call it."""
        early = [part.has_more or part.valid is not None for part in self.parts]
        return FIRST if any(early) else EXACT

    def run(
        self, rows: PartRows, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Bounded:
        """Scores and bounds of all parts, as far as their early stages go."""
        prove = criterion is not None
        each = tuple(
            part.early.run(own, part.criterion if prove else None)
            for part, own in zip(self.parts, rows.rows)
        )
        inside = [part.valid and part.valid(found) for part, found in zip(self.parts, each)]
        valid = [one for one in inside if one is not None]
        scores, bounds = self.total(each)
        return Bounded(
            scores,
            bounds,
            valid=np.all(valid, axis=0) if valid else None,
            parts=tuple(_spelled(found) for found in each),
        )

    def bound(self, rows: PartRows, criterion: Criterion | None) -> FloatArray:
        """The bound of each row and output, exact parts included: those run in doubles."""
        each = []
        for part, own in zip(self.parts, rows.rows):
            bounds = part.whole.bounds(own, None)
            scores = part.early.run(own, None).scores
            # Whatever serves the row in the end, its score is no larger than that.
            each.append(Bounded(np.abs(scores) + bounds, bounds))
        total = self.total(tuple(each))[1]
        assert total is not None
        return total

    def total(self, each: tuple[Bounded, ...]) -> tuple[FloatArray, FloatArray | None]:
        """Scores and bounds of all parts, added up; adding rounds, and the bounds hold that."""
        shape = (len(each[0].scores), self.n_outputs)
        scores, bounds, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for part, found in zip(self.parts, each):
            scores[:, part.outputs] += found.scores
            size[:, part.outputs] += np.abs(found.scores)
            if found.bounds is not None:
                bounds[:, part.outputs] += spelled_out(found.bounds)
        if any(found.bounds is None for found in each):
            return scores, None
        unit = sum_error(len(self.parts))
        return scores, bounds * (1.0 + unit) + unit * size


@dataclass(frozen=True, eq=False)
class PartsExactly:
    """More parts are evaluated exactly; the others keep what they found.

    Parameters
    ----------
    whole : SumOfParts
    numbers : tuple of int
        Which parts.
    last : bool
        Whether no others follow. Few rows wait for that, and get all parts at once.
    """

    whole: SumOfParts
    numbers: tuple[int, ...]
    last: bool
    name = EXACT
    accepts_all = True

    def run(
        self, rows: PartRows, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """Scores and bounds of all parts, those of these from their last stages."""
        few = rows.shape[0] <= FEW_JUDGED_ROWS
        if previous is None or (few and not self.last):
            return None
        parts, each = self.whole.parts, list(previous.parts)
        all_left = (number for number, part in enumerate(parts) if part.has_more)
        for number in all_left if few else self.numbers:
            exact = parts[number].whole.stages[-1].run(rows.rows[number], None, None)
            assert exact is not None
            each[number] = _spelled(exact)
        scores, bounds = self.whole.total(tuple(each))
        return Bounded(scores, bounds, parts=tuple(each))

    def bound(self, rows: PartRows, criterion: Criterion | None) -> None:
        """The sum of the parts' bounds holds for it too."""
        return None


def together_stages(parts: PartsLayout | None) -> tuple[FewerDigits, ...]:
    """Single precision, then quick exponentials; none where parts cannot be summed together."""
    if parts is None:
        return ()
    return tuple(FewerDigits(parts, quick, values=True) for quick in (False, True))


def _spelled(found: Bounded) -> Bounded:
    if found.bounds is None:
        return found
    return found._replace(bounds=spelled_out(found.bounds))


# Several machines on the same rows in one call: calibration folds, one-vs-one, bags of SVCs.
#
# Their kernels may differ in gamma, as those of gamma="scale" on different rows do. All centers
# stand about one point, so that a row is made ready once; then each machine is summed as
# `fused_sums` does, with its own bound. Scores that share an output are added up, and the bounds
# hold that rounding.


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
        Of `kernels.panel_sums`.
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
        from kernelite.backends.cpu.kernels.panel_sums import PART_SCORES

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
