"""`kernelite analyse DATA`: the largest gamma for which the paper's form stays valid.

examples:
  kernelite analyse train.svm
  kernelite analyse train.csv.gz --label-column target --gamma 0.01
  kernelite analyse train.npy --json

A model trained on DATA with a gamma under gamma_max can be approximated on rows like it: every
term of the series is then within 3.05%. The row named is the one that sets gamma_max.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import add_data_options, add_json, data_options, positive
from kernelite.cli.console import note, print_json, print_table
from kernelite.support.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from kernelite.data.gamma import GammaMax

__all__ = ["Extent", "configure", "extent", "run"]


@dataclass(frozen=True)
class Extent:
    """Rows and features of a file, and gamma_max about the origin."""

    rows: int
    features: int
    origin: GammaMax


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("data", metavar="DATA", help="data file")
    parser.add_argument("--gamma", type=positive, help="say whether this gamma is valid")
    add_json(parser)
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Find gamma_max about the origin and about the mean."""
    from kernelite.data.gamma import gamma_max

    reading = data_options(args)
    found = extent(args.data, **reading)
    limits = {"origin": found.origin}
    if os.path.isfile(args.data):
        limits["mean"] = gamma_max(args.data, about="mean", **reading)
    else:
        note("the mean needs a second reading, and DATA is not a regular file: left out")
    if args.json:
        print_json(_summary(args, found, limits))
        return 0
    print(f"{found.rows:,} rows, {found.features:,} features")
    columns = ["about", "gamma_max", "largest squared norm", "set by row"]
    if args.gamma is not None:
        columns.append(f"gamma {args.gamma:g}")
    print_table(columns, [_cells(args, name, limit) for name, limit in limits.items()])
    return 0


def extent(path: str, **reading: Any) -> Extent:
    """Walk a file once.

    Parameters
    ----------
    path : str
    **reading
        Options of `kernelite.data.tables.data.iter_data`.

    Returns
    -------
    Extent
    """
    from kernelite.data.gamma import gamma_max
    from kernelite.data.tables.data import iter_data
    from kernelite.support.terminal import Progress

    rows = features = 0
    farthest: GammaMax | None = None
    with Progress("reading rows") as bar:
        for part in iter_data(path, **reading):
            count = part.rows.shape[0]
            features = max(features, part.n_features)
            if count:
                try:
                    here = gamma_max(part.rows)
                except InputError:
                    problem = f"a squared norm in rows {rows + 1} to {rows + count} overflows"
                    raise FileFormatError(path, problem) from None
                if farthest is None or here.max_sq_norm > farthest.max_sq_norm:
                    farthest = replace(here, row=rows + here.row)
            rows += count
            bar.advance(count)
    if farthest is None:
        raise InputError(f"`{path}` has no rows, expected at least one.")
    return Extent(rows, features, farthest)


def _cells(args: argparse.Namespace, name: str, limit: GammaMax) -> list[str]:
    cells = [name, f"{limit.value:.6g}", f"{limit.max_sq_norm:.6g}", f"{limit.row + 1:,}"]
    if args.gamma is not None:
        cells.append("valid" if args.gamma < limit.value else "not valid")
    return cells


def _summary(
    args: argparse.Namespace, found: Extent, limits: dict[str, GammaMax]
) -> dict[str, Any]:
    return {
        "data": args.data,
        "rows": found.rows,
        "features": found.features,
        **{
            name: {
                "gamma_max": limit.value,
                "max_sq_norm": limit.max_sq_norm,
                "row": limit.row + 1,
                **({} if args.gamma is None else {"valid": args.gamma < limit.value}),
            }
            for name, limit in limits.items()
        },
    }
