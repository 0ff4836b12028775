"""`patch`: scikit-learn's machines answer through kernelite, and nobody else notices."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC, SVR, OneClassSVM

import kernelite as kl
from kernelite.cli import main
from kernelite.model import patching
from tests.models import MODELS, fitted

FOLDER = Path(sklearn.__file__).parent
SERVED = {place.partition(":")[2] for place in patching.METHODS}
NAMES = [name for name in MODELS if type(MODELS[name].estimator).__name__ in SERVED]
METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile whatever is asked for, and leave nothing behind."""
    monkeypatch.setattr(patching, "FEWEST_ASKED_ROWS", 0)
    monkeypatch.setattr(patching, "FEWEST_PAIRS", 0)
    yield
    kl.unpatch()


def digits(**options: Any) -> tuple[SVC, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    return SVC(**options).fit(X, np.digitize(X[:, 0] + X[:, 1] ** 2, [0.5, 1.5])), X


def compiled_now() -> int:
    return sum(kept.model is not None for _, kept in patching._STATE.kept.values())


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_estimators_own(name: str) -> None:
    model, rows = fitted(name)
    asked = [method for method in METHODS if hasattr(model, method)]
    if getattr(model, "multi_class", "") == "one_vs_one":
        asked.remove("predict_proba")  # which scikit-learn refuses
    before = {method: getattr(model, method)(rows) for method in asked}
    with kl.patched():
        after = {method: getattr(model, method)(rows) for method in asked}
    for method in asked:
        old, new = before[method], after[method]
        assert type(new) is type(old)
        assert np.asarray(new).dtype == np.asarray(old).dtype
        if isinstance(model, KernelDensity):  # whose trees lose digits where densities vanish
            old = kl.compile(model, guarantee="exact").score_samples(rows)
        if old.dtype.kind == "f" and not (method == "predict" and hasattr(model, "classes_")):
            scale = np.abs(old[np.isfinite(old)]).max(initial=1.0)
            np.testing.assert_allclose(new, old, rtol=2e-5, atol=1e-7 * scale)
        else:
            np.testing.assert_array_equal(new, old)


def test_a_model_is_kept_and_made_anew() -> None:
    svc, X = digits()
    kl.patch()
    svc.predict(X)
    first = patching._kept(svc).model
    assert first is not None
    svc.decision_function(X)
    assert patching._kept(svc).model is first
    for change in (
        lambda: svc.set_params(decision_function_shape="ovo"),
        lambda: svc.fit(X, (X[:, 0] > 0).astype(int)),
        lambda: setattr(svc, "classes_", np.array(["no", "yes"])),
    ):
        before = patching._kept(svc).model
        change()
        answer = svc.predict(X)
        assert patching._kept(svc).model is not before
        kl.unpatch()
        np.testing.assert_array_equal(answer, svc.predict(X))
        kl.patch()
        svc.predict(X)
    assert list(np.unique(svc.predict(X))) == ["no", "yes"]


def test_numbers_that_are_written_into_count() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    ridge = KernelRidge(kernel="rbf").fit(X, X[:, 0])
    process = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, X[:, 0])
    kl.patch()
    first, second = ridge.predict(X), process.predict(X)
    ridge.dual_coef_ *= 2.0
    process.kernel_.length_scale = 2.0
    np.testing.assert_allclose(ridge.predict(X), 2.0 * first)
    changed = process.predict(X)
    kl.unpatch()
    np.testing.assert_allclose(changed, process.predict(X), rtol=1e-6, atol=1e-6)
    assert not np.allclose(changed, second)


@pytest.mark.parametrize("layout", ["columns first", "every other column", "sparse"])
def test_numbers_that_are_written_into_count_in_any_layout(layout: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6))
    laid = {
        "columns first": np.asfortranarray(X[:, :3]),
        "every other column": X[:, ::2],
        "sparse": csr_matrix(X[:, :3]),
    }
    rows, model = laid[layout], KernelRidge(kernel="rbf")
    kl.patch()
    before = model.fit(rows, X).predict(rows)  # the rows themselves are its centers
    (rows.data if layout == "sparse" else rows)[:10] *= 2.0
    after = model.predict(rows)
    kl.unpatch()
    np.testing.assert_allclose(after, model.predict(rows), rtol=1e-9)
    assert not np.allclose(after, before)


