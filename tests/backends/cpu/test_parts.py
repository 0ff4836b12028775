"""Sums of parts: how many parts are evaluated exactly before a row is judged again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import VotingRegressor
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.parts import PartRows, PartsLayout
from kernelite.backends.cpu.runner import Runner
from kernelite.backends.cpu.staging import stage_model, stage_parts
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.model.compiler.composite import part_plans
from kernelite.program.criteria import Within
from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import quadratic_form
from kernelite.sources import read
from kernelite.support.errors import InputError
from tests.helpers import random_expansion
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases


def _runner(model: KernelExpansion) -> Runner:
    point = model.dense_centers().mean(axis=0)
    cell = Approximation(quadratic_form(model, point), certify(model, point))
    return stage_model(cell, model)


class _Counted(Within):
    """Remembers how many rows it judged: it is called, since it cannot be told in numbers."""

    rule = None

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> np.ndarray:
        self.__dict__.setdefault("judged", []).append(len(scores))
        return super().__call__(scores, bounds)


@pytest.mark.parametrize(("m", "judgements"), [(1, 2), (40, 5)])
def test_parts_go_in_growing_groups_and_for_few_rows_all_at_once(m: int, judgements: int) -> None:
    rng = np.random.default_rng(0)
    models = [random_expansion(rng, n=20, d=3, gamma=0.3) for _ in range(8)]
    outputs, criterion = np.zeros(1, dtype=np.int64), _Counted(np.full(1, 1e-9))
    runner = stage_parts([(_runner(one), outputs, None) for one in models], 1)
    rows = rng.normal(size=(m, 3))
    found, stats = runner.run(PartRows((rows,) * 8), lambda scores: scores, criterion)
    np.testing.assert_allclose(found, sum(one.scores(rows) for one in models), rtol=1e-9, atol=1e-9)
    assert (stats.exact, stats.undecidable) == (m, 0)
    assert criterion.__dict__["judged"] == [m] * judgements


# Machines of several widths in one call: bounds hold, and answers are those of the parts.


def parts_of(expansion: KernelExpansion) -> list[KernelExpansion]:
    """Machines of one output each, on overlapping centers, of different widths."""
    n, rng = expansion.n_centers, np.random.default_rng(expansion.n_centers)
    made = []
    for number in range(3):
        kept = np.flatnonzero(rng.random(n) < 0.7) if n > 2 else np.arange(n)
        column = number % expansion.n_outputs
        made.append(
            KernelExpansion(
                expansion.centers[kept],
                expansion.coefficients[kept][:, [column]],
                expansion.intercept[[column]],
                gamma=expansion.gamma * (1.0 + 0.3 * number),
            )
        )
    return made


@given(case=cases())
@settings(deadline=None, max_examples=HOW_MANY)
def test_no_score_is_further_off_than_its_bound(case: Case) -> None:
    if not case.expansion.kernel.damps:
        return
    machines = parts_of(case.expansion)
    engines = [ExactEngine.prepare(one) for one in machines]
    each = [true_scores(one, case.rows) for one in machines]
    apart = [np.array([number]) for number in range(3)]
    for outputs, n_outputs in ((apart, 3), ([np.zeros(1, np.int64)] * 3, 1)):
        layout = PartsLayout.of(engines, outputs, n_outputs)
        if layout is None:
            continue
        columns = [[row[0] for row in one] for one in each]
        true = [list(row) if n_outputs == 3 else [sum(row)] for row in zip(*columns)]
        for sums in (layout.single, layout.quick):
            if sums is None:
                continue
            scores, bounds = sums.run(case.rows)
            known = np.isfinite(bounds).all(axis=1)
            some = [row for row, found in zip(true, known) if found]
            assert np.max(error_ratios(some, scores[known], bounds[known]), initial=0.0) <= 1.0


X, y = make_classification(900, 12, n_informative=8, n_classes=4, random_state=0)
VALUES = X[:, 0] * np.sin(X[:, 1])
MODELS = {
    "pairs": lambda: OneVsOneClassifier(SVC()).fit(X[:500], y[:500]),
    "calibrated": lambda: CalibratedClassifierCV(SVC(), cv=3).fit(X[:500], y[:500] > 1),
    "classes": lambda: CalibratedClassifierCV(SVC(), cv=3).fit(X[:500], y[:500]),
    "scaled": lambda: make_pipeline(StandardScaler(), OneVsOneClassifier(SVC())).fit(
        X[:500], y[:500]
    ),
    "values": lambda: VotingRegressor([("a", SVR(gamma=0.05)), ("b", SVR(gamma=0.02))]).fit(
        X[:500], VALUES[:500]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_labels_and_values_are_those_of_the_estimator(name: str) -> None:
    fitted = MODELS[name]()
    fast = kl.compile(fitted, X[:500])
    rows = X[500:]
    assert bool(fast._runner.together) == (name != "classes")  # whose parts have several scores
    if name == "values":
        error = np.abs(fast.predict(rows) - fitted.predict(rows))
        assert (error <= fast.tolerance[0]).all()
    else:
        assert np.array_equal(fast.predict(rows), fitted.predict(rows))
    for method in ("decision_function", "predict_proba"):
        if not hasattr(fitted, method):
            continue
        found, wanted = getattr(fast, method)(rows), getattr(fitted, method)(rows)
        bound = (
            fast.error_bound(rows) if method == "decision_function" else np.full(found.shape, 1e-3)
        )
        assert (np.abs(found - wanted) <= bound + 1e-12).all()
        alone = np.concatenate([getattr(fast, method)(row[None]) for row in rows[:40]])
        assert (np.abs(alone - found[:40]) <= 2.0 * bound[:40]).all()


@pytest.mark.parametrize("name", ["pairs", "scaled"])
def test_one_row_takes_one_call_and_answers_as_in_a_block(name: str) -> None:
    fast = kl.compile(MODELS[name](), X[:500])
    labels = fast.predict(X[500:])
    for row, label in zip(X[500:560], labels):
        found, stats = fast.predict(row[None], return_stats=True)
        assert found[0] == label
        assert sum(stats.stages.values()) == 1
    assert "exact, single precision" in stats.stages


def test_rows_that_are_no_numbers_are_refused_alone_and_in_a_block() -> None:
    fast = kl.compile(MODELS["pairs"](), X[:500])
    for count in (1, 30, 700):
        rows = np.resize(X, (count, 12)).copy()
        rows[count // 2, 3] = np.nan
        with pytest.raises(InputError, match="NaN"):
            fast.predict(rows)
    rows = X[500:503].copy()
    rows[1, 2] = 1e200  # far, and a number
    assert np.array_equal(fast.predict(rows), MODELS["pairs"]().predict(rows))


def test_machines_of_different_features_stay_apart() -> None:
    from sklearn.ensemble import BaggingClassifier

    bag = BaggingClassifier(SVC(), 4, max_features=6, random_state=0).fit(X[:300], y[:300] > 1)
    fast = kl.compile(bag, X[:300])
    assert not fast._runner.together
    assert np.array_equal(fast.predict(X), bag.predict(X))


def test_guarantee_exact_keeps_all_digits() -> None:
    fitted = MODELS["pairs"]()
    fast = kl.compile(fitted, X[:500], guarantee="exact")
    found, wanted = (one.decision_function(X[500:]) for one in (fast, fitted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_ten_classes_of_digits_in_pairs() -> None:
    rows, labels = load_digits(return_X_y=True)
    rows = rows / 16.0
    fitted = OneVsOneClassifier(SVC()).fit(rows[:900], labels[:900])
    fast = kl.compile(fitted, rows[:900])
    assert np.array_equal(fast.predict(rows[900:]), fitted.predict(rows[900:]))
    # No form is looked for, 45 times, where centers are few.
    assert len(fast.parts) == 45
    assert {part.model.plan.chosen.verdict for part in fast.parts} == {"asked for"}


def test_many_large_machines_are_planned_by_estimates() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 3))
    labels = rng.integers(0, 4, size=1500)
    fitted = OneVsOneClassifier(SVC(gamma="auto", C=0.1)).fit(rows, labels)
    source = read(fitted)
    assert isinstance(source.expansion, KernelExpansion)  # of one gamma, they are one machine
    apart = OneVsOneClassifier(SVC(C=0.1)).fit(rows, labels)
    assert set(part_plans(read(apart).expansion)) == {"estimate"}
    few = CalibratedClassifierCV(SVC(), cv=3).fit(rows[:200], labels[:200] > 1)
    assert part_plans(read(few).expansion) == ["auto"] * 3


def test_a_plan_without_forms_can_be_asked_for() -> None:
    fitted = SVC(gamma=0.001).fit(X[:500], y[:500])
    fast = kl.compile(fitted, X[:500], plan="exact")
    assert fast.approximation is None
    assert np.array_equal(fast.predict(X[500:]), fitted.predict(X[500:]))
    error = np.abs(fast.decision_function(X[500:]) - fitted.decision_function(X[500:]))
    assert (error <= fast.score_tolerance).all()
