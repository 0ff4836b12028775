"""|f - computed f^| <= bound, for every form, tier and engine, against real arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kernelite.backends.cpu.approximation import ApproximationEngine, form_stages, forms_alone
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.kernels import third_dense
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.local import LocalEngine
from kernelite.backends.cpu.rows import OutsideRows, damped
from kernelite.backends.cpu.staging import stage_engine
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import Approximation, LocalSums, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.directional import cubic_gram, directional_bound, gram_slack
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.helpers import scores_and_bounds, widened
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases

ONE_CORE = settings(
    max_examples=HOW_MANY,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Scored = tuple[str, np.ndarray, np.ndarray]


def first_tier(
    cell: Approximation, rows: np.ndarray, *, fused: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and bounds of a cell's form."""
    found = forms_alone(cell, fused=fused).run(rows, None)
    scores, bounds = scores_and_bounds(found)
    return scores, _known(bounds)


def second_tier(
    cell: Approximation, rows: np.ndarray, *, fused: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and bounds of a cell's second tier, for all rows."""
    engine = ApproximationEngine.prepare(cell, fused=fused)
    scores, bounds = scores_and_bounds(engine.second(rows, engine.first.run(rows)))
    return scores, _known(bounds)


def with_product(
    cell: Approximation, rows: np.ndarray, *, fused: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and bounds with a product for the third order, for all rows."""
    engine = ApproximationEngine.prepare(cell, fused=fused)
    assert engine.paired is not None
    if engine.paired.fused is not None:
        found = third_dense.scores(engine.paired.fused, rows)
    else:
        found = engine.paired.run(rows, engine.first.run(rows, bounded=False))
    scores, bounds = scores_and_bounds(found)
    return scores, _known(bounds)


def _known(bounds: np.ndarray) -> np.ndarray:
    """NaN, where a polynomial overflowed, settles no row; it is as good as infinity."""
    return np.where(np.isnan(bounds), np.inf, bounds)


def every_cell(
    expansion: KernelExpansion, point: np.ndarray
) -> Iterator[tuple[str, Approximation, bool]]:
    """Name, cell, and whether it has a second tier: the forms that a plan may choose."""
    d, k = expansion.n_features, expansion.n_outputs
    form, certificate = quadratic_form(expansion, point), certify(expansion, point)
    whole = Approximation(form, certificate)
    yield "form", whole, False
    pairs = spectrum(form)
    ranks = {0, 1, d // 2, d}
    for rank in ranks:
        cut = truncate(pairs, rank)
        yield f"rank {rank}", Approximation(cut, certificate), False
        yield f"rank {rank}, full", Approximation(cut, certificate, full=form), True
    if expansion.kernel.quadratic:
        return
    tensors = [cubic_tensor(expansion, point, output) for output in range(k)]
    grams = {
        "tensor": [t.reshape(d, -1) @ t.reshape(d, -1).T for t in tensors],
        "pairs": [cubic_gram(expansion, point, output) for output in range(k)],
    }
    for rank in ranks - {0}:
        cubic = cubic_form(tensors, rank)
        yield f"cubic {rank}", Approximation(form, certificate, cubic=cubic), True
        cut = truncate(pairs, d // 2)
        yield f"truncated, cubic {rank}", Approximation(cut, certificate, cubic=cubic), True
        for name, gram in grams.items():
            bound = directional_bound(gram, rank, gram_slack(expansion, certificate.rounding))
            along = Approximation(form, certificate, cubic=bound)
            yield f"directional {rank} ({name})", along, True


def every_answer(case: Case) -> Iterator[Scored]:
    """What every tier and engine says of the case's rows."""
    rows = case.rows
    exact = ExactEngine.prepare(case.expansion)
    scores, bounds = scores_and_bounds(exact.run(rows))
    yield "exact", scores, bounds
    yield "exact, bound alone", scores, exact.bound(rows)
    for name, cell, has_second in every_cell(case.expansion, case.point):
        for fused in {False, jit_available()}:
            how = f"{name}, {'fused' if fused else 'blas'}"
            run = second_tier if has_second else first_tier
            yield how, *run(cell, rows, fused=fused)
            if name == f"cubic {case.expansion.n_features}":
                yield f"product, {how}", *with_product(cell, rows, fused=fused)


def assert_bounded(expansion: KernelExpansion, rows: np.ndarray, answers: Iterator[Scored]) -> None:
    truth = true_scores(expansion, rows)
    for name, scores, bounds in answers:
        ratios = error_ratios(truth, scores, bounds)
        worst = np.unravel_index(np.argmax(ratios), ratios.shape)
        assert ratios[worst] <= 1.0, f"{name}: row and output {worst} at {ratios[worst]} x bound"


@ONE_CORE
@given(cases())
def test_every_bound_holds(case: Case) -> None:
    assert_bounded(case.expansion, case.rows, every_answer(case))


@settings(ONE_CORE, max_examples=max(10, HOW_MANY // 4))
@given(cases(kernel="poly2", max_features=12, max_centers=40))
def test_every_bound_of_a_polynomial_holds(case: Case) -> None:
    assert_bounded(case.expansion, case.rows, every_answer(case))


@settings(ONE_CORE, max_examples=max(10, HOW_MANY // 4))
@given(cases(max_features=12, max_centers=60), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_bounds_of_widened_models_hold(case: Case, power: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    beyond = rng.uniform(size=len(case.rows)) * 10.0**power
    beyond[:2] = 0.0, 2.0**100
    wider, rows, sq_norms = widened(case.expansion, case.rows, beyond)
    outside = OutsideRows(case.rows, sq_norms, 0.0)
    engine = ExactEngine.prepare(case.expansion)

    def answers() -> Iterator[Scored]:
        for name, cell, _ in every_cell(case.expansion, case.point):
            forms = form_stages(cell, fused=jit_available())
            whole = stage_engine(engine, forms).cascade
            stages = damped(whole, engine.expansion.gamma, engine.expansion.intercept, cell.form)
            for stage in stages.stages:
                if (found := stage.run(outside, None)) is not None:
                    scores, bounds = scores_and_bounds(found)
                    yield f"{name}, {stage.name}", scores, _known(bounds)

    assert_bounded(wider, rows, answers())


@settings(ONE_CORE, max_examples=max(10, HOW_MANY // 4))
@given(cases(max_features=24, max_centers=60), st.integers(0, 2**32 - 1))
def test_bounds_of_sparse_rows_hold(case: Case, seed: int) -> None:
    if not jit_available():
        pytest.skip("sparse rows run on the fused kernel only")
    from kernelite.backends.cpu.kernels import quadratic_dense, quadratic_sparse
    from kernelite.backends.cpu.kernels.bounds import prepare_certificate

    rows = case.rows.copy()
    rows[np.random.default_rng(seed).random(rows.shape) < 0.6] = 0.0
    form = quadratic_sparse.prepare(
        quadratic_dense.prepare(quadratic_form(case.expansion, case.point))
    )
    certificate = prepare_certificate(certify(case.expansion, case.point))

    def answers() -> Iterator[Scored]:
        out = quadratic_sparse.scores(form, csr_array(rows), certificate)
        assert out.bounds is not None
        yield "sparse", out.scores, out.bounds

    assert_bounded(case.expansion, rows, answers())


@settings(ONE_CORE, max_examples=max(10, HOW_MANY // 4))
@given(cases(max_features=8, max_centers=200), st.floats(-12, 0), st.floats(0, 30))
def test_bounds_of_local_sums_hold(case: Case, budget: float, start: float) -> None:
    if not LocalEngine.serves(case.expansion):
        pytest.skip("sums over near centers run on the fused kernel only")
    left_out = 10.0**budget * np.abs(case.expansion.coefficients).sum(axis=0)
    engine = LocalEngine.prepare(case.expansion, LocalSums(left_out, start=start))
    found = scores_and_bounds(engine.run(case.rows))
    assert_bounded(case.expansion, case.rows, iter([("local", *found)]))


@pytest.mark.parametrize("distance", [1e-3, 0.1, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("degree", [2, 3])
def test_the_bound_is_attained_by_one_center(distance: float, degree: int) -> None:
    one = KernelExpansion([[distance, 0.0]], [-2.0], 0.5, gamma=0.7)
    cell = Approximation(quadratic_form(one, np.zeros(2)), certify(one, np.zeros(2)))
    rows = one.dense_centers()
    if degree == 2:
        scores, bounds = first_tier(cell, rows, fused=False)
    else:
        cubic = cubic_form([cubic_tensor(one, np.zeros(2), 0)], 2)
        scores, bounds = second_tier(
            Approximation(cell.form, cell.certificate, cubic=cubic), rows, fused=False
        )
    ratio = error_ratios(true_scores(one, rows), scores, bounds)[0, 0]
    assert ratio <= 1.0
    if distance >= 0.1:  # below, rounding is most of the bound
        assert ratio > 1.0 - 1e-4


@pytest.mark.parametrize("gamma", [1e-320, 1e-200, 1e200, 1e300])
def test_the_exact_engine_holds_for_any_gamma(gamma: float) -> None:
    width = 1.0 / np.sqrt(gamma)
    expansion = KernelExpansion([[width], [2 * width], [0.0]], [1.0, -2.0, 3.0], 0.25, gamma=gamma)
    rows = np.array([[width], [1.5 * width], [0.0], [1e200], [1e-200]])
    found = scores_and_bounds(ExactEngine.prepare(expansion).run(rows))
    assert_bounded(expansion, rows, iter([("exact", *found)]))


@pytest.mark.parametrize("far", [1e8, 1e20, 1e150, 1e200, 1e308])
def test_one_far_center_spoils_nothing(far: float) -> None:
    expansion = KernelExpansion([[far], [1.0], [0.5]], [1.0, 2.0, -1.5], 0.0, gamma=1.0)
    rows = np.array([[far], [1.0], [0.7], [-far], [0.5 * far]])
    case = Case(expansion, np.array([0.5]), rows)
    assert_bounded(expansion, rows, every_answer(case))
    bounds = first_tier(
        Approximation(quadratic_form(expansion, case.point), certify(expansion, case.point)),
        rows,
        fused=False,
    )[1]
    assert bounds[1, 0] < 1e-2 + 1.0  # the far center enters by its own norm, not by all norms
    assert scores_and_bounds(ExactEngine.prepare(expansion).run(rows))[1].max() < 1e-12


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_coefficients(size: float) -> None:
    rng = np.random.default_rng(0)
    expansion = KernelExpansion(
        rng.normal(size=(6, 3)), size * rng.normal(size=(6, 2)), 0.0 * np.ones(2), gamma=0.1
    )
    case = Case(expansion, np.zeros(3), rng.normal(size=(3, 3)))
    form = Approximation(quadratic_form(expansion, case.point), certify(expansion, case.point))
    answers = [("form", *first_tier(form, case.rows, fused=False))]
    answers.append(("exact", *scores_and_bounds(ExactEngine.prepare(expansion).run(case.rows))))
    if size < 1:
        answers += list(every_answer(case))
    assert_bounded(expansion, case.rows, iter(answers))


def test_no_centers_at_all() -> None:
    nothing = KernelExpansion(np.zeros((0, 3)), np.zeros((0, 2)), [0.5, -1.0], gamma=0.5)
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1e200, 0.0, 0.0]])
    assert_bounded(nothing, rows, every_answer(Case(nothing, np.zeros(3), rows)))


@pytest.mark.parametrize(
    ("gamma", "center", "row"),
    [(2.9e27, 2.5e56, 1.4e-163), (4.5e-15, 7e122, 2.5e-244), (2.8e-12, 2e78, 5e-181)],
)
@pytest.mark.parametrize("fused", [True, False])
def test_a_polynomial_of_rows_whose_squares_underflow(
    gamma: float, center: float, row: float, fused: bool
) -> None:
    rng = np.random.default_rng(0)
    centers, rows = rng.normal(size=(5, 3)) * center, rng.normal(size=(20, 3)) * row
    model = KernelExpansion(centers, rng.normal(size=5), 0.0, gamma=gamma, kernel="poly2")
    cell = Approximation(quadratic_form(model, np.zeros(3)), certify(model, np.zeros(3)))
    scores, bounds = first_tier(cell, rows, fused=fused)
    assert error_ratios(true_scores(model, rows), scores, bounds).max() <= 1.0
