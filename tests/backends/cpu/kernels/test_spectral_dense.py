"""The fused truncated form against its BLAS twin, bounds included."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.backends.cpu.forms import FormEngine
from kernelite.series.approximation import certify
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.helpers import random_expansion


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize(("d", "rank"), [(1, 1), (5, 2), (9, 4), (30, 7), (70, 16)])
@pytest.mark.parametrize("m", [0, 1, 63, 64, 130])
def test_scores_and_bounds_equal_the_twin(d: int, rank: int, k: int, m: int) -> None:
    rng = np.random.default_rng(d + k + m)
    expansion = random_expansion(rng, n=20, d=d, k=k, gamma=0.05)
    point = rng.normal(size=d)
    form = truncate(spectrum(quadratic_form(expansion, point)), rank)
    certificate = certify(expansion, point)
    rows = rng.normal(size=(m, d))
    if m > 10:
        rows[3] *= 1e3
        rows[4] = 1e200
        rows[5] = 1e-310
        rows[6] = point
    engine, twin = FormEngine(form, certificate), FormEngine(form, certificate, fused=False)
    got, want = engine.run(rows), twin.run(rows)
    got_bounds, want_bounds = got.bounds, want.bounds
    assert engine.kernels is not None
    assert twin.kernels is None
    scale = 1e-12 * (1.0 + np.abs(want.scores))
    assert (np.abs(got.scores - want.scores) <= scale).all()
    np.testing.assert_allclose(got.sq_norms, want.sq_norms, rtol=1e-13)
    np.testing.assert_allclose(got.kept, want.kept, rtol=1e-9, atol=1e-12)
    assert got_bounds is not None
    assert want_bounds is not None
    # Nothing is loosened: not below the twin's (but for its own rounding), and hardly above.
    assert (got_bounds >= want_bounds * (1.0 - 1e-9)).all()
    assert (got_bounds <= want_bounds * (1.0 + 1e-4) + 1e-280).all()


def test_scores_without_a_certificate() -> None:
    rng = np.random.default_rng(0)
    form = truncate(spectrum(quadratic_form(random_expansion(rng, d=8), np.zeros(8))), 3)
    rows = rng.normal(size=(10, 8))
    for bounded in (True, False):
        got = FormEngine(form, None).run(rows, bounded=bounded)
        want = FormEngine(form, None, fused=False).run(rows, bounded=bounded)
        assert got.bounds is None
        assert want.bounds is None
        np.testing.assert_allclose(got.scores, want.scores, rtol=1e-12, atol=1e-13)
