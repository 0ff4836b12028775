"""CalibratedClassifierCV: calibrated probabilities of several machines, averaged.

p(c | z) = mean over machines of  normalised g_c(t_c(z))          label: the largest
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.calibrators import (
    IsotonicCalibrator,
    SigmoidCalibrator,
    softmax,
    softmax_range,
)
from kernelite.machine.heads.members import Member, n_columns
from kernelite.machine.heads.ranges import Range, best_decided, decision_range, lead
from kernelite.rows.inputs import FloatArray

__all__ = ["Calibrated", "CalibratedHead"]

SMALLEST = 1e-12  # scikit-learn adds it to probabilities before their logarithm


@dataclass(frozen=True, eq=False)
class Calibrated:
    """One machine and its calibrations.

    Parameters
    ----------
    member : Member
        Its `response` is what is calibrated; `places` are those of its classes.
    calibrators : tuple of SigmoidCalibrator or IsotonicCalibrator
        One a class, or one alone for two classes; none with a temperature.
    inverse_temperature : float, optional
        beta of softmax(beta t).
    """

    member: Member
    calibrators: tuple[SigmoidCalibrator | IsotonicCalibrator, ...] = ()
    inverse_temperature: float | None = None

    def __post_init__(self) -> None:
        if bool(self.calibrators) == (self.inverse_temperature is not None):
            raise InputError("a calibrated machine has calibrators or a temperature, not both.")

    def probabilities(self, scores: FloatArray, n_classes: int) -> FloatArray:
        """Shape (m, K)."""
        own, head = self.member.of(scores), self.member.head
        if self.member.response == "decision":
            responses = _columns(head.decision(own))
        else:
            responses = self._asked(self.member.probabilities(scores))
        if self.inverse_temperature is not None:
            return softmax(self.inverse_temperature * self._logits(responses))
        raw = np.zeros((len(scores), n_classes))
        for place, values, calibrator in self._by_class(responses, n_classes):
            raw[:, place] = calibrator(values)
        return _normalised(raw)

    def probability_range(self, scores: FloatArray, bounds: FloatArray, n_classes: int) -> Range:
        """Ends of `probabilities`."""
        own, its_bounds = self.member.of(scores), self.member.of(bounds)
        if self.member.response == "decision":
            ends = decision_range(self.member.head, own, its_bounds)
            low, high = _columns(ends[0]), _columns(ends[1])
        else:
            ends = self.member.probability_range(scores, bounds)
            low, high = self._asked(ends[0]), self._asked(ends[1])
        if self.inverse_temperature is not None:
            return self._softmax_range(low, high)
        least, most = np.zeros((len(low), n_classes)), np.zeros((len(low), n_classes))
        pairs = zip(self._by_class(low, n_classes), self._by_class(high, n_classes))
        for (place, under, calibrator), (_, over, _) in pairs:
            least[:, place], most[:, place] = calibrator.range(under, over)
        return _normalised_range(least, most)

    def _asked(self, probabilities: FloatArray) -> FloatArray:
        """Of two classes, scikit-learn calibrates the second alone."""
        return probabilities[:, 1:] if probabilities.shape[1] == 2 else probabilities

    def _by_class(self, responses: FloatArray, n_classes: int) -> Iterator[Any]:
        """(class, its values, its calibrator); the one value of two classes is the second's."""
        count = responses.shape[1]
        places = np.arange(count) if self.member.places is None else self.member.places
        for place, values, calibrator in zip(places, responses.T, self.calibrators):
            yield int(place) + (n_classes == 2), values, calibrator

    def _logits(self, responses: FloatArray) -> FloatArray:
        if self.member.response == "decision":
            return np.hstack([-responses, responses]) if responses.shape[1] == 1 else responses
        if responses.shape[1] == 1:
            responses = np.hstack([1.0 - responses, responses])
        return np.log(responses + SMALLEST)

    def _softmax_range(self, low: FloatArray, high: FloatArray) -> Range:
        assert self.inverse_temperature is not None
        at_low, at_high = self._logits(low), self._logits(high)
        if low.shape[1] == 1:
            # The first class's logit falls with the response.
            at_low[:, 0], at_high[:, 0] = at_high[:, 0].copy(), at_low[:, 0].copy()
        return softmax_range(self.inverse_temperature * at_low, self.inverse_temperature * at_high)


