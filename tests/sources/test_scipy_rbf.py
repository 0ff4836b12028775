"""SciPy's RBF interpolants: Gaussian networks with a polynomial beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import arb, ctx
from scipy.interpolate import RBFInterpolator
from sklearn.datasets import load_diabetes, load_linnerud

import kernelite
from kernelite.machine.machine import PolynomialTail
from kernelite.sources import read
from kernelite.store.files import dumps, loads
from kernelite.support.errors import InputError, UnsupportedModelError

RNG = np.random.default_rng(0)


def scattered(d=2, n=80):
    X = RNG.uniform(-1, 1, size=(n, d))
    return X, np.sin(3 * X).sum(axis=1) + X[:, 0]


@pytest.mark.parametrize("degree", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("guarantee", ["exact", "certified"])
def test_values_with_polynomials_of_every_degree(degree, smoothing, guarantee):
    X, y = scattered()
    f = RBFInterpolator(X, y, kernel="gaussian", epsilon=1.5, degree=degree, smoothing=smoothing)
    Z = RNG.uniform(-1.5, 1.5, size=(400, 2))
    compiled = kernelite.compile(f, Z, guarantee=guarantee)
    assert (compiled.tail is not None) == (degree > 0)
    gap = np.abs(compiled.predict(Z) - f(Z)).max()
    # With no smoothing, coefficients are large and cancel; rounding is relative to their size.
    size = np.abs(compiled.expansion.coefficients).sum()
    limit = 1e-13 * size + (compiled.tolerance[0] if guarantee == "certified" else 0.0)
    assert gap <= limit
    assert gap <= compiled.error_bound(Z).max() + 1e-13 * size
    np.testing.assert_array_equal(loads(dumps(compiled)).predict(Z[:5]), compiled.predict(Z[:5]))


SHAPES = (
    *("thin_plate_spline", "linear", "cubic", "quintic", "multiquadric", "inverse_multiquadric"),
    "inverse_quadratic",
)


@pytest.mark.parametrize("kernel", SHAPES)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_every_radial_function(kernel, epsilon):
    X, y = scattered(d=3)
    f = RBFInterpolator(X, y, kernel=kernel, epsilon=epsilon, smoothing=0.1)
    Z = np.concatenate([X[:20], RNG.uniform(-1.5, 1.5, size=(300, 3))])
    compiled = kernelite.compile(f, Z)
    theirs, ours = f(Z), compiled.predict(Z)
    np.testing.assert_array_equal(compiled(Z), ours)
    assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()
    np.testing.assert_array_equal(loads(dumps(compiled)).predict(Z[:5]), compiled.predict(Z[:5]))


def test_the_default_interpolant():
    X, y = scattered()
    f = RBFInterpolator(X, y)
    compiled = kernelite.compile(f, X)
    assert np.abs(compiled.predict(X) - f(X)).max() < 1e-9


@pytest.mark.parametrize("data", [load_diabetes, load_linnerud])
def test_real_data(data):
    X, y = data(return_X_y=True)
    X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[:100], y[:100]
    f = RBFInterpolator(X, y, kernel="gaussian", epsilon=0.2, degree=1, smoothing=1.0)
    compiled = kernelite.compile(f, X)
    gap = np.abs(compiled.predict(X) - f(X)).reshape(len(X), -1).max(axis=0)
    assert (gap <= compiled.tolerance).all()
    assert compiled.predict(X).shape == f(X).shape


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_values_of_every_shape(shape):
    X, _ = scattered(n=30)
    f = RBFInterpolator(
        X, RNG.normal(size=(30, *shape)), kernel="gaussian", epsilon=2.0, smoothing=0.1
    )
    compiled = kernelite.compile(f, guarantee="exact")
    ours, theirs = compiled(X[:7]), f(X[:7])
    assert ours.shape == theirs.shape == (7, *shape)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_one_row_has_its_polynomial_too():
    X, y = scattered()
    f = RBFInterpolator(X, y, kernel="gaussian", epsilon=0.3, degree=1, smoothing=1.0)
    compiled = kernelite.compile(f, X, tolerance=0.05)
    for row in X[:5]:
        np.testing.assert_allclose(compiled.predict(row[None]), f(row[None]), atol=0.05)


def test_the_form_alone_keeps_the_polynomial():
    X, y = scattered()
    f = RBFInterpolator(X, y, kernel="gaussian", epsilon=0.2, degree=1, smoothing=5.0)
    compiled = kernelite.compile(f, X, guarantee="none", on_invalid="ignore")
    assert np.abs(compiled.predict(X) - f(X)).max() < 0.05


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"kernel": "gaussian", "epsilon": 1.0, "neighbors": 10}, "neighbors=10"),
        ({"neighbors": 5}, "neighbors=5"),
    ],
)
def test_other_interpolants_are_refused(options, found):
    with pytest.raises(UnsupportedModelError, match=found):
        read(RBFInterpolator(*scattered(), **options))


def test_complex_values_are_refused():
    X, y = scattered()
    with pytest.raises(UnsupportedModelError, match="complex"):
        read(RBFInterpolator(X, y + 1j, kernel="gaussian", epsilon=1.0))


def test_the_bound_of_the_polynomial_holds():
    ctx.prec = 400  # as in tests.oracle, for all tests
    powers = np.array([[1, 0], [0, 1], [2, 1], [0, 3]])
    tail = PolynomialTail(powers, RNG.normal(size=(4, 1)) * 1e6, [0.3, -7.0], [2.5, 0.1])
    rows = RNG.normal(size=(30, 2)) * 10.0 ** RNG.uniform(-3, 3, size=(30, 1))
    values, bounds = tail.values(rows)
    for row, value, bound in zip(rows, values[:, 0], bounds[:, 0]):
        z = [
            (arb(float(x)) - arb(float(s))) / arb(float(c))
            for x, s, c in zip(row, tail.shift, tail.scale)
        ]
        real = arb(0)
        for beta, (p, q) in zip(tail.coefficients[:, 0], powers):
            real += arb(float(beta)) * z[0] ** int(p) * z[1] ** int(q)
        assert abs(real - arb(float(value))) <= arb(float(bound))


@pytest.mark.parametrize(
    "fields",
    [
        ([[1]], [[np.nan]], [0.0], [1.0]),
        ([[1]], [[1.0], [2.0]], [0.0], [1.0]),
        ([[1]], [[1.0]], [0.0, 0.0], [1.0]),
        ([[1]], [[1.0]], [0.0], [0.0]),
        ([[-1]], [[1.0]], [0.0], [1.0]),
        ([1], [[1.0]], [0.0], [1.0]),
    ],
)
def test_unsound_polynomials_are_refused(fields):
    with pytest.raises(InputError):
        PolynomialTail(*map(np.array, fields))


def test_labels_cannot_have_a_polynomial():
    """It would be added after they are proven."""
    X, y = scattered()
    compiled = kernelite.compile(RBFInterpolator(X, y, kernel="gaussian", epsilon=1.5, degree=1), X)
    head = kernelite.ClassifierHead(np.array([0, 1]))
    with pytest.raises(InputError, match="plain values of a regressor"):
        replace(compiled, head=head, tolerance=None)
    with pytest.raises(InputError, match="plain values of a regressor"):
        replace(compiled, origin=replace(compiled.origin, width_is_open=True))
