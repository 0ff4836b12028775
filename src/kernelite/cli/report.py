"""`kernelite report MODEL DATA -o report.html`: a page about a model on some rows.

examples:
  kernelite report svm.kernelite test.svm -o report.html
  kernelite report svm.kernelite test.svm -o report.html --original svm.model
  kernelite report paper.kernelite test.svm -o report.html --exact svm.model

The page needs no network: pictures, numbers and how they were measured are all in the file.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import Any

from kernelite.cli.arguments import add_data_options, add_json, add_pickle
from kernelite.cli.console import note, print_json

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("model", metavar="MODEL", help="compiled model")
    parser.add_argument("data", metavar="DATA", help="rows; labels are not looked at")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="HTML file to write")
    parser.add_argument(
        "--exact",
        metavar="MODEL",
        help="the fitted model, to compare with where MODEL holds no support vectors",
    )
    parser.add_argument(
        "--original",
        metavar="MODEL",
        help="the model that was compiled, to compare answers and speed with: a LIBSVM model, or "
        "with --allow-pickle a scikit-learn one",
    )
    add_pickle(parser)
    add_json(parser)
    add_data_options(parser, columnar=True)


def run(args: argparse.Namespace) -> int:
    """Measure, draw and write."""
    from kernelite.cli.models import (
        check_order,
        check_output,
        original_model,
        predictor,
        read_sample,
    )
    from kernelite.model.report import page_of, write
    from kernelite.model.report.measure import TIERS

    check_output(args.output, args.model, args.data, args.exact, args.original)
    with check_order(args.data, args.model, order="the model comes first, then the data"):
        model = predictor(args.model)
    exact = original = None
    if args.exact is not None:
        exact = predictor(args.exact, exact=True, allow_pickle=args.allow_pickle)
    if args.original is not None:
        original = original_model(args.original, allow_pickle=args.allow_pickle)
    rows, name = read_sample(args, args.data, model), os.path.basename(args.data)
    page, measured, compared = page_of(model, rows, original=original, exact=exact, rows_name=name)
    write(page, args.output)
    if not args.json:
        note(f"wrote {args.output}, {os.path.getsize(args.output):,} bytes")
        return 0
    timed = measured.timed
    summary: dict[str, Any] = {
        "output": args.output,
        "rows": measured.rows,
        "labels_differ": measured.differ,
        "decided_by": {name: int((measured.tier == i).sum()) for i, name in enumerate(TIERS)},
        "seconds_per_row": {"compiled": timed.compiled, "exact": timed.exact},
    }
    print_json(summary | ({} if compared is None else {"original": asdict(compared)}))
    return 0
