"""Plans: deterministic, within their bytes, exact when nothing beats it, honest about gamma."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernelite as kl
import kernelite.planner.planner
import kernelite.planner.proof_probe
import kernelite.planner.search
from kernelite.backends.cpu import forms
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.limits import limit_threads, thread_count
from kernelite.backends.cpu.local import LEAF, LocalEngine, Visits
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, RegressorHead
from kernelite.model.compiler.passes import default_tolerance, given_tolerance
from kernelite.planner import costs as rates
from kernelite.planner.costs import (
    array_bytes,
    exact_cost,
    local_cost,
    nanoseconds,
    second_cost,
    tiers_cost,
    unseen_cost,
)
from kernelite.planner.plan import Candidate, Plan
from kernelite.planner.planner import plan_certified, truncated_form
from kernelite.planner.search import Search
from kernelite.program.criteria import label_criterion
from kernelite.series import remainder
from kernelite.series.approximation import Approximation, LocalSums
from kernelite.series.spectral import SpectralForm
from kernelite.series.work import Work
from kernelite.sources import Machine
from kernelite.support.errors import InputError


def model(
    seed: int = 0, *, n: int = 400, d: int = 8, k: int = 1, gamma: float = 0.01, head: Any = None
) -> tuple[Machine, np.ndarray]:
    """A random classifier and rows like its centers."""
    rng = np.random.default_rng(seed)
    expansion = KernelExpansion(
        rng.normal(size=(n, d)), rng.normal(size=(n, k)), rng.normal(size=k), gamma=gamma
    )
    if head is None:
        head = ClassifierHead(np.array([1, -1]))
    return Machine(expansion, head, "", "arrays", "KernelExpansion"), rng.normal(size=(600, d))


def plan_of(source: Machine, rows: np.ndarray, **options: Any) -> Plan:
    return kl.compile(source, rows, plan="estimate", **options).plan


def test_a_plan_is_the_same_twice() -> None:
    for seed in range(3):
        source, rows = model(seed, gamma=0.03)
        first, second = (
            kl.compile(source, rows, random_state=seed, plan="estimate") for _ in range(2)
        )
        assert str(first.plan) == str(second.plan)
        np.testing.assert_array_equal(first.error_bound(rows), second.error_bound(rows))


def test_the_random_state_draws_the_sample() -> None:
    source, _ = model(n=50)
    rows = np.random.default_rng(9).normal(size=(9000, 8))
    shares = {plan_of(source, rows, random_state=state).chosen.open_share for state in range(6)}
    assert plan_of(source, rows, random_state=1) == plan_of(source, rows, random_state=1)
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_a_small_gamma_is_served_by_a_form_and_a_large_one_exactly() -> None:
    source, rows = model(gamma=0.01)
    easy = kl.compile(source, rows, plan="estimate")
    assert easy.approximation is not None
    assert easy.plan.speed_up > 1
    assert easy.plan.chosen.open_share < 0.2
    source, rows = model(gamma=5.0)
    hard = kl.compile(source, rows, plan="estimate")
    assert hard.approximation is None
    assert hard.plan.chosen.is_exact
    assert hard.plan.chosen.verdict == "gamma is too large for a form"
    assert any("calibrated" in note for note in hard.plan.notes)
    stats = hard.predict(rows, return_stats=True)[1]
    assert stats.exact == stats.rows


def test_a_regressor_is_not_told_to_calibrate() -> None:
    source, rows = model(gamma=5.0, head=RegressorHead())
    notes = " ".join(plan_of(source, rows).notes)
    assert "calibrated" not in notes
    assert "tolerance" in notes


def test_few_centers_are_evaluated_exactly() -> None:
    """Three centers cost less than bounds of thirty outputs, whatever the form."""
    source, rows = model(n=3, d=40, k=30, head=RegressorHead(30))
    plan = plan_of(source, rows)
    assert plan.chosen.is_exact
    assert plan.chosen.verdict == "no form is cheaper here"
    assert plan.speed_up == pytest.approx(1.0)


@pytest.mark.parametrize("max_bytes", [100, 3_000, 20_000, 10**9])
def test_max_bytes_is_respected(max_bytes: int) -> None:
    source, rows = model(d=20, gamma=0.01)
    fast = kl.compile(source, rows, max_bytes=max_bytes)
    if fast.approximation is None:
        assert max_bytes < 10**6
        assert any("max_bytes" in note for note in fast.plan.notes) or fast.plan.others
    else:
        assert array_bytes(fast.approximation) <= max_bytes
    assert fast.predict(rows).shape == (600,)


def test_every_candidate_says_why_it_lost() -> None:
    source, rows = model(d=20, gamma=0.02)
    plan = plan_of(source, rows)
    assert plan.others
    assert all(candidate.verdict for candidate in (plan.chosen, *plan.others))
    assert plan.others[-1].is_exact
    costs = [candidate.nanoseconds for candidate in (plan.chosen, *plan.others[:-1])]
    assert costs == sorted(costs)
    text = str(plan)
    for part in ("expected cost", "less than the exact sum", "of rows fall back", plan.chosen.name):
        assert part in text


@pytest.mark.parametrize("width", [40, 72, 100, 300])
def test_a_printed_plan_keeps_to_its_width_and_says_all(width: int) -> None:
    source, rows = model(d=20, gamma=0.02)
    plan = plan_of(source, rows).noting("A long note about what was measured, and how. " * 4)
    text = plan.text(width)
    assert max(map(len, text.splitlines())) <= width
    assert str(plan) == plan.text(100)
    told = set(text.split())
    for one in (plan.chosen, *plan.others):
        assert {*one.name.split(), *one.verdict.split(), f"{one.nbytes:,}"} <= told
    assert " ".join(plan.notes[-1].split()) in " ".join(text.split())
    assert ("candidate" in told) == (width >= 100), "where there is room, it is a table"
    if width == 300:
        assert f"  {plan.chosen.name}  " in text, "names are whole where they fit"


def test_an_extreme_gamma_is_planned_exactly_and_says_so() -> None:
    centers = np.repeat([[1e20], [2e20]], 2000, axis=0)  # so many that a form would be cheaper
    expansion = KernelExpansion(centers, np.repeat([1.0, -1.0], 2000), 0.1, gamma=1e-40)
    head = ClassifierHead(np.array([1, -1]))
    source = Machine(expansion, head, "", "arrays", "KernelExpansion")
    fast = kl.compile(source, np.array([[1e20], [1.5e20]]))
    assert fast.approximation is None
    assert any("gamma" in note for note in fast.plan.notes)
    np.testing.assert_array_equal(fast.predict(np.array([[1e20], [3e20]])), [1, -1])


def test_pruning_changes_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not built could not have been the cheapest."""
    for seed, gamma, d in ((0, 0.02, 30), (1, 0.05, 12), (2, 0.1, 6)):
        source, rows = model(seed, d=d, gamma=gamma, n=800)
        pruned = plan_of(source, rows).chosen
        with monkeypatch.context() as patch:
            patch.setattr(Search, "_may_pay", lambda self, *rest: True)
            assert plan_of(source, rows).chosen == replace(pruned)


