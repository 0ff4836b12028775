"""`kernelite check FILE`: the defects of a data or model file by kind, with lines and counts.

examples:
  kernelite check train.svm
  kernelite check svm.model.bz2
  kernelite check svm.kernelite --json
  kernelite check svm.kernelite --deep
  kernelite check table --as data --label-column 0
  kernelite check rows.csv --model svm.kernelite

With --model, FILE is read as `predict` reads it, and rows that the model refuses count as defects.

One line per kind of defect, `FILE:LINE: problem` for the first one and how many lines have it,
then their count. Exit code 1 when there is any. Cells of text count as defects, since only some
pipelines take them.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelite.cli.arguments import (
    COLUMNAR,
    add_column_options,
    add_data_options,
    add_json,
    column_reading,
    data_options,
)
from kernelite.cli.console import print_json
from kernelite.support.errors import FileFormatError, InputError, KerneliteError
from kernelite.support.terminal import printable

if TYPE_CHECKING:
    from kernelite.data.tables.parsing import Defect

__all__ = ["configure", "run"]

Kind = Literal["data", "kernelite", "approxsvm", "libsvm"]

ROW = "row"  # instead of a token: the line is the number of a row
_MOST_KINDS = 1000  # that are kept; a file with more is no data at all
_TOKEN = re.compile(r"`[^`]*`")  # what a problem quotes from the file
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
    parser.add_argument("file", metavar="FILE", help="data file, LIBSVM model or compiled model")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=("data", "model"),
        help="what FILE should be; by default told by its name, then by its content",
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help="of a compiled model: compare its forms with its support vectors on many rows, and "
        "compute its certificates again (as long as compiling takes)",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="compiled model that the rows of FILE are meant for"
    )
    add_json(parser)
    add_data_options(parser, columnar=True)
    add_column_options(parser)


def run(args: argparse.Namespace) -> int:
    """List and count."""
    kind: Kind = "data" if args.model is not None else _kind(args.file, args.kind)
    if args.deep and kind != "kernelite":
        args.usage_error(f"argument --deep: only of a compiled model, not of a {_IN_WORDS[kind]}")
    if args.model is None and (args.columns or args.data_format in COLUMNAR):
        args.usage_error("argument --model: needed, to check columns")
    kinds, total = _summed_up(_refused(args) if args.model is not None else _defects(args, kind))
    if args.json:
        listed = [found.summary() for found in kinds]
        print_json({"file": args.file, "kind": kind, "defects": listed, "count": total})
        return 1 if total else 0
    for found in kinds:
        words, line = found.words(), found.first.line
        if found.first.token == ROW:
            words, line = f"row {line:,}: {words}", None
        problem = FileFormatError(args.file, words, line=line)
        print(printable(str(problem), one_line=True))
    if kind == "data" and any(map(_is_text, kinds)):
        print("(columns of text are fine for models that take them: pipelines with encoders)")
    counted = "no defects" if total == 0 else "1 defect" if total == 1 else f"{total:,} defects"
    if len(kinds) < total:
        more = "or more " if len(kinds) == _MOST_KINDS else ""
        counted += f" of {len(kinds):,} {more}kind{'s' if len(kinds) > 1 else ''}"
    print(f"{printable(args.file, one_line=True)}: {counted} ({_IN_WORDS[kind]})")
    return 1 if total else 0


def _is_text(found: _Alike) -> bool:
    """Whether a cell of a column is text where other models want a number."""
    return found.first.problem.startswith("column ") and "not a decimal" in found.first.problem


@dataclass
class _Alike:
    """Defects that differ only in their lines and in what they quote from the file."""

    first: Defect
    count: int = 0
    last: int | None = None

    def words(self) -> str:
        """The first one's problem, and how many there are."""
        if self.count == 1:
            return self.first.problem
        unit = "row" if self.first.token == ROW else "line"
        end = "" if self.last is None else f", the last in {unit} {self.last:,}"
        return f"{self.first.problem}; {self.count - 1:,} more like this{end}"

    def summary(self) -> dict[str, int | str | None]:
        """The same for machines."""
        first = self.first
        if first.token == ROW:
            shown = {"row": first.line, "problem": first.problem, "last_row": self.last}
            return shown | {"count": self.count}
        return {
            "line": first.line,
            "token": first.token,
            "problem": first.problem,
            "count": self.count,
            "last_line": self.last,
        }


