"""guarantee="calibrated": choice and test apart, the rate kept, too few rows refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.svm import SVC

import kernelite as kl
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.planner import calibrated
from kernelite.planner.costs import margin_work
from kernelite.program.bounded import PAIRS
from kernelite.series.work import Work
from kernelite.sources import Machine
from kernelite.support.errors import InputError

OPTIONS: dict[str, Any] = {"guarantee": "calibrated", "max_disagreement": 0.01, "confidence": 0.9}


def machine(
    seed: int = 0, *, K: int = 2, gamma: float = 0.2, n: int = 2500, head: Any = None
) -> tuple[Machine, np.ndarray]:
    """A classifier whose gamma is too large for a proof, and rows."""
    rng = np.random.default_rng(seed)
    k = K * (K - 1) // 2
    expansion = KernelExpansion(
        rng.normal(size=(n, 4)), rng.normal(size=(n, k)), np.zeros(k), gamma=gamma
    )
    head = ClassifierHead(np.arange(K)) if head is None else head
    return Machine(expansion, head, "", "arrays", "KernelExpansion"), rng.normal(size=(4000, 4))


def exact_labels(source: Machine, rows: np.ndarray) -> np.ndarray:
    return np.asarray(source.head.predict(source.expansion.scores(rows)))


@pytest.mark.parametrize("K", [2, 3, pytest.param(4, marks=pytest.mark.campaign)])
def test_the_rate_is_kept_on_new_rows(K: int) -> None:
    source, rows = machine(K, K=K)
    fast = kl.compile(source, rows, **OPTIONS)
    fresh = np.random.default_rng(77).normal(size=(4000, 4))
    labels, stats = fast.predict(fresh, return_stats=True)
    # 0.01 promised with confidence 0.9; 0.02 on 4,000 rows would be far outside.
    assert np.mean(labels != exact_labels(source, fresh)) <= 0.02
    assert stats.stages.get("form", 0) + stats.exact == stats.rows
    if fast.approximation is not None:
        assert fast.threshold is not None
        assert any("Statistical" in note for note in fast.plan.notes)


def test_rows_above_the_threshold_are_the_forms() -> None:
    source, rows = machine()
    fast = kl.compile(source, rows, **OPTIONS)
    assert fast.approximation is not None
    assert fast.threshold is not None
    stats = fast.predict(rows, return_stats=True)[1]
    assert 0 < stats.exact < stats.rows
    share = fast.plan.chosen.open_share
    assert stats.open_share == pytest.approx(share, abs=0.05)


def test_testing_rows_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the testing rows are, the same forms and grid come out of the choosing ones."""
    source, rows = machine()
    choosing, testing = calibrated._split(rows, 0)
    grids = []
    real_grid = calibrated.threshold_grid

    def remember(margins: np.ndarray) -> np.ndarray:
        grids.append(margins.copy())
        return real_grid(margins)

    monkeypatch.setattr(calibrated, "threshold_grid", remember)
    forms = []
    order = np.random.default_rng(0).permutation(len(rows))
    for factor in (1.0, 0.5):
        changed = rows.copy()
        tests = np.sort(order[len(rows) // 5 :])
        changed[tests] = factor * rows[tests]
        fast = kl.compile(source, changed, **OPTIONS)
        forms.append(fast.form)
    np.testing.assert_array_equal(grids[0], grids[1])
    if forms[0] is not None and forms[1] is not None:
        np.testing.assert_array_equal(forms[0].point, forms[1].point)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([choosing, testing]), axis=0), np.sort(rows, axis=0)
    )


def test_a_given_point_is_used() -> None:
    source, rows = machine()
    fast = kl.compile(source, rows, expansion_point=[0.5, 0.0, 0.0, 0.0], **OPTIONS)
    assert fast.form is not None
    np.testing.assert_array_equal(fast.form.point, [0.5, 0.0, 0.0, 0.0])


def test_plans_are_deterministic() -> None:
    source, rows = machine()
    plans = [str(kl.compile(source, rows, random_state=3, **OPTIONS).plan) for _ in range(2)]
    assert plans[0] == plans[1]


