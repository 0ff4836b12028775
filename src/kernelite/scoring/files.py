"""`predict_files`: columnar files in, the same rows with answers out, in memory that does not grow.

Each output appears under its name when it is whole; a file that fails costs no other its output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from kernelite.cpu.threads import thread_count
from kernelite.errors import FileFormatError, InputError, KerneliteError, MissingExtraError
from kernelite.model import CompiledModel
from kernelite.program.stats import Stats
from kernelite.scoring.batch import BatchScorer
from kernelite.support.overlap import read_ahead
from kernelite.support.progress import Progress
from kernelite.tables.columnar.faults import naming_defects, without_stop
from kernelite.tables.columnar.formats import ColumnarFormat
from kernelite.tables.columnar.reading import ColumnarFile, TextOptions, open_file
from kernelite.tables.columnar.selection import Selection, select
from kernelite.tables.columnar.sources import Job, list_jobs
from kernelite.tables.columnar.writing import open_sink

__all__ = [
    "FilePrediction",
    "FilesPrediction",
    "Request",
    "predict_files",
    "raise_failures",
    "run_job",
    "run_jobs",
]

Watch: TypeAlias = "Callable[[Any, Any], None]"
_SHOWN = 3  # files that the error about several names


@dataclass(frozen=True)
class FilePrediction:
    """One file that was written: `source`, `destination`, and how many `rows` it has."""

    source: str
    destination: str
    rows: int


@dataclass(frozen=True)
class FilesPrediction:
    """What `predict_files` did.

    Parameters
    ----------
    files : tuple of FilePrediction
    stats : Stats
        How many rows each tier decided.
    """

    files: tuple[FilePrediction, ...]
    stats: Stats

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Request:
    """What is wanted of each file; see `predict_files`.

    `label_column` names the right answers; their batches, and the predictions, are given to
    whoever watches.
    """

    columns: Sequence[str] | None = None
    keep: Sequence[str] | Literal["all"] = ()
    outputs: Sequence[str] = ("label",)
    prefix: str = ""
    label_column: int | str | None = None
    text: TextOptions = field(default_factory=TextOptions)


def predict_files(
    model: CompiledModel,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    /,
    *,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] | Literal["all"] = (),
    outputs: Sequence[str] = ("label",),
    prefix: str = "",
    format: ColumnarFormat | None = None,
    output_format: ColumnarFormat | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> FilesPrediction:
    """Predict the rows of Parquet, Arrow (Feather) or CSV files; needs the extra `arrow`.

    Parameters
    ----------
    model : CompiledModel
    source : path-like
        A file, or a folder of files, which are taken in the order of their names.
    destination : path-like
        The file to write; for a folder a folder, with a file for each that is read. A file gets
        its name when it is finished.
    columns : sequence of str, optional
        Feature columns in the model's order: names, or ranges such as "x1:x9". By default those
        that the model was fitted on; where it knows none, all numeric columns that are neither
        kept nor called label, target, class or y, if there are as many as it has features.
    keep : sequence of str, or "all"
        Input columns that are written too, before the answers.
    outputs : sequence of {"label", "score", "probability", "decided"}
        What is appended, as by `kernelite.scoring.BatchScorer`.
    prefix : str
        Put before the names of what is appended.
    format, output_format : {"parquet", "arrow", "csv"}, optional
        By default names tell them (.parquet, .arrow, .feather, .csv, .csv.gz, ...).
    delimiter : str, optional
    header : bool, optional
        How CSV is read; by default told by its first lines.

    Returns
    -------
    FilesPrediction

    Raises
    ------
    FileFormatError
        For a file that cannot be read or predicted; names file, row group, column and row.
    InputError
        After all others were finished, if files of a folder failed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow
    >>> from pyarrow import parquet
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], ["no", "yes"]))
    >>> with TemporaryDirectory() as folder:
    ...     rows = pyarrow.table({"id": [7, 8], "a": [0.1, 0.9], "b": [1.0, 0.2]})
    ...     parquet.write_table(rows, f"{folder}/rows.parquet")
    ...     done = kernelite.predict_files(
    ...         fast, f"{folder}/rows.parquet", f"{folder}/labels.csv", keep=["id"]
    ...     )
    ...     print(done.rows, "rows")
    ...     print(open(f"{folder}/labels.csv").read())
    2 rows
    id,label
    7,no
    8,yes
    """
    jobs = list_jobs(source, destination, format=format, output=output_format)
    text = TextOptions(delimiter=delimiter, header=header)
    return run_jobs(model, jobs, Request(columns, keep, outputs, prefix, text=text))


def run_jobs(
    model: CompiledModel, jobs: Sequence[Job], request: Request, watch: Watch | None = None
) -> FilesPrediction:
    """Do one file after the other, with a progress bar.

    Parameters
    ----------
    model : CompiledModel
    jobs : sequence of Job
    request : Request
    watch : callable, optional
        Called with the right answers and the predictions of each batch, where there are labels.
    """
    # Asked before any file is read: what the model does not offer is not the fault of a file.
    scorer = BatchScorer(model, outputs=request.outputs, prefix=request.prefix, on_invalid="ignore")
    with _folder_made(jobs):
        return _run_jobs(scorer, jobs, request, watch)


def _run_jobs(
    scorer: BatchScorer, jobs: Sequence[Job], request: Request, watch: Watch | None
) -> FilesPrediction:
    done: list[FilePrediction] = []
    failed: list[KerneliteError] = []
    stats = Stats()
    with Progress("predicting rows", _total(jobs)) as bar:
        for number, job in enumerate(jobs):
            try:
                rows, more = run_job(scorer, job, request, watch, _teller(bar, jobs, number))
            except MissingExtraError:
                raise
            except KerneliteError as error:
                failed.append(error)
                continue
            stats += more
            done.append(FilePrediction(job.source.path, job.destination, rows))
    if failed:
        raise_failures(failed, len(jobs))
    return FilesPrediction(tuple(done), stats)


def run_job(
    scorer: BatchScorer,
    job: Job,
    request: Request,
    watch: Watch | None = None,
    tell: Callable[[int, int | None], None] = lambda rows, total: None,
) -> tuple[int, Stats]:
    """Do one file; how many rows it has, and how they were decided."""
    path, stats, rows = job.source.path, Stats(), 0
    # CSV that becomes CSV keeps its text: an id of 007 stays that.
    text = replace(request.text, verbatim=job.format == "csv")
    with closing(open_file(job.source, text)) as file:
        chosen, own, schema = _plan(scorer, file, path, request)
        with open_sink(job.destination, job.format, schema) as sink:
            parts = file.parts(chosen.read, chosen.features)
            for part in read_ahead(parts) if thread_count() > 1 else parts:
                with naming_defects(path, part, chosen.features):
                    scored, more = own.score(part.batch)
                sink.write(scored)
                rows, stats = rows + scored.num_rows, stats + more
                if watch is not None and chosen.label is not None:
                    watch(part.batch.column(chosen.label), scored.column(len(chosen.kept)))
                tell(rows, file.n_rows)
    return rows, stats


def _plan(
    scorer: BatchScorer, file: ColumnarFile, path: str, request: Request
) -> tuple[Selection, BatchScorer, Any]:
    """A file's columns, the scorer for them, and the schema of what it gives."""
    try:
        chosen = select(
            scorer.model,
            file.schema,
            columns=request.columns,
            keep=request.keep,
            label=request.label_column,
            typed=file.typed,
        )
        own = replace(scorer, columns=chosen.features, keep=chosen.kept)
        schema = own.schema(file.schema_of(chosen.read, chosen.features))
    except InputError as error:
        raise FileFormatError(path, without_stop(str(error))) from None
    if schema.names[len(chosen.kept)].removeprefix(scorer.prefix) not in ("label", "prediction"):
        chosen = replace(chosen, label=None)  # several values a row, or none that can be right
    return chosen, own, schema


