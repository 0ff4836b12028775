"""From the document of results to tables of text, which the page and the Markdown both show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.paper.facts import ROWS, PaperRow
from benchmarks.report import micros, times

__all__ = ["Table", "tables"]

PAPER = {row.name: row for row in ROWS}
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table of text.

    Parameters
    ----------
    title, caption : str
    columns : list of str
    rows : list of list of str
        A row of one cell is a heading over those that follow.
    notes : list of str
    marked : set of int
        Rows to show in bold.
    """

    title: str
    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    marked: frozenset[int] = frozenset()


def tables(document: dict[str, Any]) -> list[Table]:
    """All tables that there are results of."""
    made = []
    if document.get("accuracy"):
        made += [_accuracy(document), _differences(document), _bounds(document)]
    if document.get("speed"):
        made.append(_speed(document))
    if document.get("sizes"):
        made.append(_sizes(document))
    if document.get("polynomial"):
        made += [_polynomial(document), _factor(document)]
    return made


def _accuracy(document: dict[str, Any]) -> Table:
    columns = ["set", "d", "γ max", "γ", "test rows", "SVs, paper", "SVs", "exact, paper", "exact"]
    rows = []
    for one in document["accuracy"]:
        paper = PAPER[one["name"]]
        cells = [one["name"], f"{one['features']}", f"{one['gamma_max']:.3g}", f"{one['gamma']:g}"]
        cells += [f"{one['rows']:,}", _count(paper.support_vectors), _count(one["support_vectors"])]
        cells += [_accuracy_of_paper(paper), _percent(one["accuracy"])]
        cells.append(_percent(one["modes"]["origin"]["accuracy"]))
        rows.append(cells)
    return Table(
        "Table 1: accuracy",
        "Test accuracy of the exact and of the approximated model (the paper's form, about the "
        "origin). γ max is of the training rows. “Paper” columns are the paper's figures.",
        [*columns, "approximated"],
        rows,
        [*_notes(document["accuracy"]), *_absent(document)],
    )


def _differences(document: dict[str, Any]) -> Table:
    columns = ["set", "approxsvm", "origin", "of those wrong", "default point", "of those wrong"]
    rows = []
    for one in document["accuracy"]:
        modes = one["modes"]
        cells = [one["name"], _tool(PAPER[one["name"]])]
        for name in ("origin", "default"):
            cells += [_differ(modes[name]), _count(modes[name]["differ_and_wrong"])]
        rows.append([*cells, _differ(modes["certified"]), _differ(modes["calibrated"])])
    return Table(
        "Table 1, continued: labels that differ from the exact model's",
        "Share and number of test rows, and how many of them the approximated model gets wrong "
        "(the exact model is wrong on the others). approxsvm: the paper's C++ tool on these "
        "models; origin: the same expansion point, computed here; default point: kernelite's; "
        "certified: proven; calibrated: tested to differ on at most 0.1% of such rows.",
        [*columns, "certified", "calibrated"],
        rows,
    )


def _bounds(document: dict[str, Any]) -> Table:
    rows = []
    for one in document["accuracy"]:
        loose, modes = one["looseness"], one["modes"]
        rows.append(
            [
                one["name"],
                f"{one['features']}",
                f"{one['gamma'] / one['gamma_max']:.2g}",
                f"{loose['median_error']:.2g}",
                f"{loose['median_bound']:.2g}",
                times(loose["median_ratio"]),
                times(loose["smallest_ratio"]),
                _percent(loose["certified_share"]),
                _fallback(modes["certified"]),
                _fallback(modes["calibrated"]),
            ]
        )
    columns = ["set", "d", "γ / γ max", "median error", "median bound", "bound / error, median"]
    columns += ["smallest", "certified, bound alone", "fall back, certified"]
    return Table(
        "How loose the bound is",
        "The proven bound on each row's score against its true error, about the default point; and "
        "the share of test rows that the exact model has to finish.",
        [*columns, "fall back, calibrated"],
        rows,
    )


def _speed(document: dict[str, Any]) -> Table:
    columns = ["way", "µs a row", "ratio 1", "ratio 2", "predict, s", "approximate, s", "threads"]
    rows: list[list[str]] = []
    marked = set()
    notes = []
    for one in document["speed"]:
        known = PAPER[one["name"]].speed_ratios
        beside = "" if known is None else f"; the paper's ratios: {known[0]:g} and {known[1]:g}"
        rows.append([f"{_name(one)}: {one['rows']:,} rows{beside}"])
        ours = [way for way in one["ways"] if way["kind"] == "paper"]
        optimal = max(ours, key=lambda way: way["ratio_2"] or 0.0, default=None)
        for way in sorted(one["ways"], key=lambda way: -way["predict_mean"]):
            if way is optimal:
                marked.add(len(rows))
            rows.append(_way(way, "optimal: " if way is optimal else ""))
            if way["note"] and way["kind"] == "paper":
                notes.append(f"{one['name']}, {way['name']}: {way['note']}.")
    return Table(
        "Table 2: speed",
        "Seconds for the whole test set, mean and standard deviation over repeats; slow ways are "
        "timed on fewer rows and scaled. LOOPS: approximated by a plain loop compiled without "
        f"vectorisation; BLAS: by {document['machine']['blas'].split(' (')[0]}. SIMD off: "
        "predicted by such a loop; on: by kernelite's kernels. These use one thread, and the "
        "paper's expansion point, the origin. Ratio 1 is scikit-learn's time over the prediction "
        "time, ratio 2 over the sum of prediction and approximation. The paper's own "
        "times are not at hand, so they are not shown.",
        columns,
        rows,
        [*dict.fromkeys(notes), *_notes(document["speed"])],
        frozenset(marked),
    )


