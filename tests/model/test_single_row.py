"""One row at a time gives what a batch gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.one_pass import FormPass
from kernelite.model.serving import OutsideValidityWarning
from kernelite.support.errors import InputError
from tests.models import MODELS, compiled, fitted


@pytest.mark.parametrize("guarantee", ["certified", "none", "exact"])
@pytest.mark.parametrize("d", [3, 90])
def test_one_row_equals_its_batch(guarantee: str, d: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(120, d))
    gamma = 0.2 / (X**2).sum(axis=1).max()
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    for model, method in (
        (SVC(gamma=gamma).fit(X, y > 0), "decision_function"),
        (SVC(gamma=gamma).fit(X, y > 0), "predict"),
        (SVR(gamma=gamma).fit(X, y), "predict"),
    ):
        fast = kl.compile(model, X, guarantee=guarantee, on_invalid="ignore")
        batch = getattr(fast, method)(X)
        for i in range(20):
            one = getattr(fast, method)(X[i : i + 1])
            assert one.shape == (1,)
            assert one.dtype == batch.dtype
            np.testing.assert_allclose(float(one[0]), float(batch[i]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("guarantee", ["certified", "none", "calibrated"])
@pytest.mark.parametrize("d", [3, 30, 90])
def test_one_row_is_scaled_as_its_batch(guarantee: str, d: int) -> None:
    rng = np.random.default_rng(d)
    X = 40.0 + rng.normal(size=(600, d)) * np.geomspace(0.01, 100.0, d)
    gamma = 0.01 / d
    y = (X[:, 0] - 40.0) * 100.0 + rng.normal(size=600)
    options: dict = {"guarantee": guarantee, "on_invalid": "ignore"}
    machines: list = [SVC(gamma=gamma)] if guarantee == "calibrated" else [SVC(gamma=gamma), SVR()]
    if guarantee == "calibrated":
        options |= {"max_disagreement": 0.02}
    for machine in machines:
        target = y > 0 if isinstance(machine, SVC) else y
        machine = machine.set_params(gamma=gamma)
        fast = kl.compile(make_pipeline(StandardScaler(), machine).fit(X, target), X, **options)
        assert fast.approximation is not None, "a plan by which the short path is not taken"
        for method in ("predict", "decision_function"):
            if method in fast.offers:
                batch = getattr(fast, method)(X)
                alone = np.concatenate([getattr(fast, method)(row[None]) for row in X[:40]])
                np.testing.assert_allclose(
                    alone.astype(float), batch[:40].astype(float), rtol=1e-9, atol=1e-12
                )


@pytest.mark.parametrize("fused", [True, False])
def test_one_row_of_a_calibrated_model(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused:  # as without numba, or with more features than the kernels take
        monkeypatch.setattr("kernelite.backends.cpu.forms.FUSED_FEATURES", 0)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 5))
    svc = SVC(gamma=0.2).fit(X[:1500], X[:1500, 0] * X[:1500, 1] > 0)
    fast = kl.compile(svc, X, guarantee="calibrated", max_disagreement=0.01)
    whole, counts = fast.predict(X[:40], return_stats=True)
    alone = [fast.predict(row[None], return_stats=True) for row in X[:40]]
    assert [label[0] for label, _ in alone] == whole.tolist()
    assert sum(stats.stages.get("form", 0) for _, stats in alone) == counts.stages["form"] > 0


def test_one_bad_row_is_refused_and_one_outside_is_reported() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    fast = kl.compile(SVC(gamma=0.01).fit(X, X[:, 0] > 0), X, guarantee="none")
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match="NaN or infinity"):
            fast.predict(np.full((1, 4), bad))
    with pytest.warns(OutsideValidityWarning, match="1 of 1 rows"):
        fast.predict(np.full((1, 4), 100.0))


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_one_bad_row_is_refused_by_the_exact_engine(classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    machine = SVC().fit(X, rng.integers(0, classes, 200)) if classes else SVR().fit(X, X[:, 0])
    for guarantee in ("exact", "certified"):
        fast = kl.compile(machine, X, guarantee=guarantee, max_bytes=1)  # no form
        assert fast.approximation is None
        fast.predict(X)
        for method in {"predict", "decision_function"} & fast.offers:
            for bad in (np.nan, np.inf, -np.inf):
                with pytest.raises(InputError, match="NaN or infinity"):
                    getattr(fast, method)(np.array([[0.0, bad, 0.0, 0.0]]))


def test_one_row_is_counted_where_it_was_settled() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 6))
    svc = SVC(gamma=0.04, C=10).fit(X, X[:, 0] * X[:, 1] > 0)
    fast = kl.compile(svc, X, plan="quadratic form about the mean of X, cubic")
    whole = fast.predict(X, return_stats=True)[1]
    alone = [fast.predict(row[None], return_stats=True)[1] for row in X]
    assert all(stats.rows == 1 and sum(stats.stages.values()) == 1 for stats in alone)
    assert sum(stats.stages.get("form", 0) for stats in alone) == whole.stages["form"]
    assert 0 < whole.stages["form"] < len(X)
    # One row is summed sooner than by a second form, which settles some of a batch's open rows.
    assert sum(stats.exact for stats in alone) == len(X) - whole.stages["form"]
    assert whole.rows == sum(whole.stages.values()) == len(X)
    assert whole.stages["third order"] > 0
    many = fast.predict(np.tile(X, (200, 1)), return_stats=True)[1]
    assert many.stages["form"] == 200 * whole.stages["form"]
    assert many.stages["third order"] == 200 * whole.stages["third order"]


@pytest.mark.skipif(not jit_available(), reason="no compiled loops")
def test_a_form_that_settles_no_values_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Centers show it before the first row comes; a row met it once, to show it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2_000, 6))
    svc = SVC(gamma=0.04, C=10).fit(X[:300], X[:300, 0] * X[:300, 1] > 0)
    fast = kl.compile(svc, X, plan="quadratic form about the mean of X")
    calls: list[int] = []
    one = FormPass.one
    monkeypatch.setattr(FormPass, "one", lambda self, *given: calls.append(1) or one(self, *given))
    before = fast.decision_function(X[:1])
    expected = svc.decision_function(X)
    bounds = fast.error_bound(X)
    found = fast.decision_function(X)
    alone = np.concatenate([before, *(fast.decision_function(row[None]) for row in X[1:50])])
    assert not calls
    for values in (found, np.concatenate([alone, found[50:]])):
        assert (np.abs(values - expected) <= bounds + 1e-9).all()
    with pytest.raises(InputError, match="NaN or infinity"):
        fast.decision_function(np.full((1, 6), np.nan))
    fast.predict(X[:1])
    assert len(calls) == 1  # labels go by the pass, which settles most


@pytest.mark.parametrize("name", MODELS)
def test_every_machine_answers_one_row_as_a_batch(name: str) -> None:
    _, rows = fitted(name)
    fast = compiled(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for method in ("predict", "decision_function", "predict_proba", "score_samples"):
            if method not in fast.offers:
                continue
            batch = np.asarray(getattr(fast, method)(rows))
            alone = [np.asarray(getattr(fast, method)(rows[i : i + 1])) for i in range(8)]
            whole = np.concatenate(alone, axis=1 if batch.ndim == 3 else 0)
            expected = batch[:, :8] if batch.ndim == 3 else batch[:8]
            assert whole.dtype == expected.dtype
            if batch.dtype.kind == "f":
                limit = 2e-3 if fast.tolerance is None else 2.0 * _largest_tolerance(fast)
                np.testing.assert_allclose(whole, expected, rtol=1e-2, atol=limit)
            else:
                np.testing.assert_array_equal(whole, expected)


def _largest_tolerance(fast: kl.CompiledModel) -> float:
    """In the units of the answers: a head may scale scores back to those of the target."""
    assert fast.tolerance is not None
    scale = getattr(fast.head, "scale", None)
    return float(fast.tolerance.max() * (1.0 if scale is None else np.max(scale)))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_, np.longdouble, ">f8"])
def test_one_row_of_other_numbers_takes_the_short_path(
    dtype: type | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    fast = kl.compile(SVC().fit(X, X[:, 0] > 0), X)
    rows = (3.0 * rng.normal(size=(20, 4))).astype(dtype)
    expected = fast.predict(rows)

    def refused(*_: object) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr("kernelite.model.predicting.rows_and_runner", refused)
    found = np.concatenate([fast.predict(rows[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(fast.predict(np.asfortranarray(rows)[3:4]), expected[3:4])
    np.testing.assert_array_equal(fast.predict(rows[3:4].tolist()), expected[3:4])
