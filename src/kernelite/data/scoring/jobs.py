"""What is to be predicted, a file or a folder, and where answers and skipped rows go."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kernelite.data.scoring.batch import BatchScorer, label_text
from kernelite.data.tables.columnar.library import (
    TablePart,
    arrow,
    first_defect,
    is_numeric,
    require_pyarrow,
)
from kernelite.data.tables.columnar.reading import (
    FORMATS,
    ColumnarFormat,
    DataFormat,
    SourceFile,
    format_of,
    list_sources,
    output_format,
    stem_of,
)
from kernelite.data.tables.columnar.writing import BatchSink
from kernelite.data.tables.columnar.writing import open_sink as open_columns
from kernelite.data.tables.parsing import Defect, Report, raise_first
from kernelite.model import CompiledModel
from kernelite.support.errors import FileFormatError, InputError, KerneliteError, MissingExtraError
from kernelite.support.files import STANDARD_INPUT, atomic_write, check_apart, open_binary
from kernelite.support.terminal import unwrapped

if TYPE_CHECKING:
    from kernelite.data.scoring.streams import Block

__all__ = [
    "BlockSink",
    "Job",
    "OutputFormat",
    "Skipped",
    "check_folders_apart",
    "good_rows",
    "halves",
    "list_jobs",
    "open_lines",
    "open_sink",
    "open_skipped",
]

OutputFormat: TypeAlias = ColumnarFormat | Literal["lines"]
_PAIR = re.compile(rb"(?:^|[ \t])[0-9]+:")


@dataclass(frozen=True)
class Job:
    """A file to read and the one to write its answers to.

    Parameters
    ----------
    source : SourceFile
    destination : str
        "-" is stdout.
    format : {"parquet", "arrow", "csv", "lines"}
        Of the destination; "lines" are svm-predict's.
    in_folder : bool
        Whether a folder is read, so that one is written.
    """

    source: SourceFile
    destination: str
    format: OutputFormat
    in_folder: bool = False


def list_jobs(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    format: DataFormat | None = None,
    output: OutputFormat | None = None,
) -> list[Job]:
    """What to read and where to write it.

    Parameters
    ----------
    source : path-like
        A file ("-" is standard input); or a folder of columnar files.
    destination : path-like
        A file ("-" is stdout); for a folder a folder, which is made if there is none.
    format : {"parquet", "arrow", "csv", "libsvm", "delimited", "npy", "npz"}, optional
        By default names tell it, then the content.
    output : {"parquet", "arrow", "csv", "lines"}, optional
        By default the name tells it, CSV for stdout; files of a folder keep their format if the
        name of the destination tells none.

    Returns
    -------
    list of Job
    """
    target = os.fspath(destination)
    if os.path.isdir(source):
        return _folder_jobs(os.fspath(source), target, format, output)
    if os.path.isdir(target):
        raise InputError(f"cannot write `{target}`: it is a folder, but DATA is one file.")
    if target == "-" and output not in (None, "csv", "lines"):
        raise InputError(f"only CSV is written to stdout, not {output}; name a file.")
    file = _file(os.fspath(source), format, output)
    if os.path.isfile(file.path):
        check_apart(target, file.path)
    return [Job(file, target, output or ("csv" if target == "-" else output_format(target)))]


def check_folders_apart(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Refuse to write into the folder that is read: the next run would read the answers."""
    inner, outer = os.path.realpath(target), os.path.realpath(source)
    check_apart(os.fspath(target), outer)
    if os.path.isdir(outer) and os.path.commonpath([inner, outer]) == outer:
        raise InputError(
            f"`{os.fspath(target)}` is inside the folder that is read; name one outside it."
        )


def _folder_jobs(
    source: str, target: str, format: DataFormat | None, output: OutputFormat | None
) -> list[Job]:
    if target == "-" or (os.path.exists(target) and not os.path.isdir(target)):
        raise InputError(f"DATA is a folder, so the output must be a folder too, not `{target}`.")
    check_folders_apart(source, target)
    if output == "lines":
        raise InputError("a folder of files gives columns, not lines of text.")
    output = output or format_of(target)
    jobs = [_within(target, file, output) for file in list_sources(source, format)]
    seen: dict[str, str] = {}
    for job in jobs:
        if (other := seen.setdefault(job.destination, job.source.path)) != job.source.path:
            raise InputError(
                f"`{other}` and `{job.source.path}` would both be written to `{job.destination}`; "
                "rename one."
            )
    return jobs


