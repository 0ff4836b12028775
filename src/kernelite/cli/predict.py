"""`kernelite predict DATA MODEL OUTPUT`: a row in, a line out, in memory that does not grow."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

from kernelite.cli.arguments import add_data_options, add_json, add_pickle, data_options, whole
from kernelite.cli.console import note, print_json
from kernelite.cli.predict_columns import add_options, is_columnar, predict_columns
from kernelite.cli.predict_dask import add_engine_options, check_engine_options
from kernelite.support.printable import unwrapped
from kernelite.support.progress import Progress

if TYPE_CHECKING:
    from kernelite.cli.answers import Answerer
    from kernelite.cli.metrics import Metric

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  kernelite predict test.svm svm.kernelite labels.txt
  kernelite predict test.csv.gz svm.kernelite - --label-column target | head
  kernelite predict -b 1 test.svm svm.kernelite probabilities.txt
  kernelite predict --exact test.svm svm.model labels.txt
  kernelite predict rows.parquet svm.kernelite labels.parquet --id customer --decided
  kernelite predict rows.csv svm.kernelite scored.csv --columns x1:x22 --keep-all
  kernelite predict parts/ svm.kernelite scored/ --scores --output-format parquet
  kernelite predict parts/ svm.kernelite scored/ --engine dask --workers 8

OUTPUT has one line a row: the label, or the value of a regressor. With -b 1 it begins with a line
`labels ...`, and each row's probabilities follow its label. Accuracy or mean squared error are
printed as svm-predict does when DATA has labels.

Parquet, Arrow and Feather files, folders of them, and CSV whose OUTPUT is one of these give
columns instead: what --id or --keep-all keeps, then label (or prediction), and as asked
probability_CLASS, score and decided. A folder gives a folder, with a file for each.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("data", metavar="DATA", help="data file, or a folder of columnar files")
    parser.add_argument("model", metavar="MODEL", help="compiled model; with --exact, LIBSVM model")
    parser.add_argument("output", metavar="OUTPUT", help="file or folder to write; - is stdout")
    parser.add_argument(
        "-b",
        dest="probability",
        type=int,
        choices=(0, 1),
        default=0,
        help="1: probabilities, and labels by the largest of them (default: 0)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="MODEL is a fitted model; evaluate it exactly"
    )
    parser.add_argument(
        "--threads", type=whole(1), metavar="N", help="threads to use (default: all cores)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no notes")
    add_pickle(parser)
    add_json(parser)
    add_data_options(parser, columnar=True)
    add_options(parser)
    add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    """Predict and write, part by part."""
    if args.output == "-" and args.json:
        args.usage_error("argument --json: its summary is on stdout, so OUTPUT must be a file")
    check_engine_options(args)
    from kernelite.cpu.threads import limit_threads

    # Half a million objects are about to be imported; looking for garbage among them takes time.
    gc.disable()
    try:
        with limit_threads(args.threads):
            return _predict_columns(args) if is_columnar(args) else _predict(args)
    finally:
        gc.enable()


def _predict_columns(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from kernelite.cli.models import check_output, predictor

    check_output(args.output, args.data, args.model)
    model = predictor(args.model, exact=args.exact, allow_pickle=args.allow_pickle)
    answerer, metric, done = predict_columns(args, model)
    _report(args, answerer, metric, {"files": [asdict(file) for file in done.files]})
    return 0


def _predict(args: argparse.Namespace) -> int:
    from kernelite.cli.answers import Answerer
    from kernelite.cli.metrics import metric_for
    from kernelite.cli.models import check_output, predictor
    from kernelite.support.overlap import read_ahead
    from kernelite.tables.data import iter_data

    check_output(args.output, args.data, args.model)
    model = predictor(args.model, exact=args.exact, allow_pickle=args.allow_pickle)
    answerer = Answerer(model, probability=bool(args.probability))
    metric = metric_for(model.head.kind)
    labelled = False
    with Progress("predicting rows") as bar, output(args.output) as file:
        file.write(answerer.header())
        width = model.n_features_in_
        for part in read_ahead(iter_data(args.data, dense_width=width, **data_options(args))):
            answers, lines = answerer.answer(part)
            file.write(lines)
            if part.labels is not None:
                labelled = True
                metric.add(part.labels, answers)
            bar.advance(len(answers))
            gc.enable()  # everything is imported
    _report(args, answerer, metric if labelled else None)
    return 0


@contextlib.contextmanager
def output(name: str) -> Iterator[IO[str]]:
    """The named file, moved into place when it is whole; stdout for -."""
    if name == "-":
        yield sys.stdout if sys.stdout.isatty() else unwrapped(sys.stdout)
        sys.stdout.flush()  # what cannot be written is said instead of an accuracy, not after it
        return
    from kernelite.support.files import atomic_write

    with atomic_write(name) as file:
        yield file


def _report(
    args: argparse.Namespace,
    answerer: Answerer,
    metric: Metric | None,
    more: dict[str, Any] | None = None,
) -> None:
    if args.json:
        summary: dict[str, Any] = {"output": args.output, **answerer.summary(), **(more or {})}
        print_json(summary | (metric.summary() if metric else {}))
        return
    # svm-predict's lines belong to stdout, unless the predictions are there.
    say: Callable[[str], None] = note if args.output == "-" else print
    if not args.quiet:
        for line in [*answerer.remarks(), *(metric.lines() if metric else [])]:
            say(line)
        for line in answerer.notes():
            note(line)
