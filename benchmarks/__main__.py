"""`python -m benchmarks`: measure, print, and keep the results as JSON and plots."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.batch import batch
from benchmarks.files import files
from benchmarks.load import main as latencies
from benchmarks.machine import load
from benchmarks.memory import memory
from benchmarks.modes import MODES
from benchmarks.peers import PEERS
from benchmarks.report import batch_table, file_table, single_table
from benchmarks.roofline import Roofline, measure
from benchmarks.scaling import scaling
from benchmarks.settings import PRESETS, Settings
from benchmarks.single import SINGLE, single
from benchmarks.workloads import Workload, available
from benchmarks.workloads import load as load_workload
from kernelite.cli.console import note, print_table

__all__ = ["main"]

SECTIONS = ("batch", "single", "files", "scaling", "memory")
QUICK = ("batch", "single", "files")
EXAMPLES = f"""\
sections: {", ".join(SECTIONS)}
contestants: {", ".join((*PEERS, *MODES))}

examples:
  python -m benchmarks                                     # what `make bench` runs
  python -m benchmarks --models "a9a 0.01" --contestants scikit-learn certified none
  python -m benchmarks --sections scaling memory --preset full
  python -m benchmarks board --help                        # the models that people really fit
  python -m benchmarks values --help                       # values, probabilities, deviations
  python -m benchmarks gpu --help                          # on a machine with a GPU
  python -m benchmarks load                                # one row from 1 to 32 threads
  python -m benchmarks server                              # the example server, p99
  python -m benchmarks ready                               # import, first answer, call
  python -m benchmarks.readme                              # the README's table from the results
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections asked for, the board, values, loads, first answers, or a GPU's."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["board"]:
        from benchmarks.board.command import main as board

        return board(given[1:])
    if given[:1] == ["gpu"]:
        from benchmarks.gpu.__main__ import main as gpu

        return gpu(given[1:])
    if given[:1] == ["load"]:
        return latencies(given[1:])
    if given[:1] == ["server"]:
        from benchmarks.server import main as server

        return server(given[1:])
    if given[:1] == ["values"]:
        from benchmarks.values.command import main as values

        return values(given[1:])
    if given[:1] == ["ready"]:
        from benchmarks.ready import main as first_answers

        return first_answers(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="kernelite against its peers: verified, then timed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = list(available())
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=QUICK, metavar="NAME")
    parser.add_argument("--models", nargs="+", default=here, help=f"of: {', '.join(here)}")
    parser.add_argument("--contestants", nargs="+", choices=(*PEERS, *MODES), metavar="NAME")
    parser.add_argument("--preset", choices=PRESETS, default="quick", help="how much to measure")
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the results")
    parser.add_argument("--no-plots", action="store_true")
    args = parser.parse_args(given)
    unknown = [name for name in args.models if name not in here]
    if unknown:
        parser.error(f"not available here: {', '.join(unknown)}; there are: {', '.join(here)}")
    _run(args, PRESETS[args.preset])
    return 0


def _run(args: argparse.Namespace, settings: Settings) -> None:
    if (busy := load()) is not None and busy > 0.7:
        note(f"note: the machine is busy (load {busy}); ratios within this run still compare")
    roofline = measure(settings.gemm_size, settings.triad_megabytes)
    note(f"this machine: {roofline.gflops:.0f} GFLOP/s, {roofline.gbytes:.1f} GB/s")
    content: dict[str, Any] = {"batch": [], "single": [], "files": []}
    content = {name: [] for name in content if name in args.sections}
    for name in args.models if content else []:
        workload = load_workload(name, sample_rows=settings.sample_rows)
        for section in content:
            content[section].append(_section(section, workload, settings, roofline, args))
    if "scaling" in args.sections:
        content["scaling"] = scaling(settings, note)
    if "memory" in args.sections:
        content["memory"] = memory(settings.memory_rows)
    content["roofline"] = vars(roofline)
    for section, found in content.items():
        results.save(section, found, settings, args.preset, args.out)
    if not args.no_plots:
        _plots(args.out)


def _section(
    section: str,
    workload: Workload,
    settings: Settings,
    roofline: Roofline,
    args: argparse.Namespace,
) -> dict[str, Any]:
    asked = args.contestants
    table: Callable[[dict[str, Any]], tuple[list[str], list[list[str]]]]
    if section == "batch":
        found = batch(workload, settings, roofline, asked or (*PEERS, *MODES), note)
        table = batch_table
    elif section == "single":
        names = [name for name in SINGLE if asked is None or name in asked]
        found, table = single(workload, settings, names, note), single_table
    else:
        found, table = files(workload, settings, note), file_table
    print(f"\n{section}: {workload.name}")
    print_table(*table(found))
    for one in found["absent"]:
        print(f"  {one['name']} does not take part: {one['why']}")
    return found


def _plots(folder: Path) -> None:
    try:
        from benchmarks.plots import draw

        for path in draw(folder):
            note(f"drew {path.name}")
    except ImportError:
        note("note: no plots without matplotlib; install the extra `bench`")


if __name__ == "__main__":
    sys.exit(main())
