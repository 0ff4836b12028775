"""`kernelite compile MODEL -o OUT`: from a fitted model to a compiled one.

examples:
  kernelite compile svm.model -o svm.kernelite
  kernelite compile svm.model.bz2 -o svm.kernelite --sample train.svm
  kernelite compile svm.model -o svm.kernelite --sample train.parquet --columns x1:x22
  kernelite compile svm.model -o paper.kernelite --guarantee none --expansion-point origin
  kernelite compile svm.model -o svm.approx --format approxsvm
  kernelite compile svm.model -o svm.kernelite --input-range train.range
  kernelite compile svc.joblib -o svc.kernelite --allow-pickle
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelite.cli.arguments import (
    add_column_options,
    add_compile_options,
    add_data_options,
    add_json,
    add_pickle,
    compile_options,
)
from kernelite.cli.console import note, print_json
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.model import CompiledModel
    from kernelite.sources import Machine

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="LIBSVM model; .gz, .bz2, .xz and .zst are unpacked"
    )
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="file to write")
    parser.add_argument(
        "--sample",
        metavar="DATA",
        help="rows like those to come, a file or a folder of columnar files; labels are not "
        "looked at",
    )
    parser.add_argument(
        "--input-range",
        metavar="FILE",
        help="svm-scale's range file (-s) of the training data: rows are then taken unscaled",
    )
    parser.add_argument(
        "--format",
        choices=("kernelite", "approxsvm"),
        default="kernelite",
        help="how OUT is written; approxsvm is the text that the paper's program reads: one "
        "output, expanded about the origin, without a guarantee (default: kernelite)",
    )
    parser.add_argument(
        "--plan",
        metavar="PLAN",
        default="auto",
        help="how candidates are compared: auto (time those that are close), estimate (by counting "
        "operations), measure; or form, the cheapest form even where the exact engine is cheaper, "
        "or the name of a candidate (default: auto)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print neither plan nor notes")
    add_pickle(parser)
    add_json(parser)
    add_compile_options(parser)
    add_data_options(parser, columnar=True)
    add_column_options(parser)


def run(args: argparse.Namespace) -> int:
    """Compile and save."""
    from kernelite.cli.models import check_output, fitted_model
    from kernelite.model.compiler import compile
    from kernelite.sources import read
    from kernelite.store.packing import unstorable

    check_output(args.output, args.model, args.sample, args.input_range)
    options = compile_options(args)
    if args.format == "approxsvm":
        options = {"guarantee": "none", "expansion_point": "origin"} | options
    source = read(fitted_model(args.model, allow_pickle=args.allow_pickle))
    if args.input_range is not None:
        from kernelite.sources.svm_scale import with_range

        source = with_range(source, args.input_range)
    why = unstorable(source)
    if why is not None:
        raise InputError(why)
    compiled = compile(source, _sample(args, source), plan=args.plan, **options)
    if args.format == "approxsvm":
        from kernelite.store import approxsvm

        approxsvm.write(compiled, args.output)
    else:
        compiled.save(args.output)
    _report(args, compiled)
    return 0


def _sample(args: argparse.Namespace, source: Machine) -> Any:
    if args.sample is None:
        if args.columns is not None:
            args.usage_error("argument --columns: there is no --sample to take them from")
        return None
    from kernelite.cli.models import read_sample

    return read_sample(
        args, args.sample, _Features(source.n_features, source, source.head, source.preparation)
    )


class _Features(NamedTuple):
    """What of a source tells its columns, under the names that a compiled model has for it."""

    n_features_in_: int
    origin: Any
    head: Any
    preparation: Any


def _report(args: argparse.Namespace, compiled: CompiledModel) -> None:
    from kernelite.cli.inspect import description, plan_text

    # A pipe or device has no size.
    size = os.path.getsize(args.output) if os.path.isfile(args.output) else None
    if args.json:
        print_json({"output": args.output, "file_bytes": size, **description(compiled)})
        return
    if args.quiet:
        return
    print(plan_text(compiled.plan, most=5))
    if size is not None:
        note(f"wrote {args.output}, {size:,} bytes")
