"""`kernelite explain DATA MODEL OUTPUT --background FILE`: Shapley values of a file's rows.

examples:
  kernelite explain rows.csv svm.kernelite out.parquet --background train.csv.gz
  kernelite explain rows.csv svm.kernelite out.csv --background train.parquet --bounds
  kernelite explain rows.csv svm.kernelite out.arrow --background rows.csv --group size=x1,x2

OUTPUT is Parquet, Arrow, Feather or CSV, by its name: for each row `base`, the mean score of the
background, and a column per feature with its share; together they are the row's score. With
several scores (pairs of classes, outputs), columns are called OUTPUT: FEATURE.

The background is what rows are compared with: of a large file --background-rows are drawn.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import (
    add_column_options,
    add_data_options,
    add_json,
    add_pickle,
    column_list,
    positive,
    whole,
)
from kernelite.cli.console import note, print_json
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.explain.shapley import Explanation

__all__ = ["configure", "run"]

EXPLAINED_ROWS_AT_ONCE = 1024
SEED = 0  # of the background rows that are drawn


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("data", metavar="DATA", help="rows to explain")
    parser.add_argument("model", metavar="MODEL", help="compiled model")
    parser.add_argument(
        "output", metavar="OUTPUT", help=".parquet, .arrow, .feather or .csv file to write"
    )
    parser.add_argument(
        "--background", metavar="FILE", required=True, help="rows to compare with, e.g. train.csv"
    )
    parser.add_argument(
        "--background-rows",
        type=whole(1),
        default=100,
        metavar="N",
        help="draw so many rows of the background (default: 100)",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=COLUMNS",
        help="columns that are explained together; may be given several times",
    )
    parser.add_argument(
        "--tolerance", type=positive, help="how far values may be off (default: by rounding only)"
    )
    parser.add_argument("--bounds", action="store_true", help="append a proven error bound to each")
    parser.add_argument(
        "--threads", type=whole(1), metavar="N", help="threads to use (default: all cores)"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="a device of torch's to compute on, such as cuda"
    )
    add_pickle(parser)
    add_json(parser)
    add_data_options(parser, columnar=True)
    add_column_options(parser)


def run(args: argparse.Namespace) -> int:
    """Explain and write, block by block."""
    from kernelite.data.tables.columnar.reading import format_of

    groups = dict(_group(args, text) for text in args.group)
    if format_of(args.output) is None:
        args.usage_error("argument OUTPUT: its name must end in .parquet, .arrow, .feather or .csv")
    from kernelite.backends.cpu.threads import limit_threads
    from kernelite.cli.models import check_order, check_output, predictor, read_sample

    check_output(args.output, args.data, args.model, args.background)
    with check_order(args.data, args.model):
        model = predictor(args.model, allow_pickle=args.allow_pickle)
    background = _drawn(read_sample(args, args.background, model), args.background_rows)
    rows = read_sample(args, args.data, model)
    with limit_threads(args.threads):
        largest = _write(args, model, rows, background, groups)
    count = rows.shape[0]
    if args.json:
        print_json({"output": args.output, "rows": count, "largest_bound": largest})
    else:
        note(f"wrote {args.output}: {count:,} rows; no value is off by more than {largest:.2g}")
    return 0


def _group(args: argparse.Namespace, text: str) -> tuple[str, list[str]]:
    name, found, columns = text.partition("=")
    if not (name and found and columns):
        args.usage_error(f"argument --group: expected NAME=COLUMN,COLUMN, got {text!r}")
    try:
        named = column_list(columns)
    except argparse.ArgumentTypeError as error:
        args.usage_error(f"argument --group: {error}")
    return name, named


def _drawn(rows: Any, count: int) -> Any:
    """So many rows, drawn without replacement; all of them where there are no more."""
    import numpy as np

    from kernelite.data.rows.inputs import rows_at

    n = rows.shape[0]
    if n <= count:
        return rows
    places = np.sort(np.random.default_rng(SEED).choice(n, count, replace=False))
    return rows_at(rows, places)


def _write(
    args: argparse.Namespace, model: Any, rows: Any, background: Any, groups: dict[str, list[str]]
) -> float:
    """Write all blocks; the largest bound."""
    from contextlib import ExitStack

    from kernelite.data.tables.columnar.library import require_pyarrow
    from kernelite.data.tables.columnar.reading import format_of
    from kernelite.data.tables.columnar.writing import open_sink
    from kernelite.explain.shapley import shap_values
    from kernelite.model.serving import explained_on

    pyarrow, format = require_pyarrow(), format_of(args.output)
    assert format is not None
    largest, sink = 0.0, None
    with ExitStack() as stack:
        for start in range(0, max(rows.shape[0], 1), EXPLAINED_ROWS_AT_ONCE):
            part = slice(start, start + EXPLAINED_ROWS_AT_ONCE)
            block = getattr(rows, "iloc", rows)[part]
            block, others, where = explained_on(block, background, args.device)
            asked = {"groups": groups or None, "tolerance": args.tolerance}
            found = shap_values(model, block, others, **asked, **where)
            columns = _columns(found, bounds=args.bounds)
            batch = pyarrow.RecordBatch.from_pydict(columns)
            if sink is None:
                sink = stack.enter_context(open_sink(os.fspath(args.output), format, batch.schema))
            sink.write(batch)
            largest = max(largest, float(found.bounds.max(initial=0.0)))
    return largest


def _columns(found: Explanation, *, bounds: bool) -> dict[str, Any]:
    """Names and numbers of the columns of OUTPUT."""
    several = found.values.ndim == 3
    made: dict[str, Any] = {}

    def add(name: str, column: Any) -> None:
        if name in made:
            raise InputError(
                f"OUTPUT would have two columns `{name}`; rename a column or group of yours."
            )
        made[name] = column

    for j, output in enumerate(found.output_names):
        before, pick = (f"{output}: ", (..., j)) if several else ("", ...)
        values, off = found.values[pick], found.bounds[pick]
        add(f"{before}base", found.base_values[pick])
        for place, name in enumerate(found.feature_names):
            add(before + name, values[:, place])
        for place, name in enumerate(found.feature_names if bounds else ()):
            add(f"{before}{name} bound", off[:, place])
    return made
