"""scikit-learn's models that are made of several: bagging, voting, classes from binary machines.

Also several outputs, and CalibratedClassifierCV. A mean of regressors is linear, so its weights go
into the coefficients: machines whose kernels agree become a single expansion with a single output,
however many they were.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.exactly import fraction
from kernelite.machine.heads import (
    Calibrated,
    CalibratedHead,
    ConstantHead,
    Head,
    IsotonicCalibrator,
    MeanHead,
    Member,
    MultiOutputHead,
    OneVsOneHead,
    OneVsRestHead,
    OutputCodeHead,
    RegressorHead,
    SigmoidCalibrator,
    VotingHead,
)
from kernelite.machine.machine import Machine
from kernelite.machine.preparation import Selection
from kernelite.sources.combine import (
    assembled,
    members_of,
    offered_methods,
    places_of,
    read_members,
    weighted,
)
from kernelite.sources.common import require_fitted
from kernelite.sources.pipeline import with_step
from kernelite.support.errors import UnsupportedModelError

__all__ = [
    "first_wins",
    "read_bagging",
    "read_calibrated",
    "read_multi_output",
    "read_one_vs_one",
    "read_one_vs_rest",
    "read_output_code",
    "read_voting",
]


def read_bagging(model: Any, type_name: str, /) -> Machine:
    """Read a fitted BaggingClassifier or BaggingRegressor, feature subsets included.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import BaggingClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = BaggingClassifier(SVC(gamma=0.1), 4, random_state=0).fit(X, y)
    >>> read_bagging(fitted, "BaggingClassifier").description
    'scikit-learn BaggingClassifier of 4 machines, ... support vectors, gamma 0.1'
    """
    require_fitted(model, "estimators_", type_name)
    if len(model.estimators_) != model.n_estimators:  # which scikit-learn divides by
        raise UnsupportedModelError(
            f"this {type_name} has {len(model.estimators_)} machines, but `n_estimators` was set "
            f"to {model.n_estimators} since; fit it again, or set that back."
        )
    width = int(model.n_features_in_)
    read = read_members(model.estimators_, type_name)
    machines = [_on_features(one, at, width) for one, at in zip(read, model.estimators_features_)]
    if machines[0].head.kind == "regressor":
        return _mean(model, type_name, machines)
    soft = all(hasattr(estimator, "predict_proba") for estimator in model.estimators_)
    return _votes(model, type_name, machines, soft)


def read_voting(model: Any, type_name: str, /) -> Machine:
    """Read a fitted VotingClassifier (hard or soft) or VotingRegressor.

    Examples
    --------
    >>> from sklearn.ensemble import VotingRegressor
    >>> from sklearn.svm import SVR
    >>> two = [("a", SVR(gamma=0.5)), ("b", SVR(gamma=0.5, C=9.0))]
    >>> fitted = VotingRegressor(two).fit([[0.0], [1.0], [2.0]], [0, 1, 4])
    >>> read_voting(fitted, "VotingRegressor").expansion.coefficients.shape
    (3, 1)
    """
    require_fitted(model, "estimators_", type_name)
    machines = read_members(model.estimators_, type_name)
    given = model._weights_not_none
    weights = None if given is None else np.asarray(given, dtype=np.float64)
    if machines[0].head.kind == "regressor":
        return _mean(model, type_name, machines, weights)
    soft = model.voting == "soft"
    without = ("transform",) if soft and not model.flatten_transform else ()
    return _votes(model, type_name, machines, soft, weights, without)


def _on_features(machine: Machine, features: Any, width: int) -> Machine:
    """A machine that sees some features only."""
    chosen = np.asarray(features)
    if len(chosen) == width and (chosen == np.arange(width)).all():
        return machine
    return with_step(Selection(chosen, width), machine)


def _votes(
    model: Any,
    type_name: str,
    machines: list[Machine],
    soft: bool,
    weights: NDArray[np.float64] | None = None,
    without: tuple[str, ...] = (),
) -> Machine:
    """Classifiers that vote; they are fitted on the indices of labels."""
    numbers = np.arange(len(model.classes_))
    places = [places_of(estimator, numbers) for estimator in model.estimators_]
    if any(place is not None for place in places):
        # Machines that miss a class have decision values of another shape; scikit-learn then fails.
        without = (*without, "decision_function")
    members = members_of(model.estimators_, machines, places)
    methods = offered_methods(model, *without)
    head = VotingHead(np.asarray(model.classes_), members, soft, methods, weights)
    return assembled(model, type_name, machines, head)


def _mean(
    model: Any, type_name: str, machines: list[Machine], weights: NDArray[np.float64] | None = None
) -> Machine:
    outputs = machines[0].expansion.n_outputs
    if all(machine.head.scores_are_values for machine in machines):
        parts = (
            [Fraction(1)] * len(machines)
            if weights is None
            else [fraction(w, "weights") for w in weights]
        )
        scaled = [weighted(machine, part / sum(parts)) for machine, part in zip(machines, parts)]
        same = [np.arange(outputs) for _ in machines]
        head = RegressorHead(outputs, value_shape=machines[0].head.value_shape)
        return assembled(model, type_name, scaled, head, same)
    mean = MeanHead(members_of(model.estimators_, machines), weights)
    return assembled(model, type_name, machines, mean)


# scikit-learn's OneVsRestClassifier, OneVsOneClassifier and OutputCodeClassifier.


FIRST_WINS_SINCE = (1, 8)
"""scikit-learn's version from which a tie of OneVsRestClassifier goes to the first class."""


