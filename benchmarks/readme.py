"""Writes what is said about speed: `python -m benchmarks.readme [--check]`.

One table in the README, all of them on the site's page docs/measured/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine, results
from benchmarks.report import markdown, micros, times

__all__ = ["all_tables", "filled", "main", "speed_section"]

README = Path(__file__).parents[1] / "README.md"
PAGE = README.parent / "docs" / "measured" / "benchmarks.md"
START, END = "<!-- speed:start -->", "<!-- speed:end -->"
PEERS = ("scikit-learn", "scikit-learn-intelex")
COLUMNS = ("kernelite exact", "kernelite certified", "kernelite none")


def main(argv: Sequence[str] | None = None) -> int:
    """Fill both, or say with `--check` whether they are up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.readme", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="only say whether it would change")
    parser.add_argument("--results", type=Path, default=results.FOLDER, help="folder of the JSON")
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--page", type=Path, default=PAGE, help="the site's page")
    args = parser.parse_args(argv)
    sections = {args.readme: speed_section(args.results), args.page: all_tables(args.results)}
    old = {path: path.read_text(encoding="utf-8") for path in sections}
    new = {path: filled(old[path], section) for path, section in sections.items()}
    if args.check:
        print("up to date" if new == old else "would change")
        return int(new != old)
    for path, text in new.items():
        path.write_text(text, encoding="utf-8")
    return 0


def filled(text: str, section: str) -> str:
    """`text` with `section` between the two marks.

    Examples
    --------
    >>> filled("a\\n<!-- speed:start -->\\nold\\n<!-- speed:end -->\\nb", "new")
    'a\\n<!-- speed:start -->\\nnew\\n<!-- speed:end -->\\nb'
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the README needs the marks {START} and {END}")
    return f"{before}{START}\n{section.strip()}\n{END}{after}"


def speed_section(folder: Path = results.FOLDER) -> str:
    """The README's section: one table, and where the others are."""
    batch = _required(folder)
    return "\n\n".join(
        [
            "## Speed",
            f"{_caption(batch)}{_one_thread(folder)}",
            _batch(batch["content"]),
            f"Measured on {machine.hardware(batch['machine'])}. Versions, single rows, other "
            "machines, other ways to be fast, whole files and how it was measured: "
            "[docs/measured/benchmarks.md](docs/measured/benchmarks.md). Reproduce with "
            "`make bench`.",
        ]
    )


def all_tables(folder: Path = results.FOLDER) -> str:
    """The site's page: every table."""
    batch = _required(folder)
    single, files = results.load("single", folder), results.load("files", folder)
    parts = ["## Batches", _caption(batch), _batch(batch["content"])]
    if others := _others(batch["content"]):
        parts += [
            "## What else one might use",
            "Microseconds per row; in brackets, labels that differ from the exact model's.",
            others,
        ]
    if single is not None:
        parts += [
            "## One row per call",
            "`predict` on an array of one row, median.",
            _single(single),
        ]
    if others := results.load("machines", folder):
        parts += [
            "## Other machines",
            "Certified: times faster than scikit-learn's own, over so many cases "
            "(benchmarks/results/machines.json has each).",
            _machines(others["content"]),
        ]
    if files is not None:
        parts += [
            "## From file to file",
            "Whole commands, starting Python included.",
            _files(files),
        ]
    parts += ["## How it was measured", _how(batch)]
    return "\n\n".join(part for part in parts if part)


def _required(folder: Path) -> dict[str, Any]:
    batch = results.load("batch", folder)
    if batch is None:
        raise ValueError("there are no results yet; run `make bench` first")
    return batch


def _caption(batch: dict[str, Any]) -> str:
    return (
        f"Microseconds per row in batches, best of {batch['settings']['rounds']}, all in one run; "
        "in brackets, times faster than scikit-learn's `SVC.predict`. Labels are compared with the "
        "exact model's before anything is timed: certified and exact have no difference."
    )


def _one_thread(folder: Path) -> str:
    """How much of it is due to several cores, where that was measured."""
    found = results.load("scaling", folder)
    if found is None:
        return ""
    alone, *_, all_threads = found["content"]["threads"]
    exact, certified = (
        alone["microseconds"][name] / all_threads["microseconds"][name]
        for name in ("kernelite exact", "kernelite certified")
    )
    return (
        " scikit-learn's `predict` uses one core, kernelite all: on one thread its exact engine "
        f"takes {exact:.2g} times as long as on {all_threads['threads']}, and a form "
        f"{certified:.2g} times."
    )


