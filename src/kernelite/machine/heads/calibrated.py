"""CalibratedClassifierCV: probabilities from decision values, averaged over several machines."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, LabelHead
from kernelite.machine.heads.intervals import (
    LOST_IN_HEADS,
    SLACK,
    Range,
    best_decided,
    columns,
    finite,
    lead,
    others,
    outwards,
    score_range,
    share_range,
    summed_columns,
    two_classes,
    widened,
)
from kernelite.machine.heads.members import RESPONSES, Member, OfMembers, n_columns
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = [
    "Calibrated",
    "CalibratedHead",
    "IsotonicCalibrator",
    "SigmoidCalibrator",
    "softmax",
    "softmax_range",
]

# scikit-learn's calibrations of a decision value: sigmoid, isotonic, temperature.
#
#     sigmoid       1 / (1 + exp(a t + b))
#     isotonic      linear between thresholds, constant outside
#     temperature   softmax(beta t) over the classes, (-t, t) for two
#
# The first two are monotone, so they take the ends of a range to the ends of a range, rounded
# outwards: a sigmoid never is 0 or 1, though doubles say so.


LARGEST = 1e150  # of numbers whose products are numbers


def sigmoid(a: Any, b: Any, t: FloatArray) -> FloatArray:
    """1 / (1 + exp(a t + b)), in the shape of `t`; a and b are numbers, or arrays of a row."""
    with np.errstate(over="ignore"):
        return ops(t).expit(-(a * finite(t) + b))


def sigmoid_range(a: Any, b: Any, low: FloatArray, high: FloatArray) -> Range:
    """Ends of the sigmoid for values between `low` and `high`."""
    xp, (low, high) = ops(low), sigmoid_exponents(a, b, low, high)
    return widened(xp.expit(-high), xp.expit(-low))


def sigmoid_exponents(a: Any, b: Any, low: FloatArray, high: FloatArray) -> Range:
    """Ends of a t + b; product and sum round by as much as two units of their terms."""
    xp = ops(low)
    with np.errstate(over="ignore"):
        terms = [finite(a * finite(end)) for end in (low, high)]
        least, most = xp.minimum(*terms), xp.maximum(*terms)
        slack = [2.0**-51 * (xp.abs(term) + np.abs(b)) for term in (least, most)]
        return least + b - slack[0], most + b + slack[1]


@dataclass(frozen=True)
class SigmoidCalibrator:
    """1 / (1 + exp(a t + b)).

    Examples
    --------
    >>> SigmoidCalibrator(-1.0, 0.0)(np.array([0.0, 2.0])).round(3)
    array([0.5  , 0.881])
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.a) and np.isfinite(self.b)):
            raise InputError("the two numbers of a sigmoid must be finite.")

    def __call__(self, t: FloatArray) -> FloatArray:
        """Probabilities, in the shape of `t`."""
        return sigmoid(self.a, self.b, t)

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends of the probability for a value between `low` and `high`."""
        return sigmoid_range(self.a, self.b, low, high)

    def exponents(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends of a t + b."""
        return sigmoid_exponents(self.a, self.b, low, high)


@dataclass(frozen=True, eq=False)
class IsotonicCalibrator:
    """Linear between (x_i, y_i), constant beyond the first and the last.

    Parameters
    ----------
    x, y : arrays of shape (t,)
        Both in ascending order; y may also descend.

    Examples
    --------
    >>> IsotonicCalibrator([0.0, 1.0], [0.2, 0.8])(np.array([-1.0, 0.5]))
    array([0.2, 0.5])
    """

    x: FloatArray
    y: FloatArray

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != 1 or not len(array) or not (np.abs(array) <= LARGEST).all():
                raise InputError(
                    f"`{name}` of an isotonic calibration must hold finite numbers, none huge."
                )
            object.__setattr__(self, name, array)
        if len(self.x) != len(self.y) or (np.diff(self.x) < 0).any():
            raise InputError("an isotonic calibration needs ascending `x`, one to each of `y`.")
        steps = np.diff(self.y)
        if (steps < 0).any() and (steps > 0).any():
            raise InputError("an isotonic calibration is monotone, but `y` goes up and down.")

    def __call__(self, t: FloatArray) -> FloatArray:
        """Probabilities, in the shape of `t`."""
        return ops(t).interp(t, self.x, self.y)

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends of the probability for a value between `low` and `high`."""
        xp, ends = ops(low), (self(low), self(high))
        first, last, start, end, size = self._plateaus
        least, most = ends if first <= last else (ends[1], ends[0])
        least, most = widened(least, most, xp.full_like(least, size))
        for sure, value in ((high <= end, first), (low >= start, last)):
            least, most = xp.where(sure, value, least), xp.where(sure, value, most)
        return least, most

    @cached_property
    def _plateaus(self) -> tuple[float, ...]:
        """The first value and the last, where one begins and the other ends; the largest size.

        There both ends of a range are that number itself: it is a constant.
        """
        x, y = self.x, self.y
        start = -np.inf if y[0] == y[-1] else x[np.argmax(y == y[-1])]
        numbers = y[0], y[-1], start, x[y == y[0]][-1], np.abs(y).max()
        return tuple(float(number) for number in numbers)


def softmax(logits: FloatArray) -> FloatArray:
    """exp(l_c) / sum_c exp(l_c) along the last axis, shape (m, K).

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    xp = ops(logits)
    powers = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