def read_one_vs_rest(model: Any, type_name: str = "OneVsRestClassifier", /) -> Machine:
    """Read a fitted OneVsRestClassifier, multilabel or not.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> read_one_vs_rest(OneVsRestClassifier(SVC(gamma=0.1)).fit(X, y)).expansion.n_outputs
    3
    """
    machines, members = _machines(model, type_name)
    multilabel = bool(model.multilabel_)
    if multilabel and model.label_binarizer_.sparse_input_:
        raise UnsupportedModelError(
            f"this {type_name} was fitted on a sparse matrix of labels and answers with one; "
            "fit it on a dense one."
        )
    methods = offered_methods(model)
    classes = np.asarray(model.classes_)
    if len(classes) < 2:
        raise UnsupportedModelError(f"this {type_name} knows one class only.")
    head = OneVsRestHead(classes, members, methods, multilabel, not first_wins())
    return assembled(model, type_name, machines, head)


def read_one_vs_one(model: Any, type_name: str = "OneVsOneClassifier", /) -> Machine:
    """Read a fitted OneVsOneClassifier of binary classifiers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.multiclass import OneVsOneClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> read_one_vs_one(OneVsOneClassifier(SVC(gamma=0.1)).fit(X, y)).type_name
    'OneVsOneClassifier'
    """
    machines, members = _machines(model, type_name)
    if any(member.response == "value" for member in members):
        raise UnsupportedModelError(
            f"this {type_name} holds regressors, whose values are no votes; use classifiers."
        )
    return assembled(model, type_name, machines, OneVsOneHead(np.asarray(model.classes_), members))


def read_output_code(model: Any, type_name: str = "OutputCodeClassifier", /) -> Machine:
    """Read a fitted OutputCodeClassifier.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.multiclass import OutputCodeClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = OutputCodeClassifier(SVC(gamma=0.1), code_size=2, random_state=0).fit(X, y)
    >>> machine = read_output_code(fitted)
    >>> machine.head.code_book.shape, machine.expansion.n_outputs  # two columns are constant
    ((3, 6), 4)
    """
    machines, members = _machines(model, type_name)
    head = OutputCodeHead(np.asarray(model.classes_), model.code_book_, members)
    return assembled(model, type_name, machines, head)


def _machines(model: Any, type_name: str) -> tuple[list[Machine], tuple[Member, ...]]:
    """Sources of the machines that are not constant, and all of them as members."""
    require_fitted(model, "estimators_", type_name)
    real = [e for e in model.estimators_ if not _is_constant(e)]
    machines = read_members(real, type_name)
    found = iter(members_of(real, machines))
    members = [_constant(e) if _is_constant(e) else next(found) for e in model.estimators_]
    return machines, tuple(members)


