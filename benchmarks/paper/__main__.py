"""`python -m benchmarks.paper`: measure, then write docs/paper.json, paper.html and paper.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.contestant import Absent
from benchmarks.paper import curves
from benchmarks.paper.accuracy import accuracy
from benchmarks.paper.draw import figures, standalone
from benchmarks.paper.facts import ROWS, PaperRow
from benchmarks.paper.files import svm_predict
from benchmarks.paper.page import page
from benchmarks.paper.polynomial import polynomial
from benchmarks.paper.sizes import least_squares, sizes
from benchmarks.paper.speed import speed
from benchmarks.paper.subjects import Subject, load
from benchmarks.paper.tables import tables
from benchmarks.paper.text import text
from benchmarks.results import plain
from benchmarks.settings import Settings
from kernelite.cli.console import note
from kernelite.errors import KerneliteError
from kernelite.formats.files import atomic_write

__all__ = ["main", "measure", "render"]

DOCS = Path(__file__).parents[2] / "docs"
ONCE_A_SET = {"a9a 0.01", "mnist1", "ijcnn1"}
"""Rows of which least squares, the sweep and the polynomial kernel are shown: one a data set."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write, or write again from an earlier measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    names = [row.name for row in ROWS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one repeat, small curves")
    parser.add_argument("--render", action="store_true", help="only write the pages again")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder to write to")
    args = parser.parse_args(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / "paper.json"
        if args.render:
            document = json.loads(path.read_text(encoding="utf-8"))
        else:
            chosen = [row for row in ROWS if row.name in args.sets]
            document = measure(chosen, quick=args.quick)
        render(document, args.out)
    except KeyboardInterrupt:
        note("paper: interrupted; the pages are as they were, trained models and data are kept")
        return 130
    except (KerneliteError, OSError) as error:
        note(f"paper: error: {error}")
        return 1
    note(f"wrote paper.json, paper.html and paper.md into {args.out}")
    return 0


def measure(rows: Sequence[PaperRow], *, quick: bool = False) -> dict[str, Any]:
    """Everything, as one document."""
    document: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        **{section: [] for section in ("accuracy", "speed", "sizes", "polynomial", "absent")},
        "curves": {"series": curves.series_error(), "bound": [], "sweep": []},
    }
    for row in rows:
        _measure_row(document, row, quick)
    settings = Settings(rounds=1 if quick else 5, seconds=0.05 if quick else 0.5)
    vectors = curves.VECTORS[:2] if quick else curves.VECTORS
    document["curves"]["vectors"] = curves.time_against_vectors(settings, vectors, note)
    found: dict[str, Any] = plain(document)
    return found


def _measure_row(document: dict[str, Any], row: PaperRow, quick: bool) -> None:
    subject = load(row, note)
    try:
        document["accuracy"].append(accuracy(subject, note))
    except Absent as error:
        document["absent"].append({"name": row.name, "why": str(error)})
    rounds, seconds = (1, 0.05) if quick else (5, 0.5)
    found = speed(subject, rounds=rounds, seconds=seconds, tell=note)
    command = svm_predict(subject, 20 if quick else 1_000)
    if command is not None:
        found["ways"].append(command)
    document["speed"].append(found)
    document["sizes"].append(sizes(subject, note))
    if not subject.workload.generated:
        document["curves"]["bound"].append(curves.bound_against_error(subject))
        if row.name in ONCE_A_SET:
            _once_a_set(document, subject, quick)


def _once_a_set(document: dict[str, Any], subject: Subject, quick: bool) -> None:
    rows = 300 if quick else 3_000
    limits = {"solved_rows": 200, "most_rows": 500} if quick else {}
    document["sizes"].append(least_squares(subject, note, **limits))
    ratios = (0.5, 5.0) if quick else curves.RATIOS
    sweep = curves.sweep(subject, rows=rows, ratios=ratios, tell=note)
    document["curves"]["sweep"].append(sweep)
    rounds = 1 if quick else 5
    document["polynomial"].append(
        polynomial(subject, rows=rows if quick else 5_000, rounds=rounds, tell=note)
    )


def render(document: dict[str, Any], folder: Path) -> None:
    """Write paper.json, paper.html, paper.md and the figures, each whole."""
    made, drawn = tables(document), figures(document)
    images = folder / "paper"
    images.mkdir(exist_ok=True)
    for figure in drawn:
        _write(images / f"{figure.name}.svg", standalone(figure))
    _write(folder / "paper.html", page(document, made, drawn))
    _write(folder / "paper.md", text(document, made, drawn, images.name))
    _write(folder / "paper.json", json.dumps(document, indent=1, allow_nan=False) + "\n")


def _write(path: Path, content: str) -> None:
    with atomic_write(path) as file:
        file.write(content)


if __name__ == "__main__":
    sys.exit(main())