def test_labels_may_be_dates() -> None:
    X, y = fitted("svc binary")[1], np.array(["2026-01-01", "2026-02-01"], "M8[D]")
    model = SVC().fit(X, y[(X[:, 0] > X[:, 0].mean()).astype(int)])
    kl.patch()
    found = model.predict(X)
    kl.unpatch()
    np.testing.assert_array_equal(found, model.predict(X))


def test_changed_coefficients_of_an_svm_go_on_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    svc, X = digits()
    svc._dual_coef_ = 2.0 * svc._dual_coef_
    before = svc.predict(X)
    kl.patch(verbose=True)
    np.testing.assert_array_equal(svc.predict(X), before)
    assert "goes on as before: `dual_coef_` of this SVC was changed, but" in capsys.readouterr().err


def test_nobody_sees_it() -> None:
    svc, X = digits()
    params, attributes = svc.get_params(), set(vars(svc))
    stored = pickle.dumps(svc)
    with kl.patched():
        svc.predict(X)
        assert compiled_now() == 1
        assert svc.get_params() == params
        assert set(vars(svc)) == attributes
        assert pickle.dumps(svc) == stored
        assert not hasattr(clone(svc), "support_")
        np.testing.assert_array_equal(copy.deepcopy(svc).predict(X), svc.predict(X))
        with pytest.raises(AttributeError, match="predict_proba"):
            _ = svc.predict_proba
    assert SVC.predict.__doc__ == SVC.__mro__[1].predict.__doc__
    assert "predict" not in vars(SVC)
    assert not patching._STATE.kept


def test_what_is_gone_is_forgotten() -> None:
    svc, X = digits()
    kl.patch()
    svc.predict(X)
    assert compiled_now() == 1
    del svc
    gc.collect()
    assert not patching._STATE.kept


def test_it_is_compiled_when_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "FEWEST_ASKED_ROWS", 64)
    monkeypatch.setattr(patching, "FEWEST_PAIRS", 1000)
    svc, X = digits()
    kl.patch()
    for _ in range(63):
        svc.predict(X[:1])
    assert compiled_now() == 0
    svc.predict(X[:1])
    assert compiled_now() == 1


def test_a_block_ends() -> None:
    kl.patch()
    with kl.patched():
        pass
    assert "predict" in vars(SVR)  # was patched before, and stays so
    kl.patch()
    kl.unpatch()
    kl.unpatch()
    with pytest.raises(ZeroDivisionError), kl.patched():
        raise ZeroDivisionError
    assert "predict" not in vars(SVR)


def test_labels_on_the_boundary_are_the_estimators_own() -> None:
    """In real numbers f is not 0 there; in LIBSVM's it is."""
    X = np.array([[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1.0]])
    rows = np.array([[-1, -1], [2, 2], [3, 2.0]])
    svm = OneClassSVM(kernel="linear").fit(X)
    before = svm.predict(rows)
    with kl.patched():
        np.testing.assert_array_equal(svm.predict(rows), before)


def scaled(z: np.ndarray, x: np.ndarray, a: float) -> float:
    """A kernel with a parameter."""
    return a * float(z @ x)