def _is_constant(estimator: Any) -> bool:
    """Whether it stands for a class that all rows had, or none."""
    return type(estimator).__name__ == "_ConstantPredictor"


def _constant(estimator: Any) -> Member:
    none: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    return Member(ConstantHead(int(np.ravel(estimator.y_)[0])), none)


def first_wins() -> bool:
    """Whether the installed scikit-learn gives a tie of OneVsRestClassifier to the first class."""
    import sklearn

    numbers = re.findall(r"\d+", sklearn.__version__)[:2]
    return tuple(map(int, numbers)) >= FIRST_WINS_SINCE


# scikit-learn's MultiOutputClassifier and MultiOutputRegressor: a machine an output.


def read_multi_output(model: Any, type_name: str, /) -> Machine:
    """Read a fitted MultiOutputClassifier or MultiOutputRegressor.

    Examples
    --------
    >>> from sklearn.multioutput import MultiOutputRegressor
    >>> from sklearn.svm import SVR
    >>> fitted = MultiOutputRegressor(SVR(gamma=0.5)).fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    >>> read_multi_output(fitted, "MultiOutputRegressor").expansion.n_outputs
    2
    """
    require_fitted(model, "estimators_", type_name)
    machines = read_members(model.estimators_, type_name)
    if len(machines) > 1 and all(_is_plain(machine) for machine in machines):
        return assembled(model, type_name, machines, RegressorHead(len(machines)))
    members = members_of(model.estimators_, machines)
    kind = machines[0].head.kind
    head: Head = MultiOutputHead(members, kind, offered_methods(model))  # type: ignore[arg-type]
    return assembled(model, type_name, machines, head)


def _is_plain(machine: Machine) -> bool:
    """Whether a regressor's value is its one score."""
    head = machine.head
    return head.scores_are_values and head.n_scores == 1 and head.value_shape is None


# scikit-learn's CalibratedClassifierCV: sigmoid, isotonic or temperature; one machine or several.
#
# With `ensemble=True` there is a machine a fold; otherwise one machine, fitted on all rows.


def read_calibrated(model: Any, type_name: str = "CalibratedClassifierCV", /) -> Machine:
    """Read a fitted CalibratedClassifierCV of machines that can be read.

    Examples
    --------
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = read_calibrated(CalibratedClassifierCV(SVC(gamma=0.1), cv=3).fit(X, y))
    >>> machine.head.n_scores, machine.expansion.n_outputs
    (9, 9)
    """
    require_fitted(model, "calibrated_classifiers_", type_name)
    fitted = list(model.calibrated_classifiers_)
    inner = [calibrated.estimator for calibrated in fitted]
    machines = read_members(inner, type_name)
    classes = np.asarray(model.classes_)
    numbered = model.method == "temperature" and isinstance(classes[0], str)
    theirs = np.arange(len(classes)) if numbered else classes  # it fits on numbers
    places = [places_of(estimator, theirs) for estimator in inner]
    calibrated = tuple(map(_calibrated, fitted, members_of(inner, machines, places)))
    return assembled(model, type_name, machines, CalibratedHead(classes, calibrated))


def _calibrated(calibrated: Any, member: Any) -> Calibrated:
    kinds = {type(calibrator).__name__ for calibrator in calibrated.calibrators}
    if kinds == {"_TemperatureScaling"}:
        (calibrator,) = calibrated.calibrators
        return Calibrated(member, inverse_temperature=float(calibrator.beta_))
    return Calibrated(member, tuple(_calibrator(one) for one in calibrated.calibrators))


def _calibrator(fitted: Any) -> SigmoidCalibrator | IsotonicCalibrator:
    kind = type(fitted).__name__
    if kind == "_SigmoidCalibration":
        return SigmoidCalibrator(float(fitted.a_), float(fitted.b_))
    if kind == "IsotonicRegression" and fitted.out_of_bounds == "clip":
        return IsotonicCalibrator(fitted.X_thresholds_, fitted.y_thresholds_)
    raise UnsupportedModelError(
        f"this CalibratedClassifierCV has a {kind} as calibrator; known are sigmoid, isotonic and "
        "temperature."
    )
