"""`kernelite export MODEL -o OUT`: a compiled model for another runtime.

examples:
  kernelite export svm.kernelite -o svm.onnx
  kernelite export svm.kernelite -o svm.onnx --with-decided
  kernelite export svm.model.bz2 -o exact.onnx --exact
  kernelite export svm.kernelite -o svm.h --with-decided --main
  kernelite export svm.kernelite -o svm.js
  kernelite export svm.kernelite -o svm.h --form-only --float32 --sample train.svm

Without --exact, --with-decided or --form-only the export keeps the model's guarantee: a certified
or calibrated model takes its support vectors along, and rows that its forms leave open are
evaluated exactly inside. The form alone is smaller; --with-decided makes it say for each row
whether the answer is proven.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from kernelite.cli.arguments import add_data_options, add_json, add_pickle, data_options
from kernelite.cli.console import note, print_json

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="compiled model; with --exact, also a LIBSVM model"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="file to write; .onnx: a graph of standard operators, .h: a C99 header, .js: a module "
        "for browsers and Node",
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--exact", action="store_true", help="export the exact model")
    part.add_argument(
        "--with-decided",
        action="store_true",
        help="export the form alone, and say for each row whether its answer is proven",
    )
    part.add_argument(
        "--form-only", action="store_true", help="export the form alone, without any guarantee"
    )
    parser.add_argument(
        "--float32",
        action="store_true",
        help="single precision: nothing is proven, the error is measured on --sample and stated",
    )
    parser.add_argument("--sample", metavar="DATA", help="rows to measure the float32 error on")
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="insist on class probabilities, also where they cost more than labels",
    )
    parser.add_argument(
        "--std", action="store_true", help="Gaussian processes: also standard deviations"
    )
    parser.add_argument(
        "--float32-inputs",
        action="store_true",
        help="ONNX: numbers come in as float32, and are doubles from there on",
    )
    parser.add_argument("--name", help="C: what all names begin with (default: OUT's name)")
    parser.add_argument(
        "--main", action="store_true", help="C: also write a program that reads rows on stdin"
    )
    add_pickle(parser)
    add_json(parser)
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Export."""
    from kernelite.cli.models import check_output
    from kernelite.model.export import export, export_names
    from kernelite.model.export.float32 import float32_error
    from kernelite.model.export.selection import select

    for name in export_names(args.output, main=args.main):
        check_output(name, args.model, args.sample)
    model, options = _model(args), _options(args)
    sample = _sample(args, model.n_features_in_)
    written = export(
        model,
        args.output,
        probabilities=args.probabilities or None,
        std=args.std,
        inputs="float32" if args.float32_inputs else None,
        name=args.name,
        main=args.main,
        sample=sample,
        **options,
    )
    sizes = {file: os.path.getsize(file) for file in written}
    selection = select(model, **options)
    promise = selection.promise
    error = float32_error(selection, sample) if args.float32 else None
    if args.json:
        summary = {"promise": promise, "guarantee_of_the_model": model.guarantee}
        print_json({"files": sizes, **summary, **({"float32_error": error} if error else {})})
        return 0
    print(promise)
    if error is not None:
        print(f"float32 error: {error}")
    for file, size in sizes.items():
        note(f"wrote {file}, {size:,} bytes")
    return 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    part = "exact" if args.exact else "all"
    if args.with_decided or args.form_only:
        part = "approximation"
    dtype = "float32" if args.float32 else "float64"
    return {"part": part, "decided": args.with_decided, "dtype": dtype}


def _model(args: argparse.Namespace) -> Any:
    from kernelite.cli.models import is_pickle, predictor
    from kernelite.store.files import model_kind

    # A compiled model that holds its support vectors can be exported exactly too.
    fitted = is_pickle(args.model) or model_kind(args.model) == "libsvm"
    return predictor(args.model, exact=args.exact and fitted, allow_pickle=args.allow_pickle)


def _sample(args: argparse.Namespace, width: int) -> Any:
    if args.sample is None:
        return None
    from kernelite.data.tables.data import read_data

    data = read_data(args.sample, **{"labels": "ignore"} | data_options(args))
    return data.fit_width(width)[0]
