"""scikit-learn-intelex: its SVC on oneDAL, float64, all cores."""

from __future__ import annotations

import pickle

from benchmarks.contestant import Absent, Contestant
from benchmarks.rebuild import rebuilt_svc
from benchmarks.workloads import Workload

__all__ = ["prepare"]


def prepare(workload: Workload) -> Contestant:
    """The same arrays in sklearnex's SVC; it makes oneDAL's model of them at the first call."""
    try:
        from sklearnex.svm import SVC
    except ImportError:
        raise Absent("pip install scikit-learn-intelex") from None
    svc = rebuilt_svc(workload.source, SVC)
    svc.predict(workload.rows[:2])
    if not hasattr(svc, "_onedal_estimator"):
        raise Absent("this version of sklearnex does not take a rebuilt model")
    return Contestant(
        name="scikit-learn-intelex",
        kind="exact",
        predict=svc.predict,
        must_agree=True,
        nbytes=len(pickle.dumps(workload.svc)),
        decide=svc.decision_function,
        note="SVC rebuilt from the model's arrays",
    )
