"""SciPy's gaussian_kde: `pdf` and `logpdf` in SciPy's shapes, `score_samples` in rows."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from scipy.stats import gaussian_kde

import kernelite
from kernelite.sources import read
from kernelite.store.files import dumps, loads
from kernelite.store.packing import pack, unpack
from kernelite.support.errors import InputError

RNG = np.random.default_rng(0)


def points(d: int, m: int, offset: float = 0.0) -> np.ndarray:
    """Correlated points, shape (d, m)."""
    return np.tril(1.0 + np.arange(d * d).reshape(d, d)) @ RNG.normal(size=(d, m)) + offset


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("guarantee", ["certified", "exact"])
@pytest.mark.parametrize("weighted", [False, True])
def test_densities_are_scipys(d, guarantee, weighted):
    X, Z = points(d, 300, 50.0), points(d, 200, 50.0)
    kde = gaussian_kde(X, weights=RNG.random(300) if weighted else None)
    compiled = kernelite.compile(kde, Z.T, guarantee=guarantee)
    limit = 1e-9 if guarantee == "exact" else float(compiled.tolerance[0]) + 1e-9
    np.testing.assert_allclose(compiled.pdf(Z), kde(Z), rtol=limit)
    np.testing.assert_allclose(compiled.logpdf(Z), kde.logpdf(Z), atol=limit)
    np.testing.assert_array_equal(compiled(Z), compiled.pdf(Z))
    np.testing.assert_array_equal(compiled.score_samples(Z.T), compiled.logpdf(Z))
    np.testing.assert_array_equal(loads(dumps(compiled)).pdf(Z), compiled.pdf(Z))


@pytest.mark.parametrize("given", [0.3, [0.3, 1.0, 7.0], [[0.3, 1.0]]])
def test_points_on_a_line_as_scipy_takes_them(given):
    kde = gaussian_kde(points(1, 60)[0])
    compiled = kernelite.compile(kde, guarantee="exact")
    for name in ("__call__", "pdf", "logpdf"):
        ours, theirs = getattr(compiled, name)(given), getattr(kde, name)(given)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        assert ours.shape == theirs.shape


def test_many_points_are_summed_in_single_precision():
    """Within the tolerance, with bounds that hold; rows far away are summed in doubles."""
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(5, 4000)), rng.normal(size=(5, 300))
    Z[:, :3] *= np.array([30.0, 1e3, 1e8])
    kde = gaussian_kde(X)
    compiled, exact = kernelite.compile(kde, Z.T), kernelite.compile(kde, guarantee="exact")
    assert compiled.plan.chosen.is_exact
    assert 1e-12 < np.abs(compiled.logpdf(Z) - exact.logpdf(Z)).max() <= compiled.tolerance[0]
    sums, bounds = compiled.scores(Z.T), compiled.error_bound(Z.T)
    assert np.isfinite(bounds).all()
    assert (np.abs(sums - exact.scores(Z.T)) <= bounds + exact.error_bound(Z.T)).all()
    assert (bounds[100:] > exact.error_bound(Z.T)[100:]).all()


def test_far_points_have_a_logarithm():
    kde = gaussian_kde(points(2, 100))
    compiled = kernelite.compile(kde, guarantee="exact")
    far = np.full((2, 1), 1e5)
    np.testing.assert_allclose(compiled.logpdf(far), kde.logpdf(far), rtol=1e-9)


def test_one_point_and_wrong_shapes():
    kde = gaussian_kde(points(3, 100))
    compiled = kernelite.compile(kde, guarantee="exact")
    for call in (compiled, compiled.pdf):
        np.testing.assert_allclose(call([1.0, 2.0, 3.0]), kde([1.0, 2.0, 3.0]), rtol=1e-9)
        np.testing.assert_allclose(call([[1.0], [2.0], [3.0]]), kde([1.0, 2.0, 3.0]), rtol=1e-9)
    with pytest.raises(InputError, match=r"must have shape \(3, m\), as SciPy's have"):
        compiled.pdf(np.zeros((5, 3)))
    assert not hasattr(compiled, "predict")


def test_other_densities_have_no_pdf():
    from sklearn.neighbors import KernelDensity

    compiled = kernelite.compile(KernelDensity().fit(points(2, 50).T), guarantee="exact")
    assert not hasattr(compiled, "pdf")
    with pytest.raises(TypeError, match="is not called, since its source is not"):
        compiled(np.zeros((2, 1)))


@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_sums_are_within_bounds(spread):
    """Against real arithmetic on SciPy's own doubles: data, weights and triangle."""
    kde = gaussian_kde(points(3, 30, 1e3) * np.array([[1.0], [spread], [1.0 / spread]]))
    source = read(kde)
    compiled = kernelite.compile(kde, guarantee="exact")
    rows = np.concatenate([kde.dataset.T[:5], kde.dataset.T[:5] * 1.001])
    bounds = compiled.error_bound(rows)[:, 0]
    assert (bounds < 1e-6).all()
    L = [[arb(float(value)) for value in row] for row in kde.cho_cov]
    for row, score, bound in zip(rows, source.scores(rows)[:, 0], bounds):
        total = arb(0)
        for center, weight in zip(kde.dataset.T, kde.weights):
            gaps = [arb(float(x)) - arb(float(z)) for x, z in zip(center, row)]
            solved: list[arb] = []
            for i, gap in enumerate(gaps):  # forward substitution
                left = sum((L[i][j] * solved[j] for j in range(i)), arb(0))
                solved.append((gap - left) / L[i][i])
            total += arb(float(weight)) * (-sum((y * y for y in solved), arb(0)) / 2).exp()
        assert abs(total - arb(float(score))) <= arb(float(bound))


def test_files_with_their_own_kind_of_map_still_load():
    """Maps of densities were once a class of their own, with `matrix` and `shift` alone."""
    written = read(gaussian_kde(points(3, 30, 1.0))).preparation
    tree, tensors = pack(written)
    step = tree["steps"][0]
    for name in ("slack", "marks", "by"):
        del step[name]
    step["class"] = "Whitening"
    front = unpack(tree, {k: v for k, v in tensors.items() if not k.endswith("slack")})
    rows = np.random.default_rng(0).normal(size=(9, 3))
    assert pack(front)[0]["steps"][0]["class"] == "Projection"
    np.testing.assert_array_equal(front(rows), written(rows))