def test_hopeless_models_are_exact() -> None:
    source, rows = machine(gamma=50.0)
    fast = kl.compile(source, rows, **OPTIONS)
    assert fast.approximation is None
    assert fast.plan.chosen.is_exact
    np.testing.assert_array_equal(fast.predict(rows), exact_labels(source, rows))


@pytest.mark.parametrize("name", ["margins", "a form that is hardly cheaper"])
def test_what_proves_less_has_to_be_clearly_cheaper(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leads of winners, which take as long as many a form, are among its costs."""
    source, rows = machine(K=3, gamma=0.05)
    plan = kl.compile(source, rows, **OPTIONS).plan
    share = plan.chosen.nanoseconds / plan.exact_nanoseconds
    assert not plan.is_exact
    if name == "margins":
        monkeypatch.setattr(calibrated, "margin_work", lambda _: Work(votes=1e6))
    else:
        monkeypatch.setattr(calibrated, "PREFERRED", 0.99 * share)
    plan = kl.compile(source, rows, **OPTIONS).plan
    assert plan.is_exact
    assert "clearly less" in plan.notes[0]


def test_margins_of_two_classes_cost_nothing() -> None:
    works = [margin_work(machine(K=K, n=10)[0].expansion).votes for K in (2, 3, 9)]
    assert works[0] == 0 < works[1] < works[2]


@pytest.mark.parametrize("gamma", [0.2, 50.0])
def test_no_loser_is_called_the_cheapest(gamma: float) -> None:
    source, rows = machine(gamma=gamma)
    plan = kl.compile(source, rows, **OPTIONS).plan
    assert plan.is_exact == (gamma == 50.0)
    assert not any("cheapest" in other.verdict for other in plan.others)
    if plan.is_exact:
        assert plan.chosen.verdict == "no form is cheaper here"
        assert "the cost of exact" in plan.others[0].verdict


def test_one_class_models_are_calibrated_too() -> None:
    source, rows = machine(head=OutlierHead())
    fast = kl.compile(source, rows, **OPTIONS)
    assert np.mean(fast.predict(rows) != exact_labels(source, rows)) <= 0.02


def test_too_few_rows_are_refused_with_the_number() -> None:
    source, rows = machine()
    with pytest.raises(InputError, match=r"4603 .* at least 5754"):
        kl.compile(source, rows, guarantee="calibrated")
    with pytest.raises(InputError, match="needs `X`"):
        kl.compile(source, guarantee="calibrated")


@pytest.mark.parametrize("name", ["max_disagreement", "confidence"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, float("nan"), "few", None])
def test_rates_outside_their_range_are_refused(name: str, value: Any) -> None:
    source, rows = machine()
    with pytest.raises(InputError, match=name):
        kl.compile(source, rows, **{**OPTIONS, name: value})


def test_values_cannot_be_calibrated() -> None:
    source, rows = machine(head=RegressorHead())
    with pytest.raises(InputError, match="about labels"):
        kl.compile(source, rows, **OPTIONS)


def test_probabilities_and_decisions_follow_the_threshold() -> None:
    source, rows = machine()
    fast = kl.compile(source, rows, **OPTIONS)
    scores = source.expansion.scores(rows)[:, 0]
    got = fast.decision_function(rows)
    served = np.abs(got - scores) > 1e-9
    assert served.any()
    assert (np.abs(got[served]) > fast.threshold).all()


def test_where_exact_is_cheaper_labels_are_found_as_exact_finds_them() -> None:
    X, y = make_blobs(900, n_features=10, centers=4, cluster_std=6.0, random_state=0)
    model = SVC(gamma=1.0).fit(X[:600], y[:600])
    fast = kl.compile(model, np.tile(X, (12, 1)), guarantee="calibrated")
    assert fast.approximation is None
    labels, stats = fast.predict(X, return_stats=True)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert stats.stages[PAIRS] > 0.9 * len(X)
