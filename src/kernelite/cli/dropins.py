"""approxsvm's four commands with its flags and its output: approx-svm, -predict, -analyse, -xval.

Where the original reads past the end of a row, counts a dense file's dimensions one too many,
ignores unknown flags, takes a label for the first index (without -truth) or repeats a warning for
every row, these do what was meant, and say so once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from kernelite import __version__
from kernelite.cli.arguments import positive, whole
from kernelite.cli.console import ShortParser, guarded, note
from kernelite.support.terminal import Progress

__all__ = ["approx_analyse", "approx_predict", "approx_svm", "approx_xval"]

Arguments = Sequence[str] | None


def approx_svm(argv: Arguments = None) -> int:
    """Approximate a LIBSVM model: `approx-svm -model MODEL -o OUT [-v]`."""
    parser = _parser(
        "approx-svm",
        "Approximates a LIBSVM model with an RBF kernel: one output, about the origin.",
        "approx-svm -model svm.model -o svm.approx",
    )
    parser.add_argument("-model", required=True, help="LIBSVM model to approximate")
    parser.add_argument("-o", dest="output", required=True, help="file to write")
    parser.add_argument("-v", dest="verbose", action="store_true", help="say more, on stdout")
    return _main(parser, argv, _approximate)


def approx_predict(argv: Arguments = None) -> int:
    """Predict: `approx-predict -data DATA -model MODEL -o OUT [-dense -delim C] [-truth] [-q]`."""
    parser = _parser(
        "approx-predict",
        "Predicts with an approximated model. A line is `LABEL DECISION` (classification) or the "
        "value (regression).",
        "approx-predict -data test.svm -model svm.approx -o labels.txt -truth",
    )
    parser.add_argument("-data", required=True, help="rows to predict")
    parser.add_argument("-model", required=True, help="approximated model")
    parser.add_argument("-o", dest="output", required=True, help="file to write")
    _add_data_flags(parser)
    parser.add_argument(
        "-q", dest="quiet", action="store_true", help="no warning about the approximation's bound"
    )
    return _main(parser, argv, _predict)


def approx_analyse(argv: Arguments = None) -> int:
    """Analyse: `approx-analyse -data DATA [-dense] [-delim C] [-truth]`."""
    parser = _parser(
        "approx-analyse",
        "Prints dim (features), maxnorm (largest squared norm of a row) and maxgamma = "
        "0.25 / maxnorm, the largest gamma within the bound.",
        "approx-analyse -data train.svm -truth",
    )
    parser.add_argument("-data", required=True, help="data file")
    _add_data_flags(parser)
    return _main(parser, argv, _analyse)


def approx_xval(argv: Arguments = None) -> int:
    """Cross-validate C-SVC: `approx-xval -data DATA [-c C] [-g GAMMA] [-m MB] [-h 0|1] [-v K]`."""
    parser = _parser(
        "approx-xval",
        "k-fold cross-validation of C-SVC, predicting with the approximation of each fold's model.",
        "approx-xval -data train.svm -c 10 -g 0.01 -v 5",
    )
    parser.add_argument("-data", required=True, help="training data in LIBSVM format")
    parser.add_argument("-c", dest="cost", type=positive, default=1.0, help="C (default 1)")
    parser.add_argument("-g", dest="gamma", type=positive, default=1.0, help="gamma (default 1)")
    parser.add_argument(
        "-m", dest="cache", type=positive, default=100.0, help="cache in MB (default 100)"
    )
    parser.add_argument(
        "-h", dest="shrinking", choices=("0", "1"), default="1", help="shrinking (default 1)"
    )
    parser.add_argument("-v", dest="folds", type=whole(2), default=5, help="folds (default 5)")
    return _main(parser, argv, _cross_validate)


def _approximate(args: argparse.Namespace) -> int:
    from kernelite.cli.models import check_output, fitted_model
    from kernelite.model.compiler import compile
    from kernelite.store import approxsvm

    check_output(args.output, args.model)
    model = compile(fitted_model(args.model), guarantee="none", expansion_point="origin")
    # The original has no probabilities either.
    approxsvm.write(model, args.output, drop_probabilities=True)
    if args.verbose:
        from kernelite.cli.inspect import description

        for name, value in description(model).items():
            if name in ("source", "features", "gamma", "gamma_max_of_the_support_vectors"):
                print(f"{name.replace('_', ' ')}: {value}")
    return 0


def _predict(args: argparse.Namespace) -> int:
    from kernelite.cli.answers import ApproxRows, metric_for
    from kernelite.cli.models import check_output
    from kernelite.data.scoring.files import predict_blocks
    from kernelite.data.scoring.jobs import open_lines
    from kernelite.data.tables.data import iter_data
    from kernelite.store.files import load

    check_output(args.output, args.data, args.model)
    rows = ApproxRows(load(args.model))
    metric = metric_for(rows.model.head.kind, rows.model.head.classes)
    labelled = False

    def watch(block: Any, answers: Any) -> None:
        nonlocal labelled
        labelled = labelled or block.truth is not None
        if args.truth and block.truth is not None:
            metric.add(block.truth, answers[0])

    with Progress("predicting rows") as bar, open_lines(args.output) as file:
        parts = rows.blocks(iter_data(args.data, **_reading(args)))
        predict_blocks(rows.answer, parts, rows.sink(file), watch=watch, on_progress=bar.reach)
    if args.truth:
        print(metric.lines()[0])
    elif labelled:
        note(f"note: {args.data} has labels, which -truth compares with the predictions")
    for line in [*rows.notes(quiet=args.quiet), *(metric.notes() if args.truth else [])]:
        note(line)
    return 0


def _analyse(args: argparse.Namespace) -> int:
    from kernelite.cli.analyse import extent

    found = extent(args.data, **_reading(args))
    print(f"dim {found.features}")
    print(f"maxnorm {found.origin.max_sq_norm:g}")
    print(f"maxgamma {found.origin.value:g}")
    return 0


def _cross_validate(args: argparse.Namespace) -> int:
    from kernelite.cli.xval import Problem, compiled_accuracy
    from kernelite.data.tables.data import read_data

    data = read_data(args.data, format="libsvm", labels="required")
    assert data.labels is not None
    folds = min(args.folds, len(data.labels))
    if folds < args.folds:
        note(f"there are fewer rows than folds: {folds} folds are used")
    problem = Problem(
        "svc",
        data.rows,
        data.labels,
        folds=folds,
        fixed=(("cache_size", args.cache), ("shrinking", args.shrinking == "1")),
        compile_options=(("guarantee", "none"), ("expansion_point", "origin")),
    )
    with Progress("folds", folds) as bar:
        share = compiled_accuracy(problem, {"C": args.cost, "gamma": args.gamma}, bar.advance)
    print(f"Cross Validation Accuracy = {100 * share:g}%")
    return 0


def _main(
    parser: argparse.ArgumentParser, argv: Arguments, run: Callable[[argparse.Namespace], int]
) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)

    def command() -> int:
        # As the original: no arguments is a call for help. `-h` is an option of approx-xval.
        if not arguments or arguments == ["-h"]:
            parser.print_help()
            return 0
        return run(parser.parse_args(arguments))

    return guarded(parser.prog, command)


def _parser(name: str, description: str, example: str) -> argparse.ArgumentParser:
    parser = ShortParser(
        prog=name,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--help", "--h", action="help", help="show this and exit")
    version = f"{name} (part of kernelite {__version__})"
    parser.add_argument("--version", "--v", action="version", version=version)
    return parser


def _add_data_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-dense", action="store_true", help="delimited text instead of LIBSVM's")
    parser.add_argument("-delim", default=",", metavar="CHAR", help="of dense text (default ',')")
    parser.add_argument(
        "-truth", action="store_true", help="the first column is the label or value"
    )


def _reading(args: argparse.Namespace) -> dict[str, Any]:
    if not args.dense:
        return {"format": "libsvm", "labels": "required" if args.truth else "auto"}
    return {
        "format": "delimited",
        "delimiter": {"tab": "\t", "\\t": "\t", "space": " "}.get(args.delim, args.delim),
        "header": False,
        "label_column": 0 if args.truth else None,
    }
