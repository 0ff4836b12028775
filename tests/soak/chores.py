"""What is done over and over; each chore checks its answers and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import kernelite as kl

__all__ = ["CHORES", "Subject", "subjects"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted estimator, rows, a compiled model, and what it answers."""

    estimator: Any
    rows: np.ndarray
    model: kl.CompiledModel
    answers: np.ndarray


@cache
def subjects() -> tuple[Subject, ...]:
    """A form, a cascade and an exact plan."""
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:500]
    two, ten = y[:500] > 4, y[:500]
    pairs = [
        (SVC(gamma=1e-3).fit(X, two), "certified"),
        (SVC(gamma=2e-2).fit(X, two), "certified"),
        (SVC(gamma=2e-2).fit(X, ten), "exact"),
        (SVR(gamma=1e-3).fit(X, ten), "none"),
    ]
    return tuple(_subject(estimator, X, guarantee) for estimator, guarantee in pairs)


def _subject(estimator: Any, X: np.ndarray, guarantee: str) -> Subject:
    model = _compiled(estimator, X, guarantee)
    return Subject(estimator, X, model, model.predict(X))


def _compiled(estimator: Any, X: np.ndarray, guarantee: str) -> kl.CompiledModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kl.compile(
            estimator, X[:200], guarantee=guarantee, plan="estimate", on_invalid="ignore"
        )


def _check(model: kl.CompiledModel, one: Subject) -> None:
    found = model.predict(one.rows)
    same = found == one.answers if one.answers.dtype.kind != "f" else np.isclose(found, one.answers)
    assert same.all(), f"{np.count_nonzero(~same)} answers are others than before"


def compile_again(one: Subject, folder: Path) -> None:
    """Compile and predict."""
    _check(_compiled(one.estimator, one.rows, one.model.guarantee), one)


def predict(one: Subject, folder: Path) -> None:
    """A batch, and rows one by one."""
    _check(one.model, one)
    for i in range(20):
        assert np.isclose(one.model.predict(one.rows[i : i + 1])[0], one.answers[i])


def save_and_load(one: Subject, folder: Path) -> None:
    """A file and back."""
    path = folder / "model.kernelite"
    one.model.save(path)
    _check(kl.load(path), one)


def refuse(one: Subject, folder: Path) -> None:
    """Errors hold on to nothing."""
    path = folder / "damaged.kernelite"
    one.model.save(path)
    path.write_bytes(path.read_bytes()[:-7])
    for wrong in (lambda: kl.load(path), lambda: one.model.predict(np.zeros((2, 3)))):
        try:
            wrong()
        except kl.KerneliteError:
            continue
        raise AssertionError("what is wrong was accepted")


def files(one: Subject, folder: Path) -> None:
    """Rows of a file, and answers into another; a row that is no number leaves none behind."""
    rows, out = folder / "rows.csv", folder / "answers.csv"
    np.savetxt(rows, one.rows[:50], fmt="%.17g", delimiter=",")
    kl.predict_files(one.model, rows, out)
    written = [json.loads(line) for line in out.read_text(encoding="utf-8").split()[1:]]
    assert np.allclose(written, one.answers[:50]), f"a file has other answers: {written[:5]}"
    out.unlink()
    with rows.open("a", encoding="utf-8") as file:
        file.write("what\n")
    try:
        kl.predict_files(one.model, rows, out)
    except kl.KerneliteError:
        assert not out.exists()
        return
    raise AssertionError("a word was taken for a row")


def threads(one: Subject, folder: Path) -> None:
    """Eight callers at once."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(_check, one.model, one) for _ in range(8)]:
            done.result()


def fork(one: Subject, folder: Path) -> None:
    """A child predicts while the parent's threads do."""
    with ThreadPoolExecutor(2) as pool, warnings.catch_warnings():
        busy = [pool.submit(_check, one.model, one) for _ in range(4)]
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _check(one.model, one)
                code = 0
            finally:
                os._exit(code)
        assert _ended(child, 300.0) == 0, "a forked child gave other answers, or none"
        for done in busy:
            done.result()


def _ended(child: int, seconds: float) -> int | None:
    """The exit code of a child; None, and it is ended, if it takes longer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def spawn(one: Subject, folder: Path) -> None:
    """Another process loads the model."""
    path = folder / "spawned.kernelite"
    one.model.save(path)
    code = (
        "import sys, numpy, kernelite\n"
        "model = kernelite.load(sys.argv[1])\n"
        "model.predict(numpy.zeros((3, model.n_features_in_)))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=600)


def signals(one: Subject, folder: Path) -> None:
    """SIGINT in the middle of predicting: an interrupt, and the next call is right."""
    timer = threading.Timer(0.003, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        for _ in range(200):
            one.model.predict(one.rows)
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    timer.join()
    _check(one.model, one)


def chores() -> Iterator[Callable[[Subject, Path], None]]:
    """In order; what takes long comes seldom."""
    number = 0
    while True:
        yield from (predict, save_and_load, threads, refuse, files, signals, fork)
        if number % 3 == 0:
            yield compile_again
        if number % 20 == 0:
            yield spawn
        number += 1


CHORES = (predict, save_and_load, threads, refuse, files, signals, fork, compile_again, spawn)
"""All that `chores` gives."""
