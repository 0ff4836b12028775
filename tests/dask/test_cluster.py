"""Folders of Parquet on real worker processes, also when one of them is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.cli import main
from kernelite.support.errors import InputError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("distributed", reason="distributed is not installed")

import pyarrow.parquet as pq  # noqa: E402

import kernelite.dask as kd  # noqa: E402
from kernelite.dask import cluster as module  # noqa: E402
from kernelite.dask.cluster import connect  # noqa: E402
from kernelite.data.scoring.shipping import ship  # noqa: E402
from tests.dask.clusters import cluster  # noqa: E402
from tests.helpers import PATIENCE  # noqa: E402

NAMES = [f"x{i}" for i in range(5)]


@pytest.fixture(scope="module")
def model() -> kl.CompiledModel:
    X = np.random.default_rng(0).normal(size=(80, 5))
    return kl.compile(SVC(gamma=0.05).fit(X, np.where(X[:, 0] > 0, "up", "down")), X)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of several row groups, cut small so that there are many pieces."""
    monkeypatch.setattr(module, "PIECE_ROWS", 300)
    return make_folder(tmp_path / "rows")


def make_folder(path: Path, n_files: int = 3, rows: int = 1000) -> Path:
    path.mkdir()
    rng = np.random.default_rng(1)
    for number in range(n_files):
        X = rng.normal(size=(rows, 5))
        columns = {"id": np.arange(rows) + rows * number, **dict(zip(NAMES, X.T))}
        pq.write_table(pa.table(columns), path / f"part-{number}.parquet", row_group_size=150)
    return path


def expected(model: kl.CompiledModel, folder: Path) -> dict[int, str]:
    table = pq.read_table(folder)
    rows = np.stack([table.column(name).to_numpy() for name in NAMES], axis=1)
    return dict(zip(table.column("id").to_pylist(), model.predict(rows).tolist()))


def found(folder: Path) -> dict[int, str]:
    table = pq.read_table(folder)
    labels = dict(zip(table.column("id").to_pylist(), table.column("label").to_pylist()))
    assert len(labels) == table.num_rows, "a row came twice"
    return labels


def test_files_are_scored_in_pieces(
    folder: Path, model: kl.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, begun = tmp_path / "scored", tmp_path / "begun"
    begun.mkdir()
    monkeypatch.setattr(module, "_score_piece", Together(begun))
    with cluster(2) as client:
        done = kd.predict_files(model, folder, out, client, columns=NAMES, keep=["id"])
        sent = [counts for worker in kd.model_counts(client).values() for counts in worker.values()]
    assert found(out) == expected(model, folder)
    assert done.rows == 3000 == done.stats.rows
    names = [Path(file.destination).name for file in done.files]
    assert names == sorted(path.name for path in out.iterdir())
    assert names[:2] == ["part-0-00000.parquet", "part-0-00001.parquet"]
    assert len(names) == 12
    assert sent == [{"received": 1, "unpacked": 1}] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "rows", "scored"]


class Together:
    """`_score_piece` that waits until two processes have begun, so that both have some to do."""

    def __init__(self, begun: Path) -> None:
        self.begun, self.score = begun, module._score_piece

    def __call__(self, *arguments: Any) -> Any:
        (self.begun / str(os.getpid())).touch()
        awaited(lambda: len(list(self.begun.iterdir())) == 2)
        return self.score(*arguments)


def awaited(true: Callable[[], bool]) -> None:
    """Return when something is true, or after a long time."""
    given_up = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < given_up:
        time.sleep(0.02)


@pytest.mark.campaign
def test_a_killed_worker_costs_nothing(
    folder: Path, model: kl.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = tmp_path / "begun", tmp_path / "release"
    begun.mkdir()
    monkeypatch.setattr(module, "_score_piece", SlowPiece(str(begun), str(release)))
    out = tmp_path / "scored"
    killed: list[int] = []
    with cluster(2) as client:
        killer = threading.Thread(target=kill_one, args=(begun, release, killed))
        killer.start()
        done = kd.predict_files(model, folder, out, client, columns=NAMES, keep=["id"])
        killer.join()
        client.wait_for_workers(2, timeout=PATIENCE)  # one of them is new
        counts = kd.model_counts(client)
        pids = set(client.run(os.getpid).values())
    assert len(killed) == 1
    assert killed[0] not in pids
    assert done.rows == 3000
    assert found(out) == expected(model, folder)
    digest = ship(model).digest
    assert len(counts) == 2
    for worker in counts.values():
        assert all(n["received"] == 1 and n["unpacked"] <= 1 for n in worker.values())
        assert worker, "the new worker got the model too"
    assert len(digest) == 64
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


class SlowPiece:
    """`_score_piece` that says which process began, and waits there until somebody was killed."""

    def __init__(self, begun: str, release: str) -> None:
        self.begun, self.release = begun, release
        self.score = module._score_piece

    def __call__(self, carried: Any, job: Any, options: Any, request: Any) -> Any:
        Path(self.begun, str(os.getpid())).touch()
        # Half written, as a worker that dies in mid-run leaves it.
        Path(os.path.dirname(job.destination), f".half.{os.getpid()}.tmp").write_text("half")
        awaited(lambda: os.path.exists(self.release))
        return self.score(carried, job, options, request)


def kill_one(begun: Path, release: Path, killed: list[int]) -> None:
    """Kill the first worker process that began, once both did."""
    awaited(lambda: len(list(begun.iterdir())) == 2)
    pid = int(sorted(path.name for path in begun.iterdir())[0])
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)
    release.touch()


