"""One row at a time: the median of many calls, each with another row.

    python -m benchmarks.single         # p50 and p99 of 10,000 different rows, in microseconds

Labels and values of a form, of small exact sums, of several classes; rows as lists, and rows wider
than the model by two columns, as LIBSVM's files have them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.batch import contestants
from benchmarks.contestant import Contestant
from benchmarks.settings import Settings
from benchmarks.timing import median_call
from benchmarks.workloads import Workload

__all__ = ["SINGLE", "latency", "main", "single"]

SINGLE = ("scikit-learn", "scikit-learn-intelex", "onnxruntime", "exact", "certified", "none")
DISTINCT = 256  # rows that calls cycle through
LONGEST = 5.0  # seconds for a contestant
FEATURES = 10
ROWS = 10_000  # different ones, of which p50 and p99 are taken


def single(
    workload: Workload,
    settings: Settings,
    names: Iterable[str] = SINGLE,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """`predict` on an ndarray of one row.

    Returns
    -------
    dict
        Median microseconds a call by contestant. The labels of all batches were verified before.
    """
    ready, absent = contestants(workload, names, tell)
    results = []
    for one in ready:
        if one.decide is None or ", CSR" in one.name:  # what takes many rows only
            continue
        tell(f"{workload.name}: single rows, {one.name}")
        results.append({"name": one.name, "kind": one.kind, **_median(one, workload, settings)})
    return {"name": workload.name, "contestants": results, "absent": absent}


def _median(one: Contestant, workload: Workload, settings: Settings) -> dict[str, Any]:
    count = min(DISTINCT, len(workload.rows))
    rows = [np.ascontiguousarray(one.convert(workload.rows[i : i + 1])) for i in range(count)]

    def call(i: int) -> Any:
        return one.predict(rows[i % count])

    calls = min(settings.calls, 20)
    seconds = median_call(call, calls)
    if calls < settings.calls:
        calls = max(20, min(settings.calls, int(LONGEST / max(seconds, 1e-9))))
        seconds = median_call(call, calls)
    return {"microseconds": 1e6 * seconds, "calls": calls}


def latency(call: Callable[[Any], object], rows: Sequence[Any]) -> tuple[float, float]:
    """Microseconds of a call, each with another row: p50 and p99.

    Examples
    --------
    >>> p50, p99 = latency(lambda row: row, list(range(100)))
    >>> p50 <= p99
    True
    """
    for row in rows[:100]:
        call(row)
    taken = np.empty(len(rows))
    for i, row in enumerate(rows):
        started = perf_counter_ns()
        call(row)
        taken[i] = perf_counter_ns() - started
    p50, p99 = np.quantile(taken, [0.5, 0.99]) / 1000.0
    return float(p50), float(p99)


def _calls() -> dict[str, tuple[Callable[[Any], object], Callable[[Any], Any]]]:
    """What is asked of which model, and what makes its row of one of ten features."""
    from sklearn.svm import SVC, SVR

    import kernelite as kl

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, FEATURES))
    value = X[:, 0] + 0.5 * X[:, 1] ** 2
    y, several = value > 0.3, np.digitize(value, [-0.5, 0.5, 1.5])
    svc = SVC(gamma=0.002).fit(X, y)
    form = kl.compile(svc, X)
    exact = kl.compile(SVC(gamma=0.5).fit(X[:400], y[:400]), X[:400])
    regressor = kl.compile(SVR(gamma=0.5).fit(X[:400], value[:400]), X[:400])
    classes = kl.compile(SVC(gamma=0.5).fit(X[:400], several[:400]), X[:400])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "two.model"
        file.write_text(_libsvm(svc), encoding="utf-8")
        libsvm = kl.compile(file, X)
    plain = np.ascontiguousarray

    def wider(entry: float) -> Callable[[Any], Any]:
        return lambda row: np.concatenate([row, [[0.0, entry]]], axis=1)

    return {
        "label by a form": (form.predict, plain),
        "label by a form, a list": (form.predict, lambda row: row.tolist()),
        "decision value by a form": (form.decision_function, plain),
        "label by an exact sum": (exact.predict, plain),
        "decision value by an exact sum": (exact.decision_function, plain),
        "value of a regressor": (regressor.predict, plain),
        "label of four classes": (classes.predict, plain),
        "two columns more, both zero": (libsvm.predict, wider(0.0)),
        "two columns more, one not zero": (libsvm.predict, wider(0.25)),
    }


def _libsvm(svc: Any) -> str:
    """A classifier of two classes as LIBSVM's text."""
    counts = " ".join(map(str, svc.n_support_))
    lines = ["svm_type c_svc", "kernel_type rbf", f"gamma {svc.gamma}", "nr_class 2"]
    lines += [f"total_sv {sum(svc.n_support_)}", f"rho {svc.intercept_[0]}", "label 0 1"]
    lines += [f"nr_sv {counts}", "SV"]
    for weight, center in zip(-svc.dual_coef_[0], svc.support_vectors_):
        entries = " ".join(f"{i + 1}:{entry!r}" for i, entry in enumerate(center.tolist()))
        lines.append(f"{weight} {entries}")
    return "\n".join([*lines, ""])


def main() -> int:
    """Print p50 and p99 of each kind of call."""
    rng = np.random.default_rng(1)
    given = rng.normal(size=(ROWS, 1, FEATURES))
    print(f"{'microseconds of one row':32}{'p50':>8}{'p99':>8}")
    for name, (call, made) in _calls().items():
        p50, p99 = latency(call, [made(row) for row in given])
        print(f"{name:32}{p50:8.1f}{p99:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
