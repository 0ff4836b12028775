"""What is predicted: a fitted model, test rows, a sample of training rows; real or generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import data
from benchmarks.exact import exact_scores
from benchmarks.generate import generated_rows, generated_source
from benchmarks.rebuild import rebuilt_svc
from benchmarks.trained import trained
from kernelite.machine.expansion import KernelExpansion
from kernelite.sources import Machine
from kernelite.sources import read as read_model

__all__ = ["DEFAULTS", "GENERATED", "SHARED", "Workload", "available", "generated", "load"]

SPARSE_BELOW = 0.25  # share of nonzeros below which rows are offered as CSR too


@dataclass(frozen=True, eq=False)
class Workload:
    """A model and rows for it.

    Parameters
    ----------
    name : str
    source : Machine
    rows : ndarray of shape (m, d)
        Test rows.
    sample : ndarray of shape (s, d)
        Training rows, for `compile` and for peers that learn.
    truth : ndarray of shape (m,), optional
        True labels, where they mean something.
    generated : bool
        Whether data and model are made up.
    fitted : scikit-learn SVC, optional
        Where the model was trained here; otherwise it is rebuilt from the arrays.
    path : Path, optional
        LIBSVM's file of the model.
    """

    name: str
    source: Machine
    rows: np.ndarray
    sample: np.ndarray
    truth: np.ndarray | None = None
    generated: bool = False
    fitted: Any = None
    path: Path | None = None

    @property
    def expansion(self) -> KernelExpansion:
        """The exact model's arrays."""
        return self.source.expansion

    @property
    def is_sparse(self) -> bool:
        """Whether users would hold such rows in CSR."""
        return bool(np.count_nonzero(self.rows[:1000]) < SPARSE_BELOW * self.rows[:1000].size)

    @cached_property
    def csr(self) -> sparse.csr_array:
        """The test rows in CSR."""
        return sparse.csr_array(self.rows)

    @cached_property
    def scores(self) -> np.ndarray:
        """Exact scores of the test rows by a plain, separate evaluator: shape (m, k)."""
        return exact_scores(self.expansion, self.rows)

    @cached_property
    def labels(self) -> np.ndarray:
        """What the exact model answers: the reference of every comparison."""
        return np.asarray(self.source.head.predict(self.scores))

    @cached_property
    def svc(self) -> Any:
        """The model as scikit-learn's SVC, for dense rows."""
        return rebuilt_svc(self.source) if self.fitted is None else self.fitted

    @cached_property
    def sample_scores(self) -> np.ndarray:
        """Exact scores of the sample."""
        return exact_scores(self.expansion, self.sample)


@dataclass(frozen=True)
class _Shared:
    """A model of ../shared/models: its file, its data, and the label that is +1 if not all are."""

    file: str
    train: str
    test: str
    positive: float | None = None


SHARED = {
    "a9a 0.01": _Shared("a9a_g0.01_c1", "a9a", "a9a.t"),
    "a9a 0.02": _Shared("a9a_g0.02_c1", "a9a", "a9a.t"),
    "a9a 0.1": _Shared("a9a_g0.1_c1", "a9a", "a9a.t"),
    "ijcnn1": _Shared("ijcnn1_g0.05_c100", "ijcnn1", "ijcnn1.t"),
    "mnist1": _Shared("mnist1_g0.0001_c32", "mnist.scale", "mnist.scale.t", positive=1.0),
}

DEFAULTS = {"default SVC() on ijcnn1": ("ijcnn1", 22, 10_000)}
"""Name -> data, features, training rows of a machine with scikit-learn's own C and gamma."""

GENERATED = {"generated 16": (2_000, 16, 0.5), "generated 128": (2_000, 128, 0.5)}
"""Name -> support vectors, features, gamma / gamma_max."""


def available() -> Iterator[str]:
    """Names of the workloads that this machine can run."""
    yield from GENERATED
    for name, model in SHARED.items():
        if model_path(model.file).is_file() and data.has(model.train) and data.has(model.test):
            yield name
    for name, (file, _, _) in DEFAULTS.items():
        if data.has(file) and data.has(f"{file}.t"):
            yield name


def model_path(file: str) -> Path:
    """Where a shared model lies, if it does."""
    return data.shared() / "models" / f"{file}.model.bz2"


def load(name: str, *, sample_rows: int) -> Workload:
    """A workload by name.

    Examples
    --------
    >>> load("generated 16", sample_rows=100).rows.shape
    (20000, 16)
    """
    if name in GENERATED:
        n_sv, d, ratio = GENERATED[name]
        return generated(name, n_sv, d, ratio, m=20_000, sample_rows=sample_rows)
    if name in DEFAULTS:
        return _default(name, sample_rows)
    if name not in SHARED:
        known = ", ".join([*GENERATED, *SHARED, *DEFAULTS])
        raise ValueError(f"`{name}` is not a workload; known are {known}")
    model = SHARED[name]
    path = model_path(model.file)
    source = read_model(path)
    d = source.expansion.n_features
    train, _ = data.read(model.train, d)
    test, truth = data.read(model.test, d)
    if model.positive is not None:
        truth = np.where(truth == model.positive, 1.0, -1.0)
    drawn = np.random.default_rng(0).permutation(train.shape[0])[:sample_rows]
    return Workload(name, source, test.toarray(), train[np.sort(drawn)].toarray(), truth, path=path)


def _default(name: str, sample_rows: int) -> Workload:
    """What somebody gets who writes `SVC().fit(X, y)`: gamma="scale", C=1."""
    file, d, most = DEFAULTS[name]
    train, labels = data.read(file, d)
    test, truth = data.read(f"{file}.t", d)
    drawn = np.random.default_rng(0).permutation(train.shape[0])
    rows, labels = train[drawn[:most]], labels[drawn[:most]]
    scale = 1.0 / (d * float(rows.toarray().var()))
    source = trained(name, rows, labels, gamma=scale)
    return Workload(name, source, test.toarray(), train[drawn[:sample_rows]].toarray(), truth)


def generated(
    name: str, n_sv: int, d: int, gamma_ratio: float, *, m: int, sample_rows: int
) -> Workload:
    """A made-up workload."""
    return Workload(
        name,
        generated_source(n_sv, d, gamma_ratio=gamma_ratio),
        generated_rows(m, d, seed=100),
        generated_rows(sample_rows, d, seed=200),
        generated=True,
    )
