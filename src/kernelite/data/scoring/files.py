"""`predict_files`: files in, the same rows with answers out, in memory that does not grow.

Each output appears under its name when it is whole; a file that fails costs no other its output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from kernelite.backends.cpu.threads import thread_count
from kernelite.data.scoring.batch import BatchScorer
from kernelite.data.scoring.jobs import (
    BlockSink,
    Job,
    OutputFormat,
    Skipped,
    halves,
    list_jobs,
    open_sink,
    open_skipped,
)
from kernelite.data.scoring.rasters import is_raster, predict_raster
from kernelite.data.scoring.streams import Block, Wanted, open_stream
from kernelite.data.tables.columnar.library import without_stop
from kernelite.data.tables.columnar.reading import DataFormat, TextOptions
from kernelite.model import CompiledModel, require_compiled
from kernelite.program.bounded import Stats
from kernelite.support.errors import FileFormatError, InputError, KerneliteError, MissingExtraError
from kernelite.support.files import read_ahead
from kernelite.support.terminal import Progress

__all__ = [
    "FilePrediction",
    "FilesPrediction",
    "Request",
    "predict_blocks",
    "predict_files",
    "predict_scene",
    "raise_failures",
    "run_job",
    "run_jobs",
]

Watch: TypeAlias = "Callable[[Any, Any], None]"
Answer: TypeAlias = "Callable[[Any, Any], tuple[list[NDArray[Any]], Stats]]"
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
        How many rows each stage decided.
    skipped : int
        Rows that were left out, with `on_bad_row="skip"`.
    """

    files: tuple[FilePrediction, ...]
    stats: Stats
    skipped: int = 0

    @property
    def rows(self) -> int:
        """How many rows all files have."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Request(Wanted):
    """What is wanted of each file; see `predict_files`.

    `label_column` names the right answers; these, and the predictions, are given to whoever
    watches.
    """

    outputs: Sequence[str] = ("label",)
    prefix: str = ""


def predict_files(
    model: CompiledModel,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    /,
    *,
    columns: str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    outputs: str | Sequence[str] = ("label",),
    prefix: str = "",
    format: DataFormat | None = None,
    output_format: OutputFormat | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    on_bad_row: Literal["stop", "skip"] = "stop",
    skipped: str | os.PathLike[str] | None = None,
) -> FilesPrediction:
    """Predict the rows of Parquet, Arrow (Feather), CSV or other data files, or of a GeoTIFF.

    Columnar files need the extra `arrow`, rasters the extra `raster`: there bands are features
    (`columns` names them, or gives their numbers from 1), and answers become bands. Where the model
    takes columns of text, as a pipeline with encoders does, it is given them.

    Parameters
    ----------
    model : CompiledModel
    source : path-like
        A file ("-" is standard input); or a folder of columnar files, which are taken in the order
        of their names.
    destination : path-like
        The file to write; for a folder a folder, with a file for each that is read. A file gets
        its name when it is finished.
    columns : str or sequence of str, optional
        Feature columns in the model's order: names, or ranges such as "x1:x9". By default those
        that the model was fitted on; where it knows none, all numeric columns that are neither
        kept nor called label, target, class or y, if there are as many as it has features.
    keep : str or sequence of str
        Input columns that are written too, before the answers; "all" are all of them.
    outputs : one or several of {"label", "score", "probability", "decided"}
        What is appended, as by `kernelite.data.scoring.BatchScorer`.
    prefix : str
        Put before the names of what is appended.
    format : {"parquet", "arrow", "csv", "libsvm", "delimited", "npy", "npz"}, optional
        By default names tell it (.parquet, .arrow, .feather, .csv, .csv.gz, ...), then the content.
    output_format : {"parquet", "arrow", "csv", "lines"}, optional
        By default the name tells it; "lines" are svm-predict's.
    delimiter : str, optional
    header : bool, optional
        How CSV is read; by default told by its first lines.
    on_bad_row : {"stop", "skip"}
        What to do about a row that cannot be read or predicted, such as one with a missing number:
        stop there, or leave it out. Arrays (.npy, .npz) always stop.
    skipped : path-like, optional
        With "skip", a CSV file of the rows that were left out: file, line or row, problem. By
        default `destination` with ".skipped.csv" behind it.

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
    _check_arguments(model, source, destination)
    columns = [columns] if isinstance(columns, str) else columns
    for name, asked in (("columns", columns), ("keep", keep), ("outputs", outputs)):
        if not isinstance(asked, str | Iterable | None):
            raise InputError(f"`{name}` must be a list of names, got {asked!r}.")
    if columns is not None and not all(isinstance(name, str) for name in columns):
        if not is_raster(source):
            raise InputError(f"`columns` must be names of columns, got {list(columns)!r}.")
        columns = [str(band) for band in columns]
    keep = [keep] if isinstance(keep, str) and keep != "all" else keep
    outputs = [outputs] if isinstance(outputs, str) else outputs
    if format is None and is_raster(source):
        return predict_scene(model, source, destination, columns, outputs)
    jobs = list_jobs(source, destination, format=format, output=output_format)
    text = TextOptions(delimiter=delimiter, header=header)
    request = Request(columns, keep, text=text, outputs=outputs, prefix=prefix)
    if on_bad_row == "stop":
        return run_jobs(model, jobs, request)
    if on_bad_row != "skip":
        raise InputError(f"`on_bad_row` must be 'stop' or 'skip', got {on_bad_row!r}.")
    bad = skipped or f"{os.fspath(destination)}.skipped.csv"
    with open_skipped(bad, destination) as rows:
        return run_jobs(model, jobs, replace(request, skipped=rows))


