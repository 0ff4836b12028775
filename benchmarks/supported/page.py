"""docs/machines.md from docs/machines.json: a line per estimator."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks import kernel_pairs
from benchmarks.supported.subjects import GENERATED

__all__ = ["JSON", "PAGE", "read", "render", "shown"]

DOCS = Path(__file__).parents[2] / "docs"
JSON, PAGE = DOCS / "machines.json", DOCS / "machines.md"

HEAD = """\
# Every machine, measured

Each supported estimator, fitted on two data sets that scikit-learn ships and on a generated one
of 20,000 rows and 6 features (200 rows to train on, all to predict), compiled with each guarantee,
and compared with the original's own answers: labels, values, decision values, probabilities.

- *Deviation*: the largest difference from the original on the three data sets, relative to its
  largest value. With "certified", values are within their `tolerance` (by default a thousandth of
  the outputs' standard deviation), probabilities within 0.001, and decision values within
  `error_bound`; every one was checked. With "exact", what is left is rounding.
- *Labels that differ*: of all rows together. With "certified" and "exact" there are none.
- *Fell back*: the share of the generated rows that "certified" evaluated exactly. 100% means that
  the plan is the exact engine: so few support vectors are cheaper to evaluate than a form, or the
  proof does not reach at this gamma. Where a model has several parts (sums of kernels, ensembles),
  a part that is planned to be exact from the start does not count.
- *Speed-up*: "certified" against the original's own `predict` (or `transform`, `score_samples`) on
  the generated rows, in one process, with 1,000 rows to train on.

`python -m benchmarks.supported` measures all of this again and writes this page (two minutes);
`--check` measures all but the speed, and notes the version of scikit-learn that was tried.
The test suite holds the page to what is measured.
"""


KERNELS = """\
## Every kernel

How many times faster than the original each kernel is, with 1,000 rows of 8 features to train on
and guarantee "certified" ("exact" for Matern 7/10, which rests on SciPy's Bessel functions): one
thread each, processor time. Estimators with one kernel alone are in the table above. Of 1,000 rows
per pair, {labels} labels differ from the original's; values deviate by {deviation} of the largest
at most. Standard deviations take a triangular solve per row, which is most of the work for both; 30
components of Nystroem are so little work that checking the rows counts.
`python -m benchmarks.kernels_table --sections pairs --processor --page` measures it again and
writes this table (two minutes).
"""


def read() -> dict[str, Any]:
    """What was measured, as stored."""
    found: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8"))
    return found


def render(document: dict[str, Any]) -> str:
    """The page."""
    head = (
        "| estimator | data sets | scikit-learn | deviation, none | certified | exact "
        "| labels that differ, none | certified | fell back | speed-up |"
    )
    lines = [head, "|---|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for name, entry in document["estimators"].items():
        lines.append("| " + " | ".join(_cells(name, entry, document["versions"])) + " |")
    footer = f"Measured on {document['machine']}." if document["machine"] else ""
    kernels = document.get("kernels", [])
    table = [_about(kernels), kernel_pairs.table(kernels), ""] if kernels else []
    return "\n".join([HEAD, *lines, "", *table, footer]).rstrip() + "\n"


def _about(kernels: list[dict[str, Any]]) -> str:
    """What stands above the table of kernels."""
    deviation = max((entry["deviation"] or 0.0 for entry in kernels), default=0.0)
    labels = sum(entry["labels_that_differ"] or 0 for entry in kernels)
    return KERNELS.format(labels=labels or "no", deviation=shown(deviation))


def shown(deviation: float | None) -> str:
    """A deviation in a cell.

    Examples
    --------
    >>> shown(0.0), shown(3.2e-15), shown(0.0123), shown(None)
    ('0', '3e-15', '0.01', 'refused')
    """
    if deviation is None or math.isnan(deviation):
        return "refused"
    if deviation == 0.0:
        return "0"
    return f"{deviation:.0e}" if deviation < 1e-3 else f"{deviation:.1g}"


def _cells(name: str, entry: dict[str, Any], versions: dict[str, list[str]]) -> list[str]:
    data = entry["data"]
    found = {key: _largest(data, key) for key in ("none", "certified", "exact")}
    rows = sum(one["rows"] for one in data.values())
    labels = (sum(one[f"labels_{key}"] for one in data.values()) for key in ("none", "certified"))
    differ = [f"{count:,} of {rows:,}" if entry["labels"] else "" for count in labels]
    speed = entry["speed_up"]
    tried = [version for version in versions if name in versions[version]]
    return [
        name,
        ", ".join(data),
        ", ".join(tried),
        *(shown(found[key]) if entry["values"] else "" for key in ("none", "certified", "exact")),
        *differ,
        f"{100 * data[GENERATED]['fell_back']:.3g}%",
        "" if speed is None else f"{speed:.3g}x",
    ]


def _largest(data: dict[str, Any], key: str) -> float | None:
    values = [one[key] for one in data.values() if one[key] is not None]
    return max(values) if values else None
