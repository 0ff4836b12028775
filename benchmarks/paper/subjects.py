"""A paper's row as something to measure: its data and model, or a generated stand-in.

Models come from ../shared/models, or are trained by scikit-learn and kept in the cache. Where the
data are absent, a stand-in of the same d, test rows, n_sv and gamma / gamma_max serves for times
and sizes; it has no accuracy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.paper.facts import PaperRow
from benchmarks.trained import trained
from benchmarks.workloads import Workload, generated, model_path
from kernelite.data.datasets import SETS
from kernelite.data.gamma import gamma_max
from kernelite.sources import Machine
from kernelite.sources import read as read_model

__all__ = ["Subject", "drawn", "load", "training_rows"]

SAMPLE_ROWS = 32_000
MAX_STAND_IN = 8_000_000  # numbers of a stand-in's test rows
MAX_TRAINING_ROWS = 20_000  # for sets whose model must be trained and whose C is not known
STAND_IN = {"sensit": (20_000, 1.0), "epsilon": (10_000, 1.0)}
"""Support vectors and gamma / gamma_max of stand-ins whose own are not known: our choice."""
KNOWN_RATIO = {"a9a 0.01": 0.56, "a9a 0.02": 1.12, "a9a 0.1": 5.6, "mnist1": 0.12, "ijcnn1": 0.79}
"""gamma / gamma_max about the origin of the rows whose data may be absent elsewhere."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A row with its workload.

    Parameters
    ----------
    row : PaperRow
    workload : Workload
        `generated` says whether it is a stand-in.
    gamma_max, gamma_max_mean : float
        Of the training rows, about the origin and about their mean.
    notes : tuple of str
        What a reader must know.
    """

    row: PaperRow
    workload: Workload
    gamma_max: float
    gamma_max_mean: float
    notes: tuple[str, ...] = ()

    @property
    def scale(self) -> float:
        """Rows of the paper's test set per row held here: 1, but for large stand-ins."""
        return self.row.test_rows / len(self.workload.rows)


def load(row: PaperRow, tell: Callable[[str], None] = lambda line: None) -> Subject:
    """The data and the model, or a stand-in."""
    if not all(data.has(file) for file in SETS[row.data]):
        return _stand_in(row)
    tell(f"{row.name}: reading data and model")
    source, path, notes = _model(row, tell)
    if row.most_rows is not None:
        notes += (f"The first {row.most_rows:,} rows of each file serve; times are scaled.",)
    d = source.expansion.n_features
    (train, _), (test, truth) = training_rows(row, d), _part(row, 1, d)
    sample = train[drawn(train, SAMPLE_ROWS)].toarray()
    workload = Workload(row.name, source, test.toarray(), sample, truth, path=path)
    whole, _ = training_rows(row)
    return Subject(
        row,
        workload,
        gamma_max(whole).value,
        gamma_max(whole, about="mean").value,
        notes,
    )


def training_rows(row: PaperRow, width: int | None = None) -> tuple[Any, np.ndarray]:
    """Training rows (CSR) and labels, +1 and -1."""
    return _part(row, 0, width)


def drawn(rows: Any, count: int) -> np.ndarray:
    """Places of `count` rows drawn at random, always the same ones, in their order.

    The first rows of a file need not be like the others: those of ijcnn1 are not.
    """
    return np.sort(np.random.default_rng(0).permutation(rows.shape[0])[:count])


def _part(row: PaperRow, which: int, width: int | None) -> tuple[Any, np.ndarray]:
    files = SETS[row.data]
    file = files[1 - which if row.swapped else which]
    rows, labels = data.read(file, width, row.most_rows)
    if row.positive is not None:
        labels = np.where(labels == row.positive, 1.0, -1.0)
    return rows, labels


def _model(
    row: PaperRow, tell: Callable[[str], None]
) -> tuple[Machine, Path | None, tuple[str, ...]]:
    if row.model is not None and model_path(row.model).is_file():
        path = model_path(row.model)
        return read_model(path), path, ()
    rows, labels = training_rows(row)
    gamma, notes = row.gamma, ["Trained here by scikit-learn."]
    if gamma is None:
        gamma = float(f"{gamma_max(rows).value:.1g}")
        rows, labels = rows[:MAX_TRAINING_ROWS], labels[:MAX_TRAINING_ROWS]
        notes.append(
            f"Gamma {gamma:g} and C {row.C:g} are our choice, trained on {rows.shape[0]:,} rows."
        )
    tell(f"{row.name}: training, which is done once")
    return trained(row.name, rows, labels, gamma=gamma, C=row.C), None, tuple(notes)


def _stand_in(row: PaperRow) -> Subject:
    n_sv, ratio = STAND_IN.get(row.name, (row.support_vectors, KNOWN_RATIO.get(row.name, 1.0)))
    assert n_sv is not None
    m = min(row.test_rows, MAX_STAND_IN // row.features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        workload = generated(row.name, n_sv, row.features, ratio, m=m, sample_rows=8_000)
    workload = replace(workload, name=row.name)
    limit = workload.expansion.gamma / ratio
    notes = [
        f"a generated stand-in, since its data are absent here (`kernelite fetch {row.data}`)."
    ]
    if row.name in STAND_IN:
        notes.append(f"Its {n_sv:,} support vectors and γ / γ max = {ratio:g} are our choice.")
    if m < row.test_rows:
        notes.append(f"Timed on {m:,} rows or fewer and scaled to {row.test_rows:,}.")
    return Subject(row, workload, limit, limit, tuple(notes))