def test_nothing_open_in_the_sample_is_not_nothing_open() -> None:
    source, rows = model(gamma=1e-4)
    criterion = label_criterion(source.head, None)
    search = Search(
        source.single, rows, criterion, 10**9, False, ExactEngine.prepare(source.single)
    )
    search.about(np.zeros(8), "about 0", lambda share: None)
    best = min(search.options, key=lambda option: option.nanoseconds)
    assert best.open_share == 0.0
    assert best.nanoseconds > tiers_cost(best.approximation, source.expansion, 0.0, 0.0)


def test_an_empty_sample_is_no_obstacle() -> None:
    source, _ = model(n=30)
    approximation, plan = plan_certified(
        source.expansion,
        "origin",
        np.zeros(8),
        np.empty((0, 8)),
        label_criterion(source.head, None),
        ExactEngine.prepare(source.single),
        max_bytes=10**8,
    )
    assert isinstance(plan, Plan)
    assert approximation is None or isinstance(approximation, Approximation)


def test_truncation_without_a_guarantee() -> None:
    """Rows near a plane: few directions are enough, and the form says so."""
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 60)) + 1e-3 * rng.normal(size=(300, 60))
    expansion = KernelExpansion(flat, rng.normal(size=300), 0.0, gamma=1e-4)
    source = Machine(expansion, RegressorHead(), "", "arrays", "KernelExpansion")
    bare = kl.compile(source, flat, guarantee="none", on_invalid="ignore")
    assert isinstance(bare.form, SpectralForm)
    assert bare.form.rank <= 16
    spread = expansion.scores(flat).std()
    full = kl.compile(source, flat, guarantee="none", rank="full", on_invalid="ignore")
    assert np.abs(bare.predict(flat) - full.predict(flat)).max() < 0.05 * spread
    assert truncated_form(full.form, np.empty((0, 60))) is full.form


