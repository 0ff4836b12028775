"""The exact evaluator against sums written out, in every combination of dense and sparse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array

import kernelite as kl
from kernelite.machine import expansion as module
from kernelite.machine.expansion import KernelExpansion, kernel_values
from kernelite.machine.kernels import Gaussian, PolynomialKernel
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


def slow_scores(model: KernelExpansion, X: np.ndarray) -> np.ndarray:
    """The definition, by differences instead of products."""
    centers = model.dense_centers()
    out = np.empty((len(X), model.n_outputs))
    for i, z in enumerate(X):
        if model.kernel.damps:
            values = np.exp(-model.gamma * ((centers - z) ** 2).sum(axis=1))
        else:
            values = (model.gamma * (centers * z).sum(axis=1) + model.coef0) ** 2
        out[i] = values @ model.coefficients + model.intercept
    return out


@pytest.mark.parametrize("kernel", ["rbf", "poly2"])
@pytest.mark.parametrize("rows", [np.asarray, csr_array, csc_array])
@pytest.mark.parametrize("centers", [np.asarray, csr_array])
def test_scores_are_the_definition(kernel, rows, centers):
    rng = np.random.default_rng(3)
    model = random_expansion(rng, k=3, kernel=kernel)
    X = rng.normal(size=(17, 5)) * (rng.random((17, 5)) < 0.6)
    kept = KernelExpansion(
        centers(model.dense_centers()),
        model.coefficients,
        model.intercept,
        gamma=model.gamma,
        kernel=model.kernel,
        coef0=model.coef0,
    )
    np.testing.assert_allclose(kept.scores(rows(X)), slow_scores(model, X), rtol=1e-11, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 9), st.integers(0, 7), st.integers(1, 6))
def test_scores_of_any_shape(seed, n, m, d):
    rng = np.random.default_rng(seed)
    model = random_expansion(rng, n=n, d=d, k=2, gamma=float(rng.uniform(0.01, 3)))
    X = rng.normal(size=(m, d))
    np.testing.assert_allclose(model.scores(X), slow_scores(model, X), rtol=1e-10, atol=1e-12)


def test_tiles_change_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    model = random_expansion(rng, n=40)
    X = rng.normal(size=(100, 5))
    whole = model.scores(X)
    monkeypatch.setattr(module, "KERNEL_VALUES_PER_TILE", 1)
    np.testing.assert_allclose(model.scores(X), whole, rtol=1e-13, atol=1e-14)


def test_far_from_the_origin_distances_keep_their_digits():
    rng = np.random.default_rng(5)
    near = random_expansion(rng, gamma=0.5)
    X = rng.normal(size=(20, 5))
    shift = 2.0**20  # exact in binary, up to the rounding of the sums
    far = KernelExpansion(
        near.dense_centers() + shift, near.coefficients, near.intercept, gamma=0.5
    )
    np.testing.assert_allclose(
        far.scores(X + shift), slow_scores(far, X + shift), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("gamma", [1e2, 1e5, 5e9, 1e15])
def test_narrow_kernels_keep_the_digits_of_small_distances(gamma):
    rng = np.random.default_rng(6)
    model = random_expansion(rng, n=30, gamma=gamma)
    X = np.concatenate([model.centers, model.centers + gamma**-0.5 * rng.normal(size=(30, 5))])
    np.testing.assert_allclose(model.scores(X), slow_scores(model, X), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_rows_whose_squares_overflow_are_infinitely_far(form):
    model = random_expansion(np.random.default_rng(8), k=2)
    far = np.zeros((2, 5))
    far[0, 0], far[1] = 1e200, -1e300
    np.testing.assert_array_equal(model.scores(form(far)), np.tile(model.intercept, (2, 1)))


def test_wide_sparse_products_take_memory_for_entries_only():
    d = 2**31 - 1
    centers = csr_array(([1.0, 2.0, 3.0], [0, d - 1, 5], [0, 2, 3]), shape=(2, d))
    rows = csr_array(([1.0, 2.0, 7.0], [0, d - 1, 9], [0, 2, 3]), shape=(2, d))
    model = KernelExpansion(centers, [1.0, 1.0], 0.0, gamma=0.1)
    expected = [[1.0 + np.exp(-0.1 * 14.0)], [np.exp(-0.1 * 54.0) + np.exp(-0.1 * 58.0)]]
    np.testing.assert_allclose(model.scores(rows), expected)


def test_the_arrays_are_copied():
    centers, coefficients, intercept = np.eye(3), np.ones((3, 1)), np.zeros(1)
    sparse = csr_array(centers)
    dense_model = KernelExpansion(centers, coefficients, intercept, gamma=1.0)
    sparse_model = KernelExpansion(sparse, coefficients, intercept, gamma=1.0)
    before = dense_model.scores(np.eye(3))
    centers += 1
    sparse.data += 1
    coefficients += 1
    intercept += 1
    np.testing.assert_array_equal(dense_model.scores(np.eye(3)), before)
    np.testing.assert_allclose(sparse_model.scores(np.eye(3)), before)


def test_kernel_values_have_a_column_a_center():
    model = random_expansion(np.random.default_rng(6), n=7)
    values = kernel_values(model, model.dense_centers())
    assert values.shape == (7, 7)
    np.testing.assert_allclose(np.diag(values), 1.0)


def test_sizes():
    model = random_expansion(np.random.default_rng(7), n=8, d=3, k=2)
    assert (model.n_centers, model.n_features, model.n_outputs) == (8, 3, 2)
    assert model.nbytes == 8 * (8 * 3 + 8 * 2 + 2)
    sparse = KernelExpansion(csr_array(np.eye(4)), np.ones(4), 0.0, gamma=1.0)
    assert sparse.nbytes >= 4 * (8 + 4) + 4 * 8 + 8


ONE = [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((ONE, [1.0, 2.0], 0.0), {}, r"`coefficients` must have shape \(1, k\)"),
        ((ONE, [[[1.0]]], 0.0), {}, r"`coefficients` must have shape \(1, k\)"),
        ((ONE, [1.0], [0.0, 1.0]), {}, "`intercept` has 2 values, but `coefficients` has 1"),
        ((ONE, ["a"], 0.0), {}, "`coefficients` must hold numbers"),
        ((ONE, [np.nan], 0.0), {}, "`coefficients` contains NaN or infinity"),
        ((ONE, [1.0], np.inf), {}, "`intercept` contains NaN or infinity"),
        (([0.0, 1.0], [1.0], 0.0), {}, "`centers` must have two dimensions"),
        (([[np.inf, 1.0]], [1.0], 0.0), {}, "`centers` contains NaN or infinity"),
        ((ONE, [1.0], 0.0), {"gamma": 0.0}, "`gamma` must be positive and finite, got 0.0"),
        ((ONE, [1.0], 0.0), {"gamma": np.nan}, "`gamma` must be positive and finite"),
        ((ONE, [1.0], 0.0), {"gamma": "scale"}, "`gamma` must be a number, got 'scale'"),
        ((ONE, [1.0], 0.0), {"kernel": "linear"}, "`kernel` must be 'rbf', 'poly2' or a Kernel"),
        ((ONE, [1.0], 0.0), {"kernel": "poly2", "coef0": np.inf}, "`coef0` must be finite"),
        ((ONE, [1.0], 0.0), {"kernel": "poly2", "coef0": None}, "`coef0` must be a number"),
    ],
)
def test_bad_arguments_are_named(arguments, options, says):
    with pytest.raises(InputError, match=says):
        KernelExpansion(*arguments, **{"gamma": 1.0, **options})


def test_sparse_looking_centers_are_stored_by_their_entries(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(80, 30)) * (rng.random((80, 30)) < 0.1)
    model = kl.compile(kl.KernelExpansion(centers, rng.normal(size=80), 0.5, gamma=0.1))
    model.save(tmp_path / "a.kernelite")
    back = kl.load(tmp_path / "a.kernelite")
    assert isinstance(back.expansion.centers, np.ndarray)
    np.testing.assert_array_equal(back.expansion.centers, centers)
    assert (tmp_path / "a.kernelite").stat().st_size < centers.nbytes


def test_a_few_stored_entries_do_not_ask_for_gigabytes() -> None:
    tiny = csr_array(([1.0], ([0], [0])), shape=(1, 2**31 - 1))
    stored = {"centers": tiny, "coefficients": np.ones((1, 1)), "intercept": np.zeros(1)}
    with pytest.raises(InputError, match="`centers` are not"):
        kl.KernelExpansion.__unpack__(stored | {"gamma": 1.0, "dense": True})


@pytest.mark.parametrize(
    "classes",
    [
        np.array([0, -1, 2]),
        np.array([0, 3, 2]),
        np.array([0, 1, 2**63], dtype=np.uint64),
        np.array([0.0, 1.0, 2.0]),
        np.array([True, True, True]),
        np.array([0, 1]),
        np.array([[0], [1], [2]]),
        np.array(1),
    ],
    ids=str,
)
def test_a_file_cannot_name_classes_that_are_none(classes: np.ndarray) -> None:
    stored = {"centers": np.zeros((3, 2)), "intercept": np.zeros(3), "gamma": 1.0}
    weights = np.arange(6.0).reshape(3, 2)
    sound = stored | {"coefficients": weights, "classes": np.array([0, 1, 2], dtype=np.int32)}
    assert KernelExpansion.__unpack__(sound).coefficients.shape == (3, 3)
    with pytest.raises(InputError, match="coefficients"):
        KernelExpansion.__unpack__(stored | {"coefficients": weights, "classes": classes})


def test_kernels_by_name_and_as_objects_are_the_same():
    rng = np.random.default_rng(7)
    model, X = random_expansion(rng, kernel="poly2"), rng.normal(size=(9, 5))
    assert model.kernel == PolynomialKernel(2, model.gamma, model.coef0)
    again = KernelExpansion(model.centers, model.coefficients, model.intercept, kernel=model.kernel)
    np.testing.assert_array_equal(again.scores(X), model.scores(X))
    named = KernelExpansion(ONE, [1.0], 0.0, gamma=0.5)
    assert named.kernel == Gaussian(0.5)
    assert named.kernel_tag == "rbf"
    with pytest.raises(InputError, match="but the kernel's own is 0"):
        replace(named, gamma=2.0)


@pytest.mark.parametrize("kernel", [Gaussian(0.3), PolynomialKernel(2, 0.3, 0.5)])
def test_files_name_kernels_that_have_a_series(kernel):
    stored = KernelExpansion(ONE, [1.0], 0.0, kernel=kernel).__pack__()
    assert stored["kernel"] in ("rbf", "poly2")
    assert stored["gamma"] == 0.3
    assert KernelExpansion.__unpack__(dict(stored)).kernel == kernel
    # Files may hold the kernel itself beside numbers that are not its own.
    assert KernelExpansion.__unpack__(stored | {"kernel": kernel, "gamma": 1.0}).kernel == kernel
