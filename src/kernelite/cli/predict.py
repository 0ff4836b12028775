"""`kernelite predict DATA MODEL OUTPUT`: rows in, answers out, in memory that does not grow.

examples:
  kernelite predict test.svm svm.kernelite labels.txt
  kernelite predict test.csv.gz svm.kernelite - --label-column target | head
  kernelite predict - svm.kernelite labels.txt < test.svm
  kernelite predict -b 1 test.svm svm.kernelite probabilities.txt
  kernelite predict --exact test.svm svm.model labels.txt
  kernelite predict rows.parquet svm.kernelite labels.parquet --id customer --decided
  kernelite predict rows.csv svm.kernelite scored.csv --columns x1:x22 --keep-all
  kernelite predict rows.csv svm.kernelite labels.csv --on-bad-row skip
  kernelite predict parts/ svm.kernelite scored/ --scores --output-format parquet
  kernelite predict parts/ svm.kernelite scored/ --engine dask --workers 8
  kernelite predict scene.tif svm.kernelite classes.tif

DATA is read by its own name and content, whatever OUTPUT is called. Columns of Parquet, Arrow,
Feather and CSV are found by the names that the model was fitted on, text among them where the
model takes it; .gz, .bz2, .xz and .zst are unpacked.

OUTPUT has one line per row: the label, or the value of a regressor. With -b 1 it begins with a
line `labels ...`, and each row's probabilities follow its label. Accuracy or mean squared error
are printed as svm-predict does when DATA has labels.

DATA may be a GeoTIFF (extra `raster`): its bands are features, --columns names them or gives their
numbers from 1, and OUTPUT is a GeoTIFF of the same place with labels, or with -b 1 labels and
probabilities, as bands. No data stays no data.

An OUTPUT called .parquet, .arrow, .feather or .csv gets columns instead: what --id or --keep-all
keeps, then label (or prediction), and as asked probability_CLASS, score and decided. A folder gives
a folder, with a file for each.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import (
    COLUMNAR,
    add_column_options,
    add_data_options,
    add_json,
    add_pickle,
    column_list,
    column_reading,
    whole,
)
from kernelite.cli.console import note, print_json
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.cli.answers import AskedOutputs, Metric
    from kernelite.data.scoring.files import FilesPrediction, Request
    from kernelite.data.scoring.jobs import OutputFormat, Skipped

__all__ = ["configure", "run"]

KEEPING = ("columns", "id", "keep_all")  # options that need columns with names in DATA
APPENDING = ("id", "keep_all", "scores", "decided", "prefix")  # and in OUTPUT


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "data", metavar="DATA", help="data file, - for stdin, or a folder of columnar files"
    )
    parser.add_argument("model", metavar="MODEL", help="compiled model; with --exact, LIBSVM model")
    parser.add_argument("output", metavar="OUTPUT", help="file or folder to write; - is stdout")
    parser.add_argument(
        "-b",
        dest="probability",
        type=int,
        choices=(0, 1),
        default=0,
        help="1: write probabilities too, and the label of the largest (default: 0)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="MODEL is a fitted model; evaluate it exactly"
    )
    parser.add_argument(
        "--threads", type=whole(1), metavar="N", help="threads to use (default: all cores)"
    )
    parser.add_argument(
        "--on-bad-row",
        choices=("stop", "skip"),
        default="stop",
        help="skip: leave rows out that cannot be read or predicted, and list them in a file "
        "(default: stop)",
    )
    parser.add_argument(
        "--skipped",
        metavar="FILE",
        help="where skipped rows are listed, as CSV (default: OUTPUT.skipped.csv)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no notes")
    add_pickle(parser)
    add_json(parser)
    add_data_options(parser, columnar=True)
    _add_columns(parser)
    _add_engine(parser)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    group = add_column_options(parser)
    kept = group.add_mutually_exclusive_group()
    kept.add_argument(
        "--id",
        metavar="NAMES",
        type=column_list,
        action="extend",
        help="keep these columns in OUTPUT: names with commas between them",
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
        choices=(*COLUMNAR, "lines"),
        help="by default told by OUTPUT's name: .parquet, .arrow, .feather, .csv; else lines",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several processes or machines (extra `dask`)")
    group.add_argument(
        "--engine",
        choices=("local", "dask"),
        default="local",
        help="dask: OUTPUT is a new folder, with a file for each row group or so of DATA; it "
        "appears when it is complete, also if workers die (default: local)",
    )
    group.add_argument(
        "--workers",
        type=whole(1),
        metavar="N",
        help="worker processes on this machine, a thread each (default: as many as cores)",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="use the workers of this Dask scheduler, which must see the same files",
    )


def run(args: argparse.Namespace) -> int:
    """Predict and write, block by block."""
    _check_usage(args)
    from kernelite.backends.cpu.threads import limit_threads

    # Half a million objects are about to be imported; looking for garbage among them takes time.
    often = gc.get_threshold()
    gc.set_threshold(200_000)
    try:
        with limit_threads(args.threads):
            return _predict(args)
    finally:
        gc.set_threshold(*often)


def _check_usage(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if args.output == "-" and args.json:
        args.usage_error("argument --json: its summary is on stdout, so OUTPUT must be a file")
    if args.skipped is not None and args.on_bad_row != "skip":
        args.usage_error("argument --skipped: only with --on-bad-row skip")
    if args.on_bad_row == "skip" and args.engine == "dask":
        args.usage_error("argument --on-bad-row: skip is for --engine local")
    if args.on_bad_row == "skip" and args.output == "-" and args.skipped is None:
        args.usage_error("argument --on-bad-row: OUTPUT is stdout, so name a file by --skipped")
    columnar = _has_columns(args)
    if _is_scene(args):
        for name in (*KEEPING[1:], "prefix", "output_format", "label_column"):
            if getattr(args, name):
                option = name.replace("_", "-")
                args.usage_error(f"argument --{option}: a raster's answers are bands, no columns")
        if args.on_bad_row == "skip" or args.engine == "dask":
            args.usage_error("a raster is predicted whole, with --engine local")
        columnar = True  # --columns are its bands
    for name in KEEPING:
        if getattr(args, name) and not columnar:
            option = name.replace("_", "-")
            args.usage_error(f"argument --{option}: DATA must be Parquet, Arrow, Feather or CSV")
    if args.engine == "local":
        for name in ("workers", "scheduler"):
            if getattr(args, name) is not None:
                args.usage_error(f"argument --{name}: only with --engine dask")
        return
    if args.workers is not None and args.scheduler is not None:
        args.usage_error("argument --workers: the workers are those of --scheduler")
    if not columnar or args.output == "-" or args.data == "-":
        args.usage_error(
            "argument --engine: dask takes Parquet, Arrow or CSV files and writes a folder"
        )


def _has_columns(args: argparse.Namespace) -> bool:
    """Whether DATA has columns with names, as far as its name tells."""
    from kernelite.data.tables.columnar.reading import format_of

    if args.data_format is not None:
        return args.data_format in COLUMNAR
    return args.data == "-" or os.path.isdir(args.data) or format_of(args.data) is not None


def _is_scene(args: argparse.Namespace) -> bool:
    """Whether DATA is a GeoTIFF, as far as its name tells."""
    from kernelite.data.scoring.rasters import is_raster

    return args.data_format is None and is_raster(args.data)


def _output_format(args: argparse.Namespace) -> OutputFormat | None:
    """Columns or lines; None where OUTPUT's name has to tell which columns."""
    from kernelite.data.scoring.rasters import is_raster
    from kernelite.data.tables.columnar.reading import format_of

    if args.output_format is not None or os.path.isdir(args.data):
        return args.output_format
    if is_raster(args.output) and not _is_scene(args):
        raise InputError(
            f"`{args.output}` would be a raster, but `{args.data}` is none: name a file for text, "
            "or one that ends in .csv or .parquet."
        )
    if args.output == "-":  # the rows of Parquet and Arrow are seldom meant for svm-predict's tools
        typed = (args.data_format or format_of(args.data)) in ("parquet", "arrow")
        return None if typed or any(getattr(args, name) for name in APPENDING) else "lines"
    if any(getattr(args, name) for name in APPENDING) or format_of(args.output) is not None:
        return None
    return "lines"


