"""One more feature, in which all centers are zero: the same model, computed afresh."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelite.cpu.blas import form_scores
from kernelite.series.cells import Approximation, Cell
from kernelite.series.certificate import certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.directional import cubic_gram, directional_bound
from kernelite.series.quadratic import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.series.widen import widen, widen_expansion, with_column
from tests.helpers import random_expansion
from tests.series.test_bounds import second_tier


@pytest.mark.parametrize("rank", [None, 2])
def test_widened_forms_are_those_of_the_widened_model(rank: int | None) -> None:
    rng = np.random.default_rng(0)
    model = random_expansion(rng, n=30, d=4, k=2)
    point = rng.normal(size=4)
    form = quadratic_form(model, point)
    (cell,) = widen(
        Approximation((Cell(form if rank is None else truncate(spectrum(form), rank)),))
    ).cells
    rows = np.column_stack([rng.normal(size=(20, 4)), rng.uniform(size=20)])
    afresh = quadratic_form(widen_expansion(model), np.append(point, 0.0))
    if rank is None:
        np.testing.assert_allclose(cell.form.quadratic, afresh.quadratic, atol=1e-14)
        wanted = form_scores(afresh, rows).scores
    else:  # the new feature changes the norm, and nothing else
        narrow = form_scores(truncate(spectrum(form), rank), rows[:, :4]).scores - form.intercept
        wanted = narrow * np.exp(-model.gamma * rows[:, 4] ** 2)[:, None] + form.intercept
    np.testing.assert_allclose(form_scores(cell.form, rows).scores, wanted, atol=1e-12)


def test_second_tiers_keep_their_scores() -> None:
    rng = np.random.default_rng(1)
    model = random_expansion(rng, n=30, d=4)
    point = np.zeros(4)
    form, certificate = quadratic_form(model, point), certify(model, point)
    tensors = [cubic_tensor(model, point, 0)]
    grams = [cubic_gram(model, point, 0)]
    rows = rng.normal(size=(20, 4))
    wide_rows = np.column_stack([rows, np.zeros(20)])
    for cubic in (
        cubic_form(tensors, 4),
        cubic_form(tensors, 2),
        directional_bound(grams, 2, np.zeros(1)),
    ):
        cell = Cell(form, certificate, cubic=cubic)
        (wide,) = widen(Approximation((cell,))).cells
        narrow, broad = (
            second_tier(cell, rows, fused=False),
            second_tier(wide, wide_rows, fused=False),
        )
        np.testing.assert_allclose(broad[0], narrow[0], atol=1e-13)
        assert (broad[1] >= narrow[1] * (1 - 1e-12)).all()
        np.testing.assert_allclose(broad[1], narrow[1], rtol=1e-3)


def test_columns_join_dense_and_sparse_rows() -> None:
    rows, column = np.eye(3), np.array([1.0, 2.0, 3.0])
    wanted = np.column_stack([rows, column])
    np.testing.assert_array_equal(with_column(rows, column), wanted)
    np.testing.assert_array_equal(with_column(csr_array(rows), column).toarray(), wanted)
