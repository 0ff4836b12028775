"""`python -m benchmarks.readers`: LIBSVM text, kernelite's reader against scikit-learn's.

    python -m benchmarks.readers [--rows 20000] [--features 50] [--rounds 7] [FILE ...]

Rows and labels are compared first, to the bit. Then the readers take turns on the same file, with
one thread each and in processor time, which other work on the machine does not disturb; `--wall`
takes all cores and the clock on the wall. Without files, rows of 1, 6 and 17 digits are made.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from kernelite.backends.cpu.threads import limit_threads
from kernelite.cli.console import print_table
from kernelite.data.tables.data import read_data

__all__ = ["main", "race"]


def race(path: str, rounds: int = 7, *, wall: bool = False) -> dict[str, float]:
    """Seconds that each reader takes for a file, the best of some rounds.

    Parameters
    ----------
    path : str
    rounds : int
    wall : bool
        All cores and the clock on the wall.

    Returns
    -------
    dict
        {"kernelite": seconds, "scikit-learn": seconds}
    """
    clock = time.perf_counter if wall else time.process_time
    readers: dict[str, Callable[[], Any]] = {
        "kernelite": lambda: read_data(path, format="libsvm"),
        "scikit-learn": lambda: load_svmlight_file(path, zero_based=False),
    }
    with nullcontext() if wall else limit_threads(1):
        ours, (rows, labels) = readers["kernelite"](), readers["scikit-learn"]()
        np.testing.assert_array_equal(ours.labels, labels)
        np.testing.assert_array_equal(ours.rows.data, rows.data)
        np.testing.assert_array_equal(ours.rows.indices, rows.indices)
        found = dict.fromkeys(readers, float("inf"))
        for _ in range(rounds):
            for name, read in readers.items():
                start = clock()
                read()
                found[name] = min(found[name], clock() - start)
    return found


def main(argv: list[str] | None = None) -> int:
    """Race on each file, and print megabytes per second."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readers", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wall", action="store_true")
    args = parser.parse_args(argv)
    cells = []
    with TemporaryDirectory() as folder:
        for name, path in [(f, f) for f in args.files] or _made(Path(folder), args):
            seconds, size = race(path, args.rounds, wall=args.wall), os.path.getsize(path) / 1e6
            ratio = seconds["scikit-learn"] / seconds["kernelite"]
            speeds = [f"{size / seconds[reader]:,.0f}" for reader in seconds]
            cells.append([name, f"{size:.1f}", *speeds, f"{ratio:.2f}x"])
    print_table(["file", "MB", "kernelite MB/s", "scikit-learn MB/s", "faster"], cells)
    return 0


def _made(folder: Path, args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    rows = np.random.default_rng(3).normal(size=(args.rows, args.features)).tolist()
    for digits in (1, 6, 17):
        path = folder / f"{digits}.svm"
        with path.open("w") as file:
            for row in rows:
                pairs = " ".join(f"{j}:{x:.{digits}g}" for j, x in enumerate(row, 1))
                file.write(f"+1 {pairs}\n")
        yield f"{digits} digits", str(path)


if __name__ == "__main__":
    raise SystemExit(main())
