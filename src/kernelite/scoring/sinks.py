"""Where answers go: one sink per format, each a file that appears whole or not at all.

In: a block of rows and its answers. Out: columns (Parquet, Arrow, CSV), or svm-predict's lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Protocol

from numpy.typing import NDArray

from kernelite.model import CompiledModel
from kernelite.scoring.batch import BatchScorer
from kernelite.scoring.jobs import Job
from kernelite.scoring.outputs import label_text
from kernelite.scoring.streams import Block
from kernelite.support.files import atomic_write
from kernelite.support.printable import unwrapped
from kernelite.tables.columnar.writing import Sink as BatchSink
from kernelite.tables.columnar.writing import open_sink as open_columns

__all__ = ["Sink", "open_lines", "open_sink"]


class Sink(Protocol):
    """Where blocks go."""

    def write(self, block: Block, answers: Sequence[NDArray[Any]]) -> None:
        """Append a block's answers, one array of shape (m,) or (m, columns) per output."""
        ...


@contextmanager
def open_sink(job: Job, scorer: BatchScorer, schema: Any) -> Iterator[Sink]:
    """The file of a job, to write blocks to; it gets its name when all went well.

    Parameters
    ----------
    job : Job
    scorer : BatchScorer
    schema : pyarrow.Schema, optional
        Of the columns that were read; None for rows that are no columns.

    Yields
    ------
    Sink
    """
    if job.format == "lines":
        with open_lines(job.destination) as file:
            yield _Lines(file, scorer)
        return
    with open_columns(job.destination, job.format, scorer.schema(schema)) as sink:
        yield _Columns(sink, scorer)


@contextmanager
def open_lines(path: str) -> Iterator[IO[str]]:
    """A file of text, moved into place when it is whole; stdout for "-"."""
    if path == "-":
        yield sys.stdout if sys.stdout.isatty() else unwrapped(sys.stdout)
        sys.stdout.flush()  # what cannot be written is said instead of an accuracy, not after it
        return
    with atomic_write(path) as file:
        yield file


class _Columns:
    """Kept columns and answers."""

    def __init__(self, sink: BatchSink, scorer: BatchScorer) -> None:
        self._sink, self._scorer = sink, scorer

    def write(self, block: Block, answers: Sequence[NDArray[Any]]) -> None:
        self._sink.write(self._scorer.assemble(block.columns, answers))


class _Lines:
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
