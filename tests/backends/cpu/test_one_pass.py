"""One pass from rows to answers says what the stages and criteria of the cascade say."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.backends.cpu import one_pass
from kernelite.backends.cpu.fused_sums import PanelSums
from kernelite.backends.cpu.kernels.judging import Link
from kernelite.backends.cpu.kernels.providers import jit_available
from kernelite.backends.cpu.limits import limit_here
from kernelite.backends.cpu.one_pass import (
    NO_LABELS,
    FormPass,
    OnePass,
    Passed,
    SumsPass,
    open_rows,
    rule_numbers,
)
from kernelite.program.criteria import Margin, Proven, SameAnswer, Within, never
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.support.errors import InputError

pytestmark = pytest.mark.skipif(not jit_available(), reason="no kernels here")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 6))
SIDE = X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.3
FAR = np.concatenate([X, 40.0 * RNG.normal(size=(100, 6)), np.full((1, 6), 1e150)])


def staged(model: Any) -> Any:
    """The same model without passes: stage by stage."""
    twin = pickle.loads(pickle.dumps(model))
    twin._runner.__dict__["_passing"] = None
    return twin


def fitted(labels: np.ndarray, gamma: float, **options: Any) -> Any:
    return kl.compile(SVC(gamma=gamma).fit(X[:500], labels[:500]), X, **options)


LABELS = {
    "numbers": SIDE.astype(np.int64),
    "floats": SIDE * 2.0,
    "booleans": SIDE,
    "small numbers": SIDE.astype(np.int16),
    "text": np.where(SIDE, "yes", "no"),
}


@pytest.mark.parametrize("gamma", [0.002, 0.02, 1.0])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_those_of_the_stages(kind: str, gamma: float) -> None:
    model = fitted(LABELS[kind], gamma)
    twin, source = staged(model), SVC(gamma=gamma).fit(X[:500], LABELS[kind][:500])
    for rows in (FAR, X[:64], X[:9], X[:1]):
        found, stats = model.predict(rows, return_stats=True)
        wanted, staged_stats = twin.predict(rows, return_stats=True)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype == source.predict(rows).dtype
        assert stats.rows == staged_stats.rows == sum(stats.stages.values())
        assert stats.outside_validity == staged_stats.outside_validity
    assert (model.predict(X) == source.predict(X)).all()
    passes = [one for one in model._runner._passing.known.values() if one is not None]
    assert passes
    assert isinstance(passes[0], SumsPass if model.approximation is None else FormPass)


@pytest.mark.parametrize("guarantee", ["certified", "calibrated", "none", "exact"])
@pytest.mark.parametrize("scaled", [False, True])
def test_every_guarantee_and_scaled_rows(guarantee: Any, scaled: bool) -> None:
    source = SVC(gamma=0.002)
    source = make_pipeline(StandardScaler(), source) if scaled else source
    options = {"max_disagreement": 0.05} if guarantee == "calibrated" else {}
    source = source.fit(X[:500], SIDE[:500])
    model = kl.compile(source, X, guarantee=guarantee, on_invalid="ignore", **options)
    twin = staged(model)
    np.testing.assert_array_equal(model.predict(FAR), twin.predict(FAR))
    np.testing.assert_allclose(model.scores(X), twin.scores(X), rtol=1e-6, atol=1e-6)
    for row in FAR[::97]:
        assert model.predict(row[None]) == twin.predict(row[None])


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-9])
def test_values_are_within_their_tolerance(tolerance: float) -> None:
    source = SVR(gamma=0.01).fit(X[:400], X[:400, 0])
    model = kl.compile(source, X, tolerance=tolerance)
    assert np.abs(model.predict(X) - source.predict(X)).max() <= tolerance
    assert (np.abs(model.predict(X) - source.predict(X)) <= model.error_bound(X) + 1e-9).all()


def test_decision_values_keep_their_labels_and_bounds() -> None:
    source = SVC(gamma=0.002).fit(X[:500], SIDE[:500])
    model = kl.compile(source, X)
    values, exact = model.decision_function(FAR), source.decision_function(FAR)
    assert (np.sign(values) == np.sign(exact)).all()
    assert (np.abs(values - exact) <= model.error_bound(FAR) + 1e-9).all()


def test_one_class() -> None:
    source = OneClassSVM(gamma=0.01, nu=0.1).fit(X[:300])
    model = kl.compile(source, X)
    np.testing.assert_array_equal(model.predict(FAR), source.predict(FAR))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("gamma", [0.002, 1.0])
def test_rows_that_are_not_finite_are_refused_by_their_number(bad: float, gamma: float) -> None:
    model, rows = fitted(SIDE, gamma), X.copy()
    rows[77, 3] = bad
    with pytest.raises(InputError, match="row 77"):
        model.predict(rows)
    with pytest.raises(InputError, match="row 0"):
        model.predict(rows[77:78])


def test_a_row_that_may_not_be_finite_has_no_answer() -> None:
    """Whatever the kernel says of it: neither this pass nor the stages after it answer it."""

    class Found(OnePass):
        numbers = rule_numbers(Within(np.array([0.5])), bounded=True)
        labels = None

        def run(self, rows: np.ndarray) -> Passed:
            n_open, outside, unknown = rows[0].tolist()
            is_open = np.array([n_open > 0])
            return Passed(NO_LABELS, np.ones((1, 1)), is_open, n_open, outside, unknown)

    def one(*counts: int) -> tuple[object, bool, int]:
        return Found.one(object.__new__(Found), np.array([counts]), lambda scores: scores[:, 0])

    assert one(0, 0, 0) == (np.ones(1), True, 0)
    assert one(1, 0, 0) == (None, True, 0)
    assert one(1, 1, 0) == (None, True, 0)
    assert one(0, 0, 1) == one(1, 0, 1) == one(1, 1, 1) == (None, False, 0)


def test_few_open_rows_pass_over_a_second_form_and_many_do_not() -> None:
    _, front, sums, _ = with_open_rows("")
    assert sums.most_rows is None  # there is no second form
    assert not sums.after_second(10**9)
    sums.most_rows = 7
    for threads in (1, 3):
        with limit_here(threads):
            for rows, after in ((7 * threads, False), (7 * threads + 1, True)):
                assert sums.after_second(rows) is after
                assert front.joins(rows) is not after
    sums.second = Link(None, ())  # one that is asked in the same call
    assert front.joins(10**9)


def test_no_rows() -> None:
    assert fitted(SIDE, 0.002).predict(X[:0]).shape == (0,)


def test_what_a_rule_asks_in_numbers() -> None:
    head = fitted(SIDE, 0.002).head
    assert rule_numbers(None, bounded=True) == (False, False, False, 0.0, 0.0, 0.0)
    assert rule_numbers(Proven(SameAnswer(head)), bounded=True)[:3] == (True, False, False)  # type: ignore[index]
    assert rule_numbers(Proven(SameAnswer(head)), bounded=False) is None
    margin = rule_numbers(Margin(head, 0.25), bounded=False)
    assert margin is not None
    assert margin[:5] == (False, True, False, 0.0, 0.25)
    within = rule_numbers(Within(np.array([0.5])), bounded=True)
    assert within is not None
    assert (within[2], within[5]) == (True, 0.5)
    assert rule_numbers(never, bounded=True) is None


def test_what_was_settled_last_stands_for_a_probe() -> None:
    """One call of a kernel for each batch, not one more that tries some rows."""
    model, calls = fitted(SIDE, 1.0), []
    model.predict(X)
    (front,) = model._runner._passing.known.values()
    own = front.fill
    front.fill = lambda rows, *out: (calls.append(len(rows)), own(rows, *out))
    model.predict(X)
    assert calls == [len(X)]


def boundary(source: Any, steps: int, rows: np.ndarray = X) -> np.ndarray:
    """Rows on both sides of the boundary, nearer to it with every step."""
    values = source.decision_function(rows)
    low, high = rows[values < 0.0][:150], rows[values > 0.0][:150]
    low, high = low[: len(high)], high[: len(low)]
    for _ in range(steps):
        middle = 0.5 * (low + high)
        above = source.decision_function(middle)[:, None] > 0.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.concatenate([low, high])


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("steps", [4, 14, 44])
@pytest.mark.parametrize(("gamma", "joined"), [(0.002, True), (0.002, False), (0.02, True)])
def test_rows_that_a_form_leaves_open(
    gamma: float, joined: bool, steps: int, scaled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are those of the stages, alone and together, whatever settles them, in however many
    calls."""
    if not joined:
        monkeypatch.setattr(FormPass, "joins", lambda *_: False)
    source = SVC(gamma=gamma, C=20.0)
    source = make_pipeline(StandardScaler(), source) if scaled else source
    source = source.fit(X[:500], SIDE[:500])
    model = kl.compile(source, X)
    twin, rows = staged(model), boundary(source, steps)
    rows = np.concatenate([rows, FAR[-40:]])
    found, stats = model.predict(rows, return_stats=True)
    wanted, other = twin.predict(rows, return_stats=True)
    np.testing.assert_array_equal(found, wanted)
    assert sum(stats.stages.values()) == len(rows)
    assert stats.undecidable == other.undecidable
    if steps < 44:  # else doubles, too, may be off
        np.testing.assert_array_equal(found, source.predict(rows))
    for i in range(0, len(rows), 7):
        assert model.predict(rows[i : i + 1]) == found[i]
    for few in (rows[:2], rows[:9], rows[5:70]):
        np.testing.assert_array_equal(model.predict(few), twin.predict(few))


