"""Table 2: speed."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.printed import PRINTED
from benchmarks.paper.tables.table import NOTHING, Table, name_of, notes_of, ratio, seconds
from benchmarks.report import micros

__all__ = ["optimal", "speed_table"]

ORDER = ("exact", "tool", "paper", "kernelite")


def speed_table(document: dict[str, Any]) -> Table:
    """A heading a set; exact ways, the paper's tool, the paper's axes, kernelite's guarantees."""
    columns = ["way", "ratio 1", "ratio 2", "predict, s", "approximate, s", "µs per row"]
    columns += ["rows timed", "threads"]
    rows: list[list[str]] = []
    marked = set()
    notes = []
    for one in document["speed"]:
        rows.append([f"{name_of(one)}: {one['rows']:,} rows{_beside(one)}"])
        rows += _printed(one["name"])
        best = optimal(one)
        for way in sorted(one["ways"], key=_rank):
            if way is best:
                marked.add(len(rows))
            rows.append(_way(way, "optimal: " if way is best else "", one["generated"]))
            if way["note"] and way["kind"] == "paper":
                notes.append(f"{one['name']}, {_family(way)}: {way['note']}.")
    blas = document["machine"]["blas"].split(" (")[0]
    return Table(
        "Table 2: speed",
        "Seconds to predict the whole test set, and to approximate the model. LOOPS: approximated "
        f"by a plain loop, compiled without vectorisation; BLAS: by matrix products ({blas}). SIMD "
        "off: predicted by such a loop; on: by kernelite's vectorised kernels. These four are the "
        "paper's form about the origin, on one thread, and the best of them by ratio 2 is the "
        "optimal row. Ratio 1 is scikit-learn's time over the time to predict, ratio 2 over the "
        "time to approximate and predict. Rows that begin with “paper” are printed in its table "
        "2: measured on a machine of 2012, with its own models and ratios against its own exact "
        "time, reading the rows as text included; only their ratios compare. The authors' program "
        "was also run here.",
        columns,
        rows,
        [*dict.fromkeys(notes), *notes_of(document["speed"])],
        frozenset(marked),
        where="Measured here, in turns within one run: mean ± standard deviation over "
        f"{document.get('rounds', 'several')} repeats. Slow ways are timed on fewer rows, as the "
        "column says, and scaled. The commands svm-predict and approxsvm (built without BLAS) read "
        "their rows as text; of their processor time, what a single row takes is subtracted, and "
        "approximating is approxsvm's whole command. scikit-learn's SVC runs LIBSVM's code on "
        "dense rows.",
    )


def optimal(one: dict[str, Any]) -> dict[str, Any] | None:
    """The best of the paper's four combinations, approximating included."""
    ours = [way for way in one["ways"] if way["kind"] == "paper"]
    return max(ours, key=lambda way: way["ratio_2"] or 0.0, default=None)


def _rank(way: dict[str, Any]) -> tuple[int, float]:
    """By kind; within a kind from slow to quick, but the paper's axes in their own order."""
    return ORDER.index(way["kind"]), 0.0 if way["kind"] == "paper" else -way["predict_mean"]


def _printed(name: str) -> list[list[str]]:
    """The paper's own lines; not timed here, so without times per row."""
    found = PRINTED.get(name)
    return [
        [
            f"paper, {line.way}",
            ratio(line.ratio_1),
            ratio(line.ratio_2),
            seconds(line.predict, line.deviation or None),
            seconds(line.approximate, line.approximate_deviation or None),
            *(NOTHING, NOTHING, "one"),
        ]
        for line in (() if found is None else found.speed)
    ]


def _beside(one: dict[str, Any]) -> str:
    tool = one.get("tool")
    if tool is None:
        return ""
    return (
        f"; svm-predict over approxsvm: {ratio(tool['ratio_1'])}, with approximation "
        f"{ratio(tool['ratio_2'])}{' (recorded earlier)' if tool['recorded'] else ''}"
    )


def _family(way: dict[str, Any]) -> str:
    return str(way["name"]).split(",")[0]


def _way(way: dict[str, Any], before: str, generated: bool) -> list[str]:
    name = way["name"]
    if name == "kernelite none":
        name += " (default point)" if generated else " (default point, truncated)"
    return [
        f"{before}{name}",
        ratio(way["ratio_1"]),
        ratio(way["ratio_2"]),
        seconds(way["predict_mean"], way["predict_deviation"]),
        seconds(way["approximate_mean"], way["approximate_deviation"]),
        micros(way["microseconds"]),
        f"{way['rows_timed']:,}",
        way["threads"],
    ]