REFUSED = {
    "a kernel of its own": (
        lambda X: SVR(kernel=lambda a, b: a @ b.T).fit(X, X[:, 0]),
        "its kernel is a function",
    ),
    "a kernel with parameters": (
        lambda X: KernelRidge(kernel=scaled, kernel_params={"a": 2.0}).fit(X, X[:, 0]),
        "its kernel is a function",
    ),
    "a class of its own": (lambda X: type("Mine", (SVR,), {})().fit(X, X[:, 0]), "of its own"),
    "floats": (lambda X: KernelRidge().fit(X, X[:, 0]), "rows that are not doubles"),
    "ties": (lambda X: SVC(break_ties=True).fit(X, X[:, 0] > 0), "`break_ties`"),
    "containers": (lambda X: KernelPCA(2).set_output(transform="pandas").fit(X), "`set_output`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_goes_on_as_before(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    build, why = REFUSED[name]
    model = build(X)
    rows = X.astype(np.float32) if name == "floats" else X
    method = "transform" if hasattr(model, "transform") else "predict"
    before = getattr(model, method)(rows)
    with kl.patched(verbose=True):
        for _ in range(2):
            after = getattr(model, method)(rows)
    assert type(after) is type(before)
    np.testing.assert_array_equal(after, before)
    told = capsys.readouterr().err
    assert why in told
    assert told.count("goes on as before") == 1


def test_errors_are_scikit_learns() -> None:
    svc, X = digits()
    density = KernelDensity().fit(X)
    process = GaussianProcessRegressor().fit(X[:20], X[:20, 0])
    with kl.patched():
        for wrong in (X[:, :2], [["a"] * 5], X[0], np.full((2, 5), np.nan)):
            for method in (svc.predict, density.score_samples):
                with pytest.raises(ValueError) as caught:
                    method(wrong)
                assert not isinstance(caught.value, kl.KerneliteError)
        with pytest.raises(sklearn.exceptions.NotFittedError):
            SVC().predict(X)
        with pytest.raises(RuntimeError, match="one of"):
            process.predict(X, return_std=True, return_cov=True)


SCRIPT = """
import sys
import numpy as np
from sklearn.svm import SVR
X = np.random.default_rng(0).normal(size=(400, 3))
svr = SVR(epsilon=0.0).fit(X, X[:, 0])
print(__name__, sys.argv, svr.predict(X).shape, "predict" in vars(SVR))
sys.exit(3)
"""


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    path = str(Path(kl.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-m", "kernelite", "run", "--verbose", "script.py", "--own", "1"],
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "__main__ ['script.py', '--own', '1'] (400,) True\n", ran.stderr
    assert ran.returncode == 3
    assert "this SVR is compiled" in ran.stderr


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no-such.py"]) == 1
    assert "no-such.py: there is no such file" in capsys.readouterr().err


def test_a_folder_is_no_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path)]) == 1
    assert "this is a folder; name a Python file" in capsys.readouterr().err


# scikit-learn's own tests of these estimators, under the patch.

THEIRS = (
    "svm/tests",
    "gaussian_process/tests",
    "neighbors/tests/test_kde.py",
    "decomposition/tests/test_kernel_pca.py",
    "tests/test_kernel_ridge.py",
)
DIFFERENCES: dict[str, str] = {}
"""Tests that fail under the patch alone, with the reason: none."""
PLUGIN = """
import os
from kernelite.model import patching
patching.FEWEST_ASKED_ROWS = patching.FEWEST_PAIRS = 0
if os.environ["PATCHED"] == "yes":
    patching.patch()
"""


def failures(patched: str, folder: Path) -> set[str]:
    (folder / "plugin.py").write_text(PLUGIN)
    words = ["-q", "-p", "plugin", "-p", "no:cacheprovider", "--tb=no", "-rf", "-n", "2"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *(str(FOLDER / name) for name in THEIRS)],
        cwd=folder,
        env={
            "PYTHONPATH": f"{Path(kl.__file__).parents[1]}:{folder}",
            "PATCHED": patched,
            "OPENBLAS_NUM_THREADS": "1",
            "SKLEARN_TESTS_GLOBAL_RANDOM_SEED": "42",
        },
        capture_output=True,
        text=True,
    )
    assert " passed" in ran.stdout, ran.stdout + ran.stderr
    lines = (line for line in ran.stdout.splitlines() if line.startswith("FAILED"))
    return {line.split(" - ")[0].partition("sklearn/")[2] for line in lines}


@pytest.mark.campaign
def test_scikit_learns_own_tests_pass_where_they_pass_without(tmp_path: Path) -> None:
    assert failures("yes", tmp_path) - failures("no", tmp_path) == set(DIFFERENCES)