def _file(path: str, format: DataFormat | None, output: OutputFormat | None) -> SourceFile:
    """One file; what its name does not tell, its content does later."""
    found = format or format_of(path)
    if found is None:
        found = "csv" if path == STANDARD_INPUT and _looks_delimited() else "content"
    if found == "csv" and output == "lines" and format is None:
        try:
            require_pyarrow()
        except MissingExtraError:  # tables of numbers are read without it
            return SourceFile(path, "delimited")
    if found in FORMATS:
        return list_sources(path, found)[0]
    return SourceFile(path, found)


def _looks_delimited() -> bool:
    """Whether standard input starts with cells between commas, semicolons or tabs."""
    start = open_binary(STANDARD_INPUT).peek(1 << 12)
    lines = [line for line in start.splitlines() if line.strip() and not line.startswith(b"#")]
    first = lines[0] if lines else b""
    return _PAIR.search(first) is None and re.search(rb"[,;\t]", first) is not None


def _within(folder: str, file: SourceFile, output: ColumnarFormat | None) -> Job:
    format = output or cast(ColumnarFormat, file.format)  # a folder holds no other
    ending = os.path.splitext(file.path)[1]
    if format_of(f"a{ending}") != format or ending.lower() == ".tsv":
        ending = f".{format}"
    return Job(file, os.path.join(folder, f"{stem_of(file.path)}{ending}"), format, True)


# Where answers go: one sink per format, each a file that appears whole or not at all.
#
# In: a block of rows and its answers. Out: columns (Parquet, Arrow, CSV), or svm-predict's lines.


class BlockSink(Protocol):
    """Where blocks go."""

    def write(self, block: Block, answers: Sequence[NDArray[Any]]) -> None:
        """Append a block's answers, one array of shape (m,) or (m, columns) per output."""
        ...


@contextmanager
def open_sink(job: Job, scorer: BatchScorer, schema: Any) -> Iterator[BlockSink]:
    """The file of a job, to write blocks to; it gets its name when all went well.

    Parameters
    ----------
    job : Job
    scorer : BatchScorer
    schema : pyarrow.Schema, optional
        Of the columns that were read; None for rows that are no columns.

    Yields
    ------
    BlockSink
    """
    if job.format == "lines":
        with open_lines(job.destination) as file:
            yield _LineSink(file, scorer)
        return
    with open_columns(job.destination, job.format, scorer.schema(schema)) as sink:
        yield _ColumnSink(sink, scorer)


@contextmanager
def open_lines(path: str) -> Iterator[IO[str]]:
    """A file of text, moved into place when it is whole; stdout for "-"."""
    if path == "-":
        yield sys.stdout if sys.stdout.isatty() else unwrapped(sys.stdout)
        sys.stdout.flush()  # what cannot be written is said instead of an accuracy, not after it
        return
    with atomic_write(path) as file:
        yield file


class _ColumnSink:
    """Kept columns and answers."""

    def __init__(self, sink: BatchSink, scorer: BatchScorer) -> None:
        self._sink, self._scorer = sink, scorer

    def write(self, block: Block, answers: Sequence[NDArray[Any]]) -> None:
        self._sink.write(self._scorer.assemble(block.columns, answers))


class _LineSink:
    """One line per row: the label or value, then probabilities if asked for."""

    def __init__(self, file: IO[str], scorer: BatchScorer) -> None:
        self._file = file
        if "probability" in scorer.outputs:
            file.write(_header(scorer.model))

    def write(self, block: Block, answers: Sequence[NDArray[Any]]) -> None:
        first, *others = answers
        if first.ndim == 1 and not others:
            self._file.write(_lines(first))
            return
        cells = [[label_text(v) for v in row] for row in first.reshape(len(first), -1).tolist()]
        for table in others:
            for line, row in zip(cells, table.reshape(len(table), -1).tolist()):
                line += [f"{value:g}" for value in row]
        self._file.writelines(" ".join(line) + "\n" for line in cells)


def _header(model: CompiledModel) -> str:
    """The first line of svm-predict's `-b 1`."""
    if model.head.kind == "outlier":
        return "labels normal outlier\n"
    return " ".join(["labels", *map(label_text, model.classes_.tolist())]) + "\n"


def _lines(answers: NDArray[Any]) -> str:
    """One line per answer. Labels are few, so each one's text is made once."""
    values = answers.tolist()
    if answers.dtype.kind == "f" and len(values) > 64 and len(set(values)) > len(values) // 4:
        return "".join([f"{value:.17g}\n" for value in values])
    text = {value: f"{label_text(value)}\n" for value in set(values)}
    return "".join(map(text.__getitem__, values))