def predict_scene(
    model: CompiledModel,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    bands: Sequence[str] | None,
    outputs: Sequence[str],
) -> FilesPrediction:
    """Predict the pixels of a GeoTIFF; see `kernelite.data.scoring.rasters.predict_raster`."""
    files = os.fspath(source), os.fspath(destination)
    pixels, stats = predict_raster(model, *files, bands=bands, outputs=outputs)
    return FilesPrediction((FilePrediction(*files, pixels),), stats)


def _check_arguments(model: object, source: object, destination: object) -> None:
    """Say in one sentence what stands in the wrong place."""
    if not isinstance(model, CompiledModel) and CompiledModel in (type(source), type(destination)):
        raise InputError("the model comes first: `kl.predict_files(model, source, out)`.")
    require_compiled(model)
    for name, given in (("source", source), ("destination", destination)):
        if not isinstance(given, str | os.PathLike):
            cure = "; `model.predict` takes rows in memory" if name == "source" else ""
            kind = type(given).__name__
            raise InputError(f"`{name}` must be a path, got a {kind}{cure}.")


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
    with Progress("predicting rows") as bar:
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
    skipped = 0 if request.skipped is None else request.skipped.count
    return FilesPrediction(tuple(done), stats, skipped)


def run_job(
    scorer: BatchScorer,
    job: Job,
    request: Request,
    watch: Watch | None = None,
    on_progress: Callable[[int, int | None], None] = lambda rows, total: None,
) -> tuple[int, Stats]:
    """Do one file; how many rows it has, and how they were decided."""
    # CSV that becomes CSV keeps its text: an id of 007 stays that.
    wanted = replace(request, text=replace(request.text, verbatim=job.format == "csv"))
    with closing(open_stream(scorer.model, job.source, wanted)) as stream:
        try:
            own = replace(scorer, columns=stream.features, keep=stream.kept)
            if job.format != "lines":
                own.schema(stream.schema)  # refuses what cannot be kept, before a file is begun
        except InputError as error:
            raise FileFormatError(job.source.path, without_stop(str(error))) from None
        before = 0 if request.skipped is None else request.skipped.count
        with open_sink(job, own, stream.schema) as sink:
            rows, stats = predict_blocks(
                own.answers,
                stream.blocks(),
                sink,
                skipped=request.skipped,
                watch=None if watch is None else partial(_seen, watch, own),
                on_progress=lambda rows: on_progress(rows, stream.n_rows),
            )
            if request.skipped is not None:
                request.skipped.refuse_if_all(job.source.path, before, rows)
            return rows, stats


def predict_blocks(
    answer: Answer,
    blocks: Iterator[Block],
    sink: BlockSink,
    *,
    skipped: Skipped | None = None,
    watch: Callable[[Block, list[NDArray[Any]]], None] | None = None,
    on_progress: Callable[[int], None] = lambda rows: None,
) -> tuple[int, Stats]:
    """The one loop: read, answer, write; the next block is read meanwhile.

    Parameters
    ----------
    answer : callable
        Of rows and the squared norms beyond the model's width; gives answers and stats.
    blocks : iterator of Block
    sink : BlockSink
    skipped : Skipped, optional
        Where refused rows are written down; by default a refusal is raised.
    watch : callable, optional
        Called with each block and its answers.
    on_progress : callable
        Told how many rows are done.

    Returns
    -------
    (int, Stats)
        Rows, and how they were decided.
    """
    rows, stats = 0, Stats()
    for block in read_ahead(blocks) if thread_count() > 1 else blocks:
        for own, answers, more in _answered(answer, block, skipped):
            sink.write(own, answers)
            if watch is not None:
                watch(own, answers)
            rows, stats = rows + len(answers[0]), stats + more
        on_progress(rows)
    return rows, stats


def _answered(
    answer: Answer, block: Block, skipped: Skipped | None
) -> Iterator[tuple[Block, list[NDArray[Any]], Stats]]:
    """A block with its answers; if it is refused and bad rows are skipped, its good rows."""
    try:
        with block.blame():
            answers, stats = answer(block.rows, block.beyond)
    except FileFormatError as error:
        if skipped is None:
            raise
        for half in halves(block, error, skipped):
            yield from _answered(answer, half, skipped)
        return
    yield block, answers, stats


def _seen(watch: Watch, scorer: BatchScorer, block: Block, answers: list[NDArray[Any]]) -> None:
    """Tell the right answers and ours, where there is one of each per row."""
    others = ("transform", "density")  # whose answers no label can be right for
    if block.truth is None or "label" not in scorer.outputs or scorer.model.head.kind in others:
        return
    ours = answers[scorer.outputs.index("label")]
    known = slice(None) if block.known is None else block.known
    if ours.ndim == 1:
        watch(block.truth[known], ours[known])


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


def _teller(bar: Progress, jobs: Sequence[Job], number: int) -> Callable[[int, int | None], None]:
    """Rows of one file, out of as many as are known; else files."""
    if len(jobs) == 1:
        return lambda rows, total: bar.reach(rows, total)
    return lambda rows, total: bar.reach(number + (rows / total if total else 0.0), len(jobs))


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
