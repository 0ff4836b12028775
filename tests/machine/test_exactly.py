"""Arithmetic for folding, against fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.machine.exactly import (
    UNIT,
    accurate_product,
    exact_sum,
    gap,
    nearest,
    quotient,
    relative_gap,
    two_words,
)

DOUBLES = st.floats(-1e150, 1e150, allow_subnormal=False)


@given(st.fractions(), DOUBLES)
def test_two_words_hold_a_fraction_to_the_square_of_a_unit(value, near):
    value += Fraction(near)
    high, low = two_words(value)
    assert high == nearest(value)
    rest = abs(value - Fraction(high) - Fraction(low))
    assert rest <= abs(value - Fraction(high)) * Fraction(UNIT) + Fraction(5e-324)


@given(st.lists(DOUBLES, max_size=30))
def test_sums_are_exact(values):
    assert exact_sum(values) == sum(map(Fraction, values), Fraction(0))


def test_what_overflows_is_infinite():
    assert two_words(-(Fraction(10) ** 400)) == (-math.inf, 0.0)
    assert quotient(10**400, -3) == -math.inf
    assert relative_gap(math.inf, Fraction(1)) == gap(math.inf, Fraction(1)) == math.inf


def test_a_gap_is_relative_and_rounded_up():
    gap = relative_gap(0.1, Fraction(1, 10))
    real = abs(Fraction(0.1) - Fraction(1, 10)) * 10
    assert real <= Fraction(gap) <= real * Fraction(1001, 1000)
    assert relative_gap(1.0, Fraction(0)) == math.inf


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 2, 7, 64, 65, 300]),
    spread=st.sampled_from([0.0, 3.0, 30.0]),
    cancels=st.booleans(),
)
def test_products_are_within_their_bounds_and_nearly_rounded(seed, n, spread, cancels):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, n)) * 10.0 ** rng.uniform(-spread, spread, (3, n))
    B = rng.normal(size=(n, 2)) * 10.0 ** rng.uniform(-spread, spread, (n, 2))
    if cancels and n > 1:  # the second half takes the first one back, but for a bit
        half = n // 2
        A[:, half : 2 * half] = -A[:, :half]
        B[half : 2 * half] = B[:half] * (1.0 + 2.0**-40)
    found, error = accurate_product(A, B)
    sizes = np.abs(A).max(axis=1, initial=0.0)[:, None] * np.abs(B).max(axis=0, initial=0.0)
    for i in range(3):
        for k in range(2):
            real = sum((Fraction(a) * Fraction(b) for a, b in zip(A[i], B[:, k])), Fraction(0))
            assert abs(Fraction(found[i, k]) - real) <= Fraction(error[i, k])
    assert (error <= 1.02 * UNIT * np.abs(found) + n**2 * 1e-27 * sizes + 2e-250).all()


def test_products_that_cannot_be_cut_are_plain_ones():
    found, error = accurate_product(np.full((1, 2), 1e305), np.full((2, 1), 1e-305))
    assert abs(found[0, 0] - 2.0) <= error[0, 0] <= 1e-15


@pytest.mark.parametrize("values", [[], [0.0], [5e-324, -5e-324]])
def test_nothing_adds_up_to_zero(values):
    assert exact_sum(values) == 0