def _predict(args: argparse.Namespace) -> int:
    from kernelite.cli.answers import AskedOutputs, metric_for
    from kernelite.cli.models import check_order, check_output, predictor
    from kernelite.data.scoring.files import predict_scene, run_jobs
    from kernelite.data.scoring.jobs import list_jobs

    check_output(args.output, args.data, args.model)
    with check_order(args.data, args.model):
        model = predictor(args.model, exact=args.exact, allow_pickle=args.allow_pickle)
    more = [name for name, asked in (("score", args.scores), ("decided", args.decided)) if asked]
    answers = AskedOutputs(model, more, probability=bool(args.probability))
    request = _request(args, answers)
    if args.engine == "dask":
        done = _on_dask(args, answers, request)
        _report(args, answers, None, done)
        return 0
    if _is_scene(args):
        done = predict_scene(answers.model, args.data, args.output, args.columns, answers.outputs)
        _report(args, answers, None, done)
        return 0
    jobs = list_jobs(args.data, args.output, format=args.data_format, output=_output_format(args))
    metric = metric_for(model.head.kind, model.head.classes)
    with _skipped(args) as skipped:
        done = run_jobs(answers.model, jobs, replace(request, skipped=skipped), metric.add)
    _report(args, answers, metric if metric.total else None, done)
    return 0


