"""Rows mapped as a form reads them, against rows mapped before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu.approximation import form_stages
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.cpu.rows import MappedRows, OutsideRows, damp_one, damped
from kernelite.backends.cpu.staging import stage_engine, stage_model
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.preparation import Preparation
from kernelite.program.bounded import EXACT_QUICK, EXACT_SINGLE, Bounded
from kernelite.program.cascade import Cascade
from kernelite.program.criteria import Criterion
from kernelite.series.approximation import Approximation, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.directional import cubic_gram, directional_bound
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.support.errors import InputError
from tests.helpers import random_expansion, scores_and_bounds, widened
from tests.oracle import error_ratios, true_scores


@pytest.mark.parametrize("two_words", [False, True])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize(("m", "d"), [(0, 3), (1, 3), (7, 5), (64, 8), (131, 13), (300, 17)])
def test_scores_are_those_of_mapped_rows(m, d, rank, fused, two_words) -> None:
    rng = np.random.default_rng(m + d)
    expansion = random_expansion(rng, d=d, k=2, gamma=0.5 / d)
    form = quadratic_form(expansion, rng.normal(size=d))
    cut = form if rank is None else truncate(spectrum(form), rank)
    engine = FormEngine(cut, certify(expansion, form.point, mapped=True), fused)
    input_map = AffineMap(rng.uniform(0.1, 3.0, d), rng.normal(size=d))
    rows = rng.normal(size=(m, d))
    if two_words:  # so far away that doubles are 4 apart: without the second word all would differ
        far, low = np.full(d, 2.0**54), rng.uniform(-2.0, 2.0, d)
        input_map = AffineMap(rng.uniform(0.1, 0.5, d), far, low)
        rows = far + 4.0 * rng.integers(-2, 3, size=(m, d))
    late = MappedRows(rows, input_map)
    assert late.shape == (m, d) == (len(late), d)
    np.testing.assert_array_equal(late[m // 2 :], input_map(rows[m // 2 :]))
    for bounded in (True, False):
        ours = engine.run(late, bounded=bounded)
        theirs = engine.run(input_map(rows), bounded=bounded)
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(ours.sq_norms, theirs.sq_norms, rtol=1e-12)
        assert (ours.bounds is None) == (theirs.bounds is None) == (not bounded)
        if bounded:
            np.testing.assert_allclose(ours.bounds, theirs.bounds, rtol=1e-9)
        assert (ours.kept is None) == (theirs.kept is None)


# Rows with features beyond the width: one damping, within its bound of the widened model.


class AllSigns(Criterion):
    """The sign of every score is known."""

    def __call__(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        return (np.abs(scores) > bounds).all(axis=1)


settled = AllSigns()


def cells_of(model: KernelExpansion, point: np.ndarray) -> Iterator[Approximation]:
    """With and without a second form of each kind."""
    form, certificate = quadratic_form(model, point), certify(model, point)
    outputs = range(model.n_outputs)
    tensors = [cubic_tensor(model, point, output) for output in outputs]
    grams = [cubic_gram(model, point, output) for output in outputs]
    cut, slack = truncate(spectrum(form), 2), np.zeros(model.n_outputs)
    yield Approximation(form, certificate)
    yield Approximation(cut, certificate)
    yield Approximation(cut, certificate, full=form)
    yield Approximation(form, certificate, cubic=cubic_form(tensors, model.n_features))
    yield Approximation(form, certificate, cubic=cubic_form(tensors, 2))
    yield Approximation(form, certificate, cubic=directional_bound(grams, 2, slack))


def damped_cascade(model: KernelExpansion, cell: Approximation, *, fused: bool = True) -> Cascade:
    forms = form_stages(cell, fused=fused)
    whole = stage_engine(ExactEngine.prepare(model), forms).cascade
    return damped(whole, model.gamma, model.intercept, cell.form)


def results(cascade: Cascade, rows: OutsideRows) -> Iterator[tuple[str, Bounded]]:
    """What each stage says of all rows; fewer digits are not for damped ones."""
    for stage in cascade.stages:
        if (found := stage.run(rows, None)) is not None:
            yield stage.name, found


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("k", [1, 2])
def test_bounds_hold_for_the_widened_model(k: int, fused: bool) -> None:
    rng = np.random.default_rng(k)
    model = random_expansion(rng, n=12, d=3, k=k)
    rows = rng.normal(size=(14, 3))
    beyond = 10.0 ** rng.uniform(-3, 2.2, size=14)
    beyond[:3] = 0.0, 2.0**100, 86.0  # the last one's factor is subnormal
    wider, wide_rows, sq_norms = widened(model, rows, beyond)
    truth = true_scores(wider, wide_rows)
    outside = OutsideRows(rows, sq_norms, 0.0)
    for cell in cells_of(model, rng.normal(size=3)):
        cascade = damped_cascade(model, cell, fused=fused)
        names = [name for name, _ in results(cascade, outside)]
        assert names == [name for name in cascade.names if name not in (EXACT_SINGLE, EXACT_QUICK)]
        for name, found in results(cascade, outside):
            ratios = error_ratios(truth, *scores_and_bounds(found))
            assert ratios.max() <= 1.0, name
        out = cascade.run(outside, settled)
        assert error_ratios(truth, *scores_and_bounds(out)).max() <= 1.0
        most = cascade.bounds(outside, settled)
        assert (scores_and_bounds(out)[1] <= most * (1 + 1e-12)).all()


def test_one_score_is_damped_as_many_are() -> None:
    """Within the bound of the widened model, also where the factor is subnormal or nothing."""
    rng = np.random.default_rng(8)
    model = random_expansion(rng, n=12, d=3)
    rows, beyond = rng.normal(size=(40, 3)), 10.0 ** rng.uniform(-3, 2.2, size=40)
    beyond[:4] = 0.0, 2.0**100, 86.0, 1e150
    beyond[4:12] = np.sqrt(np.linspace(700.0, 750.0, 8) / model.gamma)
    wider, wide_rows, sq_norms = widened(model, rows, beyond)
    truth = true_scores(wider, wide_rows)
    (cell, *_) = cells_of(model, np.zeros(3))
    stage = damped_cascade(model, cell).stages[0]
    own = stage.stage.run(rows, None)
    scores, bounds = scores_and_bounds(own)
    outside = OutsideRows(rows, sq_norms, 1e-15)
    defined = stage.defined(outside, scores, bounds)
    for i in range(len(rows)):
        given = scores[i].item(), bounds[i].item(), model.gamma, model.intercept.item()
        score, bound = damp_one(*given, outside[i : i + 1])
        assert error_ratios(truth[i : i + 1], *map(np.atleast_2d, (score, bound))).max() <= 1.0
        np.testing.assert_allclose([score, bound], [one[i].item() for one in defined], rtol=1e-12)
    assert damp_one(1.0, np.inf, model.gamma, 0.0, outside[:1])[1] == np.inf


@pytest.mark.parametrize("gamma", [0.002, 0.02, 1.0])
def test_a_wide_row_alone_has_the_label_that_it_has_among_others(gamma: float) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 6))
    source = SVC(gamma=gamma, C=5.0).fit(X[:400], X[:400, 0] + 0.5 * X[:400, 1] ** 2 > 0.3)
    model = kl.compile(source, X)
    model = replace(model, origin=replace(model.origin, width_is_open=True))
    far = np.array([0.0, 0.1, 1.0, 30.0, 1e4, 1e160, np.nan])
    wide = np.concatenate([X, rng.choice(far[:-2], size=(900, 2))], axis=1)
    together, served = model.predict(wide), model._runner
    for i in range(0, 900, 9):
        assert model.predict(wide[i : i + 1]) == together[i]
    padded = np.concatenate([source.support_vectors_, np.zeros((len(source.support_), 2))], axis=1)
    exact = rbf_kernel(wide, padded, gamma) @ source.dual_coef_[0] + source.intercept_
    np.testing.assert_array_equal(together, source.classes_[(exact > 0.0).astype(int)])
    front = served._passing.front(model._labels, model._for_predict)
    assert front.proves_signs
    for value in far[-2:]:
        bad = wide[:1].copy()
        bad[0, -1] = value
        if np.isnan(value):
            with pytest.raises(InputError, match="row 0"):
                model.predict(bad)
        else:  # so far away that the intercept tells
            assert model.predict(bad) == source.classes_[int(source.intercept_[0] > 0.0)]


def test_what_is_known_of_beta_is_in_the_bound() -> None:
    """Beta off by a relative 1e-6, either way, and the bound says by how much that matters."""
    rng = np.random.default_rng(2)
    model = random_expansion(rng, n=12, d=3)
    rows = rng.normal(size=(20, 3))
    wider, wide_rows, sq_norms = widened(model, rows, rng.uniform(0.5, 8.0, size=20))
    truth = true_scores(wider, wide_rows)
    (cell, *_) = cells_of(model, np.zeros(3))
    for sign in (-1.0, 1.0):
        off = sq_norms * (1.0 + sign * 0.99e-6)
        for name, found in results(damped_cascade(model, cell), OutsideRows(rows, off, 1e-6)):
            assert error_ratios(truth, *scores_and_bounds(found)).max() <= 1.0, name
        last = damped_cascade(model, cell).stages[-1]
        blind = last.run(OutsideRows(rows, off, 0.0), None)
        assert error_ratios(truth, *scores_and_bounds(blind)).max() > 1.0


def test_nothing_beyond_changes_next_to_nothing() -> None:
    rng = np.random.default_rng(3)
    model = random_expansion(rng, n=30, d=4, k=2)
    rows = rng.normal(size=(20, 4))
    outside = OutsideRows(rows, np.zeros(20), 0.0)
    for cell in cells_of(model, np.zeros(4)):
        for stage in damped_cascade(model, cell).stages:
            own, found = stage.stage.run(rows, None), stage.run(outside, None)
            if own is None:
                continue
            scores, bounds = scores_and_bounds(own)
            np.testing.assert_allclose(found.scores, scores, atol=1e-13)
            assert (found.bounds >= bounds).all()
            np.testing.assert_allclose(found.bounds, bounds, rtol=1e-3, atol=1e-13)


def test_far_rows_get_the_intercept() -> None:
    rng = np.random.default_rng(4)
    model = random_expansion(rng, n=10, d=2, k=2)
    outside = OutsideRows(rng.normal(size=(2, 2)), np.array([np.inf, 1e300]), 1e-13)
    for cell in cells_of(model, np.zeros(2)):
        for _, found in results(damped_cascade(model, cell), outside):
            np.testing.assert_array_equal(found.scores, np.broadcast_to(model.intercept, (2, 2)))
            assert (found.bounds < 1e-13).all()


def test_validity_counts_what_lies_beyond() -> None:
    rng = np.random.default_rng(5)
    model = random_expansion(rng, n=10, d=2, gamma=0.05)
    form = quadratic_form(model, np.zeros(2))
    rows = 0.1 * rng.normal(size=(3, 2))
    inside = form.valid((rows**2).sum(axis=1))
    assert inside.all()
    outside = OutsideRows(rows, np.array([0.0, 1e-3, 1e6]), 0.0)
    (_, found), *_ = results(
        damped_cascade(model, Approximation(form, certify(model, np.zeros(2)))), outside
    )
    assert found.valid.tolist() == [True, True, False]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_runner_serves_dense_and_sparse_rows(mapped: bool) -> None:
    rng = np.random.default_rng(6)
    model = random_expansion(rng, n=20, d=6, gamma=0.05)
    point = model.dense_centers().mean(axis=0)
    cell = Approximation(quadratic_form(model, point), certify(model, point, mapped=mapped))
    input_map = AffineMap(np.full(6, 0.5), np.zeros(6)) if mapped else None
    runner = stage_model(cell, model, Preparation.of(input_map))
    rows = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.3)
    seen = rows if input_map is None else input_map(rows)
    wider, wide_rows, sq_norms = widened(model, seen, rng.uniform(0.0, 4.0, size=40))
    truth = true_scores(wider, wide_rows)
    for given in (rows, csr_array(rows)):
        outside = OutsideRows(given, sq_norms, 0.0)
        assert outside.shape == (40, 6)
        scores, stats = runner.run(outside, lambda scores: scores, settled)
        assert stats.rows == sum(stats.stages.values()) == 40
        assert error_ratios(truth, scores, runner.bounds(outside, settled)).max() <= 1.0
        assert runner.decided(outside, settled).all()