@contextmanager
def _folder_made(jobs: Sequence[Job]) -> Iterator[None]:
    """The folder to write into; a new one that stays empty is removed."""
    folder = os.path.dirname(jobs[0].destination)
    if not jobs[0].in_folder or os.path.isdir(folder):
        yield
        return
    try:
        os.makedirs(folder)
    except OSError as error:
        raise InputError(f"cannot make `{folder}`: {error.strerror or error}.") from None
    try:
        yield
    finally:
        with suppress(OSError):  # not empty: what is finished is kept
            os.rmdir(folder)


def _total(jobs: Sequence[Job]) -> float | None:
    """What the bar counts up to: the rows of one file, where they are known, or files."""
    if len(jobs) > 1:
        return float(len(jobs))
    if jobs[0].source.format != "parquet":
        return None
    with closing(open_file(jobs[0].source)) as file:
        return file.n_rows


def _teller(bar: Progress, jobs: Sequence[Job], number: int) -> Callable[[int, int | None], None]:
    if len(jobs) == 1:
        return lambda rows, total: bar.reach(rows)
    return lambda rows, total: bar.reach(number + (rows / total if total else 0.0))


def raise_failures(failed: Sequence[KerneliteError], n_files: int) -> None:
    """Say which files failed; the first few, in one sentence."""
    if n_files == 1:
        raise failed[0]
    said = "; ".join(without_stop(str(error)) for error in failed[:_SHOWN])
    more = f"; and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    rest = n_files - len(failed)
    others = "the other one is" if rest == 1 else f"the other {rest} are"
    finished = f"{others} finished" if rest else "none is finished"
    raise InputError(f"{len(failed)} of {n_files} files failed, {finished}: {said}{more}.")
