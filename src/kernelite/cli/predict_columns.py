"""`kernelite predict` for Parquet, Arrow and CSV: the same rows, with answers as columns."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import COLUMNAR, add_column_options
from kernelite.errors import InputError

if TYPE_CHECKING:
    from kernelite.cli.answers import Answerer
    from kernelite.cli.metrics import Metric
    from kernelite.model import CompiledModel
    from kernelite.scoring.files import FilesPrediction, Request

__all__ = ["add_options", "is_columnar", "predict_columns"]

OPTIONS = ("columns", "id", "keep_all", "scores", "decided", "prefix", "output_format")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What only columns have."""
    group = add_column_options(parser)
    kept = group.add_mutually_exclusive_group()
    kept.add_argument(
        "--id",
        metavar="COLUMN",
        action="append",
        help="keep this column in OUTPUT; may be given several times",
    )
    kept.add_argument("--keep-all", action="store_true", help="keep all columns in OUTPUT")
    group.add_argument(
        "--scores", action="store_true", help="append decision values: score, or score_CLASS each"
    )
    group.add_argument(
        "--decided",
        action="store_true",
        help="append whether the label is proven to be the exact model's",
    )
    group.add_argument(
        "--prefix", metavar="TEXT", help="put TEXT before the names of appended columns"
    )
    group.add_argument(
        "--output-format",
        choices=COLUMNAR,
        help="by default told by OUTPUT's name: .parquet, .arrow, .feather, .csv",
    )


def is_columnar(args: argparse.Namespace) -> bool:
    """Whether columns are asked for: by the format, by options, or by the names of both files.

    CSV is also read as a plain table, so it counts as columns only if OUTPUT does too.
    """
    from kernelite.tables.columnar.formats import format_of

    given = [name for name in OPTIONS if getattr(args, name)]
    if args.data_format is not None:
        columnar = args.data_format in COLUMNAR
    else:
        format = format_of(args.data)
        columnar = os.path.isdir(args.data) or format in ("parquet", "arrow")
        columnar = columnar or (format == "csv" and bool(given or format_of(args.output)))
    if given and not columnar:
        args.usage_error(
            f"argument --{given[0].replace('_', '-')}: DATA must be Parquet, Arrow, Feather or CSV"
        )
    if not columnar and format_of(args.output) in ("parquet", "arrow"):
        raise InputError(
            f"cannot write `{args.output}`: columns are written for Parquet, Arrow, Feather and "
            "CSV only, and the answers for other data are lines of text."
        )
    return columnar


def predict_columns(
    args: argparse.Namespace, model: CompiledModel
) -> tuple[Answerer, Metric | None, FilesPrediction]:
    """Predict file by file; what was answered, how well, and what was written."""
    from kernelite.cli.metrics import metric_for
    from kernelite.scoring.files import run_jobs
    from kernelite.tables.columnar.sources import list_jobs

    format = args.data_format if args.data_format in COLUMNAR else None
    answerer, outputs = _answerer(args, model)
    if args.engine == "dask":
        from kernelite.cli.predict_dask import predict_pieces

        done = predict_pieces(args, answerer.model, _request(args, outputs), format)
        answerer.stats = done.stats
        return answerer, None, done
    jobs = list_jobs(args.data, args.output, format=format, output=args.output_format)
    metric, labelled = metric_for(model.head.kind), False

    def watch(truth: Any, answers: Any) -> None:
        nonlocal labelled
        labelled = True
        known = truth.is_valid()
        metric.add(_values(truth.filter(known)), _values(answers.filter(known)))

    done = run_jobs(answerer.model, jobs, _request(args, outputs), watch)
    answerer.stats = done.stats
    return answerer, metric if labelled else None, done


def _answerer(args: argparse.Namespace, model: CompiledModel) -> tuple[Answerer, list[str]]:
    """The model with its notes, and which outputs to append."""
    from kernelite.cli.answers import Answerer
    from kernelite.machine.heads import ClassifierHead, OutlierHead

    more = [name for name, asked in (("score", args.scores), ("decided", args.decided)) if asked]
    if not args.probability:
        return Answerer(model), ["label", *more]
    plain = not isinstance(model.head, ClassifierHead | OutlierHead)
    if plain and "predict_proba" in model.offers:
        return Answerer(model), ["label", "probability", *more]
    answerer = Answerer(model, probability=True)
    return answerer, ["label", *(["probability"] if answerer.header() else []), *more]


def _request(args: argparse.Namespace, outputs: list[str]) -> Request:
    from kernelite.scoring.files import Request
    from kernelite.tables.columnar.reading import TextOptions

    label = "auto" if args.label_column is None else args.label_column
    return Request(
        columns=args.columns,
        keep="all" if args.keep_all else args.id or (),
        outputs=outputs,
        prefix=args.prefix or "",
        label_column=None if label == "none" else label,
        text=TextOptions(args.delimiter, args.header),
    )


def _values(column: Any) -> Any:
    """A column as an array of numbers or of text."""
    import numpy as np

    from kernelite.tables.columnar.columns import is_numeric

    if is_numeric(column.type):
        return column.to_numpy(zero_copy_only=False)
    return np.array([str(value) for value in column.to_pylist()], dtype=np.str_)