def test_costs_add_up() -> None:
    source, rows = model(d=10, gamma=0.02)
    fast = kl.compile(source, rows, plan="estimate")
    assert fast.approximation is not None
    cell = fast.approximation
    open_all = tiers_cost(fast.approximation, source.expansion, 1.0, 1.0)
    open_none = tiers_cost(fast.approximation, source.expansion, 0.0, 0.0)
    assert open_all > exact_cost(source.expansion, labels=True) + open_none + second_cost(cell)


def test_rows_that_single_precision_leaves_open_are_in_the_exact_cost() -> None:
    """Of a sum that cancels, doubles are asked for: they take more than single precision."""
    source, rows = model(n=2000, d=8)
    signs, searches = np.resize([1.0, -1.0], 2000), []
    for gamma in (1e-7, 1.0):
        expansion = KernelExpansion(source.single.centers, signs, 0.0, gamma=gamma)
        criterion = label_criterion(source.head, None)
        searches.append(
            Search(expansion, rows, criterion, 10**9, False, ExactEngine.prepare(expansion))
        )
    hard, easy = searches
    assert hard.reached is not None
    assert easy.reached is not None
    assert hard.reached["exact"] > 0.9
    assert easy.reached.get("exact", 0.0) < 0.1
    assert hard.exact > 1.5 * easy.exact


def test_finalists_are_timed_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else the machine does hardly changes its time on a core; costs are of all threads."""
    source, rows = model(n=800, d=12, gamma=0.02)
    seen: list[int] = []

    def timed(calls: list[Any], counts: list[int]) -> list[float]:
        seen.append(thread_count())
        return [600.0] * len(calls)

    monkeypatch.setattr(kernelite.planner.planner, "raced", timed)
    with limit_threads(3):
        plan = kl.compile(source, rows, plan="measure").plan
    assert seen == [1]
    assert plan.exact_nanoseconds == pytest.approx(200.0)
    assert plan.measured


def test_near_ties_are_left_to_the_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the same compilation chooses the same, though no two timings agree."""
    source, rows = model(d=20, gamma=0.02)
    first = kl.compile(source, rows, plan="estimate").plan
    assert len(first.others) >= 3

    def with_times(*first_ones: float) -> Plan:
        def raced(calls: list[Any], _counts: list[int]) -> list[float]:
            slow = [first_ones[0] * 9.0] * (len(calls) - len(first_ones))
            return [*first_ones, *slow]

        monkeypatch.setattr(kernelite.planner.planner, "raced", raced)
        return kl.compile(source, rows, plan="measure").plan

    near, far = with_times(100.0, 97.0), with_times(100.0, 90.0)
    assert near.chosen.name == first.chosen.name
    assert near.others[0].verdict == "as fast when timed, estimated slower"
    assert far.chosen.name == first.others[0].name


def test_a_plan_is_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    source, rows = model(d=20, gamma=0.02)
    plans = []
    for count in (1, 16):
        for module in (kernelite.planner.planner, kernelite.planner.costs):
            monkeypatch.setattr(module, "thread_count", lambda count=count: count)
        plans.append(kl.compile(source, rows, plan="estimate").plan)
    alone, shared = ([plan.chosen, *plan.others] for plan in plans)
    assert [one.name for one in alone] == [one.name for one in shared]
    for one, other in zip(alone, shared, strict=True):
        assert one.nanoseconds == pytest.approx(16.0 * other.nanoseconds)


def test_near_centers_are_timed_on_one_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4000, 2)) * 30.0
    source = KernelExpansion(centers, rng.normal(size=4000), 0.0, gamma=1.0)
    seen: list[int] = []

    def raced(calls: list[Any], _counts: list[int]) -> list[float]:
        seen.append(thread_count())
        return [30.0 * len(calls)] * len(calls)

    monkeypatch.setattr(kernelite.planner.planner, "raced", raced)
    with limit_threads(3):
        plan = kl.compile(source, centers[:500], plan="measure").plan
    assert seen
    assert set(seen) == {1}
    near = next(one for one in (plan.chosen, *plan.others) if "near" in one.name)
    assert near.nanoseconds == pytest.approx(10.0 + near.open_share * plan.exact_nanoseconds)


