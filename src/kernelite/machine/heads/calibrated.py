"""CalibratedClassifierCV: calibrated probabilities of several machines, averaged.

p(c | z) = mean over machines of  normalised g_c(t_c(z))          label: the largest
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray, LabelHead, Range
from kernelite.machine.heads.calibrators import (
    IsotonicCalibrator,
    SigmoidCalibrator,
    softmax,
    softmax_range,
)
from kernelite.machine.heads.intervals import best_decided, columns, lead, share_range
from kernelite.machine.heads.members import RESPONSES, Member, OfMembers, n_columns
from kernelite.machine.ops import ops
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
        One per class, or one alone for two classes; none with a temperature.
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
        method = RESPONSES[self.member.response]
        responses = self._asked(self.member.head.answer(method, self.member.of(scores)))
        if self.inverse_temperature is not None:
            return softmax(self.inverse_temperature * self._logits(responses))
        by_class = [calibrator(responses[:, i]) for i, calibrator in enumerate(self.calibrators)]
        return _normalised(self._placed(by_class, n_classes), n_classes)

    def probability_range(self, scores: FloatArray, bounds: FloatArray, n_classes: int) -> Range:
        """Ends of `probabilities`."""
        method, member = RESPONSES[self.member.response], self.member
        ends = member.head.answer_range(method, member.of(scores), member.of(bounds))
        low, high = (self._asked(end) for end in ends)
        if self.inverse_temperature is not None:
            return self._softmax_range(low, high)
        by_class = [c.range(low[:, i], high[:, i]) for i, c in enumerate(self.calibrators)]
        least, most = (self._placed([end[i] for end in by_class], n_classes) for i in (0, 1))
        return _normalised_range(least, most, n_classes)

    def _asked(self, responses: FloatArray) -> FloatArray:
        """On two axes; of two classes' probabilities, scikit-learn calibrates the second alone."""
        two = self.member.response == "probability" and len(self.member.head.classes) == 2
        return responses[:, 1:] if two else columns(responses)

    def _placed(self, by_class: list[FloatArray], n_classes: int) -> FloatArray:
        """A column per class, zero without a value; one value of two classes is the second's."""
        places = range(len(by_class)) if self.member.places is None else self.member.places
        own = {int(c) + (n_classes == 2): values for c, values in zip(places, by_class)}
        xp = ops(by_class[0])
        none = xp.full_like(by_class[0], 0.0)
        return xp.stack([own.get(c, none) for c in range(n_classes)], axis=1)

    @property
    def _alone(self) -> bool:
        """Whether there is one response, that of the second of two classes."""
        return len(self.member.head.classes) == 2

    def _logits(self, responses: FloatArray) -> FloatArray:
        xp = ops(responses)
        if self.member.response == "decision":
            return xp.concat([-responses, responses], axis=1) if self._alone else responses
        if self._alone:
            responses = xp.concat([1.0 - responses, responses], axis=1)
        return xp.log(responses + SMALLEST)

    def _softmax_range(self, low: FloatArray, high: FloatArray) -> Range:
        assert self.inverse_temperature is not None
        at_low, at_high = self._logits(low), self._logits(high)
        if self._alone:
            # The first class's logit falls with the response.
            xp = ops(low)
            at_low, at_high = (
                xp.concat([at_high[:, :1], at_low[:, 1:]], axis=1),
                xp.concat([at_low[:, :1], at_high[:, 1:]], axis=1),
            )
        return softmax_range(self.inverse_temperature * at_low, self.inverse_temperature * at_high)


@dataclass(frozen=True, eq=False)
class CalibratedHead(OfMembers, LabelHead):
    """The mean of calibrated probabilities, as CalibratedClassifierCV takes it.

    Parameters
    ----------
    classes : array of shape (K,)
    machines : tuple of Calibrated

    Examples
    --------
    >>> from kernelite.machine.heads.svm import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> machine = Calibrated(Member(svm, [0]), (SigmoidCalibrator(-2.0, 0.0),))
    >>> head = CalibratedHead(np.array(["no", "yes"]), (machine,))
    >>> head.probabilities(np.array([[1.0]])).round(3)
    array([[0.119, 0.881]])
    """

    classes: NDArray[Any]
    machines: tuple[Calibrated, ...]

    kind: Literal["classifier"] = "classifier"
    offers: ClassVar[frozenset[str]] = frozenset({"predict", "predict_proba"})

    def __post_init__(self) -> None:
        if not self.machines or len(self.classes) < 2:
            raise InputError("a calibrated head needs a machine, and two classes or more.")
        for member in self.members:
            own = len(member.head.classes)
            places = np.arange(own) if member.places is None else member.places
            if not ((places >= 0).all() and (places < len(self.classes)).all()):
                raise InputError("a machine's classes are not all among the head's.")
        n_columns(self.members)

    @property
    def members(self) -> tuple[Member, ...]:
        """The machines without their calibrations."""
        return tuple(machine.member for machine in self.machines)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of the most probable."""
        return ops(scores).argmax(self.probabilities(scores), axis=1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The probabilities: nothing else decides."""
        return self.probabilities(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose most probable class cannot change within the bounds."""
        return best_decided(*self.probability_range(scores, bounds), len(self.classes))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, K)."""
        each = [machine.probabilities(scores, len(self.classes)) for machine in self.machines]
        return sum(each[1:], start=each[0]) / len(each)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        K, count = len(self.classes), len(self.machines)
        ends = [machine.probability_range(scores, bounds, K) for machine in self.machines]
        low, high = (sum((end[i] for end in ends[1:]), start=ends[0][i]) for i in (0, 1))
        return low / count, high / count

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far the most probable class leads, shape (m,)."""
        return lead(self.probabilities(scores), len(self.classes))


def _normalised(raw: FloatArray, n_classes: int) -> FloatArray:
    """Two classes: the second's decides; more: divided by their sum, uniform where that is 0."""
    xp = ops(raw)
    if n_classes == 2:
        p = xp.concat([1.0 - raw[:, 1:], raw[:, 1:]], axis=1)
    else:
        total = xp.sum(raw, axis=1, keepdims=True)
        p = xp.where(total != 0, raw / xp.where(total != 0, total, 1.0), 1.0 / n_classes)
    return xp.where((p > 1.0) & (p <= 1.0 + 1e-5), 1.0, p)


def _normalised_range(low: FloatArray, high: FloatArray, n_classes: int) -> Range:
    xp = ops(low)
    if n_classes == 2:
        return (
            xp.concat([1.0 - high[:, 1:], low[:, 1:]], axis=1),
            xp.concat([1.0 - low[:, 1:], high[:, 1:]], axis=1),
        )
    least, most = share_range(low, high)
    known = xp.all(low == high, axis=1)[:, None]
    # All may vanish together, which makes them uniform.
    vanish = xp.all(low == 0, axis=1)[:, None]
    most = xp.where(vanish, xp.maximum(most, 1.0 / n_classes), most)
    exact = _normalised(low, n_classes)
    return xp.where(known, exact, least), xp.where(known, exact, most)
