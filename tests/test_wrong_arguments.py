"""Arguments in the wrong place or of the wrong kind: one sentence that says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.model.report.figures import _band
from kernelite.support.errors import InputError, UnsupportedModelError

X = np.random.default_rng(0).normal(size=(40, 2))
SOURCE = SVC(gamma=0.1).fit(X, X[:, 0] > 0)
FAST = kl.compile(SOURCE, X)
PROCESS = GaussianProcessRegressor(RBF(5.0), optimizer=None, alpha=0.1).fit(X, X[:, 0])
KDE = gaussian_kde(X.T)

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "an estimator": (lambda: kl.predict_files(SOURCE, "a.csv", "b.csv"), "CompiledModel, got SVC;"),
    "a path": (lambda: kl.predict_files("m", "a.csv", "b.csv"), "got the path `m`; `kl.compile`"),
    "swapped": (lambda: kl.predict_files("a.csv", FAST, "b.csv"), "the model comes first: `kl.pr"),
    "a list": (lambda: kl.predict_files(FAST, [1.0], "b.csv"), "`source` must be a path, got a li"),
    "a frame": (
        lambda: kl.predict_files(FAST, pd.DataFrame(X), "b.csv"),
        "got a DataFrame; `model.predict` takes rows in memory",
    ),
    "no name": (lambda: kl.predict_files(FAST, "a", None), "`destination` must be a path, got a N"),
    "a place": (lambda: kl.predict_files(FAST, "a.csv", "b", columns=0), "list of names, got 0"),
    "a number": (lambda: kl.predict_files(FAST, "a.csv", "b", outputs=1), "list of names, got 1"),
    "export": (lambda: kl.export("m.onnx", FAST), "the model comes first: `kl.export"),
    "to export": (lambda: kl.export(SOURCE, "m.onnx"), "must be a CompiledModel, got SVC; `kl.c"),
    "rows first": (lambda: kl.compile(X, SOURCE), "the model comes first, then rows"),
    "a frame first": (lambda: kl.compile(pd.DataFrame(X), SOURCE), "the model comes first, then"),
    "columns": (lambda: kl.compile(KDE, X.T), r"points are columns: pass `points\.T`"),
    "None": (lambda: FAST.predict(None), "`X` must be rows, got None"),
    "a dict": (lambda: FAST.predict({"a": 1}), "`X` must be rows, got a dict"),
    "a file": (lambda: FAST.predict("a.csv"), "got a str; `kl.predict_files` reads files"),
    "a plan": (lambda: kl.compile(SOURCE, X, plan="no"), "'auto', 'estimate', 'measure' and 'form"),
    "text": (lambda: kl.compile(SOURCE, X, tolerance="0.1"), "`tolerance` must be a number"),
    "no rank": (lambda: kl.compile(SOURCE, X, rank=-5), "`rank` must be a whole .* got -5"),
    "a rank's name": (lambda: kl.compile(SOURCE, X, rank="foo"), "'auto' or 'full', got 'foo'"),
    "a rate": (
        lambda: kl.compile(SOURCE, X, max_disagreement=2),
        "must lie between 0 and 1, got 2",
    ),
    "certainty": (lambda: kl.compile(SOURCE, X, confidence=1), "must lie between 0 and 1, got 1"),
    "a guarantee": (lambda: kl.compile(SOURCE, X, guarantee=X), "`guarantee` must be one of"),
    "an array of ranks": (lambda: kl.compile(SOURCE, X, rank=X), "`rank` must be a whole"),
    "a policy": (lambda: kl.compile(SOURCE, X, on_invalid=X), "`on_invalid` must be 'warn'"),
    "a seed": (lambda: kl.compile(SOURCE, X, random_state=-1), "0 or more, got -1"),
    "half a seed": (lambda: kl.compile(SOURCE, X, random_state=0.5), "0 or more, got 0.5"),
    "a range": (lambda: kl.compile(SOURCE, input_range=(0, 1)), "range file, got a tuple"),
    "a point": (
        lambda: kl.compile(SOURCE, X, expansion_point=["a", "b"]),
        "'origin' or 2 numbers .could not convert",
    ),
    "far too much": (lambda: kl.compile(SOURCE, X, tolerance=10**400), "must be a number"),
    "a regressor": (
        lambda: kl.CompiledClassifier(SVR()).fit(X, X[:, 0] > 0),
        "`CompiledClassifier` takes a classifier, got SVR",
    ),
    "a classifier": (
        lambda: kl.CompiledRegressor(SVC()).fit(X, X[:, 0]),
        "`CompiledRegressor` takes a regressor, got SVC",
    ),
    "a detector": (
        lambda: kl.CompiledOutlierDetector(SVC()).fit(X, X[:, 0] > 0),
        "takes an outlier detector, got SVC",
    ),
    "the sample": (lambda: kl.compile(SOURCE, X[:, :1]), "has 1 features, but this model takes 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_sentence(case: str) -> None:
    call, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_models_are_refused_in_a_few_words() -> None:
    with pytest.raises(UnsupportedModelError, match=r"docs/guide/models\.md lists all") as caught:
        kl.compile({})
    assert len(str(caught.value)) < 320


def test_one_name_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,a,b\n7,1,2\n")
    kl.predict_files(FAST, tmp_path / "a.csv", tmp_path / "b.csv", keep="id", outputs="label")
    assert (tmp_path / "b.csv").read_text() == f"id,label\n7,{FAST.predict([[1, 2]])[0]}\n".replace(
        "True", "true"
    )


def test_gaussian_processes_are_asked_as_scikit_learn_is() -> None:
    fast = kl.compile(PROCESS, X)
    for asked in ((True,), (False, True)):
        ours, theirs = fast.predict(X, *asked), PROCESS.predict(X, *asked)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, atol=1e-9)
    with pytest.raises(RuntimeError):
        fast.predict(X, return_std=True, return_cov=True)
    bare = kl.compile(PROCESS, X, guarantee="none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="has no variance"):
            bare.predict(1e3 * X, return_std=True)


def test_densities_have_scipys_names() -> None:
    np.testing.assert_allclose(kl.compile(KDE, X).evaluate(X.T), KDE.evaluate(X.T), rtol=2e-3)


def test_a_tolerance_that_does_nothing_is_said() -> None:
    with pytest.warns(UserWarning, match="does nothing with 'exact'"):
        kl.compile(SOURCE, X, guarantee="exact", tolerance=0.1)


def test_the_warning_has_a_name_at_the_top() -> None:
    assert issubclass(kl.OutsideValidityWarning, UserWarning)


def test_bands_of_a_few_rows_skip_empty_cells() -> None:
    class Axes:
        def fill_between(self, at: Any, low: Any, high: Any, **_: object) -> None:
            self.drawn = np.array([at, low, high])

    axes = Axes()
    _band(axes, np.array([0.0, 1.0, 5.0]), np.array([0.1, 0.2, 0.3]))
    assert np.isfinite(axes.drawn).all()


@pytest.mark.parametrize("guarantee", ["certified", "none", "exact"])
def test_errors_that_numpy_was_told_to_raise_are_not_raised_of_underflow(guarantee: Any) -> None:
    rng = np.random.default_rng(0)
    X = 3.0 * rng.normal(size=(400, 6))
    svc = SVC(gamma=5.0).fit(X, X[:, 0] > 0)
    with np.errstate(all="raise"):
        fast = kl.compile(svc, X, guarantee=guarantee, on_invalid="ignore")
        for rows in (X[:1], X[:7], np.vstack([X, 30.0 * X])):
            assert fast.predict(rows).shape == (len(rows),)
            assert np.isfinite(fast.decision_function(rows)).all()