def test_an_open_row_is_one_call_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form's, which calls the sums': nothing is asked of stages, criteria and counts."""
    source = SVC(gamma=0.002, C=20.0).fit(X[:500], SIDE[:500])
    model = kl.compile(source, X)
    runner = model._runner
    if runner.forms is None:
        pytest.skip("the plan has no form here")
    rows = boundary(source, 9)
    front: Any = runner._passing.front(model._labels, model._for_predict)  # type: ignore[union-attr]
    front.then, sums = None, front.then
    still = [row[None] for row in rows if front.one(row[None], model._labels)[0] is None]
    front.then = sums
    assert still
    monkeypatch.setattr(type(runner.cascade), "one", None)
    monkeypatch.setattr(type(runner.cascade), "labels_left", None)
    monkeypatch.setattr(SumsPass, "one", None)
    monkeypatch.setattr(PanelSums, "fill", None)
    for row in still[:20]:
        label, stats = model.predict(row, return_stats=True)
        assert label == source.predict(row)
        assert stats.stages == {"exact, single precision": 1}


def with_open_rows(scaled: str) -> tuple[Any, Any, Any, np.ndarray]:
    """A model, its form's pass, the sums behind, and rows of which many stay open."""
    far = 1e3 if scaled == "far" else 0.0  # where a map's shift is more than a double
    source = SVC(gamma=0.002, C=20.0)
    source = make_pipeline(StandardScaler(), source) if scaled else source
    source = source.fit(X[:500] + far, SIDE[:500])
    model = kl.compile(source, X + far)
    runner, asked = model._runner, (model._labels, model._for_predict)
    if runner.forms is None:
        pytest.skip("the plan has no form here")
    front = runner._passing.front(*asked)  # type: ignore[union-attr]
    near = [boundary(source, steps, X + far) for steps in (50, 12, 8)]
    return model, front, front.then, np.concatenate([*near, X + far])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scaled", ["", "near", "far"])