def _summed_up(defects: Iterable[Defect]) -> tuple[list[_Alike], int]:
    """Kinds of defects, by their first line, and how many defects there are in all."""
    kinds: dict[str, _Alike] = {}
    total = 0
    for defect in defects:
        total += 1
        name = _TOKEN.sub("``", defect.problem)
        if name in kinds or len(kinds) < _MOST_KINDS:
            alike = kinds.setdefault(name, _Alike(defect))
            alike.count, alike.last = alike.count + 1, defect.line
    return list(kinds.values()), total


def _kind(path: str, asked: str | None) -> Kind:
    from kernelite.store.files import model_kind
    from kernelite.support.compression import without_ending
    from kernelite.support.files import open_binary

    if not Path(path).is_fifo():  # a pipe can be opened only once
        open_binary(path).close()  # a file that is not there has no defects to list
    bare = without_ending(path)
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
        from kernelite.data.tables.data import defects

        return defects(args.file, **data_options(args))
    if kind == "libsvm":
        from kernelite.sources import libsvm

        return libsvm.defects(args.file)
    if kind == "approxsvm":
        from kernelite.store import approxsvm

        return approxsvm.defects(args.file)
    return _of_model(args.file, deep=args.deep)


def _refused(args: argparse.Namespace) -> Iterator[Defect]:
    """What `predict` would refuse: columns, then rows."""
    from kernelite.cli.models import predictor
    from kernelite.data.scoring.batch import BatchScorer
    from kernelite.data.scoring.files import predict_blocks
    from kernelite.data.scoring.jobs import Skipped, list_jobs
    from kernelite.data.scoring.streams import Wanted, open_stream
    from kernelite.data.tables.parsing import Defect

    if os.path.isdir(args.file):
        raise InputError(f"`{args.file}` is a folder; check its files one by one.")
    model = predictor(args.model)
    found: list[Defect] = []

    def tell(_: str, line: int | None, row: int | None, problem: str) -> None:
        found.append(Defect(line, None, problem) if row is None else Defect(row, ROW, problem))

    reading = column_reading(args)
    reading["text"] = replace(reading["text"], verbatim=True)
    wanted = Wanted(args.columns, skipped=Skipped(tell), **reading)
    scorer = BatchScorer(model, on_invalid="ignore")
    for job in list_jobs(args.file, os.devnull, format=args.data_format, output="lines"):
        try:
            with closing(open_stream(model, job.source, wanted)) as stream:
                own = replace(scorer, columns=stream.features)
                predict_blocks(own.answers, stream.blocks(), _Nowhere(), skipped=wanted.skipped)
        except FileFormatError as error:
            found.append(Defect(error.line, None, error.problem))
    yield from sorted(found, key=lambda defect: defect.line or 0)


class _Nowhere:
    """A sink that keeps nothing: what counts is which rows get there."""

    def write(self, block: object, answers: object) -> None:
        pass


def _of_model(path: str, *, deep: bool) -> list[Defect]:
    """The one reason why a compiled model does not load, or all that a deep check finds."""
    from kernelite.data.tables.parsing import Defect
    from kernelite.model.checks import disagreements
    from kernelite.store.files import load

    try:
        model = load(path)
        if deep:
            return [Defect(None, None, problem) for problem in disagreements(model, deep=True)]
    except FileFormatError as error:
        return [Defect(error.line, None, error.problem)]
    except KerneliteError as error:
        return [Defect(None, None, str(error))]
    return []
