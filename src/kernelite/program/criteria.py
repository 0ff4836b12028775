"""When a row is settled: what each guarantee asks before it accepts a form's scores.

In: scores and bounds of shape (m, k). Out: which rows need no further tier. A criterion is an
object that engines may look into; one kind for each question that is asked of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads import Head
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.ops import ops
from kernelite.support.records import dataclass

__all__ = [
    "PROBABILITY_TOLERANCE",
    "And",
    "Close",
    "Criterion",
    "LabelMargin",
    "Margin",
    "Proven",
    "SameAnswer",
    "Within",
    "decision_criterion",
    "decision_tolerance",
    "label_criterion",
    "never",
    "predict_criterion",
    "probability_criterion",
    "transform_criterion",
]

ENSEMBLE_TOLERANCE = 1e-3
PROBABILITY_TOLERANCE = 1e-3


class Rule(NamedTuple):
    """A criterion in numbers, so that a target may check it in one pass of its own.

    A row is settled if all of this holds, as far as it is asked:

    - |score - threshold| > bound (`by_bound`), of every score that there is;
    - |score - threshold| > margin, if that is not negative;
    - every bound is at most its tolerance, if that has any entries; one may do for all.
    """

    by_bound: bool
    threshold: float
    margin: float
    tolerance: FloatArray

    def settles(self, score: float, bound: float) -> bool:
        """Whether a row with one score is settled.

        Examples
        --------
        >>> Rule(True, 0.5, -1.0, NO_TOLERANCE).settles(0.75, 0.125)
        True
        """
        away = abs(score - self.threshold)
        if (self.by_bound and not away > bound) or (self.margin >= 0.0 and not away > self.margin):
            return False
        return not len(self.tolerance) or bool(bound <= self.tolerance[0])


NO_TOLERANCE = np.empty(0)


class Criterion:
    """What engines may ask of a criterion before they call it."""

    asks_bounds: ClassVar[bool] = True
    """Whether a row can be settled only by bounds; else scores are enough."""

    labels_alone: ClassVar[bool] = False
    """Whether labels are all that is asked for, so that scores need be no better than these."""

    labels_and_values: ClassVar[bool] = False
    """Whether values are asked for beside a proven label: few forms are good enough for both."""

    @property
    def on_scores(self) -> Criterion:
        """What is asked of a stage without bounds."""
        return self

    @property
    def voting_classes(self) -> NDArray[Any] | None:
        """Labels, where one is all that is asked for and the class with most votes is it."""
        return None

    @property
    def ties_to_first(self) -> bool:
        """Whether of several classes with most votes the first is the label."""
        return False

    @property
    def rule(self) -> Rule | None:
        """The same in numbers; None where it takes more than a `Rule` can say."""
        return None

    @property
    def enough(self) -> Rule | None:
        """Numbers that settle a row, though the criterion may settle more; None: there are none."""
        return self.rule

    @property
    def sufficient_bounds(self) -> FloatArray | None:
        """Bounds of shape (k,) which settle a row whatever its scores; None where scores matter."""
        return None

    @property
    def value_bounds(self) -> FloatArray | None:
        """Bounds of shape (k,) that values need, beside a label or alone; None where no such do."""
        return self.sufficient_bounds

    @property
    def asks_values(self) -> bool:
        """Whether values are to be within a tolerance, beside a label or alone."""
        return self.value_bounds is not None

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SameAnswer(Criterion):
    """The answer of a method is proven, as far as it consists of labels, votes or steps."""

    head: Head
    method: str = "predict"

    @cached_property
    def rule(self) -> Rule | None:
        """Where the sign of one score is the label, and nothing else is asked."""
        sign = self.head.by_sign
        if sign is None or self.method not in ("predict", "decision_function"):
            return None
        return Rule(True, sign.threshold, -1.0, NO_TOLERANCE)

    @cached_property
    def enough(self) -> Rule | None:
        """The sign of every pair, where it tells."""
        if self.rule is None and self.head.told_by_pairs(self.method):
            return Rule(True, 0.0, -1.0, NO_TOLERANCE)
        return self.rule

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        return self.head.same_answer(self.method, scores, bounds)


@dataclass(frozen=True, eq=False)
class Proven(Criterion):
    """The label is proven, and it is all that is asked for: scores need be no better than that.

    Parameters
    ----------
    decided : callable
        The head's own test.
    voting_classes : ndarray of shape (K,), optional
        The labels, where the class with most one-vs-one votes is the label.
    ties_to_first : bool
        Whether of several classes with most votes the first one is the label; else scores tell.
    """

    decided: Callable[[FloatArray, FloatArray], BoolArray]
    voting_classes: NDArray[Any] | None = None
    ties_to_first: bool = False
    labels_alone: ClassVar[bool] = True

    @cached_property
    def rule(self) -> Rule | None:
        """The head's."""
        return getattr(self.decided, "rule", None)

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        return self.decided(scores, bounds)