def test_a_bad_file_costs_the_others_nothing(
    folder: Path, model: kl.CompiledModel, tmp_path: Path
) -> None:
    bad = folder / "part-1.parquet"
    bad.write_bytes(bad.read_bytes()[:500])
    table = pq.read_table(folder / "part-2.parquet")
    column = table.column("x3").to_pylist()
    column[170] = None
    index = table.schema.get_field_index("x3")
    table = table.set_column(index, "x3", pa.array(column, pa.float64()))
    pq.write_table(table, folder / "part-2.parquet", row_group_size=150)
    out = tmp_path / "scored"
    with cluster(1) as client, pytest.raises(InputError) as caught:
        kd.predict_files(model, folder, out, client, columns=NAMES, keep=["id"])
    said = str(caught.value)
    assert "2 of 3 files failed" in said
    assert "part-1.parquet" in said
    assert "part-2.parquet: row group 2 of 7, column `x3`, row 171: the value is missing" in said
    labels = found(out)
    assert {i for i in labels if i < 1000} == set(range(1000))


def test_what_is_there_is_not_overwritten(model: kl.CompiledModel, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "rows", 1, 10)
    other = make_folder(tmp_path / "other", 1, 10)
    with pytest.raises(InputError, match="it is there already"):
        kd.predict_files(model, folder, other, None)
    with pytest.raises(InputError, match="is read too"):
        kd.predict_files(model, folder, folder, None)
    with pytest.raises(InputError, match="no output 'probability'"):
        kd.predict_files(model, folder, tmp_path / "out", None, outputs=("probability",))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "rows"]


def test_nothing_is_left_of_an_interrupted_run(
    model: kl.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    folder = make_folder(tmp_path / "rows", 1, 10)
    monkeypatch.setattr(module, "carry", interrupt)
    with pytest.raises(KeyboardInterrupt):
        kd.predict_files(model, folder, tmp_path / "out", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows"]


@pytest.mark.skipif(os.name != "posix", reason="there is no Ctrl-C to send on this system")
def test_an_interrupt_leaves_nothing(model: kl.CompiledModel, tmp_path: Path) -> None:
    folder, saved = make_folder(tmp_path / "rows", 40, 20_000), tmp_path / "m.kernelite"
    model.save(saved)
    command = [sys.executable, "-m", "kernelite", "predict", str(folder), str(saved)]
    command += [str(tmp_path / "out"), "--engine", "dask", "--workers", "1"]
    source = str(Path(kl.__file__).parents[1])
    process = subprocess.Popen(
        [*command, "--columns", ",".join(NAMES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # as a terminal, which sends Ctrl-C to all processes of a command
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env={**os.environ, "PYTHONPATH": source},
    )
    awaited(lambda: bool(list(tmp_path.glob(".out.*.tmp"))))
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[0]
    assert (process.returncode, said) == (130, "kernelite: interrupted\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.kernelite", "rows"]


def test_a_full_disk_leaves_nothing(
    model: kl.CompiledModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, saved = make_folder(tmp_path / "rows", 1, 10), tmp_path / "m.kernelite"
    model.save(saved)
    monkeypatch.setattr(module, "_score_piece", full_disk)
    command = ["predict", str(folder), str(saved), str(tmp_path / "out"), "--engine", "dask"]
    assert main([*command, "--workers", "1", "--columns", ",".join(NAMES)]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.kernelite", "rows"]


def full_disk(*args: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_the_command_line(
    model: kl.CompiledModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, saved = make_folder(tmp_path / "rows"), tmp_path / "m.kernelite"
    model.save(saved)
    out = tmp_path / "scored"
    options = ["--engine", "dask", "--columns", ",".join(NAMES), "--id", "id"]
    command = ["predict", str(folder), str(saved), str(out), *options]
    assert main([*command, "--workers", "2", "--json"]) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert summary["rows"] == 3000
    assert len(summary["files"]) == 3
    assert "2 workers; the model was sent at most 1 time to each" in captured.err
    assert found(out) == expected(model, folder)
    assert main(command) == 1
    assert "it is there already" in capsys.readouterr().err


def test_a_scheduler_elsewhere(
    model: kl.CompiledModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, saved = make_folder(tmp_path / "rows", 1, 400), tmp_path / "m.kernelite"
    model.save(saved)
    columns = ["--columns", ",".join(NAMES), "--id", "id", "--engine", "dask"]
    with connect(workers=1) as client:
        address = client.scheduler.address
        assert address.startswith("tcp://127.0.0.1:")
        command = ["predict", str(folder), str(saved), str(tmp_path / "out"), *columns]
        assert main([*command, "--scheduler", address]) == 0
    assert found(tmp_path / "out") == expected(model, folder)
    assert "1 workers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--workers", "2"], "only with --engine dask"),
        (["--scheduler", "tcp://127.0.0.1:1"], "only with --engine dask"),
        (["--engine", "dask", "--workers", "2", "--scheduler", "x"], "those of --scheduler"),
        (["--engine", "dask"], "dask takes Parquet, Arrow or CSV files"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "rows.svm", "m.kernelite", "out", *options]) == 2
    assert words in capsys.readouterr().err


def test_a_bad_address(model: kl.CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`nonsense` is no address"), connect("nonsense"):
        raise AssertionError("there is no such scheduler")


def test_pieces_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 100)
    folder = make_folder(tmp_path / "rows", 1, 400)
    first = next(folder.iterdir())
    (folder / f"{first.stem}-00001.csv").write_text("id\n1\n")
    with pytest.raises(InputError, match=f"both be written as `{first.stem}-00001`"):
        module.list_pieces(folder, tmp_path / "out")


def test_answers_do_not_go_into_the_folder_that_is_read(
    model: kl.CompiledModel, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "rows", 1, 40)
    with pytest.raises(InputError, match="inside the folder that is read"):
        kd.predict_files(model, folder, folder / "out", None)
    assert len(list(folder.iterdir())) == 1
