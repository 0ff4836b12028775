"""The promises on real models; `python -m benchmarks.promises` does the same on all test rows.

Here every fourth test row, and the exact labels from the exact engine; some 15 seconds a model.
"""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelite as kl
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.data.tables.data import read_data
from kernelite.series.spectral import SpectralForm
from kernelite.sources import Machine, read
from tests.helpers import scores_and_bounds, shared_path

pytestmark = pytest.mark.campaign  # the data are large

STEP = 4  # every fourth test row
# Model, data, and the largest share of rows undecided before the exact tier (None: any).
MODELS = {
    "a9a_g0.01_c1": ("a9a", 0.002),
    "a9a_g0.02_c1": ("a9a", 0.02),
    "a9a_g0.1_c1": ("a9a", None),
    "ijcnn1_g0.05_c100": ("ijcnn1", 0.01),
    "mnist1_g0.0001_c32": ("mnist.scale", 0.0),
}


@dataclass(frozen=True, eq=False)
class Real:
    """A model with its data."""

    path: Path
    source: Machine
    train: csr_array
    rows: csr_array

    @property
    def sample(self) -> csr_array:
        """4,000 training rows drawn with seed 0."""
        rng = np.random.default_rng(0)
        return self.train[np.sort(rng.choice(self.train.shape[0], 4000, replace=False))]


@cache
def rows_of(name: str) -> csr_array:
    return csr_array(read_data(shared_path("data", f"{name}.bz2")).rows)


@cache
def real(name: str) -> Real:
    path = shared_path("models", f"{name}.model.bz2")
    data = MODELS[name][0]
    return Real(path, read(path), rows_of(data), rows_of(f"{data}.t")[::STEP])


def exact_answers(model: Real) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact scores, bounds on their rounding, labels."""
    d = model.source.expansion.n_features
    rows = model.rows[:, : min(d, model.rows.shape[1])].toarray()
    rows = np.pad(rows, ((0, 0), (0, d - rows.shape[1])))
    scores, bounds = scores_and_bounds(ExactEngine.prepare(model.source.expansion).run(rows))
    return scores, bounds, model.source.head.predict(scores)


@pytest.mark.parametrize("name", MODELS)
def test_certified_labels_are_the_exact_models(name: str) -> None:
    model = real(name)
    scores, rounding, labels = exact_answers(model)
    fast = kl.compile(model.source, model.sample)
    got, stats = fast.predict(model.rows, return_stats=True)
    np.testing.assert_array_equal(got, labels)
    assert stats.undecidable == 0
    limit = MODELS[name][1]
    if limit is None:
        assert fast.approximation is None
        assert fast.plan.chosen.verdict == "gamma is too large for a form"
        assert any("calibrated" in note for note in fast.plan.notes)
        return
    assert stats.open_share <= limit
    errors = np.abs(fast.decision_function(model.rows) - scores[:, 0])
    assert (errors <= fast.error_bound(model.rows) + rounding[:, 0]).all()


def test_calibrated_labels_keep_the_rate() -> None:
    model = real("a9a_g0.1_c1")
    labels = exact_answers(model)[2]
    fast = kl.compile(model.source, model.train, guarantee="calibrated")
    got, stats = fast.predict(model.rows, return_stats=True)
    assert np.mean(got != labels) <= 1e-3
    assert stats.open_share <= 0.15


def test_mnist_compiles_to_few_directions() -> None:
    model = real("mnist1_g0.0001_c32")
    for guarantee in ("none", "certified"):
        fast = kl.compile(model.source, model.sample, guarantee=guarantee)
        assert isinstance(fast.form, SpectralForm)
        assert fast.form.rank <= 32


@pytest.mark.parametrize(
    ("name", "times"),
    [("mnist1_g0.0001_c32", 10), ("a9a_g0.01_c1", 7.5), ("ijcnn1_g0.05_c100", 100)],
)
def test_files_without_support_vectors_are_small(name: str, times: float, tmp_path: Path) -> None:
    model = real(name)
    kl.compile(model.source, model.sample, guarantee="none").save(tmp_path / "m.kernelite")
    text = len(bz2.decompress(model.path.read_bytes()))
    assert text >= times * (tmp_path / "m.kernelite").stat().st_size
