"""A cluster: how a model reaches its workers, and files that these score.

In: a `Shipment`. Out: what tasks carry instead. With a client, the model is registered as a worker
plugin: the scheduler hands it to each worker once, and again to every worker that comes later,
also in place of one that died. Without one it is a node of the graph, which each worker fetches.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Any, Literal, TypeAlias

from kernelite.backends.cpu.threads import one_thread, thread_count
from kernelite.data.scoring.batch import check_outputs
from kernelite.data.scoring.files import (
    FilePrediction,
    FilesPrediction,
    Request,
    raise_failures,
    run_job,
)
from kernelite.data.scoring.jobs import Job, check_folders_apart
from kernelite.data.scoring.shipping import Options, Shipment, Ticket, arrivals, drop, ship
from kernelite.data.tables.columnar.binary import ParquetSource
from kernelite.data.tables.columnar.reading import ColumnarFormat, SourceFile, list_sources, stem_of
from kernelite.model import CompiledModel
from kernelite.program.bounded import Stats
from kernelite.support.errors import (
    FileFormatError,
    InputError,
    KerneliteError,
    MissingExtraError,
    optional,
)
from kernelite.support.terminal import Progress

__all__ = [
    "carry",
    "connect",
    "forget",
    "list_pieces",
    "model_counts",
    "predict_files",
    "require_dask",
    "score_pieces",
]


def plugin_name(ticket: Ticket) -> str:
    """What the scheduler calls a model."""
    return f"kernelite-model-{ticket.digest}"


def require_dask(part: str = "") -> Any:
    """Dask or a part of it, or an error that names the extra.

    Examples
    --------
    >>> require_dask("array").__name__
    'dask.array'
    """
    module = part if part == "distributed" else f"dask.{part}" if part else "dask"
    need = "scoring with Dask needs dask and distributed"
    return optional(module, need, "'dask[array,dataframe]' distributed pyarrow", "dask")


def carry(shipment: Shipment, client: Any = None) -> Any:
    """What stands for a model in tasks: a ticket, where the workers have it; else a graph node.

    Parameters
    ----------
    shipment : Shipment
    client : distributed.Client, optional
        The current one by default, if there is one.

    Returns
    -------
    Ticket or dask.delayed.Delayed
    """
    client = _current() if client is None else client
    if client is None or client.asynchronous:
        return require_dask().delayed(shipment, name=plugin_name(shipment), traverse=False)
    if not client.run_on_scheduler(_is_registered, name=plugin_name(shipment)):
        client.register_plugin(_plugin(shipment))
    return Ticket(shipment.digest)


def _plugin(shipment: Shipment) -> Any:
    """What holds a model on every worker there is and will be."""
    from distributed.diagnostics.plugin import WorkerPlugin

    class ModelPlugin(WorkerPlugin):  # type: ignore[misc, unused-ignore]
        idempotent = True  # registered once more, it is not sent again

        def __init__(self) -> None:
            self.shipment, self.name = shipment, plugin_name(shipment)

        def teardown(self, worker: Any) -> None:
            """Forget the model, so that its memory is free."""
            drop(self.shipment.digest)

    return ModelPlugin()


def model_counts(client: Any = None) -> dict[str, dict[str, dict[str, int]]]:
    """How often each model was sent to each worker and unpacked there.

    Parameters
    ----------
    client : distributed.Client, optional
        The current one by default.

    Returns
    -------
    dict
        {worker's address: {digest: {"received": n, "unpacked": n}}}
    """
    found: dict[str, dict[str, dict[str, int]]] = _needed(client).run(arrivals)
    return found


def forget(model: CompiledModel, client: Any = None) -> None:
    """Take a model off the workers and the scheduler.

    Parameters
    ----------
    model : CompiledModel
    client : distributed.Client, optional
        The current one by default.
    """
    client, shipment = _needed(client), ship(model)
    drop(shipment.digest)
    if client.run_on_scheduler(_is_registered, name=plugin_name(shipment)):
        client.unregister_worker_plugin(plugin_name(shipment))


def _is_registered(dask_scheduler: Any, name: str) -> bool:
    return name in dask_scheduler.worker_plugins


def _current() -> Any:
    """The current client; None without one. It has to be loaded already if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.Client.current(allow_global=True)
    except ValueError:
        return None


def _needed(client: Any) -> Any:
    client = _current() if client is None else client
    if client is None:
        raise InputError("there is no current Dask client; pass `client`.")
    return client


@contextmanager
def connect(address: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """A client for the length of a block.

    Parameters
    ----------
    address : str, optional
        Of a scheduler, e.g. "tcp://10.0.0.5:8786". Without one, a cluster of processes is started
        on this machine, one thread each, reachable from nowhere else, and stopped at the end.
    workers : int, optional
        How many processes; as many as cores by default.

    Yields
    ------
    distributed.Client
    """
    distributed = require_dask("distributed")
    if address is not None:
        if re.fullmatch(r"([a-z]+://.+)|(.+:[0-9]+)", address) is None:
            # The client would only say so after it had started threads, which then complain too.
            raise InputError(f"`{address}` is no address of a scheduler; expected tcp://HOST:PORT.")
        try:
            client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at `{address}` ({error}).") from None
        with client:
            yield client
        return
    with _interrupts_held():
        cluster = distributed.LocalCluster(
            n_workers=workers or thread_count(),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the block ends, and threads and processes begun in it never see it.

    It reaches all processes of a terminal; workers that die of it would be mourned on stderr, when
    it is this process that ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started by a thread that holds signals back, it would let them pass there.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Columnar files scored by a cluster: a folder in, a folder out, which appears when complete.
#
# Workers need to see the same files. A task that dies with its worker is done again by another.
# Files are cut into pieces of row groups, one per task, and each piece becomes a file of its own:
# `part.parquet`, or `part-00000.parquet`, ... where a file has several. So workers read and write
# by themselves, and nothing passes through the scheduler.


PIECE_ROWS = 1 << 18  # row groups are put together up to so many rows

Outcome: TypeAlias = "tuple[int, Stats] | KerneliteError"


def predict_files(
    model: CompiledModel,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    client: Any,
    /,
    *,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] | Literal["all"] = (),
    outputs: Sequence[str] = ("label",),
    prefix: str = "",
) -> FilesPrediction:
    """Predict the rows of a folder of Parquet, Arrow or CSV files on a cluster.

    Parameters
    ----------
    model : CompiledModel
    source : path-like
        A folder or a file, which the workers see under the same name.
    destination : path-like
        A folder that does not exist yet, or is empty; a Parquet file for each piece of the input
        (a row group, or several small ones; a whole file of another format). It appears when all
        are written.
    client : distributed.Client
    columns, keep, outputs, prefix
        As in `kernelite.predict_files`.

    Returns
    -------
    FilesPrediction

    Raises
    ------
    InputError, FileFormatError
        If files failed; the pieces of the others are in `destination` nevertheless.
    """
    request = Request(columns, keep, outputs=outputs, prefix=prefix)
    return score_pieces(model, source, destination, client, request)


def score_pieces(
    model: CompiledModel,
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    client: Any,
    request: Request,
    *,
    format: ColumnarFormat | None = None,
    output: ColumnarFormat = "parquet",
) -> FilesPrediction:
    """The same for a `Request`; `format` and `output` are those of the files."""
    options = Options.of(None, request.outputs, (), request.prefix)
    check_outputs(model, options.outputs)
    check_folders_apart(source, destination)
    with _new_folder(destination) as folder:
        jobs = list_pieces(os.path.abspath(source), folder, format=format, output=output)
        carried = carry(ship(replace(model, on_invalid="ignore")), client)
        outcomes = _run(client, carried, jobs, options, request)
    done: list[FilePrediction] = []
    failed: dict[str, KerneliteError] = {}
    stats = Stats()
    for job, outcome in zip(jobs, outcomes):
        if isinstance(outcome, KerneliteError):
            failed.setdefault(job.source.path, outcome)
            continue
        final = os.path.join(destination, os.path.basename(job.destination))
        done.append(FilePrediction(job.source.path, final, outcome[0]))
        stats += outcome[1]
    if failed:
        raise_failures(list(failed.values()), len({job.source.path for job in jobs}))
    return FilesPrediction(tuple(done), stats)


def _run(
    client: Any, carried: Any, jobs: Sequence[Job], options: Options, request: Request
) -> list[Outcome]:
    distributed = require_dask("distributed")
    futures = [
        client.submit(_score_piece, carried, job, options, request, pure=False) for job in jobs
    ]
    number = {future.key: i for i, future in enumerate(futures)}
    outcomes: list[Any] = [None] * len(jobs)
    try:
        with client.as_current(), Progress("scoring pieces", float(len(jobs))) as bar:
            for future in distributed.as_completed(futures):
                job = jobs[number[future.key]]
                outcomes[number[future.key]] = _outcome(future, job, distributed)
                bar.advance()
    finally:
        client.cancel(futures)
    return outcomes


def _outcome(future: Any, job: Job, distributed: Any) -> Outcome:
    try:
        found: Outcome = future.result()
    except distributed.KilledWorker:
        found = InputError(
            f"{job.source.path}: every worker that took it died, likely for want of memory; use "
            "fewer workers, or smaller row groups."
        )
    if isinstance(found, MissingExtraError):
        raise found
    return found


def _score_piece(carried: Ticket, job: Job, options: Options, request: Request) -> Outcome:
    """On a worker: read, score, write; what is wrong with a file is an answer too."""
    try:
        with one_thread():
            return run_job(carried.scorer(options), job, request)
    except KerneliteError as error:
        return error


def list_pieces(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    format: ColumnarFormat | None = None,
    output: ColumnarFormat = "parquet",
) -> list[Job]:
    """What there is to do, in the order of the rows.

    Parameters
    ----------
    source : path-like
        A file or a folder of files.
    folder : path-like
        Where to write.
    format : {"parquet", "arrow", "csv"}, optional
        Of the files; by default their names tell.
    output : {"parquet", "arrow", "csv"}
    """
    jobs: list[Job] = []
    taken: dict[str, str] = {}
    for file in list_sources(source, format):
        stem, pieces = stem_of(file.path), list(_pieces(file))
        for number, piece in enumerate(pieces):
            name = stem if len(pieces) == 1 else f"{stem}-{number:05d}"
            if (other := taken.setdefault(name, file.path)) != file.path:
                raise InputError(
                    f"`{other}` and `{file.path}` would both be written as `{name}`; rename one."
                )
            jobs.append(Job(piece, os.path.join(folder, f"{name}.{output}"), output, True))
    return jobs


def cut(rows: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Row groups put together as long as they have `most` rows or fewer.

    Parameters
    ----------
    rows : sequence of int
        How many rows each row group has.
    most : int

    Returns
    -------
    list of (int, int)
        The first row group, and the one after the last.

    Examples
    --------
    >>> cut([5, 5, 20, 1, 1], 10)
    [(0, 2), (2, 3), (3, 5)]
    """
    found: list[tuple[int, int]] = []
    start = total = 0
    for group, count in enumerate(rows):
        if group > start and total + count > most:
            found.append((start, group))
            start, total = group, 0
        total += count
    return [*found, (start, len(rows))]


def _pieces(file: SourceFile) -> Iterator[SourceFile]:
    if file.format != "parquet":
        yield file
        return
    try:
        with closing(ParquetSource(file.path)) as opened:
            groups = cut(opened.rows, PIECE_ROWS)
    except FileFormatError:
        yield file  # whoever is given it says what is wrong
        return
    for piece in groups:
        yield SourceFile(file.path, "parquet", piece)


@contextmanager
def _new_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """A folder beside `path` that takes its place at the end; on errors it is removed."""
    target = os.path.abspath(path)
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise InputError(f"cannot write `{path}`: it is there already; name a new folder.")
    folder = os.path.join(
        os.path.dirname(target), f".{os.path.basename(target)}.{secrets.token_hex(6)}.tmp"
    )
    try:
        os.mkdir(folder)
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror or error}.") from None
    try:
        yield folder
        for name in os.listdir(folder):
            if name.startswith("."):  # what a worker was writing when it died
                os.unlink(os.path.join(folder, name))
        os.replace(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