@pytest.mark.parametrize(("labels", "n", "gamma"), [(True, 400, 0.02), (False, 4000, 2e-3)])
def test_kernels_and_definitions_find_the_same_candidates(
    labels: bool, n: int, gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rows = model(n=n, d=20, gamma=gamma)
    if not labels:
        source = replace(source, head=RegressorHead())
    by_kernels = kl.compile(source, rows, plan="estimate").plan
    monkeypatch.setattr(kernelite.planner.search, "provider", lambda: None)
    by_definitions = kl.compile(source, rows, plan="estimate").plan
    assert len(by_kernels.others) >= 2
    for one, other in zip(by_kernels.others, by_definitions.others, strict=True):
        assert (one.name, one.open_share) == (other.name, other.open_share)
        assert one.nanoseconds == pytest.approx(other.nanoseconds)


def test_a_plan_prints_unknown_costs() -> None:
    chosen = Candidate("quadratic form", 5.0, 0.0, 100)
    assert "faster" not in str(Plan("none", chosen, (), float("nan")))


@pytest.mark.parametrize(
    "option",
    [{"max_bytes": None}, {"max_bytes": "1 MB"}],
)
def test_options_that_are_no_numbers_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"`{next(iter(option))}` must be"):
        kl.compile(model()[0], **option)


def test_numbers_of_numpy_are_numbers() -> None:
    source, rows = model()
    options: dict[str, Any] = {"guarantee": "none", "on_invalid": "ignore"}
    assert kl.compile(source, rows, rank=np.int64(2), **options).form.rank == 2
    assert kl.compile(source, rows, max_bytes=np.int64(10**6)) is not None


@pytest.mark.parametrize("guarantee", ["certified", "none", "exact"])
def test_a_model_without_features_is_its_constant(guarantee: str) -> None:
    # LIBSVM writes no width: that of a regressor without support vectors is zero.
    nothing = KernelExpansion(np.zeros((2, 0)), [1.0, 0.5], 0.25, gamma=1.0)
    fast = kl.compile(nothing, guarantee=guarantee)
    np.testing.assert_allclose(fast.predict(np.zeros((3, 0))), 1.75, rtol=1e-2)


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200, 1e300])
def test_the_default_tolerance_scales_with_the_values(size: float) -> None:
    values = np.array([[1.0], [3.0]]) * size
    np.testing.assert_allclose(default_tolerance(RegressorHead(), values), 1e-3 * size)


def test_rows_that_overflow_do_not_enter_the_default_tolerance() -> None:
    values = np.array([[1.0], [3.0], [np.inf], [np.nan]])
    np.testing.assert_allclose(default_tolerance(RegressorHead(), values), 1e-3)
    np.testing.assert_allclose(default_tolerance(RegressorHead(), values[2:]), 1e-3)


def test_an_exact_plan_says_why_and_what_would_pay() -> None:
    source, rows = model(gamma=5.0)
    plan = plan_of(source, rows)
    limit = kl.gamma_max(rows, about="mean").value
    (why,) = [note for note in plan.notes if note.startswith("Gamma is too large")]
    assert f"gamma_max about the mean of X, {limit:.3g} " in why
    assert f"this one is {5.0 / limit:,.0f} times that" in why
    assert "guarantee='calibrated'" in why
    assert plan.is_exact
    assert "fall back" not in str(plan).splitlines()[1], "there is nothing to fall back from"
    source, rows = model(n=3, d=40, k=30, head=RegressorHead(30))
    assert any("fastest way" in note for note in plan_of(source, rows).notes)


def _digits() -> tuple[Any, np.ndarray]:
    """Ten classes with the default gamma."""
    from sklearn.datasets import load_digits
    from sklearn.svm import SVC

    X, y = load_digits(return_X_y=True)
    return SVC().fit(X[:600], y[:600]), X