# Bad rows: by default the first one stops a file; here they are skipped, and written down.
#
# In: defects from the readers of text, and blocks of rows that a model refuses. Out: a CSV file
# with a line for each row that was skipped, and the blocks without them.


SKIPPED_HEADER = ("file", "line", "row", "problem")


class Skipped:
    """Rows that were skipped, told as they are met; readers are threads of their own.

    Parameters
    ----------
    tell : callable
        Of file, line, row and problem; of line and row, one is None.
    """

    def __init__(self, tell: Callable[[str, int | None, int | None, str], object]) -> None:
        self.count = 0
        self._first: str | None = None
        self._tell, self._lock = tell, Lock()

    def add(
        self, path: str, problem: str, *, line: int | None = None, row: int | None = None
    ) -> None:
        """Tell one row, with its line or its number, both counted from 1."""
        with self._lock:
            self.count += 1
            place = f"row {row}: " if line is None else ""
            self._first = self._first or str(FileFormatError(path, place + problem, line=line))
            self._tell(path, line, row, problem)

    def report(self, path: str) -> Report:
        """What a reader of text tells its defects to: those of a row skip it, others stop."""
        seen: set[int | None] = {None}

        def report(defect: Defect) -> None:
            if defect.line in seen and defect.line is not None:
                return  # one line in the file for each row
            if defect.line is None or defect.token is None:
                raise_first(path)(defect)  # about the whole file
            seen.add(defect.line)
            self.add(path, defect.problem, line=defect.line)

        return report

    def refuse_if_all(self, path: str, before: int, rows: int) -> None:
        """Stop where no row was good: such a file is another file than was meant."""
        skipped = self.count - before
        if skipped and not rows:
            raise FileFormatError(
                path, f"all of its {skipped:,} rows are bad; the first one: {self._first}"
            )


@contextmanager
def open_skipped(
    path: str | os.PathLike[str], answers: str | os.PathLike[str]
) -> Iterator[Skipped]:
    """The file that skipped rows are written to, beside one of answers; whole, or not at all."""
    if os.path.realpath(path) == os.path.realpath(answers):
        raise InputError(f"`{os.fspath(path)}` gets the answers; name another for skipped rows.")
    with atomic_write(path) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(SKIPPED_HEADER)
        yield Skipped(lambda *told: lines.writerow(told))


def good_rows(path: str, part: TablePart, columns: tuple[str, ...], skipped: Skipped) -> TablePart:
    """The rows of a part whose numbers are there and finite; the others are skipped."""
    batch, compute = part.batch, arrow("compute")
    good = np.ones(batch.num_rows, dtype=bool)
    for name in columns:
        column = batch.column(batch.schema.get_field_index(name))
        if not is_numeric(column.type):
            return part  # the whole column is wrong, which is said where rows are taken
        good &= column.is_valid().to_numpy(zero_copy_only=False)
        if arrow().types.is_floating(column.type):
            finite = compute.is_finite(column).fill_null(False)
            good &= finite.to_numpy(zero_copy_only=False)
    if good.all():
        return part
    for index in np.flatnonzero(~good):
        own = TablePart(batch.slice(index, 1), part.where, int(part.row_numbers()[index]))
        skipped.add(path, first_defect(own, columns, at=False) or "", row=own.first_row + 1)
    kept = batch.filter(arrow().array(good))
    return TablePart(kept, part.where, part.first_row, part.row_numbers()[good])


def halves(block: Block, error: KerneliteError, skipped: Skipped) -> list[Block]:
    """A block that a model refuses, in two; none for one row, which is skipped."""
    if block.part is None:
        raise error
    count = len(block.rows)
    if count == 1:
        problem = getattr(error, "problem", str(error))
        row = int(block.part.row_numbers()[0]) + 1
        skipped.add(block.path, problem.removeprefix(f"row {row}: "), row=row)
        return []
    return [_some(block, slice(0, count // 2)), _some(block, slice(count // 2, count))]


def _some(block: Block, rows: slice) -> Block:
    """Some rows of a block."""
    assert block.part is not None

    def cut(values: NDArray[Any] | None) -> Any:
        return None if values is None else values[rows]

    frame = getattr(block.rows, "iloc", block.rows)
    return replace(
        block,
        rows=frame[rows],
        beyond=cut(block.beyond),
        truth=cut(block.truth),
        known=cut(block.known),
        part=block.part.some(rows),
    )
