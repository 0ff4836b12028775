"""`kernelite predict --engine dask`: columnar files scored by several processes or machines."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelite.cli.arguments import whole
from kernelite.cli.console import note

if TYPE_CHECKING:
    from kernelite.model import CompiledModel
    from kernelite.scoring.files import FilesPrediction, Request
    from kernelite.tables.columnar.formats import ColumnarFormat

__all__ = ["add_engine_options", "check_engine_options", "predict_pieces"]


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Who does the work."""
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


def check_engine_options(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    from kernelite.cli.predict_columns import is_columnar

    if args.engine == "local":
        for name in ("workers", "scheduler"):
            if getattr(args, name) is not None:
                args.usage_error(f"argument --{name}: only with --engine dask")
        return
    if args.workers is not None and args.scheduler is not None:
        args.usage_error("argument --workers: the workers are those of --scheduler")
    if not is_columnar(args) or args.output == "-":
        args.usage_error(
            "argument --engine: dask takes Parquet, Arrow or CSV files and writes a folder"
        )


def predict_pieces(
    args: argparse.Namespace,
    model: CompiledModel,
    request: Request,
    format: ColumnarFormat | None,
) -> FilesPrediction:
    """Score on the cluster that was asked for."""
    from kernelite.dask.cluster import connect
    from kernelite.dask.files import score_pieces
    from kernelite.dask.workers import model_counts
    from kernelite.tables.columnar.formats import format_of

    with connect(args.scheduler, args.workers) as client:
        done = score_pieces(
            model,
            args.data,
            args.output,
            client,
            request,
            format=format,
            output=args.output_format or format_of(args.output) or "parquet",
        )
        if not args.quiet:
            workers = model_counts(client).values()
            sent = max((n["received"] for counts in workers for n in counts.values()), default=0)
            note(f"{len(workers)} workers; the model was sent at most {sent} time to each")
    return done
