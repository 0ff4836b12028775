"""What is to be predicted, a file or a folder, and the sinks that its answers go to."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol, TypeAlias, cast

from numpy.typing import NDArray

from kernelite.data.scoring.batch import BatchScorer, label_text
from kernelite.data.scoring.streams import Block
from kernelite.data.tables.columnar.library import require_pyarrow
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
from kernelite.model import CompiledModel
from kernelite.support.errors import InputError, MissingExtraError
from kernelite.support.files import STANDARD_INPUT, atomic_write, check_apart, open_binary
from kernelite.support.terminal import unwrapped

__all__ = [
    "BlockSink",
    "Job",
    "OutputFormat",
    "check_folders_apart",
    "list_jobs",
    "open_lines",
    "open_sink",
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
