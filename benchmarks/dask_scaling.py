"""A folder of Parquet on one Dask worker and on two: rows a second, their ratio, memory, as JSON.

    python -m benchmarks.dask_scaling [--rows 10000000] [--features 22] [--workers 1 2]

Workers are processes with one thread each. They read, score and write row groups by themselves;
before anything is timed, each has loaded the model and scored a few rows. Every result is compared
with the model's own labels, and the model may have come to each worker once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import kernelite as kl
from benchmarks.generate import generated_rows, generated_source
from benchmarks.machine import describe
from benchmarks.results import plain
from kernelite.cli.console import note
from kernelite.dask import model_counts, predict_files
from kernelite.dask.cluster import carry, connect
from kernelite.data.scoring.files import Request, run_job
from kernelite.data.scoring.jobs import Job
from kernelite.data.scoring.shipping import Options, Ticket, ship
from kernelite.data.tables.columnar.reading import SourceFile

__all__ = ["main", "scaling"]

VECTORS = 2_000
BLOCK = 100_000  # rows that are drawn; the files repeat them, under ids of their own
GOAL = 1.6


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; ends with 1 if the last count of workers misses the goal."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dask_scaling",
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=22)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--row-group", type=int, default=250_000, help="rows of a row group")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="times each is run; the best counts")
    parser.add_argument("--guarantee", choices=("certified", "none"), default="certified")
    parser.add_argument("--folder", type=Path, help="where to make the temporary folder")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        found = scaling(Path(name), args)
    print(json.dumps(plain({"machine": describe(), **found}), indent=1))
    return 0 if found["runs"][-1]["ratio"] >= GOAL or len(args.workers) == 1 else 1


def scaling(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Make the files and the model in `folder`, score them with each number of workers."""
    rows, features = args.rows, args.features
    source = generated_source(VECTORS, features)
    sample = generated_rows(4_000, features, seed=5)
    model = kl.compile(source, sample, guarantee=args.guarantee, on_invalid="ignore")
    block = generated_rows(min(rows, BLOCK), features, seed=6)
    note(f"making {rows:,} rows of {features} doubles")
    size = make_files(folder / "rows", block, rows, args.files, args.row_group)
    make_files(folder / "few", block, 1_000, 1, 1_000)
    labels = model.predict(block)
    runs: dict[int, dict[str, Any]] = {}
    for turn in range(args.rounds):
        for workers in args.workers:  # taking turns, so that a busy minute hits both
            note(f"round {turn + 1}: {workers} workers")
            run = measure(folder, model, workers, labels, rows)
            if workers not in runs or run["seconds"] < runs[workers]["seconds"]:
                runs[workers] = run
    first = runs[args.workers[0]]
    for run in runs.values():
        run["ratio"] = first["seconds"] / run["seconds"]
    return {
        "rows": rows,
        "features": features,
        "files": args.files,
        "row_group": args.row_group,
        "guarantee": args.guarantee,
        "support_vectors": VECTORS,
        "input_megabytes": size / 1e6,
        "goal": GOAL,
        "runs": list(runs.values()),
    }


def measure(
    folder: Path, model: kl.CompiledModel, workers: int, labels: np.ndarray, rows: int
) -> dict[str, Any]:
    """One run on a fresh cluster, its result compared and removed."""
    out = folder / "scored"
    begin = time.perf_counter()
    with connect(workers=workers) as client:
        ticket = carry(ship(model), client)
        client.run(_warm, ticket, str(folder))
        used = client.run(time.process_time)
        ready = time.perf_counter()
        done = predict_files(model, folder / "rows", out, client, keep=["id"])
        end = time.perf_counter()
        spent = client.run(time.process_time)
        counts = model_counts(client)
        peaks = client.run(_peak_megabytes)
    compare(out, labels, rows)
    shutil.rmtree(out)
    received = [n["received"] for worker in counts.values() for n in worker.values()]
    if len(received) != workers or max(received) > 1:
        raise RuntimeError(f"the model was sent {received} times to {workers} workers")
    return {
        "workers": workers,
        "seconds": end - ready,
        "rows_a_second": rows / (end - ready),
        "worker_cpu_seconds": [spent[worker] - used[worker] for worker in used],
        "startup_seconds": ready - begin,
        "pieces": len(done.files),
        "model_sent_to_each_worker": received,
        "worker_peak_megabytes": sorted(peaks.values()),
        "client_peak_megabytes": _peak_megabytes(),
    }


def make_files(folder: Path, block: np.ndarray, rows: int, files: int, row_group: int) -> int:
    """Write the rows as Parquet files of about equal length; their bytes."""
    folder.mkdir()
    names = [f"x{i + 1}" for i in range(block.shape[1])]
    schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in names)])
    ends = np.linspace(0, rows, files + 1).astype(int)
    for number, (start, stop) in enumerate(itertools.pairwise(ends)):
        # Plain pages: repeated rows would otherwise be stored as a small dictionary.
        path = folder / f"part-{number:03d}.parquet"
        with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for first in range(start, stop, row_group):
                ids = np.arange(first, min(stop, first + row_group))
                drawn = block[ids % len(block)]
                columns = [pa.array(ids), *(pa.array(column) for column in drawn.T)]
                writer.write_table(pa.table(columns, schema=schema), row_group_size=row_group)
    return sum(path.stat().st_size for path in folder.iterdir())


def compare(out: Path, labels: np.ndarray, rows: int) -> None:
    """Refuse a result whose ids or labels are not all right."""
    table = parquet.read_table(out, columns=["id", "label"])
    ids, found = table.column("id").to_numpy(), table.column("label").to_numpy()
    if not np.array_equal(np.sort(ids), np.arange(rows)):
        raise RuntimeError(f"{len(ids)} ids came back, not each of {rows} once")
    if not np.array_equal(found, labels[ids % len(labels)]):
        raise RuntimeError("labels differ from the model's own")


def _warm(ticket: Ticket, folder: str) -> None:
    """On a worker: do everything once, with few rows."""
    source = SourceFile(f"{folder}/few/part-000.parquet", "parquet")
    job = Job(source, f"{folder}/few-{os.getpid()}.parquet", "parquet")
    run_job(ticket.scorer(Options()), job, Request(keep=["id"]))
    os.unlink(job.destination)


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    sys.exit(main())
