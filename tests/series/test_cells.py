"""Cells: the nearest point serves, no center averages fewer than ten rows."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.series.cells import Approximation, Cell, cell_points
from kernelite.series.certificate import certify
from kernelite.series.series import quadratic_form
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


def test_rows_go_to_the_nearest_point() -> None:
    rng = np.random.default_rng(0)
    model = random_expansion(rng, d=3)
    points = rng.normal(size=(5, 3))
    cells = Approximation(tuple(Cell(quadratic_form(model, p)) for p in points))
    rows = rng.normal(size=(200, 3)) * 2
    nearest = np.argmin(((rows[:, None] - points[None]) ** 2).sum(axis=2), axis=1)
    np.testing.assert_array_equal(cells.assign(rows), nearest)
    np.testing.assert_array_equal(cells.points, points)


def test_any_finite_row_has_a_cell() -> None:
    model = random_expansion(np.random.default_rng(1), d=2)
    cells = Approximation(
        tuple(Cell(quadratic_form(model, p)) for p in (np.zeros(2), np.array([1.0, -1.0])))
    )
    rows = np.array([[1e308, -1e308], [1e-310, 0.0], [-1e200, 1e200]])
    assert set(cells.assign(rows)) <= {0, 1}


def test_centers_average_ten_rows_at_least() -> None:
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.normal(size=(60, 2)), [[100.0, 100.0]]])
    points = cell_points(rows, 4, random_state=0)
    assert 1 <= len(points) <= 4
    assert not (np.abs(points - 100.0) < 1e-9).all(axis=1).any()  # the lone row is no center
    np.testing.assert_array_equal(points, cell_points(rows, 4, random_state=0))
    few = cell_points(rows[:15], 8, random_state=0)
    np.testing.assert_allclose(few, rows[:15].mean(axis=0, keepdims=True))


def test_parts_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(3)
    small, wide = random_expansion(rng, d=2), random_expansion(rng, d=3)
    with pytest.raises(InputError, match="at least one"):
        Approximation(())
    with pytest.raises(InputError, match="differ"):
        Approximation(
            (Cell(quadratic_form(small, np.zeros(2))), Cell(quadratic_form(wide, np.zeros(3))))
        )
    two = random_expansion(rng, d=2, k=2)
    with pytest.raises(InputError, match="outputs"):
        Cell(quadratic_form(small, np.zeros(2)), certify(two, np.zeros(2)))
    form = quadratic_form(small, np.zeros(2))
    with pytest.raises(InputError, match="same point"):
        Cell(form, certify(small, np.zeros(2)), full=quadratic_form(small, np.ones(2)))