def _skipped(args: argparse.Namespace) -> AbstractContextManager[Skipped | None]:
    """The file of skipped rows, where bad rows are skipped."""
    from kernelite.cli.models import check_output
    from kernelite.data.scoring.jobs import open_skipped

    if args.on_bad_row == "stop":
        return nullcontext()
    args.skipped = args.skipped or f"{args.output.rstrip('/')}.skipped.csv"
    check_output(args.skipped, args.data, args.model)
    return open_skipped(args.skipped, args.output)


def _request(args: argparse.Namespace, answers: AskedOutputs) -> Request:
    from kernelite.data.scoring.files import Request

    return Request(
        columns=args.columns,
        keep="all" if args.keep_all else args.id or (),
        outputs=answers.outputs,
        prefix=args.prefix or "",
        **column_reading(args),
    )


def _on_dask(args: argparse.Namespace, answers: AskedOutputs, request: Request) -> FilesPrediction:
    """Score on the cluster that was asked for."""
    from kernelite.dask.cluster import connect, model_counts, score_pieces
    from kernelite.data.tables.columnar.reading import format_of

    with connect(args.scheduler, args.workers) as client:
        done = score_pieces(
            answers.model,
            args.data,
            args.output,
            client,
            request,
            format=args.data_format,
            output=args.output_format or format_of(args.output) or "parquet",
        )
        if not args.quiet:
            workers = model_counts(client).values()
            sent = max((n["received"] for counts in workers for n in counts.values()), default=0)
            note(f"{len(workers)} workers; the model was sent at most {sent} time to each")
    return done


def _report(
    args: argparse.Namespace, answers: AskedOutputs, metric: Metric | None, done: FilesPrediction
) -> None:
    stats = done.stats
    if args.json:
        summary: dict[str, Any] = {"output": args.output, **answers.summary(stats)}
        summary["files"] = [asdict(file) for file in done.files]
        if args.on_bad_row == "skip":
            summary["skipped"] = {"rows": done.skipped, "file": args.skipped}
        print_json(summary | (metric.summary() if metric else {}))
        return
    # svm-predict's lines belong to stdout, unless the predictions are there.
    say: Callable[[str], None] = note if args.output == "-" else print
    if not args.quiet:
        for line in [*answers.remarks(), *(metric.lines() if metric else [])]:
            say(line)
        for line in [*answers.notes(stats), *(metric.notes() if metric else [])]:
            note(line)
        if done.skipped:
            total = done.skipped + done.rows
            note(f"{done.skipped:,} of {total:,} rows were skipped; {args.skipped} says why")