@dataclass(frozen=True, eq=False)
class Within(Criterion):
    """Every output's bound is at most its tolerance, whatever the scores.

    Parameters
    ----------
    tolerance : ndarray of shape (k,)
    """

    tolerance: FloatArray

    @property
    def sufficient_bounds(self) -> FloatArray:
        """The tolerance."""
        return self.tolerance

    @cached_property
    def rule(self) -> Rule:
        """The tolerance alone."""
        return Rule(False, 0.0, -1.0, np.array(self.tolerance, dtype=np.float64, ndmin=1))

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        return ops(bounds).all(bounds <= self.tolerance, axis=1)


@dataclass(frozen=True, eq=False)
class Close(Criterion):
    """What a method answers lies within the tolerance of both ends of where it can be."""

    head: Head
    method: str
    tolerance: FloatArray | float

    @property
    def asks_values(self) -> bool:
        """Yes."""
        return True

    @cached_property
    def enough(self) -> Rule | None:
        """Where a bound of every score suffices, or that and every pair's sign."""
        alone = self.head.sufficient_limit(self.method, self.tolerance)
        limit = self.head.limit_by_pairs(self.method, self.tolerance) if alone is None else alone
        return None if limit is None else Rule(alone is None, 0.0, -1.0, np.array([limit]))

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        return self.head.within(self.method, scores, bounds, self.tolerance)


@dataclass(frozen=True, eq=False)
class Margin(Criterion):
    """The calibrated rule, whatever the method: the margin is above a threshold that was tested."""

    head: Head
    threshold: float
    asks_bounds: ClassVar[bool] = False

    @cached_property
    def rule(self) -> Rule | None:
        """Where the margin is how far one score is from the threshold of its sign."""
        sign = self.head.by_sign
        if sign is None or self.threshold < 0.0:
            return None
        return Rule(False, sign.threshold, self.threshold, NO_TOLERANCE)

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        return self.head.margin(scores) > self.threshold


@dataclass(frozen=True, eq=False)
class LabelMargin(Criterion):
    """The calibrated rule where labels alone are asked for.

    A form has no bounds here, and its margin decides. What it leaves open is settled as soon as a
    label is proven, which takes fewer digits than a score.
    """

    head: Head
    threshold: float
    asks_bounds: ClassVar[bool] = False
    labels_alone: ClassVar[bool] = True

    @cached_property
    def on_scores(self) -> Criterion:
        """The margin."""
        return Margin(self.head, self.threshold)

    @cached_property
    def rule(self) -> Rule | None:
        """Where the label is the sign of one score."""
        sign = self.head.by_sign
        return None if sign is None else Rule(True, sign.threshold, -1.0, NO_TOLERANCE)

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled."""
        return self.head.same_answer("predict", scores, bounds)


@dataclass(frozen=True, eq=False)
class Never(Criterion):
    """No row is settled: the exact model answers."""

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """None."""
        return ops(scores).full((scores.shape[0],), False)


@dataclass(frozen=True, eq=False)
class And(Criterion):
    """Both hold: a label is proven, and what is asked for beside it is close enough."""

    first: Criterion
    second: Criterion
    labels_and_values: ClassVar[bool] = True

    @cached_property
    def rule(self) -> Rule | None:
        """A proven sign and a tolerance."""
        return _both(self.first.rule, self.second.rule)

    @cached_property
    def enough(self) -> Rule | None:
        """Likewise."""
        return _both(self.first.enough, self.second.enough)

    @property
    def value_bounds(self) -> FloatArray | None:
        """Those of the second."""
        return self.second.value_bounds

    @property
    def asks_values(self) -> bool:
        """Where the second does."""
        return self.second.asks_values

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which rows are settled; the second is asked of those alone that the first accepts."""
        first = self.first(scores, bounds)
        if not isinstance(first, np.ndarray) or first.all():
            return first & self.second(scores, bounds)
        settled, rows = first.copy(), np.flatnonzero(first)
        if len(rows):
            settled[rows] = self.second(scores[rows], bounds[rows])
        return settled


