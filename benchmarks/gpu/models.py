"""Models and rows that the GPU is judged on: prepared once on a CPU, then carried anywhere.

`prepare` compiles the shared models and all of the board's and keeps what the CPU answers: a
compressed `.kernelite` file and an npz with labels and exact values for each, and the rows. So a
machine with a GPU needs neither the data nor the time.
"""

from __future__ import annotations

import hashlib
import lzma
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kernelite as kl
from kernelite.machine.machine import describe
from kernelite.model.fields import Guarantee
from kernelite.sources import Machine

__all__ = [
    "Prepared",
    "compiled",
    "load_prepared",
    "prepare",
    "prepared_paths",
    "random_expansion",
    "random_pairs",
]

SHARED = ("a9a 0.01", "a9a 0.02", "a9a 0.1", "ijcnn1", "mnist1")
JUDGED = 1000  # rows whose decision values are kept


class Prepared(NamedTuple):
    """A compiled model, test rows, what the CPU answers there, and exact values.

    Parameters
    ----------
    answers : ndarray of shape (m,), optional
        Labels by the CPU; None where the model answers values.
    values : ndarray
        Values of all rows, or decision values of the first ones, by guarantee "exact" on the CPU.
    """

    name: str
    model: Any
    rows: np.ndarray
    answers: np.ndarray | None
    values: np.ndarray


def prepare(folder: Path, sample_rows: int = 4000) -> list[str]:
    """Write what `load_prepared` reads; the names of the models that were there."""
    from benchmarks.workloads import available, load

    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for name in SHARED:
        if name in set(available()):
            work = load(name, sample_rows=sample_rows)
            names.append(_write(folder, name, work.path, work.sample, work.rows))
    names.append(_write(folder, "letters", *_letters(), guarantee="exact"))
    return [*names, *_prepare_board(folder)]


def _prepare_board(folder: Path) -> list[str]:
    """All models of the board, on the rows that it predicts; the paper's are the shared ones."""
    from benchmarks.board.cases import SETS, cases_of
    from benchmarks.contestant import Absent

    names = []
    for name in SETS:
        if name == "paper":
            continue
        try:
            cases = list(cases_of(name))
        except Absent as absent:
            print(f"{name} is left out: {absent}", flush=True)
            continue
        for case in cases:
            given = (case.model, case.train[:2000], case.rows)
            # 45 pairs of 780 features: looking for a form takes many minutes.
            guarantee: Guarantee = "exact" if name == "mnist" else "certified"
            names.append(_write(folder, f"board {case.name}", *given, guarantee))
    return names


def _write(
    folder: Path,
    name: str,
    source: Any,
    sample: np.ndarray,
    rows: np.ndarray,
    guarantee: Guarantee = "certified",
) -> str:
    """Keep a model and its answers; rows that several models share are kept once."""
    fast = kl.compile(source, sample, guarantee=guarantee)
    exact = fast if guarantee == "exact" else kl.compile(source, sample, guarantee="exact")
    fast = replace(fast, posterior=None)  # standard deviations are not lowered
    rows = np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    rows_name = f"rows-{hashlib.sha256(rows.tobytes()).hexdigest()[:16]}"
    if not (folder / f"{rows_name}.npz").is_file():
        np.savez_compressed(folder / f"{rows_name}.npz", rows=rows)
    kept: dict[str, Any] = {"name": name, "rows": rows_name}
    if fast.head.proves_labels:
        kept |= {"answers": fast.predict(rows), "values": exact.decision_function(rows[:JUDGED])}
    else:
        answer = exact.score_samples if fast.head.kind == "density" else exact.predict
        kept["values"] = answer(rows)
    stem = folder / name.replace(" ", "_")
    np.savez_compressed(f"{stem}.npz", **kept)
    with tempfile.TemporaryDirectory() as place:
        fast.save(Path(place) / "model.kernelite")
        packed = lzma.compress((Path(place) / "model.kernelite").read_bytes(), preset=1)
    Path(f"{stem}.kernelite.xz").write_bytes(packed)
    print(f"{name}: {len(rows):,} rows", flush=True)
    return name


def _letters() -> tuple[Any, np.ndarray, np.ndarray]:
    """26 classes, all pairs: an SVC of made-up letters, in the size of LIBSVM's."""
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    middles = rng.normal(size=(26, 16)) * 0.8
    classes = rng.integers(26, size=8000)
    X = middles[classes] + rng.normal(size=(8000, 16)) * 0.7
    return SVC(gamma=0.06, C=1.0).fit(X[:4000], classes[:4000]), X[:2000], X[4000:]


def prepared_paths(folder: Path) -> list[Path]:
    """The models that lie in a folder."""
    return sorted(folder.glob("*.kernelite.xz"))


def load_prepared(path: Path) -> Prepared:
    """One of `prepared_paths`."""
    with np.load(path.with_name(path.name.removesuffix(".kernelite.xz") + ".npz")) as kept:
        arrays = {name: kept[name] for name in kept.files}
    with np.load(path.with_name(f"{arrays['rows']}.npz")) as kept:
        rows = kept["rows"]
    with tempfile.TemporaryDirectory() as place:
        unpacked = Path(place) / "model.kernelite"
        unpacked.write_bytes(lzma.decompress(path.read_bytes()))
        model = kl.load(unpacked)
    return Prepared(str(arrays["name"]), model, rows, arrays.get("answers"), arrays["values"])


def compiled(expansion: Any, head: Any, rows: np.ndarray, guarantee: str = "exact") -> Any:
    """A made-up model, compiled."""
    description = describe("generated", expansion)
    return kl.compile(
        Machine(expansion, head, description, "libsvm", "c_svc"), rows, guarantee=guarantee
    )


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