def _way(way: dict[str, Any], before: str) -> list[str]:
    return [
        f"{before}{way['name']}",
        micros(way["microseconds"]),
        times(way["ratio_1"]) if way["ratio_1"] else NOTHING,
        times(way["ratio_2"]) if way["ratio_2"] else NOTHING,
        _spread(way["predict_mean"], way["predict_deviation"]),
        _spread(way["approximate_mean"], way["approximate_deviation"]),
        way["threads"],
    ]


def _sizes(document: dict[str, Any]) -> Table:
    columns = ["set", "d", "SVs", "exact text", "approxsvm text", "by approxsvm itself"]
    columns += [".kernelite", ".kernelite, truncated", ".kernelite, certified", "ratio, paper"]
    rows = []
    for one in document["sizes"]:
        cells = [_name(one), f"{one['features']}", _count(one["support_vectors"])]
        cells += [_count(one["exact_text"]), _size(one, "approxsvm"), _count(one["tool_bytes"])]
        cells += [_size(one, name) for name in ("full", "truncated", "certified")]
        cells.append(NOTHING if one["paper_ratio"] is None else f"{one['paper_ratio']:g}x")
        rows.append(cells)
    return Table(
        "Table 3: size",
        "Bytes of the model, and in brackets how many times smaller than LIBSVM's exact text. "
        "`.kernelite` is the compiled form alone; truncated keeps the leading directions of its "
        "matrix where that changes scores by less than 0.1% of their spread; certified keeps the "
        "support vectors for the rows that need them.",
        columns,
        rows,
        _notes(document["sizes"]),
    )


def _polynomial(document: dict[str, Any]) -> Table:
    columns = ["set", "kernel", "γ", "SVs", "accuracy", "compiled", "labels differ", "µs a row"]
    rows = []
    for one in document["polynomial"]:
        for kernel, found in one["kernels"].items():
            rows.append(
                [
                    one["name"],
                    "RBF" if kernel == "rbf" else kernel,
                    f"{one['gamma']:.3g}",
                    _count(found["support_vectors"]),
                    _percent(found["accuracy"]),
                    _percent(found["compiled_accuracy"]),
                    _count(found["differ"]),
                    micros(found["microseconds"]),
                ]
            )
    trained = {one["train_rows"] for one in document["polynomial"]}
    return Table(
        "The degree-2 polynomial kernel",
        "(γ x·z + 1)² and the RBF kernel trained on the same "
        f"{' or '.join(f'{n:,}' for n in sorted(trained))} rows with the same γ and C, both "
        "compiled to one quadratic form: the polynomial's is exact, the RBF's an approximation.",
        columns,
        rows,
    )


def _factor(document: dict[str, Any]) -> Table:
    rows = [
        [
            one["name"],
            f"{one['factor']['gamma']:g}",
            *(f"{one['factor'][name]:.3f}" for name in ("smallest", "median", "largest")),
            _percent(one["factor"]["inside"]),
        ]
        for one in document["polynomial"]
    ]
    return Table(
        "The factor exp(-γ|z|²)",
        "What sets the approximated RBF model apart from a polynomial, over the test rows. For "
        "valid rows at γ max the paper gives the interval (e^-0.25, 1] = (0.779, 1]. Cao et al.'s "
        "earlier approximation is the special case of rows of unit norm: there the factor is the "
        "same for every row, and the form is a polynomial of degree 2.",
        ["set", "γ", "smallest", "median", "largest", "rows inside the interval"],
        rows,
    )


def _name(one: dict[str, Any]) -> str:
    return f"{one['name']} (generated)" if one["generated"] else one["name"]


def _notes(found: Iterable[dict[str, Any]]) -> list[str]:
    return [f"{one['name']}: {' '.join(one['notes'])}" for one in found if one.get("notes")]


def _absent(document: dict[str, Any]) -> list[str]:
    return [f"{one['name']}: {one['why']}." for one in document.get("absent", [])]


def _count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.2f}%"


def _accuracy_of_paper(paper: PaperRow) -> str:
    return NOTHING if paper.accuracy is None else f"{paper.accuracy:g}%"


def _tool(paper: PaperRow) -> str:
    if paper.tool_differs is None:
        return NOTHING
    return f"{100 * paper.tool_differs / paper.test_rows:.2f}% ({paper.tool_differs:,})"


def _differ(mode: dict[str, Any]) -> str:
    if "absent" in mode:
        return NOTHING
    return f"{100 * mode['differ_share']:.2f}% ({mode['differ']:,})"


def _fallback(mode: dict[str, Any]) -> str:
    return NOTHING if "absent" in mode else _percent(mode["fallback_share"])


def _size(one: dict[str, Any], name: str) -> str:
    if name not in one["bytes"]:
        return NOTHING
    return f"{one['bytes'][name]:,} ({times(one['ratios'][name])})"


def _spread(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return NOTHING
    return f"{mean:.3g}" if deviation is None else f"{mean:.3g} ± {deviation:.1g}"
