"""A large Parquet file to a file of labels: rows a second and the command's peak memory, as JSON.

    python -m benchmarks.columnar [--rows 10000000] [--features 22] [--formats parquet arrow csv]

The file is made in a temporary folder, row group by row group, and each command is a process of its
own. Before anything is reported, the labels of all its blocks are compared with the model's own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import kernelite as kl
from benchmarks.files import run_command
from benchmarks.generate import generated_rows, generated_source
from benchmarks.machine import describe
from benchmarks.results import plain
from kernelite.cli.console import note
from kernelite.data.tables.columnar.reading import FORMATS, list_sources, open_file

__all__ = ["columnar", "main"]

VECTORS = 2_000
BLOCK = 100_000  # rows that are drawn; the file repeats them, under ids of their own
LIMIT_MEGABYTES = 1_000


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.columnar",
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=22)
    parser.add_argument("--row-group", type=int, default=1_000_000, help="rows of a row group")
    parser.add_argument("--guarantee", choices=("certified", "none"), default="certified")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=["parquet"], help="output")
    parser.add_argument("--folder", type=Path, help="where to make the temporary folder")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        found = columnar(
            Path(name), args.rows, args.features, args.row_group, args.guarantee, args.formats
        )
    print(json.dumps(plain({"machine": describe(), **found}), indent=1))
    within = all(run["peak_megabytes"] < LIMIT_MEGABYTES for run in found["runs"])
    return 0 if within else 1


def columnar(
    folder: Path, rows: int, features: int, row_group: int, guarantee: str, formats: Sequence[str]
) -> dict[str, Any]:
    """Make the file and the model in `folder`, predict to each format, compare and measure."""
    source = generated_source(VECTORS, features)
    model = kl.compile(source, generated_rows(4_000, features, seed=5), guarantee=guarantee)
    model.save(folder / "model.kernelite")
    block = generated_rows(min(rows, BLOCK), features, seed=6)
    data = folder / "rows.parquet"
    note(f"making {rows:,} rows of {features} doubles")
    _make(data, block, rows, row_group)
    runs = []
    for format in formats:
        note(f"predicting to {format}")
        out = folder / f"labels.{format}"
        command = [sys.executable, "-m", "kernelite", "predict", "-q", str(data)]
        command += [str(folder / "model.kernelite"), str(out), "--id", "id"]
        run = run_command(command)
        _compare(out, model.predict(block, on_invalid="ignore"), rows)
        runs.append(
            {
                "output": format,
                "seconds": run.seconds,
                "rows_a_second": rows / run.seconds,
                "peak_megabytes": run.megabytes,
                "output_megabytes": out.stat().st_size / 1e6,
            }
        )
    return {
        "rows": rows,
        "features": features,
        "row_group": row_group,
        "guarantee": guarantee,
        "support_vectors": VECTORS,
        "file_megabytes": data.stat().st_size / 1e6,
        "memory_limit_megabytes": LIMIT_MEGABYTES,
        "runs": runs,
    }


def _make(path: Path, block: np.ndarray, rows: int, row_group: int) -> None:
    names = [f"x{i + 1}" for i in range(block.shape[1])]
    schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in names)])
    # Plain pages: repeated rows would otherwise be stored as a small dictionary.
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, rows, row_group):
            ids = np.arange(start, min(rows, start + row_group))
            drawn = block[ids % len(block)]
            columns = [pa.array(ids), *(pa.array(column) for column in drawn.T)]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=row_group)


def _compare(out: Path, labels: np.ndarray, rows: int) -> None:
    """Refuse a result whose ids or labels are not all right."""
    seen = 0
    for ids, found in _answers(out):
        if not np.array_equal(ids, np.arange(seen, seen + len(ids))):
            raise RuntimeError(f"ids of {out.name} are out of order after row {seen}")
        if not np.array_equal(found, labels[ids % len(labels)]):
            raise RuntimeError(f"labels of {out.name} differ after row {seen}")
        seen += len(ids)
    if seen != rows:
        raise RuntimeError(f"{out.name} has {seen} rows, expected {rows}")


def _answers(out: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    (source,) = list_sources(out)
    for part in open_file(source).parts(["id", "label"]):
        yield part.batch.column("id").to_numpy(), part.batch.column("label").to_numpy()


if __name__ == "__main__":
    sys.exit(main())
