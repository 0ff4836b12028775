"""`kernelite report MODEL DATA -o report.html`: a page about a model on some rows."""

from __future__ import annotations

import argparse
import os
from typing import Any

from kernelite.cli.arguments import add_data_options, add_json, add_pickle, data_options
from kernelite.cli.console import note, print_json

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  kernelite report svm.kernelite test.svm -o report.html
  kernelite report paper.kernelite test.svm -o report.html --exact svm.model

The page needs no network: pictures, numbers and how they were measured are all in the file.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("model", metavar="MODEL", help="compiled model")
    parser.add_argument("data", metavar="DATA", help="rows; labels are not looked at")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="HTML file to write")
    parser.add_argument(
        "--exact",
        metavar="MODEL",
        help="the fitted model, to compare with where MODEL holds no support vectors",
    )
    add_pickle(parser)
    add_json(parser)
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, draw and write."""
    from kernelite.cli.models import check_output, predictor
    from kernelite.report.page import page_of, write

    check_output(args.output, args.model, args.data, args.exact)
    model = predictor(args.model)
    exact = None
    if args.exact is not None:
        exact = predictor(args.exact, exact=True, allow_pickle=args.allow_pickle)
    name = os.path.basename(args.data)
    page, measured = page_of(model, _rows(args, model), exact=exact, rows_name=name)
    write(page, args.output)
    if args.json:
        timed = measured.timed
        print_json(
            {
                "output": args.output,
                "rows": measured.rows,
                "labels_differ": measured.differ,
                "decided_by": {tier: int((measured.tier == i).sum()) for i, tier in TIER_NAMES},
                "seconds_a_row": {"compiled": timed.compiled, "exact": timed.exact},
            }
        )
    else:
        note(f"wrote {args.output}, {os.path.getsize(args.output):,} bytes")
    return 0


TIER_NAMES = tuple(enumerate(("form", "cubic", "exact")))


def _rows(args: argparse.Namespace, model: Any) -> Any:
    from kernelite.tables.data import read_data

    data = read_data(args.data, **{"labels": "ignore"} | data_options(args))
    return data.fit_width(model.n_features_in_)[0]
