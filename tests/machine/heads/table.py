"""One small head of every kind, made by hand: what the suites of heads and exports share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernelite.machine.heads import (
    ArgmaxHead,
    Calibrated,
    CalibratedHead,
    ClassifierHead,
    ConstantHead,
    DensityHead,
    Head,
    IsotonicCalibrator,
    LatentHead,
    LinearHead,
    MeanHead,
    Member,
    MultiOutputHead,
    NamedInverse,
    OneVsOneHead,
    OneVsRestHead,
    OutlierHead,
    OutputCodeHead,
    RegressorHead,
    SigmoidCalibrator,
    TargetHead,
    TransformHead,
    VotingHead,
)

__all__ = ["HEADS"]

TWO, THREE = np.array(["no", "yes"]), np.array([30, 10, 20])
ALL = ("predict", "decision_function", "predict_proba")

svm = ClassifierHead(np.array([0, 1]), first_positive=False)
platt = ClassifierHead(
    np.array([0, 1]), first_positive=False, platt_a=np.array([-1.5]), platt_b=np.array([0.1])
)
votes = ClassifierHead(np.array([0, 1, 2]))
soft = CalibratedHead(
    np.array([0, 1]), (Calibrated(Member(svm, [0]), (SigmoidCalibrator(-2.0, 0.1),)),)
)
value = RegressorHead()


def _each(head: Head, count: int, response: str = "decision") -> tuple[Member, ...]:
    return tuple(Member(head, [i], response) for i in range(count))  # type: ignore[arg-type]


_curve = IsotonicCalibrator([-1.0, -0.2, 0.3, 0.3, 1.1], [0.0, 0.2, 0.25, 0.6, 0.9])
_sigmoids = tuple(SigmoidCalibrator(-1.0 - i, 0.2 * i) for i in range(3))

HEADS: dict[str, Head] = {
    "two classes": ClassifierHead(TWO),
    "two classes, threshold": ClassifierHead(TWO, threshold=0.25, zero_is_first=True),
    "two classes, sigmoid": platt,
    "two classes, by probability": replace(platt, labels_by_probability=True),
    "votes": ClassifierHead(THREE),
    "votes, ovr": ClassifierHead(THREE, shape="ovr"),
    "votes, ties by sums": ClassifierHead(np.arange(4), shape="ovr", break_ties=True),
    "outlier": OutlierHead(offset=0.5, density_marks=np.linspace(-1.0, 1.0, 10)),
    "largest": ArgmaxHead(THREE),
    "largest share": ArgmaxHead(THREE, shares=True),
    "linear, two": LinearHead(TWO, logistic=True),
    "linear, three": LinearHead(THREE, logistic=True),
    "latent": LatentHead(TWO),
    "values": RegressorHead(),
    "values, column": RegressorHead(value_shape=(1,)),
    "values, outputs": RegressorHead(2),
    "coordinates": TransformHead(3),
    "density": DensityHead(-1.5, atol=1e-9),
    "mean": MeanHead(
        _each(TargetHead(value, NamedInverse("exp")), 2, "value"), np.array([1.0, 3.0])
    ),
    **{
        f"target, {name}": TargetHead(value, NamedInverse(name))
        for name in ("arcsinh", "cbrt", "exp2", "expm1", "negative", "rad2deg", "sinh", "tanh")
    },
    "target, outputs": TargetHead(RegressorHead(2), NamedInverse("exp"), flat=False),
    "outputs, labels": MultiOutputHead((Member(platt, [1]), Member(platt, [0])), "classifier", ALL),
    "outputs, values": MultiOutputHead(_each(value, 2, "value"), "regressor", ("predict",)),
    "rest": OneVsRestHead(THREE, _each(svm, 3), ("predict", "decision_function")),
    "rest, last wins": OneVsRestHead(THREE, _each(platt, 3, "probability"), ALL, last_wins=True),
    "rest, two": OneVsRestHead(TWO, _each(platt, 1), ALL),
    "rest, several labels": OneVsRestHead(np.arange(3), _each(platt, 3), ALL, multilabel=True),
    "rest, a constant": OneVsRestHead(
        THREE, (*_each(svm, 2), Member(ConstantHead(1), [])), ("predict", "decision_function")
    ),
    "pairs": OneVsOneHead(THREE, _each(svm, 3)),
    "pairs, two": OneVsOneHead(TWO, _each(svm, 1)),
    "pairs, probabilities": OneVsOneHead(THREE, _each(soft, 3, "probability")),
    "codes": OutputCodeHead(
        np.array([5, 6, 7]), np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]]), _each(svm, 2)
    ),
    "voting, hard": VotingHead(TWO, _each(svm, 3), False, ALL),
    "voting, weights": VotingHead(TWO, _each(svm, 2), False, ("predict",), np.array([1.0, 2.5])),
    "voting, soft": VotingHead(TWO, _each(platt, 3), True, ALL),
    "voting, some classes": VotingHead(
        np.arange(3),
        (Member(svm, [0], places=[0, 2]), Member(votes, [1, 2, 3])),
        False,
        ("predict",),
    ),
    "calibrated": soft,
    "calibrated, three": CalibratedHead(
        THREE, (Calibrated(Member(replace(votes, shape="ovr"), [0, 1, 2]), _sigmoids),)
    ),
    "calibrated, isotonic": CalibratedHead(
        TWO, (Calibrated(Member(svm, [0]), (_curve,)), Calibrated(Member(svm, [1]), (_curve,)))
    ),
    "calibrated, temperature": CalibratedHead(
        THREE, (Calibrated(Member(LinearHead(THREE), [0, 1, 2]), inverse_temperature=0.7),)
    ),
    "calibrated, temperature, two": CalibratedHead(
        TWO, (Calibrated(Member(platt, [0], "probability"), inverse_temperature=1.7),)
    ),
}
