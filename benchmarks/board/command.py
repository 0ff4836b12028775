"""`python -m benchmarks board`: measure the board, say which goals hold, write what was found."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import data, results
from benchmarks.board.cases import SETS, cases_of
from benchmarks.board.goals import Judgement, judge
from benchmarks.board.large import large_table, measure_all
from benchmarks.board.measure import measure
from benchmarks.board.page import busy, case_table, cost_table, draw, page, summary_table
from benchmarks.board.players import warm_up
from benchmarks.board.settings import PRESETS, BoardSettings
from benchmarks.contestant import Absent
from benchmarks.machine import load as load_of_machine
from kernelite.cli.console import note, print_json, print_table
from kernelite.support.files import atomic_write

__all__ = ["main"]

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = f"""\
sets: {", ".join(SETS)}

examples:
  python -m benchmarks board --quick              # everything, small: about two minutes
  python -m benchmarks board --prepare            # fit and keep the models, measure nothing
  python -m benchmarks board                      # writes benchmarks/results and docs/board.md
  python -m benchmarks board --sets magic --keep  # one set anew, the others as they were
  python -m benchmarks board --csv rows.csv       # any data, label in the last column
  python -m benchmarks board --large              # up to a million centers: some minutes
  KERNELITE_KERNELS=x86-64-v3 python -m benchmarks board   # AVX2 only; results of their own
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the board; the exit code is 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks board",
        description="The models that people really fit: verified, then timed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", help="comma-separated; all of them if not given")
    parser.add_argument("--csv", nargs="+", default=[], metavar="FILE", help="label last")
    parser.add_argument("--quick", action="store_true", help="few rows, few repeats")
    parser.add_argument("--prepare", action="store_true", help="only fit the models and keep them")
    parser.add_argument("--keep", action="store_true", help="keep earlier results of other models")
    parser.add_argument("--large", action="store_true", help="only models of many centers")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--out", type=Path, help="folder of the results")
    args = parser.parse_args(argv)
    names = args.sets.split(",") if args.sets else [] if args.csv else list(SETS)
    if unknown := [name for name in names if name not in SETS]:
        parser.error(f"no such set: {', '.join(unknown)}; there are: {', '.join(SETS)}")
    preset = "quick" if args.quick else "full"
    whole = not (args.quick or args.csv) and (args.keep or set(names) == set(SETS))
    folder = args.out or (results.FOLDER if whole else data.cache_path(f"board-{preset}"))
    names += args.csv
    if args.large:
        return _large(PRESETS[preset], preset, folder)
    if args.prepare:
        _prepare(names, PRESETS[preset])
        return 0
    return _run(names, PRESETS[preset], preset, folder, args)


def _prepare(names: list[str], settings: BoardSettings) -> None:
    for case in _available(names, settings):
        twin = "" if case.intelex is None else ", and intelex's"
        note(f"{case.name}: {type(case.model).__name__}{twin}, {len(case.answers):,} answers")


def _large(settings: BoardSettings, preset: str, folder: Path) -> int:
    """The part of many centers; --quick takes a hundredth of them."""
    warm_up()
    cases = results.plain(measure_all(100 if preset == "quick" else 1))
    results.save("large", cases, settings, preset, folder)  # type: ignore[arg-type]
    print_table(*large_table(cases))
    if (document := results.load(_section(), folder)) is not None:
        _write(document, judge(document["content"]), folder)
    return int(any(case["differ"] for case in cases))


def _run(
    names: list[str], settings: BoardSettings, preset: str, folder: Path, args: argparse.Namespace
) -> int:
    if (busy := load_of_machine()) is not None and busy > 0.7:
        note(f"note: the machine is busy (load {busy}); ratios within a case still compare")
    warm_up()
    found = _earlier(folder) if args.keep else {}
    for case in _available(names, settings):
        note(f"measuring {case.name}")
        found[case.name] = results.plain(measure(case, settings))
        results.save(_section(), list(found.values()), settings, preset, folder)  # type: ignore[arg-type]
    cases = list(found.values())
    if not cases:
        note("nothing was measured")
        return 1
    judgements = judge(cases)
    document = results.load(_section(), folder)
    assert document is not None
    _write(document, judgements, folder)
    if args.json:
        print_json({**document, "goals": [vars(one) for one in judgements]})
    else:
        _print(cases, judgements, preset)
    return int(any(one.holds is False for one in judgements if one.goal.startswith("labels")))


def _available(names: list[str], settings: BoardSettings) -> Any:
    """The cases of the sets that are here; a note says which are not."""
    for name in names:
        try:
            yield from cases_of(name, settings.train)
        except Absent as error:
            note(f"{name} does not take part: {error}")


def _section() -> str:
    """The results' name: another one where other kernels were asked for."""
    kernels = os.environ.get("KERNELITE_KERNELS")
    return f"board-{kernels}" if kernels else "board"


def _earlier(folder: Path) -> dict[str, Any]:
    document = results.load(_section(), folder)
    return {case["name"]: case for case in document["content"]} if document else {}


def _write(document: dict[str, Any], judgements: list[Judgement], folder: Path) -> None:
    """Markdown and picture next to the JSON, and in the docs if the board is the official one."""
    name = _section()
    targets = [(folder / f"{name}.md", folder / f"{name}.svg", f"{name}.svg")]
    if folder == results.FOLDER and name == "board":
        targets.append((DOCS / "board.md", DOCS / "img" / "board.svg", "img/board.svg"))
    for text, picture, link in targets:
        with atomic_write(text) as file:
            file.write(page(document, judgements, link, results.load("large", folder)))
        try:
            draw(document["content"], picture)
        except ImportError:
            note("note: no picture without matplotlib; install the extra `bench`")


def _print(cases: list[dict[str, Any]], judgements: list[Judgement], preset: str) -> None:
    for table in (case_table, cost_table, summary_table):
        print_table(*table(cases))
        print()
    for case in cases:
        for who, why in case["absent"].items():
            if who in ("exact", "certified"):
                print(f"{case['name']}: {who} does not take part: {why}")
    if disturbed := busy(cases):
        print(disturbed)
    if preset != "full":
        print("The models are small: the goals are those of the whole board, for orientation only.")
    words = {True: "holds", False: "FAILS", None: "-"}
    for one in judgements:
        print(f"{words[one.holds]:<6} {one.goal}: {one.found}")