def test_forms_that_cannot_win_are_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of thirty outputs cost more than three centers: nothing is built."""
    source, rows = model(n=3, d=40, k=30, head=RegressorHead(30))
    calls: list[str] = []
    for name in ("certify", "spectrum"):
        monkeypatch.setattr(
            kernelite.planner.search, name, lambda *rest, name=name, **more: calls.append(name)
        )
    plan = kl.compile(source, rows).plan
    assert plan.is_exact
    assert not calls
    assert any("exact engine is cheaper" in note for note in plan.notes)


def test_no_guarantee_says_where_exact_is_as_cheap() -> None:
    svc, X = _digits()
    bare = kl.compile(svc, X, guarantee="none", on_invalid="ignore")
    assert any("guarantee='exact'" in note for note in bare.plan.notes)
    source, rows = model(n=5000, gamma=1e-3)
    assert not kl.compile(source, rows, guarantee="none", on_invalid="ignore").plan.notes


def test_a_form_is_cut_as_far_as_it_is_off_itself() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 60)) * 0.8 ** np.arange(60)
    expansion = KernelExpansion(rows, rng.normal(size=200), 0.0, gamma=0.01)
    source = Machine(expansion, RegressorHead(), "", "arrays", "KernelExpansion")
    full = kl.compile(source, rows, guarantee="none", rank="full", on_invalid="ignore").form
    assert full is not None
    whole = full.evaluate(rows)[0]
    for off in (0.0, 1e9):
        cut = truncated_form(full, rows, lambda off=off: off)  # type: ignore[misc]
        left = np.quantile(np.abs(cut.evaluate(rows)[0] - whole), 0.95)
        assert left <= (1e-2 if off else 1e-3) * whole.std()


def test_rows_that_no_sample_shows_cost_less_behind_a_second_tier() -> None:
    source, rows = model(d=30, gamma=0.02, n=800)
    engine = ExactEngine.prepare(source.single)
    search = Search(
        *(source.single, rows, label_criterion(source.head, None), 10**9, False, engine)
    )
    search.about(rows.mean(axis=0), "about 0", lambda share: None)
    first = search.options[0].approximation
    alone, behind = (unseen_cost(first, source.expansion, 1e-3, left) for left in (1.0, 0.1))
    assert 0.0 < behind < alone
    assert unseen_cost(first, source.expansion, 0.0, 1.0) == 0.0


@pytest.mark.parametrize("rows", [1, 2, 19])
def test_a_sample_of_few_rows_chooses_no_form_that_settles_nothing_else(rows: int) -> None:
    source, X = model(n=3000, d=8, gamma=2.0)
    near = X[:1] + 1e-9 * X[:rows]  # about their mean, a form is right for them
    plan = plan_of(source, near)
    assert plan.is_exact
    assert any("`X` is too small to choose a form by" in note for note in plan.notes)
    assert plan_of(source, np.repeat(near, 20, axis=0)).chosen.name != "exact"


def test_a_small_sample_may_choose_a_form_that_settles_support_vectors_too() -> None:
    source, X = model(n=3000, d=8, gamma=1e-4)
    plan = plan_of(source, X[:1])
    assert "form" in plan.chosen.name
    assert any("(1 row)" in note for note in plan.notes)


@pytest.fixture
def certified(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Points of the certificates of all centers, where those are taken to be dear."""
    points: list[np.ndarray] = []
    real = kernelite.planner.search.certify

    def counted(expansion: Any, point: np.ndarray, **options: Any) -> Any:
        points.append(point)
        return real(expansion, point, **options)

    monkeypatch.setattr(kernelite.planner.search, "certify", counted)
    monkeypatch.setattr(kernelite.planner.proof_probe, "DEAR_PAIRS", 0.0)
    monkeypatch.setattr(kernelite.planner.proof_probe, "CHEAP_PAIRS", 0.0)
    monkeypatch.setattr(kernelite.planner.proof_probe, "SOME_CENTERS", 500)
    return points


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_of_many_centers_one_certificate_is_computed(certified: list[Any], shift: float) -> None:
    source, rows = model(n=3000, d=8, gamma=1e-3)
    rows += shift
    plan = plan_of(source, rows)
    assert len(certified) == 1
    assert "form about the mean of X" in plan.chosen.name


def test_where_an_estimate_has_no_hope_no_certificate_is_computed(certified: list[Any]) -> None:
    source, rows = model(n=3000, d=8, gamma=0.4)
    assert plan_of(source, rows).is_exact
    assert not certified


def test_an_interrupted_certificate_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = model(n=3000, d=8, gamma=1e-3)

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forms.certify(source.single, np.zeros(8), progress=interrupt)
    monkeypatch.setattr(remainder, "PAIRS_BUDGET", 0.0)
    with pytest.raises(KeyboardInterrupt):
        forms.certify(source.single, np.zeros(8), progress=interrupt)
    assert forms.certify(source.single, np.zeros(8)).rho.all()


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0], "1", True, [1.0] * 3])
def test_a_tolerance_is_a_positive_number_an_output(tolerance: Any) -> None:
    with pytest.raises(InputError, match="`tolerance` must be"):
        given_tolerance(RegressorHead(2), tolerance)


def test_near_centers_cost_what_their_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are padded; centers that no cache holds are fetched."""
    rng, visits = np.random.default_rng(0), Visits(2.0, 10.0, 1.0)

    def cost(d: int) -> float:
        model = KernelExpansion(rng.normal(size=(700, d)), np.ones(700), 0.0, gamma=1.0)
        return local_cost(LocalEngine.prepare(model, LocalSums(np.ones(1))), visits)

    assert cost(2) < cost(3) == cost(4) < cost(5) == cost(8)
    held = cost(3)
    monkeypatch.setattr(rates, "NEAR_CACHE_BYTES", 700 * 8 * 5 // 2)
    fetched = nanoseconds(Work(fetched=rates.NEAR_FETCHED * 10 * LEAF * 8 * 5 / 2))
    assert cost(3) == pytest.approx(held + fetched)