def _batch(workloads: list[dict[str, Any]]) -> str:
    rows = []
    # What a default SVC() gets comes first: most readers have one.
    for workload in sorted(workloads, key=lambda one: not one["name"].startswith("default")):
        found = {one["name"]: one for one in workload["contestants"]}
        cells = [_model(workload)]
        cells += [micros(found[name]["microseconds"]) if name in found else "-" for name in PEERS]
        cells += [_with_ratio(found.get(name)) for name in COLUMNS]
        cells.append(_differences(found.get("kernelite none")))
        rows.append(cells)
    columns = ["model", *PEERS, *COLUMNS, "labels that differ with none"]
    return markdown(columns, rows)


def _others(workloads: list[dict[str, Any]]) -> str:
    """Everybody who is not in the first table, a line each."""
    found = [{one["name"]: one for one in workload["contestants"]} for workload in workloads]
    names = dict.fromkeys(name for models in found for name in models)
    rows = [
        [name, *(_with_differences(models.get(name)) for models in found)]
        for name in names
        if name not in (*PEERS, *COLUMNS)
    ]
    return markdown(["", *(workload["name"] for workload in workloads)], rows) if rows else ""


def _with_differences(one: dict[str, Any] | None) -> str:
    return "-" if one is None else f"{micros(one['microseconds'])} ({_differences(one)})"


def _model(workload: dict[str, Any]) -> str:
    made = "" if not workload["generated"] else ", generated"
    size = f"{workload['support_vectors']:,} SVs, {workload['features']} features"
    name = workload["name"].removeprefix("generated ") or "generated"
    return f"{'generated' if name.isdigit() else name} ({size}{'' if name.isdigit() else made})"


def _with_ratio(one: dict[str, Any] | None) -> str:
    if one is None:
        return "-"
    return f"{micros(one['microseconds'])} ({times(one['times_sklearn'])})"


def _differences(one: dict[str, Any] | None) -> str:
    if one is None:
        return "-"
    return f"{100 * one['rows_differ'] / one['rows_checked']:.2g}%"


def _single(document: dict[str, Any]) -> str:
    names = [one["name"] for one in document["content"][0]["contestants"]]
    rows = []
    for workload in document["content"]:
        found = {one["name"]: one["microseconds"] for one in workload["contestants"]}
        rows.append([workload["name"], *(f"{micros(found.get(name))} us" for name in names)])
    return markdown(["model", *names], rows)


MACHINES = {
    "gpr": "GaussianProcessRegressor, mean",
    "kde": "KernelDensity, rtol 1e-3",
    "pca": "KernelPCA",
    "nystroem": "Nystroem, alone and with Ridge",
    "text": "SVC of sparse text",
    "pipeline": "StandardScaler + SVC on a data frame",
}


def _machines(entries: list[dict[str, Any]]) -> str:
    rows = []
    for section, title in MACHINES.items():
        mine = [one for one in entries if one.get("section") == section]
        rows.append(_range(title, [one["ratio"] for one in mine]))
        # scikit-learn makes room for all rows at once; then most of its time goes there.
        whole = [
            one["whole_call_us"] / one["certified_us"] for one in mine if "whole_call_us" in one
        ]
        rows.append(_range(f"{title}: its call on 100,000 rows", whole))
    return markdown(["machine", "cases", "least", "most"], [row for row in rows if row])


def _range(title: str, ratios: list[float]) -> list[str]:
    if not ratios:
        return []
    return [title, str(len(ratios)), times(min(ratios)), times(max(ratios))]


def _files(document: dict[str, Any]) -> str:
    rows = []
    for workload in document["content"]:
        for one in workload["contestants"]:
            size = f"{one['file_megabytes']:.3g} MB, {one['rows']:,} rows"
            speed = f"{one['megabytes_a_second']:.3g} MB/s"
            rows.append([workload["name"], one["name"], size, f"{one['seconds']:.2f} s", speed])
    return markdown(["model", "command", "file", "time", "speed"], rows)


def _how(batch: dict[str, Any]) -> str:
    rows = {
        one["rows_timed"]
        for w in batch["content"]
        for one in w["contestants"]
        if one["name"] == "scikit-learn"
    }
    return (
        "Slow contestants are timed on fewer rows (scikit-learn on "
        f"{min(rows, default=0):,} or more). "
        f"Measured on {machine.in_words(batch['machine'])}. "
        "Reproduce with `make bench`; "
        "`python -m benchmarks --help` lists the rest: more peers, scaling, memory, threads, "
        "share of the roofline. All figures are in the folder `benchmarks/results`."
    )


if __name__ == "__main__":
    sys.exit(main())
