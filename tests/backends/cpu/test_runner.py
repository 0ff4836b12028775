"""Running all rows: where scores are put changes nothing about them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu import limits
from kernelite.backends.cpu import rows as module
from kernelite.backends.cpu.staging import stage_model
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.machine.preparation import Preparation
from kernelite.program.criteria import Within, never
from kernelite.series.approximation import Approximation
from kernelite.series.series import quadratic_form
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


def _in_place(scores: FloatArray) -> FloatArray:
    scores *= 2.0
    return scores


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("m", [0, 1, 512, 513, 1700])
def test_scores_that_are_the_answers_go_straight_there(
    m: int, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 3 * 700)  # blocks of 700 rows after the first
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=60, d=3, k=100)
    input_map = AffineMap([2.0, 1.0, 0.5], [1.0, 0.0, 3.0]) if mapped else None
    runner = stage_model(None, model, Preparation.of(input_map))
    rows, criterion = rng.normal(size=(m, 3)), Within(np.full(100, 1e-3))
    straight, stats = runner.run(rows, lambda scores: scores, criterion)
    copied, same_stats = runner.run(rows, lambda scores: scores.copy(), criterion)
    doubled, _ = runner.run(rows, _in_place, criterion)
    narrow, _ = runner.run(rows, lambda scores: scores[:, :2], criterion)
    assert straight.shape == (m, 100)
    np.testing.assert_allclose(straight, copied, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(doubled, 2.0 * straight)
    np.testing.assert_allclose(narrow, straight[:, :2], rtol=1e-9, atol=1e-12)
    truth = model.scores(rows if input_map is None else input_map(rows))
    np.testing.assert_allclose(straight, truth, rtol=1e-9, atol=1e-9)
    assert (stats.rows, stats.exact, stats.undecidable) == (m, m, 0)
    assert same_stats.undecidable == 0


@pytest.mark.parametrize(("cores", "by_blocks"), [(2, True), (8, True), (9, False)])
def test_few_blocks_of_several_outputs_have_all_threads(
    cores: int, by_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old way gave each block one thread: two of sixteen for a thousand rows."""
    monkeypatch.setattr(limits, "available", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    model = random_expansion(np.random.default_rng(0), n=30, d=3, k=45)
    runner, threads = stage_model(None, model, Preparation.of(None)), []
    evaluate = type(runner).evaluate

    def seen(self: object, *given: object) -> object:
        threads.append(thread_count())
        return evaluate(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(type(runner), "evaluate", seen)
    rows = np.random.default_rng(1).normal(size=(8 * 1024, 3))
    found, _ = runner.run(rows, lambda scores: scores.copy(), never)
    np.testing.assert_allclose(found, model.scores(rows), rtol=1e-9, atol=1e-9)
    assert threads == [1 if by_blocks else cores] * 8


def test_one_row_without_a_criterion_must_be_inside_the_validity_bound() -> None:
    rng = np.random.default_rng(2)
    model = random_expansion(rng, n=20, d=3, gamma=0.1)
    form = quadratic_form(model, np.zeros(3))
    runner = stage_model(Approximation(form), None)
    near, far = np.full((1, 3), 0.01), np.full((1, 3), 9.0)
    assert runner.valid(np.concatenate([near, far])).tolist() == [True, False]
    scores, stats = runner.run_one(near, lambda scores: scores, None)
    np.testing.assert_allclose(scores, form.evaluate(near)[0], rtol=1e-12)
    assert (stats.rows, dict(stats.stages)) == (1, {"form": 1})
    assert runner.run_one(far, lambda scores: scores, None) is None
    _, stats = runner.run(np.concatenate([near, far]), lambda scores: scores, None)
    assert (stats.rows, stats.stages["form"], stats.outside_validity) == (2, 2, 1)


def test_one_row_that_only_the_exact_model_answers_has_no_detour() -> None:
    rng = np.random.default_rng(3)
    model = random_expansion(rng, n=20, d=3, k=2)
    runner, row = stage_model(None, model), np.full((1, 3), 0.1)
    scores, stats = runner.run_one(row, lambda scores: scores, never)
    np.testing.assert_allclose(scores, model.scores(row), rtol=1e-12)
    assert (stats.rows, dict(stats.stages)) == (1, {"exact": 1})
    assert runner.run_one(np.full((1, 3), np.nan), lambda scores: scores, never) is None


def test_rows_that_are_not_finite_are_refused_wherever_they_are() -> None:
    rng = np.random.default_rng(1)
    runner = stage_model(None, random_expansion(rng, n=20, d=3, k=70))
    rows = rng.normal(size=(3000, 3))
    rows[2900, 1] = np.nan
    with pytest.raises(InputError, match="row 2900"):
        runner.run(rows, lambda scores: scores, Within(np.full(70, 1e-3)))


NEW_PAGES = """
import sys
from resource import RUSAGE_SELF, getrusage

import numpy as np

import kernelite as kl

model, rows, counts = kl.load(sys.argv[1]), np.load(sys.argv[2]), []
with kl.limit_threads(1):
    for _ in range(5):
        before = getrusage(RUSAGE_SELF).ru_minflt
        model.predict(rows)
        counts.append(getrusage(RUSAGE_SELF).ru_minflt - before)
print(min(counts))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of the C library of GNU")
def test_blocks_of_a_new_process_take_their_pages_once(tmp_path: Path) -> None:
    """Else a form of several outputs takes twice as long, in all calls."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    model = SVC(gamma=1e-4).fit(X, np.digitize(X[:, 0], [-1.0, -0.3, 0.3, 1.0]))
    file, rows = tmp_path / "a.kernelite", tmp_path / "rows.npy"
    kl.compile(model, X, plan="form").save(file)
    np.save(rows, rng.normal(size=(16_000, 20)))
    given = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    given.pop("GLIBC_TUNABLES", None)
    command = [sys.executable, "-c", NEW_PAGES, str(file), str(rows)]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50
