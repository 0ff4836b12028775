"""Coupled probabilities and their errors are those of the definition, in one compiled loop."""

import numpy as np
import pytest

from kernelite.backends.cpu import heads
from kernelite.backends.cpu.heads import chances_of_pairs, couple_rows
from kernelite.machine.heads.coupling import LIMITS, couple, pair_probabilities


@pytest.mark.parametrize("classes", [2, 3, 7, 20])
@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_the_loop_is_the_definition(classes: int, rows: int) -> None:
    rng = np.random.default_rng(classes + rows)
    pairs = classes * (classes - 1) // 2
    first = np.clip(rng.choice([0.0, 1.0, 0.5], (rows, pairs)) + 0.3 * rng.normal(), *LIMITS)
    first[::2] = rng.uniform(*LIMITS, (len(first[::2]), pairs))
    found, nothing = couple_rows(first, classes)
    assert nothing is None
    assert found.shape == (rows, classes)
    np.testing.assert_allclose(found, couple(first, classes, None)[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_errors_are_those_of_the_definition(classes: int) -> None:
    rng = np.random.default_rng(classes)
    pairs = classes * (classes - 1) // 2
    first = np.clip(rng.normal(0.5, 0.4, (150, pairs)), *LIMITS)
    moved = 10.0 ** rng.uniform(-12, -1, (150, 1)) * rng.uniform(0, 1, first.shape)
    moved[::10] = np.inf
    found, errors = couple_rows(first, classes, moved)
    p, twin = couple(first, classes, moved)
    assert errors is not None
    np.testing.assert_allclose(found, p, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(errors, twin, rtol=1e-6)
    assert (errors[::10] == 1.0).all()
    assert (errors < 1e-3).any()


def test_rows_that_are_not_side_by_side() -> None:
    first = np.random.default_rng(0).uniform(*LIMITS, (8, 6))[::2, ::2]
    np.testing.assert_allclose(couple_rows(first, 3)[0], couple(first, 3, None)[0], rtol=1e-12)


def test_without_kernels_the_definition_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "jit_available", lambda: False)
    first = np.array([[0.9, 0.8, 0.5]])
    np.testing.assert_array_equal(couple_rows(first, 3)[0], couple(first, 3, None)[0])


def test_chances_of_pairs_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    awkward = [0.0, -0.0, 5e-324, 1e308, -1e308, np.inf, -np.inf, np.nan, 700.0, -745.0, 1e-9]
    a, b = np.append(-(10.0 ** rng.uniform(-3, 3, 5)), 0.0), 3.0 * rng.normal(size=6)
    scores = rng.normal(size=(900, 6)) * 10.0 ** rng.uniform(-3, 3, (900, 1))
    scores[: len(awkward)] = np.array(awkward)[:, None]
    for given in (scores, scores[:1], scores[:0], np.asfortranarray(scores)):
        with np.errstate(over="ignore", invalid="ignore"):
            found, twin = chances_of_pairs(given, a, b), pair_probabilities(given, a, b)
            # Either errs by 4 u of itself, and by 2 u of each term of its exponent.
            exponents = 2.0**-51 * (np.abs(given * a) + np.abs(b))
        room = (2.0**-50 + np.minimum(exponents, 1.0)) * twin
        known = np.isfinite(twin)
        np.testing.assert_array_equal(known, np.isfinite(found))
        assert (np.abs(found - twin)[known] <= room[known]).all()
    monkeypatch.setattr(heads, "jit_available", lambda: False)
    np.testing.assert_array_equal(
        chances_of_pairs(scores[20:], a, b), pair_probabilities(scores[20:], a, b)
    )