def test_open_rows_are_settled_in_the_same_call(scaled: str, threads: int) -> None:
    """What the kernel of a form calls settles what a call of its own does, as that one does."""
    _, front, sums, rows = with_open_rows(scaled)
    with kl.limit_threads(threads):  # one thread takes all of them
        joined, front.then = front.run(rows), None
        apart, front.then = front.run(rows), sums
    index, some = next(open_rows(rows, apart, len(rows)))
    assert len(index) > 240  # more than are put together at once
    then = sums.run(some)
    assert 0 < then.n_open < len(index)
    wanted, still = apart.labels.copy(), np.zeros(len(rows), np.bool_)
    wanted[index], still[index] = then.labels, then.is_open
    np.testing.assert_array_equal(joined.is_open, still)
    np.testing.assert_array_equal(joined.labels[~still], wanted[~still])
    assert (joined.n_open, joined.summed) == (then.n_open, len(index) - then.n_open)
    assert (joined.outside, joined.unknown) == (apart.outside, apart.unknown)


def test_a_row_that_is_not_finite_stays_open() -> None:
    model, front, _, rows = with_open_rows("")
    bad = np.concatenate([rows, np.full((1, 6), np.nan)])
    found = front.run(bad)
    assert found.is_open[-1]
    assert found.unknown
    with pytest.raises(InputError, match=f"row {len(rows)}"):
        model.predict(bad)
    np.testing.assert_array_equal(model.predict(rows), staged(model).predict(rows))


