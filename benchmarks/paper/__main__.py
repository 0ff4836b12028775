"""`python -m benchmarks.paper`: measure, then write docs/paper.json, paper.html and paper.md."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import machine
from benchmarks.contestant import Absent
from benchmarks.paper import curves
from benchmarks.paper.accuracy import accuracy
from benchmarks.paper.commands import add_commands
from benchmarks.paper.draw import figures, standalone
from benchmarks.paper.effort import FULL, QUICK, Effort
from benchmarks.paper.facts import ROWS, PaperRow
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
from kernelite.support.errors import KerneliteError
from kernelite.support.files import atomic_write

__all__ = ["main", "measure", "render"]

DOCS = Path(__file__).parents[2] / "docs"
ONCE_A_SET = {"a9a 0.01", "mnist1", "ijcnn1"}
"""Rows of which least squares, the sweep and the polynomial kernel are shown: one a data set."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write, or write again from an earlier measurement."""
    args = _arguments(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / "paper.json"
        if args.render:
            document = json.loads(path.read_text(encoding="utf-8"))
        else:
            chosen = [row for row in ROWS if row.name in args.sets]
            effort = QUICK if args.quick else FULL
            document = measure(chosen, effort, _tools(args.approxsvm))
        render(document, args.out)
    except KeyboardInterrupt:
        note("paper: interrupted; the pages are as they were, trained models and data are kept")
        return 130
    except (KerneliteError, OSError) as error:
        note(f"paper: error: {_in_words(error)}")
        return 1
    note(f"wrote paper.json, paper.html and paper.md into {args.out}")
    return 0


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "the disk is full; the pages are as they were and nothing half-written is kept. Free "
            "some room, or name other folders with --out and KERNELITE_BENCH_CACHE."
        )
    return str(error)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    names = [row.name for row in ROWS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one repeat, small curves")
    parser.add_argument("--render", action="store_true", help="only write the pages again")
    parser.add_argument(
        "--approxsvm",
        metavar="DIR",
        default=os.environ.get("KERNELITE_APPROXSVM"),
        help="folder of the paper's own approx-svm and approx-predict, to run them too "
        "(default: $KERNELITE_APPROXSVM)",
    )
    parser.add_argument("--out", type=Path, default=DOCS, help="folder to write to")
    return parser.parse_args(argv)


def _tools(folder: str | None) -> Path | None:
    """The folder of approxsvm's programs, checked before anything is measured."""
    if not folder:
        return None
    for name in ("approx-svm", "approx-predict"):
        if not os.access(Path(folder, name), os.X_OK):
            raise FileNotFoundError(f"`--approxsvm {folder}` has no program {name}.")
    return Path(folder).resolve()


def measure(
    rows: Sequence[PaperRow], effort: Effort = FULL, tools: Path | None = None
) -> dict[str, Any]:
    """Everything, as one document."""
    start = perf_counter()
    document: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "rounds": effort.rounds,
        **{section: [] for section in ("accuracy", "speed", "sizes", "polynomial", "absent")},
        "curves": {"series": curves.series_error(), "bound": [], "sweep": []},
    }
    for row in rows:
        _measure_row(document, row, effort, tools)
    settings = Settings(rounds=effort.rounds, seconds=effort.seconds)
    document["curves"]["vectors"] = curves.time_against_vectors(settings, effort.vectors, note)
    document["minutes"] = (perf_counter() - start) / 60
    found: dict[str, Any] = plain(document)
    return found


def _measure_row(
    document: dict[str, Any], row: PaperRow, effort: Effort, tools: Path | None
) -> None:
    start = perf_counter()
    subject = load(row, note)
    try:
        document["accuracy"].append(accuracy(subject, note))
    except Absent as error:
        document["absent"].append({"name": row.name, "why": str(error)})
    found = speed(subject, rounds=effort.rounds, seconds=effort.seconds, tell=note)
    add_commands(
        found,
        subject,
        tools,
        rounds=effort.command_rounds,
        rows=effort.command_rows,
        tell=note,
    )
    document["speed"].append(found)
    document["sizes"].append(sizes(subject, note))
    if not subject.workload.generated:
        document["curves"]["bound"].append(curves.bound_against_error(subject))
        if row.name in ONCE_A_SET:
            _once_a_set(document, subject, effort)
    note(f"{row.name}: done in {perf_counter() - start:.0f} s")


def _once_a_set(document: dict[str, Any], subject: Subject, effort: Effort) -> None:
    document["sizes"].append(
        least_squares(subject, note, solved_rows=effort.solved_rows, most_rows=effort.most_rows)
    )
    sweep = curves.sweep(subject, rows=effort.sweep_rows, ratios=effort.ratios, tell=note)
    document["curves"]["sweep"].append(sweep)
    document["polynomial"].append(
        polynomial(subject, rows=effort.polynomial_rows, rounds=effort.rounds, tell=note)
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
