"""The small rounding constants are above the certificate's own terms, for every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.machine.arithmetic import NUMPY, ONNX, C
from kernelite.series.certificate import (
    Certificate,
    certify,
    largest_power,
    rounding_constants,
    twice_gamma,
)
from kernelite.series.rounding import RoundingTerms
from tests.helpers import random_expansion


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    gamma=st.floats(1e-4, 10.0),
    degree=st.sampled_from([2, 3]),
    kernel=st.sampled_from(["rbf", "poly2"]),
)
def test_constants_are_above_the_terms(seed: int, gamma: float, degree: int, kernel: str) -> None:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, n=6, d=3, k=2, gamma=gamma, kernel=kernel)
    certificate = certify(expansion, np.zeros(3))
    norms = np.concatenate([[0.0], 10.0 ** rng.uniform(-3, 4, 50)])
    scores = rng.normal(size=(51, 2)) * 10
    if kernel == "poly2":
        degree = 2
    ours = certificate.rounding.bound(norms**2, scores, degree)
    small = rounding_constants(certificate, degree)
    assert small.constant == (kernel == "rbf")
    assert C.worse == ONNX.worse == 4.0  # and not less: they have functions of their own
    assert (small.bound(norms, scores) >= 0.99 * C.worse * ours).all()
    theirs = certificate.rounding.bound(norms**2, scores, degree, ONNX)
    np.testing.assert_allclose(theirs, ONNX.worse * ours)
    assert (certificate.bound(norms**2, scores, degree, ONNX) >= theirs).all()
    assert NUMPY.worse == 1.0


@pytest.mark.parametrize("gamma", [1e-6, 0.3, 50.0])
@pytest.mark.parametrize("power", range(6))
def test_the_largest_power_is_the_largest(power: int, gamma: float) -> None:
    t = np.linspace(0.0, 20.0 / np.sqrt(gamma), 20001)
    values = t**power * np.exp(-gamma * t**2)
    assert values.max() <= largest_power(power, gamma)
    assert values.max() >= 0.99 * largest_power(power, gamma)


def test_twice_gamma_covers_the_error_of_the_squares() -> None:
    expansion = random_expansion(np.random.default_rng(0), d=5)
    assert twice_gamma(certify(expansion, np.zeros(5))) > 2.0 * expansion.gamma


@pytest.mark.parametrize("term", ["underflow", "magnitude", 0, 1, 2, 3])
def test_each_constant_is_above_its_own_term(term: str | int) -> None:
    """Of sums of no length, whose rounding grows with |u|^2 alone."""
    moments, sizes = np.zeros((4, 1)), {"underflow": np.zeros(1), "magnitude": np.zeros(1)}
    if isinstance(term, int):
        moments[term] = 1.0
    else:
        sizes[term] += 1.0
    terms = RoundingTerms(moments, 0.0, 1.0, 0.0, 0.5, **sizes)
    certificate = Certificate(np.zeros((2, 1)), terms)
    norms = np.linspace(0.0, 9.0, 901)
    ours = terms.bound(norms**2, np.zeros((901, 1)), 3)
    assert (rounding_constants(certificate, 3).bound(norms, 0.0 * ours) >= C.worse * ours).all()
