"""`python -m benchmarks.values`: measure the board, print it, write page, picture and figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from benchmarks.values.cases import CASES, make
from benchmarks.values.measure import Wrong, measure
from benchmarks.values.page import HEAD, draw, page, summary, table
from kernelite.cli.console import note, print_table

__all__ = ["main"]

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = f"""\
groups: {", ".join(CASES)}

examples:
  python -m benchmarks.values                       # all: writes results and docs/measured
  GPYTORCH_PYTHON=... python -m benchmarks.values   # with GPyTorch, where another Python has it
  python -m benchmarks.values --quick               # all, small: about a minute, writes nothing
  python -m benchmarks.values --only "GPR std"      # cases by a part of their name
  python -m benchmarks.values --groups gpr ridge --keep    # some anew, the others as they were
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the board; the exit code is 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.values",
        description="Values as fast as labels: verified, then timed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="few rows, few turns, no peers")
    parser.add_argument("--rows", type=int, default=20_000, help="to answer at most (20,000)")
    parser.add_argument("--keep", action="store_true", help="keep earlier results of other cases")
    parser.add_argument("--out", type=Path, help="folder of the results; docs are left alone")
    parser.add_argument(
        "--processor", action="store_true", help="one thread, processor seconds: for busy machines"
    )
    args = parser.parse_args(argv)
    options: dict[str, Any] = {"rounds": 5, "seconds": 0.25, "calls": 1_000, "peers": True}
    if args.quick:
        options = {"rounds": 3, "seconds": 0.1, "calls": 100, "peers": False}
    options["processor"] = args.processor
    with kl.limit_threads(1 if args.processor else None):
        found, wrong = _measured(args, options)
    if found:
        print_table(list(HEAD), table(found))
        print(summary(found))
        partial = args.only is not None or set(args.groups) != set(CASES)
        unfit = args.quick or args.processor or (partial and not args.keep)
        if args.out is not None or not unfit:
            _write(found, args)
    return int(wrong > 0)


def _measured(
    args: argparse.Namespace, options: dict[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """What was found, and how many cases were wrong."""
    found, wrong = [], 0
    for case in make(min(args.rows, 4_000) if args.quick else args.rows, args.groups, args.only):
        try:
            entry = measure(case, **options)
        except Wrong as error:
            note(f"WRONG: {error}")
            wrong += 1
            continue
        found.append(entry)
        note(" | ".join(table([entry])[0]))
    return found, wrong


def _write(found: list[dict[str, Any]], args: argparse.Namespace) -> None:
    folder = args.out or results.FOLDER
    if args.keep and (earlier := results.load("values", folder)) is not None:
        fresh = {entry["name"]: entry for entry in found}
        found = [fresh.pop(entry["name"], entry) for entry in earlier["content"]]
        found += fresh.values()
    results.save("values", found, PRESETS["quick"], "quick", folder)
    document = results.load("values", folder)
    if args.out is None and document is not None:
        (DOCS / "measured/values.md").write_text(page(document), encoding="utf-8")
        draw(document["content"], DOCS / "img/values.svg")
