"""One row at a time: the median of many calls, each with another row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.batch import contestants
from benchmarks.contestant import Contestant
from benchmarks.settings import Settings
from benchmarks.timing import median_call
from benchmarks.workloads import Workload

__all__ = ["SINGLE", "single"]

SINGLE = ("scikit-learn", "scikit-learn-intelex", "onnxruntime", "exact", "certified", "none")
DISTINCT = 256  # rows that calls cycle through
LONGEST = 5.0  # seconds for a contestant


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