def softmax_range(low: FloatArray, high: FloatArray, n_classes: int) -> Range:
    """Ends of `softmax`: its own logit low and all others high, and the other way round."""
    xp = ops(low)
    top = xp.max(high, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        # What underflows, or loses digits before it does, may be all of a share.
        under = xp.maximum(xp.exp(low - top) - LOST_IN_HEADS, 0.0)
        over = xp.exp(high - top) + LOST_IN_HEADS
        least = under / (under + others(over, n_classes))
        most = over / (over + others(under, n_classes))
    # Infinite logits say nothing.
    least, most = xp.where(xp.isnan(least), 0.0, least), xp.where(xp.isnan(most), 1.0, most)
    return widened(least, most)


# CalibratedClassifierCV: calibrated probabilities of several machines, averaged.
#
# p(c | z) = mean over machines of  normalised g_c(t_c(z))          label: the largest


SMALLEST_PROBABILITY = 1e-12  # scikit-learn adds it to probabilities before their logarithm


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
        if self.inverse_temperature is not None:
            return self._softmax_range(*self._responses(scores, bounds), n_classes)
        return _normalised_range(*self.raw_range(scores, bounds, n_classes), n_classes)

    def raw_range(self, scores: FloatArray, bounds: FloatArray, n_classes: int) -> Range:
        """Ends of what calibrators say before it is normalised; constants have equal ends."""
        low, high = self._responses(scores, bounds)
        by_class = [c.range(low[:, i], high[:, i]) for i, c in enumerate(self.calibrators)]
        least, most = (self._placed([end[i] for end in by_class], n_classes) for i in (0, 1))
        return least, most

    def _responses(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of what is calibrated."""
        method, member = RESPONSES[self.member.response], self.member
        low, high = member.head.answer_range(method, member.of(scores), member.of(bounds))
        return self._asked(low), self._asked(high)

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
        return xp.log(responses + SMALLEST_PROBABILITY)

    def _softmax_range(self, low: FloatArray, high: FloatArray, n_classes: int) -> Range:
        assert self.inverse_temperature is not None
        xp, beta = ops(low), self.inverse_temperature
        if self._alone:
            # The first class's response falls as the second's rises.
            whole = 0.0 if self.member.response == "decision" else 1.0
            first = outwards(whole - high, whole - low)
            low, high = (xp.concat([f, s], axis=1) for f, s in zip(first, (low, high)))
        if self.member.response != "decision":
            low, high = outwards(low + SMALLEST_PROBABILITY, high + SMALLEST_PROBABILITY)
            low, high = widened(
                *(xp.log(xp.maximum(end, SMALLEST_PROBABILITY / 2)) for end in (low, high))
            )
        ends = (beta * low, beta * high) if beta >= 0 else (beta * high, beta * low)
        return softmax_range(*outwards(*ends), n_classes)


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
        K, first = len(self.classes), self.machines[0]
        if len(self.machines) > 1 or not first.calibrators:
            return best_decided(*self.probability_range(scores, bounds), K)
        # Shares are in the order of what they are shares of; there, plateaus are known exactly.
        low, high = first.raw_range(scores, bounds, K)
        if K > 2:
            return best_decided(low, high, K, constants=True)
        low, high = low[:, 1], high[:, 1]
        return (low - 0.5 > SLACK) | (0.5 - high > SLACK) | (low == high)

    @cached_property
    def _sigmoids(self) -> tuple[FloatArray, FloatArray] | None:
        """a and b of all machines of two classes, if sigmoids are all that is averaged."""
        each = [c for machine in self.machines for c in machine.calibrators]
        one = len(each) == len(self.machines) and self.alike
        if not one or not all(isinstance(c, SigmoidCalibrator) for c in each):
            return None
        return np.array([c.a for c in each]), np.array([c.b for c in each])  # type: ignore[union-attr]

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, K)."""
        if self._sigmoids is not None:
            second = sigmoid(*self._sigmoids, scores)
            both = [summed_columns(p) / len(self.machines) for p in (1.0 - second, second)]
            return ops(scores).stack(both, axis=1)
        each = [machine.probabilities(scores, len(self.classes)) for machine in self.machines]
        return sum(each[1:], start=each[0]) / len(each)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        K, count = len(self.classes), len(self.machines)
        if self._sigmoids is not None:
            second = sigmoid_range(*self._sigmoids, *score_range(scores, bounds))
            first = outwards(1.0 - second[1], 1.0 - second[0])
            xp, both = ops(scores), zip(first, second)
            low, high = (xp.stack([summed_columns(p) for p in ends], axis=1) for ends in both)
            return widened(low / count, high / count)
        ends = [machine.probability_range(scores, bounds, K) for machine in self.machines]
        low, high = (sum((end[i] for end in ends[1:]), start=ends[0][i]) for i in (0, 1))
        return widened(low / count, high / count)

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
        return two_classes(low[:, 1:], high[:, 1:])
    least, most = share_range(low, high, n_classes)
    # All may vanish together, which makes them uniform.
    vanish = xp.all(low <= 0, axis=1)[:, None]
    return xp.where(vanish, 0.0, least), xp.where(vanish, 1.0, most)
