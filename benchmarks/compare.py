"""Two checkouts of kernelite on README's models, in turns: is one slower than the other?

    git worktree add ../before COMMIT
    python -m benchmarks.compare ../before/src

Each checkout compiles README's models once. Then processes of either take turns, which differ by
40% among themselves on a shared machine; the median over many pairs does not. `--json` prints all.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

GUARANTEES = ("exact", "certified", "none")
ROWS, SINGLE_CALLS, TURNS = 20_000, 400, 5
HERE = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("before", type=Path, help="the src folder of the other checkout")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of processes (15)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    options = parser.parse_args(arguments)
    if not (options.before / "kernelite").is_dir():
        parser.error(f"{options.before} holds no kernelite; name the src folder of a checkout")
    if options.pairs < 1:
        parser.error("--pairs must be at least 1")
    sides = {"before": options.before.resolve(), "after": HERE / "src"}
    with tempfile.TemporaryDirectory() as folder:
        _write_workloads(Path(folder))
        for side, source in sides.items():
            _run(source, "compile", folder, side)
        found: dict[str, dict[str, list[float]]] = {}
        for pair in range(options.pairs):
            order = list(sides) if pair % 2 == 0 else list(sides)[::-1]
            for side in order:
                for name, seconds in _run(sides[side], "time", folder, side).items():
                    found.setdefault(name, {}).setdefault(side, []).append(seconds)
            print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr)
    print(json.dumps(found) if options.json else _table(found))
    return 0


def _write_workloads(folder: Path) -> None:
    """Rows for both sides, and the names of the models' files."""
    from benchmarks.workloads import SHARED, available, load

    names = [name for name in available() if name in SHARED]
    if not names:
        sys.exit("compare: README's models are not here; set KERNELITE_SHARED to their folder.")
    for name in names:
        workload = load(name, sample_rows=10_000)
        np.savez(folder / f"{name}.npz", rows=workload.rows[:ROWS], sample=workload.sample)
        (folder / f"{name}.path").write_text(str(workload.path))


def _run(source: Path, task: str, folder: str, side: str) -> dict[str, float]:
    """One process of a checkout; it sees no other kernelite."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    environment["PYTHONWARNINGS"] = "ignore"  # outside the validity bound: known
    command = [sys.executable, __file__, task, folder, side]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout or "{}")
    return found


def _table(found: dict[str, dict[str, list[float]]]) -> str:
    lines = [f"{'':32} {'before, us':>11} {'after, us':>11} {'after / before':>15}"]
    ratios = []
    for name, sides in sorted(found.items()):
        before, after = (statistics.median(sides[side]) for side in ("before", "after"))
        pairs = zip(sides["before"], sides["after"], strict=True)
        ratios.append(statistics.median(late / early for early, late in pairs))
        lines.append(f"{name:32} {1e6 * before:11.3f} {1e6 * after:11.3f} {ratios[-1]:15.2f}")
    lines.append(f"{'median of all':32} {'':11} {'':11} {statistics.median(ratios):15.2f}")
    return "\n".join(lines)


def _compile(folder: Path, side: str) -> None:
    import kernelite as kl

    for path in sorted(folder.glob("*.path")):
        sample = np.load(path.with_suffix(".npz"))["sample"]
        for guarantee in GUARANTEES:
            model = kl.compile(path.read_text(), sample, guarantee=guarantee)
            model.save(folder / f"{path.stem},{guarantee},{side}.kernelite")


def _time(folder: Path, side: str) -> dict[str, float]:
    """Seconds per row, by model, guarantee and number of rows."""
    import kernelite as kl

    found = {}
    for path in sorted(folder.glob(f"*,{side}.kernelite")):
        workload, guarantee, _ = path.stem.split(",")
        rows = np.load(folder / f"{workload}.npz")["rows"]
        model: Any = kl.load(path)
        model.predict(rows)
        turns = [_seconds(model, rows) for _ in range(TURNS)]
        found[f"{workload}, {guarantee}, batch"] = min(turns) / len(rows)
        single = [np.ascontiguousarray(rows[i : i + 1]) for i in range(SINGLE_CALLS)]
        calls = [_seconds(model, row) for row in single]
        found[f"{workload}, {guarantee}, one row"] = statistics.median(calls)
    return found


def _seconds(model: Any, rows: Any) -> float:
    start = perf_counter()
    model.predict(rows)
    return perf_counter() - start


if __name__ == "__main__":
    if sys.argv[1:2] == ["compile"]:
        _compile(Path(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["time"]:
        print(json.dumps(_time(Path(sys.argv[2]), sys.argv[3])))
    else:
        sys.exit(main())
