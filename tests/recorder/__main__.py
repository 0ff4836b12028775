"""`python -m tests.recorder record|replay FOLDER`; the exit code of a replay is 1 if it fails."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import kernelite
from tests.models import MODELS, fitted
from tests.recorder.compare import Difference, differences
from tests.recorder.record import Entries, entries

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Record, or replay and list what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorder", description=__doc__)
    parser.add_argument("verb", choices=("record", "replay"))
    parser.add_argument("folder", type=Path, help="outside the repository")
    parser.add_argument("--models", default="", help="only names that contain this")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--allow", choices=("rewritten",), help="kernels that were rewritten")
    args = parser.parse_args(argv)
    names = [name for name in MODELS if args.models in name]
    print(f"{args.verb} {len(names)} models by {Path(kernelite.__file__).parents[2].name}'s source")
    started = time.perf_counter()
    if args.verb == "record":
        args.folder.mkdir(parents=True, exist_ok=True)
        count = sum(_each(_record, args.folder, names, args.jobs))
        print(f"{count:,} entries in {time.perf_counter() - started:.0f} s")
        return 0
    found = [one for some in _each(_replay, args.folder, names, args.jobs) for one in some]
    failed = [one for one in found if not (one.allowed and args.allow)]
    for one in found:
        print(f"{'allowed' if one not in failed else 'DIFFERS'}  {one.name}: {one.why}")
    print(
        f"{len(found) - len(failed)} allowed differences, {len(failed)} others, "
        f"in {time.perf_counter() - started:.0f} s"
    )
    return int(bool(failed))


def _each(work: Any, folder: Path, names: list[str], jobs: int) -> Iterator[Any]:
    if jobs < 2:
        yield from (work(folder, name) for name in names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, [folder] * len(names), names, chunksize=4)


def _record(folder: Path, name: str) -> int:
    model, rows = fitted(name)
    joblib.dump((model, rows), _path(folder, name, "joblib"))  # this tool's own file
    found = entries(model, rows)
    np.savez_compressed(_path(folder, name, "npz"), **found)
    return len(found)


def _replay(folder: Path, name: str) -> list[Difference]:
    if not _path(folder, name, "npz").is_file():
        return [Difference(name, False, "was not recorded")]
    with np.load(_path(folder, name, "npz")) as file:
        old: Entries = {key: file[key] for key in file.files}
    new = entries(*joblib.load(_path(folder, name, "joblib")))
    return [
        Difference(f"{name}: {one.name}", one.allowed, one.why) for one in differences(old, new)
    ]


def _path(folder: Path, name: str, ending: str) -> Path:
    return folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.{ending}"


if __name__ == "__main__":
    sys.exit(main())
