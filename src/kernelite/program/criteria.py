"""When a row is settled: what each guarantee asks before it accepts a form's scores.

In: scores and bounds of shape (m, k). Out: which rows need no further tier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.heads import ArgmaxHead, ClassifierHead, DensityHead, Head, OutlierHead
from kernelite.machine.heads.ranges import margin
from kernelite.rows.inputs import FloatArray

__all__ = [
    "PROBABILITY_TOLERANCE",
    "Proven",
    "Settles",
    "Within",
    "by_margin",
    "close",
    "decision_settles",
    "label_settles",
    "never",
    "predict_settles",
    "probability_settles",
    "transform_settles",
]

ENSEMBLE_TOLERANCE = 1e-3
PROBABILITY_TOLERANCE = 1e-3
Settles: TypeAlias = Callable[[FloatArray, FloatArray], NDArray[np.bool_]]


def predict_settles(head: Head, tolerance: FloatArray | None) -> Settles:
    """For `predict`, which answers labels and no scores, or values within the tolerance."""
    settles = label_settles(head, tolerance)
    if head.kind not in ("classifier", "outlier"):
        return settles
    votes = isinstance(head, ClassifierHead) and head.by_votes
    return Proven(settles, head.classes if votes else None)  # type: ignore[attr-defined]


def label_settles(head: Head, tolerance: FloatArray | None) -> Settles:
    """For scores: their label is proven, or values are within the tolerance."""
    if head.kind in ("classifier", "outlier"):
        return head.decided
    if tolerance is None:
        return never
    if hasattr(head, "value_range"):
        return close(head.predict, head.value_range, tolerance)
    if isinstance(head, DensityHead):
        return lambda scores, bounds: head.within(scores, bounds, float(tolerance[0]))
    return Within(tolerance)


def decision_settles(head: Head, tolerance: FloatArray | None) -> Settles:
    """For `decision_function`: the label is proven, votes are, and values within a tolerance."""
    if head.kind not in ("classifier", "outlier"):
        return label_settles(head, tolerance)
    if hasattr(head, "decision_range"):
        # Of several machines: votes and means, within 1e-3 unless a tolerance is given.
        limit = ENSEMBLE_TOLERANCE if tolerance is None else tolerance
        near = close(head.decision, head.decision_range, limit)
        return lambda scores, bounds: head.decided(scores, bounds) & near(scores, bounds)
    votes_show = isinstance(head, ClassifierHead) and head.shape == "ovr" and head.n_classes > 2
    proven = head.pairs_decided if isinstance(head, ClassifierHead) and votes_show else head.decided
    if tolerance is None:
        return proven
    near = Within(tolerance)
    return lambda scores, bounds: proven(scores, bounds) & near(scores, bounds)


def transform_settles(head: Head, tolerance: FloatArray | None) -> Settles:
    """For `transform`: coordinates within the tolerance, labels of each member proven."""
    own = getattr(head, "transform_settled", None)
    if own is None:
        return label_settles(head, tolerance)
    return lambda scores, bounds: own(scores, bounds, ENSEMBLE_TOLERANCE)


def probability_settles(head: Head, tolerance: float) -> Settles:
    """For `predict_proba`: Platt's sigmoid has slope |A| / 4 at most; coupled ones run exactly."""
    if isinstance(head, ClassifierHead) and head.n_classes == 2 and not head.couple_two_classes:
        assert head.platt_a is not None
        return Within(4.0 * tolerance / np.maximum(np.abs(head.platt_a), 1e-300))
    if isinstance(head, ArgmaxHead):
        return lambda scores, bounds: head.probability_errors(scores, bounds) <= tolerance
    if hasattr(head, "probability_range"):
        return close(head.probabilities, head.probability_range, tolerance)  # type: ignore[attr-defined]
    if isinstance(head, OutlierHead):
        # A step function of the score: settled when no mark lies within the bound.
        return head.probability_decided
    return never


@dataclass(frozen=True, eq=False)
class Proven:
    """The label is proven, and it is all that is asked for: scores need be no better than that.

    Parameters
    ----------
    decided : callable
        The head's own test.
    classes : ndarray of shape (K,), optional
        Where one-vs-one votes decide, so that a class that wins all of its pairs is the label.
    """

    decided: Settles
    classes: NDArray[Any] | None = None

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> NDArray[np.bool_]:
        """Which rows are settled."""
        return self.decided(scores, bounds)


@dataclass(frozen=True, eq=False)
class Within:
    """Every output's bound is at most its tolerance, whatever the scores.

    Parameters
    ----------
    tolerance : ndarray of shape (k,)
    """

    tolerance: FloatArray

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> NDArray[np.bool_]:
        """Which rows are settled."""
        return np.asarray((bounds <= self.tolerance).all(axis=1))


def close(
    value: Callable[[FloatArray], FloatArray],
    ends: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    tolerance: FloatArray | float,
) -> Settles:
    """What is answered lies within the tolerance of both ends of where it can be."""

    def settles(scores: FloatArray, bounds: FloatArray) -> NDArray[np.bool_]:
        answer, (low, high) = value(scores), ends(scores, bounds)
        with np.errstate(invalid="ignore"):  # infinite ends, or none
            near = (high - answer <= tolerance) & (answer - low <= tolerance)
        return near if near.ndim == 1 else np.asarray(near.all(axis=1))

    return settles


def never(scores: FloatArray, bounds: FloatArray) -> NDArray[np.bool_]:
    """No row is settled: the exact model answers."""
    return np.zeros(len(scores), dtype=np.bool_)


def by_margin(head: Head, threshold: float) -> Settles:
    """The calibrated rule: the margin is above a threshold that was tested beforehand."""
    return lambda scores, bounds: margin(head, scores) > threshold
