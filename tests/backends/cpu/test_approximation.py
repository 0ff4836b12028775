"""Forms as stages: each only for open rows, the tighter bound kept, exact at the end."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu.approximation import FirstForms, PairedEngine, form_stages, forms_alone
from kernelite.backends.cpu.exact import DoublePrecision, ExactEngine
from kernelite.backends.cpu.kernels import third_dense
from kernelite.backends.cpu.rows import MappedRows
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import OutlierHead
from kernelite.program.bounded import OPEN, Bounded, Tally
from kernelite.program.cascade import Cascade, holds
from kernelite.program.criteria import SameAnswer, Within, never
from kernelite.series.approximation import Approximation, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.helpers import random_expansion, scores_and_bounds
from tests.oracle import error_ratios, true_scores

FORM, SECOND, EXACT = range(3)


def with_exact(approximation: Approximation, engine: ExactEngine, *, fused: bool = True) -> Cascade:
    return Cascade((*form_stages(approximation, fused=fused), DoublePrecision(engine)))


def valid(cascade: Cascade, found: Bounded) -> np.ndarray:
    first = cascade.stages[0]
    assert isinstance(first, FirstForms)
    return first.valid(found)


settled = SameAnswer(OutlierHead())


@pytest.fixture(scope="module")
def parts() -> tuple[KernelExpansion, Approximation, np.ndarray]:
    """A model of which each of the three tiers settles some rows."""
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=60, d=4, gamma=0.03)
    point = model.dense_centers().mean(axis=0)
    form, certificate = quadratic_form(model, point), certify(model, point)
    cubic = cubic_form([cubic_tensor(model, point, 0)], 4)
    cell = Approximation(truncate(spectrum(form), 1), certificate, full=form, cubic=cubic)
    return model, cell, rng.normal(size=(3000, 4)) * 1.5


@pytest.mark.parametrize("fused", [False, True])
def test_each_tier_settles_some_rows(parts, fused: bool) -> None:
    model, approximation, rows = parts
    exact = ExactEngine.prepare(model)
    cascade = with_exact(approximation, exact, fused=fused)
    tally = Tally(cascade.names)
    out = cascade.run(rows, settled, tally)
    counts = np.bincount(out.stage, minlength=3)
    assert (counts > 0).all()
    assert counts.tolist() == tally.answered
    truth = scores_and_bounds(exact.run(rows))
    assert out.bounds is not None
    assert (np.abs(out.scores - truth[0]) <= out.bounds + truth[1]).all()
    np.testing.assert_array_equal(out.settled, settled(out.scores, out.bounds))
    assert out.settled[out.stage != EXACT].all()
    left = out.stage == EXACT
    np.testing.assert_array_equal(out.scores[left], exact.run(rows[left]).scores)
    np.testing.assert_array_equal(np.sign(out.scores), np.sign(truth[0]))
    assert all(seconds > 0.0 for seconds in tally.seconds)


def test_the_second_tier_is_only_used_where_its_bound_is_smaller(parts) -> None:
    _, approximation, rows = parts
    ready = forms_alone(approximation, fused=False)
    first = ready.run(rows, None)
    out = ready.run(rows, settled)
    assert first.bounds is not None
    assert out.bounds is not None
    assert (first.stage == FORM).all()
    assert (out.bounds <= first.bounds).all()
    changed = (out.scores != first.scores)[:, 0]
    assert set(out.stage[changed]) == {SECOND}


def test_without_an_exact_engine_open_rows_keep_their_scores(parts) -> None:
    _, approximation, rows = parts
    ready = forms_alone(approximation, fused=False)
    out = ready.run(rows, never)
    assert (out.stage == OPEN).all()
    assert not out.settled.any()
    np.testing.assert_array_equal(out.scores, ready.run(rows, None).scores)


def test_a_form_without_a_certificate_has_no_bounds() -> None:
    rng = np.random.default_rng(1)
    model = random_expansion(rng)
    bare = Approximation(quadratic_form(model, np.zeros(5)))
    out = forms_alone(bare).run(rng.normal(size=(5, 5)), None)
    assert out.bounds is None
    assert (out.stage == FORM).all()


def test_no_rows() -> None:
    rng = np.random.default_rng(2)
    model = random_expansion(rng, d=3, gamma=0.2)
    point = model.dense_centers()[0]
    forms = Approximation(quadratic_form(model, point), certify(model, point))
    cascade = with_exact(forms, ExactEngine.prepare(model))
    assert cascade.run(np.empty((0, 3)), settled).scores.shape == (0, 1)
    rows = rng.normal(size=(50, 3))
    out = cascade.run(rows, settled)
    assert out.bounds is not None
    assert error_ratios(true_scores(model, rows), out.scores, out.bounds).max() <= 1.0


def test_huge_rows_are_seen() -> None:
    model = random_expansion(np.random.default_rng(3), d=2)
    cell = Approximation(quadratic_form(model, np.zeros(2)), certify(model, np.zeros(2)))
    ready = forms_alone(cell)
    assert np.isfinite(ready.run(np.zeros((2, 2)), None).sq_norms).all()
    assert not np.isfinite(ready.run(np.array([[1e200, 0.0]]), None).sq_norms).any()


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("loose", [0.05, 0.3, 0.9])
def test_both_tiers_run_at_once_where_the_first_leaves_nearly_all_open(
    loose: float, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    model = random_expansion(rng, n=60, d=4, k=3, gamma=0.03)
    point = model.dense_centers().mean(axis=0)
    tensors = [cubic_tensor(model, point, output) for output in range(3)]
    cell = Approximation(
        quadratic_form(model, point), certify(model, point), cubic=cubic_form(tensors, 4)
    )
    rows = rng.normal(size=(1000, 4))
    plain = rows
    if mapped:
        way = AffineMap(np.full(4, 0.5), np.full(4, 2.0))
        rows, plain = MappedRows(rows, way), way(rows)
    exact = ExactEngine.prepare(model)
    cascade = with_exact(cell, exact)
    bounds = cascade.stages[0].engine.first.run(plain).bounds
    limit = Within(np.quantile(bounds, loose, axis=0))
    taken = []
    both = third_dense.two_tiers
    monkeypatch.setattr(
        third_dense, "two_tiers", lambda *given: taken.append(len(given[1])) or both(*given)
    )
    out = cascade.run(rows, limit)
    slow = with_exact(cell, exact, fused=False)
    twin = slow.run(plain, limit)
    assert (1000 in taken) == (loose < 0.5)  # not only a few, to see
    np.testing.assert_array_equal(out.stage, twin.stage)
    np.testing.assert_array_equal(out.settled, twin.settled)
    np.testing.assert_array_equal(valid(cascade, out), valid(slow, twin))
    np.testing.assert_allclose(out.scores, twin.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(out.bounds, twin.bounds, rtol=1e-5)
    assert np.isfinite(out.sq_norms).all()
    assert len(np.unique(out.stage)) > 1


@pytest.mark.parametrize("mapped", [False, True])
def test_a_product_goes_before_the_third_order(
    mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(400, 6))
    coefficients = centers[:, :2] + 0.05 * rng.normal(size=(400, 2))
    model = KernelExpansion(centers, coefficients, np.zeros(2), gamma=0.01)
    point = centers.mean(axis=0)
    tensors = [cubic_tensor(model, point, output) for output in range(2)]
    cell = Approximation(
        quadratic_form(model, point), certify(model, point), cubic=cubic_form(tensors, 6)
    )
    rows: np.ndarray | MappedRows = rng.normal(size=(2000, 6))
    plain = rows
    if mapped:
        way = AffineMap(np.full(6, 0.1), np.full(6, 1.1))
        rows, plain = MappedRows(rows, way), way(rows)
    monkeypatch.setattr(PairedEngine, "worth", 0.9)
    exact = ExactEngine.prepare(model)
    cascade = with_exact(cell, exact)
    engine = cascade.stages[0].engine
    first = engine.first.run(plain)
    bounds = first.bounds
    assert engine.paired is not None
    between = engine.paired.run(plain, first)
    after = engine.second(plain).bounds
    limit = Within(np.quantile(between.bounds, 0.8, axis=0))
    out = cascade.run(rows, limit)
    by_product = holds(limit, between) & (between.bounds <= bounds).all(axis=1)
    by_cubic = limit(first.scores, after) & (after <= bounds).all(axis=1)
    want = np.where(limit(first.scores, bounds), FORM, EXACT)
    want[(want == EXACT) & (by_product | by_cubic)] = SECOND
    np.testing.assert_array_equal(out.stage, want)
    assert (by_cubic & ~by_product).any()
    served = (want == SECOND) & by_product
    assert served.mean() > 0.5
    np.testing.assert_allclose(out.scores[served], between.scores[served], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(out.bounds[served], between.bounds[served], rtol=1e-5)
    truth, rounding = scores_and_bounds(exact.run(plain))
    assert (np.abs(out.scores - truth) <= out.bounds + rounding).all()


def test_nothing_is_known_of_rows_whose_polynomial_overflows() -> None:
    model = KernelExpansion([[1.0, -2.0]], [1.0], 0.0, gamma=1.0, kernel="poly2")
    form = Approximation(quadratic_form(model, np.zeros(2)), certify(model, np.zeros(2)))
    for fused in (False, True):
        (stage,) = form_stages(form, fused=fused)
        with np.errstate(all="ignore"):
            bounds = stage.bound(np.array([[1.0, 2.0], [1e200, 1e200], [-1e160, 1e300]]), None)
        assert np.isfinite(bounds[0])
        assert np.isinf(bounds[1:]).all()


@pytest.mark.parametrize("m", [1, 8, 600])
def test_few_values_pass_a_form_over_that_settles_none_of_the_centers(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Centers show it, once: not each batch anew, nor what batches came before."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    svc = SVC(gamma=0.02).fit(X[:1500], X[:1500, 0] + X[:1500, 1] ** 2 > 0.5)
    fast = kl.compile(svc, X[:1500], plan="quadratic form about the mean of X")
    rows, forms = X[1500 : 1500 + m], fast._runner.forms
    assert forms is not None
    before = fast.decision_function(rows)
    runs: list[int] = []
    own = type(forms.engine.first).run

    def seen(self: object, given: np.ndarray) -> Bounded:
        runs.append(len(given))
        return own(self, given)  # type: ignore[arg-type]

    monkeypatch.setattr(type(forms.engine.first), "run", seen)
    fast.decision_function(np.resize(X, (1 << 14, 4)))
    assert runs, "many rows show it themselves"
    runs.clear()
    assert (fast.decision_function(rows) == before).all()
    assert not runs
    assert forms._helps(rows, Within(np.full(1, 1e9)))  # which any row meets
