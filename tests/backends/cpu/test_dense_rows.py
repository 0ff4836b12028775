"""Rows mapped as a form reads them, against rows mapped before."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.backends.cpu.dense_rows import MappedRows
from kernelite.backends.cpu.forms import FormEngine
from kernelite.machine.affine import AffineMap
from kernelite.series.approximation import certify
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.helpers import random_expansion


@pytest.mark.parametrize("two_words", [False, True])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize(("m", "d"), [(0, 3), (1, 3), (7, 5), (64, 8), (131, 13), (300, 17)])
def test_scores_are_those_of_mapped_rows(m, d, rank, fused, two_words) -> None:
    rng = np.random.default_rng(m + d)
    expansion = random_expansion(rng, d=d, k=2, gamma=0.5 / d)
    form = quadratic_form(expansion, rng.normal(size=d))
    cut = form if rank is None else truncate(spectrum(form), rank)
    engine = FormEngine(cut, certify(expansion, form.point, mapped=True), fused)
    input_map = AffineMap(rng.uniform(0.1, 3.0, d), rng.normal(size=d))
    rows = rng.normal(size=(m, d))
    if two_words:  # so far away that doubles are 4 apart: without the second word all would differ
        far, low = np.full(d, 2.0**54), rng.uniform(-2.0, 2.0, d)
        input_map = AffineMap(rng.uniform(0.1, 0.5, d), far, low)
        rows = far + 4.0 * rng.integers(-2, 3, size=(m, d))
    late = MappedRows(rows, input_map)
    assert late.shape == (m, d) == (len(late), d)
    np.testing.assert_array_equal(late[m // 2 :], input_map(rows[m // 2 :]))
    for bounded in (True, False):
        ours = engine.run(late, bounded=bounded)
        theirs = engine.run(input_map(rows), bounded=bounded)
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(ours.sq_norms, theirs.sq_norms, rtol=1e-12)
        assert (ours.bounds is None) == (theirs.bounds is None) == (not bounded)
        if bounded:
            np.testing.assert_allclose(ours.bounds, theirs.bounds, rtol=1e-9)
        assert (ours.kept is None) == (theirs.kept is None)