def test_a_batch_with_open_rows_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old way woke threads twice, and was Python between."""
    _, front, _, rows = with_open_rows("")
    source = SVC(gamma=0.002, C=20.0).fit(X[:500], SIDE[:500])
    model, calls = kl.compile(source, X), []
    found = front.run(rows)
    rows = rows[~found.is_open]
    wanted = model.predict(rows)
    monkeypatch.setattr(one_pass, "open_rows", None)
    monkeypatch.setattr(PanelSums, "fill", None)
    own = one_pass.share_rows
    monkeypatch.setattr(
        one_pass, "share_rows", lambda *given, **how: (calls.append(given[1]), own(*given, **how))
    )
    answers, stats = model.predict(rows, return_stats=True)
    np.testing.assert_array_equal(answers, wanted)
    assert calls == [len(rows)] * 2  # the second spells labels out, which are no words
    assert stats.stages["exact, single precision"] == found.summed > 0
    assert stats.stages["form"] == len(rows) - found.summed


HOPELESS = 10  # rows so near to the boundary that only doubles may tell


def with_third_order(*, scaled: bool) -> tuple[Any, Any, np.ndarray]:
    """A model whose second form has the third order, its source, and rows near the boundary."""
    source = SVC(gamma=0.002, C=20.0)
    source = make_pipeline(StandardScaler(), source) if scaled else source
    source = source.fit(X[:500], SIDE[:500])
    model = kl.compile(source, X, plan="form")
    form = model.approximation
    third = cubic_form([cubic_tensor(model.expansion, form.form.point, 0)], X.shape[1])
    model.__dict__["approximation"] = dataclasses.replace(form, cubic=third)
    model.__dict__.pop("_runner", None)
    near = [boundary(source, steps) for steps in (9, 6, 5, 4)]
    return model, source, np.concatenate([boundary(source, 44)[:HOPELESS], *near, X])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_second_form_is_asked_in_the_same_call(
    scaled: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, source, rows = with_third_order(scaled=scaled)
    twin = staged(model)
    with kl.limit_threads(threads):
        wanted, other = twin.predict(rows, return_stats=True)
        found, stats = model.predict(rows, return_stats=True)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(found[HOPELESS:], source.predict(rows[HOPELESS:]))
    assert other.stages["third order"] > 20
    assert stats.stages["form"] == other.stages["form"]
    # Fewer rows than are worth its call are summed at once.
    assert 0.5 < stats.stages["third order"] / other.stages["third order"] <= 1.0
    assert sum(stats.stages.values()) == len(rows)
    assert stats.undecidable == other.undecidable
    front = model._runner._passing.front(model._labels, model._for_predict)
    settled = rows[HOPELESS:]
    assert not front.run(settled).n_open
    monkeypatch.setattr(type(model._runner.cascade), "labels_left", None)
    monkeypatch.setattr(PanelSums, "fill", None)
    with kl.limit_threads(threads):
        np.testing.assert_array_equal(model.predict(settled), wanted[HOPELESS:])
    for row, label in zip(settled[::20], wanted[HOPELESS::20]):
        assert model.predict(row[None]) == label


@pytest.mark.parametrize("seed", range(8))
def test_random_models_whose_rows_stay_open_at_every_stage(seed: int) -> None:
    """One pass, on any number of threads, in batches that fill tiles and groups or just do not."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 28))
    rows = rng.normal(size=(500, d)) * 10.0 ** rng.uniform(-2, 2) + 10.0 ** rng.uniform(-1, 1)
    side = (rows - rows.mean(axis=0)) @ rng.normal(size=d)
    side += 0.3 * side.std() * rng.normal(size=500)
    labels = [[4.0, -3.0], ["no", "yes"], [False, True], [2, 7]][seed % 4]
    source = SVC(gamma=10.0 ** rng.uniform(-3, -0.5) / d, C=10.0 ** rng.uniform(1, 3))
    if seed % 3:
        source = make_pipeline(StandardScaler(), source)
    else:
        source.gamma /= float(rows.var())
    source.fit(rows, np.where(side > 0.0, *labels))
    model = kl.compile(source, rows, plan="form")
    form = model.approximation
    assert form is not None
    if seed % 2 and form.cubic is None:
        third = cubic_form([cubic_tensor(model.expansion, form.form.point, 0)], d)
        model.__dict__["approximation"] = dataclasses.replace(form, cubic=third)
        model.__dict__.pop("_runner", None)
    near = [boundary(source, steps, rows) for steps in (3, 6, 10, 16, 24)]
    rows = rng.permutation(np.concatenate([rows, *near, 100.0 * rows]))
    scores, wanted = source.decision_function(rows), source.predict(rows)
    last = source[-1] if seed % 3 else source
    sure = np.abs(scores) > 1e-10 * np.abs(last.dual_coef_).sum()
    assert sure.mean() > 0.5
    for threads in (1, 2, 5):
        for m in (1, 2, 63, 65, 240, 241, 1000, 20_000):
            index = rng.integers(len(rows), size=m)
            with kl.limit_threads(threads):
                found, stats = model.predict(rows[index], return_stats=True)
            assert ((found == wanted[index]) | ~sure[index]).all()
            assert stats.rows == sum(stats.stages.values()) == m