def _both(sign: Rule | None, values: Rule | None) -> Rule | None:
    """What a rule of signs and one of values ask together; None where that is no rule."""
    if sign is None or values is None or not sign.by_bound or values.margin >= 0.0:
        return None
    alike = not values.by_bound or values.threshold == sign.threshold
    return sign._replace(tolerance=values.tolerance) if alike else None


never = Never()


def predict_criterion(head: Head, tolerance: FloatArray | None) -> Criterion:
    """For `predict`, which answers labels and no scores, or values within the tolerance."""
    criterion = label_criterion(head, tolerance)
    if not head.proves_labels:
        return criterion
    return Proven(criterion, head.voting_classes, head.ties_to_first)


def label_criterion(head: Head, tolerance: FloatArray | None) -> Criterion:
    """For scores: their label is proven, or values are within the tolerance."""
    if head.proves_labels:
        return SameAnswer(head)
    return never if tolerance is None else _close(head, "predict", tolerance)


def decision_criterion(
    head: Head, tolerance: FloatArray | None, score_tolerance: FloatArray | None = None
) -> Criterion:
    """For `decision_function`: the label is proven, votes are, and values within a tolerance.

    Parameters
    ----------
    head : Head
    tolerance : ndarray of shape (values,), optional
        As the user gave it.
    score_tolerance : ndarray of shape (columns,), optional
        Of the columns of `decision_function`, where the user gave none.
    """
    if not head.proves_labels:
        return label_criterion(head, tolerance)
    proven = SameAnswer(head, "decision_function")
    if tolerance is None and score_tolerance is not None:
        if head.decides_by_scores:
            return And(proven, Within(score_tolerance))
        return And(proven, Close(head, "decision_function", score_tolerance))
    if tolerance is None:
        if head.judged_by("decision_function") != "range":
            return proven
        # Of several machines: votes and means, within 1e-3 unless a tolerance is given.
        return And(proven, Close(head, "decision_function", ENSEMBLE_TOLERANCE))
    return And(proven, _close(head, "decision_function", tolerance))


def decision_tolerance(
    head: Head, tolerance: FloatArray | None, score_tolerance: FloatArray | None
) -> FloatArray | float | None:
    """How far decision values may be off that `decision_criterion` accepts, per column or for all.

    None where it accepts whatever has the right label.
    """
    if tolerance is not None:
        return tolerance if head.decides_by_scores else float(tolerance.max())
    return score_tolerance


def transform_criterion(head: Head, tolerance: FloatArray | None) -> Criterion:
    """For `transform`: coordinates within the tolerance, labels of each member proven."""
    if head.judged_by("transform") == "range":
        return Close(head, "transform", ENSEMBLE_TOLERANCE)
    return label_criterion(head, tolerance)


def probability_criterion(head: Head, tolerance: float) -> Criterion:
    """For `predict_proba`; probabilities that are coupled by an iteration run exactly."""
    return _close(head, "predict_proba", tolerance)


def _close(head: Head, method: str, tolerance: FloatArray | float) -> Criterion:
    """The criterion by which the head's answers of a method are judged."""
    judged_by = head.judged_by(method)
    if judged_by == "bounds":
        return Within(head.bounds_for(method, tolerance))
    if judged_by == "range":
        return Close(head, method, tolerance)
    return SameAnswer(head, method) if judged_by == "same" else never
