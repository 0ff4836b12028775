"""Projections: never further off than they say, whatever the rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT
from kernelite.machine.preparation.projection import Projection
from kernelite.support.errors import InputError


def truth(step: Projection, first: AffineMap | None, row: np.ndarray) -> list[Fraction]:
    """M (s x + c - t), exactly."""
    values = [Fraction(x) for x in row.tolist()]
    if first is not None:
        values = [s * x + c for (s, c), x in zip(first.real(), values, strict=True)]
    gaps = [x - Fraction(t) for x, t in zip(values, step.shift.tolist(), strict=True)]
    return [
        sum((Fraction(a) * gap for a, gap in zip(line, gaps, strict=True)), Fraction())
        for line in step.matrix.tolist()
    ]


def rows_of(rng: np.random.Generator, d: int) -> np.ndarray:
    sizes = 10.0 ** rng.choice([-200, -8, 0, 0, 3, 9, 15, 40, 120], (12, 1))
    rows = rng.normal(size=(12, d)) * sizes
    rows[0], rows[1, 0], rows[2, -1] = 0.0, 1e300, -1e290
    return rows


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("d", [1, 2, 7, 40])
@pytest.mark.parametrize("away", [0.0, 1.0, 1e9])
def test_outputs_are_as_near_as_they_say(d: int, scaled: bool, away: float) -> None:
    rng = np.random.default_rng(d)
    matrix = np.linalg.qr(rng.normal(size=(d, d)))[0][: max(1, d // 2)]
    shift = away * rng.normal(size=d)
    first = None
    if scaled:
        first = AffineMap.of(("-", away * rng.normal(size=d)), ("/", rng.uniform(0.1, 3.0, d)))
    step = Projection(matrix, shift, np.full(len(matrix), 1.0))
    served = step if first is None else step.after(first)
    slack = 4.0 * served.fixed_error + 1e-19
    served = Projection(matrix, shift, slack, served.marks, served.by)
    rows = rows_of(rng, d)
    if away:
        rows = np.concatenate([rows, shift + rng.normal(size=(5, d))])
    for row, found in zip(rows, served(rows), strict=True):
        for value, exact, most in zip(found.tolist(), truth(step, first, row), slack, strict=True):
            assert abs(Fraction(value) - exact) <= 2 * UNIT * abs(exact) + Fraction(float(most))


def test_sparse_rows_give_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.3)
    rows[3] *= 1e100
    for shift in (np.zeros(8), rng.normal(size=8)):
        step = Projection(rng.normal(size=(3, 8)), shift, np.full(3, 1e-18))
        found = step(csr_array(rows))
        np.testing.assert_allclose(found, step(rows), rtol=4 * UNIT, atol=1e-17)
        np.testing.assert_array_equal(step(rows[:0]), np.empty((0, 3)))


def test_what_is_not_finite_stays_so() -> None:
    step = Projection(np.ones((1, 2)), np.zeros(2), np.ones(1))
    assert np.isnan(step(np.array([[np.nan, 1.0], [np.inf, 1.0]]))).all()


@pytest.mark.parametrize(
    ("matrix", "shift", "slack"),
    [
        (np.ones(2), np.zeros(2), np.ones(1)),
        (np.ones((1, 2)), np.zeros(3), np.ones(1)),
        (np.full((1, 2), 1e200), np.zeros(2), np.ones(1)),
        (np.ones((1, 2)), np.zeros(2), np.zeros(1)),
        (np.full((1, 2), np.inf), np.zeros(2), np.ones(1)),
    ],
)
def test_wrong_numbers_are_refused(
    matrix: np.ndarray, shift: np.ndarray, slack: np.ndarray
) -> None:
    with pytest.raises(InputError, match="of a projection"):
        Projection(matrix, shift, slack)


def test_rows_of_another_width_are_refused() -> None:
    step = Projection(np.ones((1, 2)), np.zeros(2), np.ones(1))
    with pytest.raises(InputError, match="`X` has 3 features, but this model takes 2"):
        step(np.zeros((1, 3)))