@dataclass(frozen=True, eq=False)
class CalibratedHead:
    """The mean of calibrated probabilities, as CalibratedClassifierCV takes it.

    Parameters
    ----------
    classes : array of shape (K,)
    machines : tuple of Calibrated

    Examples
    --------
    >>> from kernelite.machine.heads.one_vs_one import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> machine = Calibrated(Member(svm, [0]), (SigmoidCalibrator(-2.0, 0.0),))
    >>> head = CalibratedHead(np.array(["no", "yes"]), (machine,))
    >>> head.probabilities(np.array([[1.0]])).round(3)
    array([[0.119, 0.881]])
    """

    classes: NDArray[Any]
    machines: tuple[Calibrated, ...]

    kind: Literal["classifier"] = "classifier"

    def __post_init__(self) -> None:
        if not self.machines or len(self.classes) < 2:
            raise InputError("a calibrated head needs a machine, and two classes or more.")
        for machine in self.machines:
            places = machine.member.places
            if places is not None and not (
                (places >= 0).all() and (places < len(self.classes)).all()
            ):
                raise InputError("a machine's classes are not all among the head's.")
        n_columns(self.members)

    @property
    def members(self) -> tuple[Member, ...]:
        """The machines without their calibrations."""
        return tuple(machine.member for machine in self.machines)

    @property
    def n_scores(self) -> int:
        """Scores of all machines."""
        return n_columns(self.members)

    @property
    def offers(self) -> frozenset[str]:
        """As CalibratedClassifierCV: no decision values."""
        return frozenset({"predict", "predict_proba"})

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """The most probable class, shape (m,)."""
        return self.classes[self.winners(scores)]

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        return np.argmax(self.probabilities(scores), axis=1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The probabilities: nothing else decides."""
        return self.probabilities(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose most probable class cannot change within the bounds."""
        return best_decided(*self.probability_range(scores, bounds))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, K)."""
        mean = np.zeros((len(scores), len(self.classes)))
        for machine in self.machines:
            mean += machine.probabilities(scores, len(self.classes))
        return mean / len(self.machines)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        low, high = np.zeros((2, len(scores), len(self.classes)))
        for machine in self.machines:
            least, most = machine.probability_range(scores, bounds, len(self.classes))
            low += least
            high += most
        return low / len(self.machines), high / len(self.machines)

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far the most probable class leads, shape (m,)."""
        return lead(self.probabilities(scores))


def _columns(values: FloatArray) -> FloatArray:
    return values[:, None] if values.ndim == 1 else values


def _normalised(raw: FloatArray) -> FloatArray:
    """Two classes: the second's decides; more: divided by their sum, uniform where that is 0."""
    K = raw.shape[1]
    if K == 2:
        raw[:, 0] = 1.0 - raw[:, 1]
        p = raw
    else:
        total = raw.sum(axis=1, keepdims=True)
        p = np.divide(raw, total, out=np.full_like(raw, 1.0 / K), where=total != 0)
    p[(p > 1.0) & (p <= 1.0 + 1e-5)] = 1.0
    return p


def _normalised_range(low: FloatArray, high: FloatArray) -> Range:
    if low.shape[1] == 2:
        low[:, 0], high[:, 0] = 1.0 - high[:, 1], 1.0 - low[:, 1]
        return low, high
    known = (low == high).all(axis=1)
    others_high = high.sum(axis=1, keepdims=True) - high
    others_low = np.maximum(low.sum(axis=1, keepdims=True) - low, 0.0)
    least = np.divide(low, low + others_high, out=np.zeros_like(low), where=low > 0)
    most = np.divide(high, high + others_low, out=np.zeros_like(low), where=high > 0)
    # All may vanish together, which makes them uniform.
    vanish = (low == 0).all(axis=1) & ~known
    most[vanish] = np.maximum(most[vanish], 1.0 / low.shape[1])
    least[known] = most[known] = _normalised(low[known])
    return least, most
