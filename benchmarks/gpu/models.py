"""Models and rows that the GPU is judged on: prepared once on a CPU, then carried anywhere.

`prepare` compiles the shared models and the board's classifiers and keeps what the CPU answers: a
`.kernelite` file and an npz with rows and labels for each. So a machine with a GPU needs neither
the data nor the time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kernelite as kl
from kernelite.machine.machine import describe
from kernelite.sources import Machine

__all__ = ["Prepared", "compiled", "load_prepared", "prepare", "random_expansion", "random_pairs"]

SHARED = ("a9a 0.01", "a9a 0.02", "a9a 0.1", "ijcnn1", "mnist1")


class Prepared(NamedTuple):
    """A compiled model, test rows, and what the CPU answers."""

    name: str
    model: Any
    rows: np.ndarray
    labels: np.ndarray


def prepare(folder: Path, sample_rows: int = 4000) -> list[str]:
    """Write what `load_prepared` reads; the names of the models that were there."""
    from benchmarks.workloads import available, load

    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in SHARED if name in set(available())]
    for name in names:
        workload = load(name, sample_rows=sample_rows)
        fast = kl.compile(workload.path, workload.sample)
        stem = folder / name.replace(" ", "_")
        fast.save(f"{stem}.kernelite")
        labels = fast.predict(workload.rows)
        np.savez_compressed(f"{stem}.npz", rows=workload.rows, labels=labels)
    _prepare_letters(folder)
    return [*names, "letters", *_prepare_board(folder)]


def _prepare_board(folder: Path) -> list[str]:
    """The board's classifiers and one-class machines, on the rows that the board predicts."""
    from benchmarks.board.cases import cases_of
    from benchmarks.board.sets import known
    from benchmarks.contestant import Absent

    names = []
    for name in known():
        try:
            cases = [case for case in cases_of(name) if case.group == "labels"]
        except Absent as absent:
            print(f"{name} is left out: {absent}", flush=True)
            continue
        for case in cases:
            fast = kl.compile(case.model, case.train[:2000])
            stem = folder / f"board_{case.name.replace(' ', '_')}"
            fast.save(f"{stem}.kernelite")
            np.savez_compressed(f"{stem}.npz", rows=case.rows, labels=fast.predict(case.rows))
            names.append(f"board {case.name}")
            print(names[-1], flush=True)
    return names


def _prepare_letters(folder: Path) -> None:
    """26 classes, all pairs: an SVC of made-up letters, in the size of LIBSVM's."""
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    middles = rng.normal(size=(26, 16)) * 0.8
    classes = rng.integers(26, size=8000)
    X = middles[classes] + rng.normal(size=(8000, 16)) * 0.7
    fitted = SVC(gamma=0.06, C=1.0).fit(X[:4000], classes[:4000])
    fast = kl.compile(fitted, X[:2000], guarantee="exact")
    fast.save(folder / "letters.kernelite")
    np.savez_compressed(folder / "letters.npz", rows=X[4000:], labels=fast.predict(X[4000:]))


def compiled(expansion: Any, head: Any, rows: np.ndarray, guarantee: str = "exact") -> Any:
    """A made-up model, compiled."""
    description = describe("generated", expansion)
    return kl.compile(
        Machine(expansion, head, description, "libsvm", "c_svc"), rows, guarantee=guarantee
    )


def load_prepared(folder: Path) -> list[Prepared]:
    """All that lies in a folder."""
    found = []
    for path in sorted(folder.glob("*.kernelite")):
        arrays = np.load(path.with_suffix(".npz"))
        name = path.stem.replace("_", " ")
        found.append(Prepared(name, kl.load(path), arrays["rows"], arrays["labels"]))
    return found


def random_expansion(n: int, d: int, seed: int = 0) -> Any:
    """The probe's model: normal centers and coefficients, gamma = 1 / d, two classes."""
    rng = np.random.default_rng(seed)
    centers, a = rng.normal(size=(n, d)), rng.normal(size=n)
    return kl.KernelExpansion(centers, a, 0.0, gamma=1.0 / d)


def random_pairs(n: int, d: int, classes: int, seed: int = 0) -> tuple[Any, Any]:
    """One-vs-one coefficients as an SVC has them, and the head: K classes, all pairs."""
    rng = np.random.default_rng(seed)
    of = np.sort(rng.integers(classes, size=n))
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    A = np.zeros((n, len(pairs)))
    for pair, (i, j) in enumerate(pairs):
        mine = (of == i) | (of == j)
        A[mine, pair] = np.where(of[mine] == i, 1.0, -1.0) * rng.random(int(mine.sum()))
    middles = rng.normal(size=(classes, d))
    centers = middles[of] + rng.normal(size=(n, d))
    head = kl.ClassifierHead(np.arange(classes))
    return kl.KernelExpansion(centers, A, np.zeros(len(pairs)), gamma=1.0 / d), head