def test_rows_that_are_not_finite_stay_open_behind_a_second_form() -> None:
    model, _, rows = with_third_order(scaled=False)
    for bad in (np.nan, np.inf):
        rows[7, 2] = bad
        with pytest.raises(InputError, match="row 7"):
            model.predict(rows)
        with pytest.raises(InputError, match="row 0"):
            model.predict(rows[7:8])


def test_sums_that_settle_few_rows_are_left_out_for_some_calls() -> None:
    """They were left out for good where a second form came before, after one batch of rows that
    nothing settles."""
    model, front, sums, _ = with_open_rows("")
    assert front.joins(1)
    sums.joined(Passed(*[np.empty(0)] * 3, 40, 0, 0, 30))  # type: ignore[arg-type]
    assert not front.joins(1)
    for call in range(one_pass.RESTED_CALLS):
        assert not front.joins(1)
        rows = X[: 1 + 70 * (call % 3)]
        front.run(rows) if call % 2 else front.one(rows[:1], model._labels)
    assert front.joins(1)
    sums.joined(Passed(*[np.empty(0)] * 3, 40, 0, 0, 30))  # type: ignore[arg-type]
    sums.joined(Passed(*[np.empty(0)] * 3, 5, 0, 0, 30))  # type: ignore[arg-type]
    assert front.joins(1)
    front.then = None
    assert not front.joins(1)


def test_addresses_keep_alive_what_they_are_of() -> None:
    """Threads may each make such an object at first, and a kernel be reading the first one's."""
    _, _, sums, _ = with_open_rows("")
    made = copy.deepcopy(sums.sums.inside)
    told, left = made.told, weakref.ref(made)
    del made
    gc.collect()
    assert left() is not None
    assert told[3:].tolist() == list(map(id, left().links[0].arguments))  # type: ignore[union-attr]
    del told
    gc.collect()
    assert left() is None


BESIDE = """
import numpy as np
import kernelite as kl
from sklearn.svm import SVC

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 6))
model = kl.compile(SVC(gamma=0.01).fit(X, X[:, 0] * (1 + X[:, 1]) > 0.1), X)
near = X[np.argsort(np.abs(model.decision_function(X)))]
for count in (1, 6, 7, 12, 18):
    for bad in range(0, count, 3):
        rows = near[:count].copy()
        rows[bad, 0] = np.nan
        for _ in range(20):
            try:
                model.predict(rows)
            except kl.InputError:
                continue
            raise SystemExit("a row that is no number was answered")
print("refused")
"""


def test_a_row_that_is_no_number_writes_beside_no_array() -> None:
    """It would be seen later, when memory is given back, if at all; so in a process of its own."""
    ran = subprocess.run([sys.executable, "-c", BESIDE], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "refused"), ran.stderr[-2000:]


def test_copies_of_what_is_called_inside_have_addresses_of_their_own() -> None:
    _, _, sums, _ = with_open_rows("")
    own, copied = sums.sums.inside, copy.deepcopy(sums.sums.inside)
    assert own.told[:3].tolist() == copied.told[:3].tolist()
    assert own.told[3] != copied.told[3]
    for one in (own, copied):
        assert one.told[3:].tolist() == list(map(id, one.links[0].arguments))


@pytest.mark.parametrize("most", [3, 64, 10_000])
@pytest.mark.parametrize("at_once", [0, 1 << 13])
def test_open_rows_are_listed_in_order(
    most: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_pass, "LISTED_AT_ONCE", at_once)
    for rows, share in ((X, 0.0), (X, 0.03), (X, 1.0), (np.tile(X, (5, 1)), 0.7)):
        is_open = RNG.random(len(rows)) < share
        found = Passed(np.empty(0, np.int64), np.empty((0, 1)), is_open, int(is_open.sum()), 0, 0)
        parts = list(open_rows(rows, found, most))
        assert all(len(index) == len(some) <= most for index, some in parts)
        index = np.concatenate([np.empty(0, np.int64), *(index for index, _ in parts)])
        np.testing.assert_array_equal(index, np.flatnonzero(is_open))
        for index, some in parts:
            np.testing.assert_array_equal(some, rows[index])
