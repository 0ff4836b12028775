"""`kernelite check FILE`: every defect of a data or model file, with its line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelite.cli.arguments import add_data_options, add_json, data_options
from kernelite.cli.console import print_json
from kernelite.errors import FileFormatError, KerneliteError
from kernelite.support.printable import printable

if TYPE_CHECKING:
    from kernelite.tables.defects import Defect

__all__ = ["configure", "run"]

Kind = Literal["data", "kernelite", "approxsvm", "libsvm"]

EXAMPLES = """\
examples:
  kernelite check train.svm
  kernelite check svm.model.bz2
  kernelite check svm.kernelite --json
  kernelite check table --as data --label-column 0

One line per defect, `FILE:LINE: problem`, then their count. Exit code 1 when there is any.
Cells of text count as defects, since only some pipelines take them.
"""
_MODEL_NAMES = (".kernelite", ".model")
_DATA_NAMES = (".svm", ".libsvm", ".svmlight", ".csv", ".tsv", ".npy", ".npz")
_IN_WORDS = {
    "data": "data file",
    "kernelite": "compiled model",
    "approxsvm": "approxsvm model",
    "libsvm": "LIBSVM model",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE", help="data file, LIBSVM model or compiled model")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=("data", "model"),
        help="what FILE should be; by default told by its name, then by its content",
    )
    add_json(parser)
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """List and count."""
    kind = _kind(args.file, args.kind)
    found = _defects(args, kind)
    if args.json:
        listed = [{"line": d.line, "token": d.token, "problem": d.problem} for d in found]
        print_json(
            {"file": args.file, "kind": kind, "defects": listed, "count": len(listed)},
        )
        return 1 if listed else 0
    count = 0
    for defect in found:
        problem = FileFormatError(args.file, defect.problem, line=defect.line)
        print(printable(str(problem), one_line=True))
        count += 1
    counted = "no defects" if count == 0 else "1 defect" if count == 1 else f"{count} defects"
    print(f"{printable(args.file, one_line=True)}: {counted} ({_IN_WORDS[kind]})")
    return 1 if count else 0


def _kind(path: str, asked: str | None) -> Kind:
    from kernelite.store.model_kind import model_kind
    from kernelite.support.files import open_binary

    if not Path(path).is_fifo():  # a pipe can be opened only once
        open_binary(path).close()  # a file that is not there has no defects to list
    bare = path.lower().removesuffix(".gz").removesuffix(".bz2")
    if asked == "data" or (asked is None and bare.endswith(_DATA_NAMES)):
        return "data"
    try:
        return model_kind(path)
    except FileFormatError:
        # Not recognised: a model by its name is a broken one, anything else may be data.
        if bare.endswith(".kernelite"):
            return "kernelite"
        return "libsvm" if asked == "model" or bare.endswith(_MODEL_NAMES) else "data"


def _defects(args: argparse.Namespace, kind: Kind) -> Iterable[Defect]:
    if kind == "data":
        from kernelite.tables.data import defects

        return defects(args.file, **data_options(args))
    if kind == "libsvm":
        from kernelite.sources import libsvm

        return libsvm.defects(args.file)
    if kind == "approxsvm":
        from kernelite.store import approxsvm

        return approxsvm.defects(args.file)
    return _refusal(args.file)


def _refusal(path: str) -> list[Defect]:
    """The one reason why a compiled model does not load."""
    from kernelite.store.files import load
    from kernelite.tables.defects import Defect

    try:
        load(path)
    except FileFormatError as error:
        return [Defect(error.line, None, error.problem)]
    except KerneliteError as error:
        return [Defect(None, None, str(error))]
    return []
