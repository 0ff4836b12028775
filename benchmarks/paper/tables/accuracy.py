"""Table 1: accuracy, labels that differ, and how loose the bound is."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.facts import PaperRow
from benchmarks.paper.printed import PRINTED
from benchmarks.paper.tables.table import NOTHING, PAPER, Table, count, differ, notes_of, percent
from benchmarks.report import times

__all__ = ["accuracy_tables"]


def accuracy_tables(document: dict[str, Any]) -> list[Table]:
    """The paper's table 1 in two parts, and what it says of the bound."""
    return [_accuracy(document), _differences(document), _bounds(document)]


def _accuracy(document: dict[str, Any]) -> Table:
    columns = ["set", "d", "γ max, paper", "γ max", "γ", "test rows", "SVs, paper", "SVs"]
    columns += ["exact, paper", "exact"]
    rows = []
    for one in document["accuracy"]:
        paper = PRINTED[one["name"]]
        cells = [one["name"], f"{one['features']}", f"{paper.gamma_max:g}"]
        cells += [f"{one['gamma_max']:.4g}", f"{one['gamma']:g}", f"{one['rows']:,}"]
        cells += [count(paper.support_vectors), count(one["support_vectors"])]
        cells += [f"{paper.accuracy:.1f}%", percent(one["accuracy"])]
        cells.append(percent(one["modes"]["origin"]["accuracy"]))
        rows.append(cells)
    absent = [_absent(one) for one in document.get("absent", [])]
    return Table(
        "Table 1: accuracy",
        "Share of test rows that are classified rightly: by the exact model, and by the paper's "
        "form of it (expanded about the origin). d: features; SVs: support vectors; γ max: the "
        "largest γ for which the paper's rule admits every training row, here about the origin. "
        "(Over the support vectors alone, or about the mean, it is larger: three values of the "
        "same name, which the page “Why is my plan exact” tells apart.)",
        [*columns, "approximated"],
        rows,
        [*notes_of(document["accuracy"]), *absent],
        where="“Paper” columns are printed in the paper; all others were computed here on every "
        "row of the test file. The models are LIBSVM's, trained with the paper's γ; it does not "
        "state C, so the numbers of support vectors differ a little.",
    )


def _differences(document: dict[str, Any]) -> Table:
    columns = ["set", "paper", "approxsvm", "origin", "of those wrong", "default point"]
    columns.append("of those wrong")
    rows = []
    for one in document["accuracy"]:
        modes = one["modes"]
        cells = [one["name"], f"{PRINTED[one['name']].differ:g}%", _tool(PAPER[one["name"]])]
        for name in ("origin", "default"):
            cells += [differ(modes[name]), count(modes[name]["differ_and_wrong"])]
        rows.append([*cells, differ(modes["certified"]), differ(modes["calibrated"])])
    return Table(
        "Table 1, continued: labels that differ from the exact model's",
        "Share and number of test rows whose label changes, and how many of those the "
        "approximated model gets wrong (on the others the exact model is wrong). Origin: the "
        "paper's form. Default point: the same form expanded about the mean of training rows, "
        "kernelite's default. Certified: every label is proven to be the exact model's, or the "
        "exact model gives it. Calibrated: tested on training rows to differ on at most 0.1% of "
        "such rows, with 99% confidence.",
        [*columns, "certified", "calibrated"],
        rows,
        where="The “paper” column is printed in the paper, for its own models; all others were "
        "computed here on every test row. The approxsvm column is the authors' C++ program, "
        "run once on these same models and compared with svm-predict.",
    )


def _bounds(document: dict[str, Any]) -> Table:
    rows = []
    for one in sorted(document["accuracy"], key=lambda one: one["features"]):
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
                percent(loose["certified_share"]),
                _fallback(modes["certified"]),
                _fallback(modes["calibrated"]),
            ]
        )
    columns = ["set", "d", "γ / γ max", "median error", "median bound", "bound / error, median"]
    columns += ["bound / error, smallest", "certified by the bound alone"]
    columns += ["to the exact model, certified", "to the exact model, calibrated"]
    return Table(
        "How loose the bound is, against d",
        "kernelite's proven bound on the error of each row's score beside the true error, about "
        "the default point. It is loose by one to two orders of magnitude, more by γ / γ max and "
        "by the spread of the data than by d. The last columns: the share of test rows whose "
        "label the bound alone proves, and the share that a compiled model hands to the exact one.",
        columns,
        rows,
        where="Computed here on every test row; the true error is that against the exact score in "
        "double precision.",
    )


def _absent(one: dict[str, Any]) -> str:
    paper = PRINTED[one["name"]]
    return (
        f"{one['name']}: {one['why']}. The paper prints γ max {paper.gamma_max:g}, "
        f"γ {paper.gamma:g}, {paper.support_vectors:,} support vectors, {paper.accuracy:g}% for "
        "the exact model and "
        f"{paper.differ:g}% of labels that differ."
    )


def _tool(paper: PaperRow) -> str:
    if paper.tool_differs is None:
        return NOTHING
    return f"{percent(paper.tool_differs / paper.test_rows)} ({paper.tool_differs:,})"


def _fallback(mode: dict[str, Any]) -> str:
    return NOTHING if "absent" in mode else percent(mode["fallback_share"])
