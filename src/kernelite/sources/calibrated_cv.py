"""scikit-learn's CalibratedClassifierCV: sigmoid, isotonic or temperature; one machine or several.

With `ensemble=True` there is a machine a fold; otherwise one machine, fitted on all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads import (
    Calibrated,
    CalibratedHead,
    IsotonicCalibrator,
    SigmoidCalibrator,
)
from kernelite.machine.machine import Machine
from kernelite.sources.combine import assembled, members_of, places_of, read_members
from kernelite.sources.sklearn_common import require_fitted

__all__ = ["read_calibrated"]


def read_calibrated(model: Any, type_name: str = "CalibratedClassifierCV", /) -> Machine:
    """Read a fitted CalibratedClassifierCV of machines that can be read.

    Parameters
    ----------
    model : CalibratedClassifierCV
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> source = read_calibrated(CalibratedClassifierCV(SVC(gamma=0.1), cv=3).fit(X, y))
    >>> source.head.n_scores, source.expansion.n_outputs
    (9, 9)
    """
    require_fitted(model, "calibrated_classifiers_", type_name)
    fitted = list(model.calibrated_classifiers_)
    inner = [calibrated.estimator for calibrated in fitted]
    sources = read_members(inner, type_name)
    classes = np.asarray(model.classes_)
    places = [places_of(estimator, classes) for estimator in inner]
    machines = tuple(map(_machine, fitted, members_of(inner, sources, places)))
    return assembled(model, type_name, sources, CalibratedHead(classes, machines))


def _machine(calibrated: Any, member: Any) -> Calibrated:
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
