"""Bounds are functions of a target's arithmetic: what it may round more, they grow by."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.machine.ops import C_SINGLE, JAVASCRIPT, NUMPY, ONNX, TORCH, C
from kernelite.series.approximation import certify
from kernelite.series.remainder import lower_gamma
from tests.helpers import random_expansion


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    gamma=st.floats(1e-4, 10.0),
    degree=st.sampled_from([2, 3]),
    kernel=st.sampled_from(["rbf", "poly2"]),
)
def test_a_worse_target_has_wider_bounds(seed: int, gamma: float, degree: int, kernel: str) -> None:
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, n=6, d=3, k=2, gamma=gamma, kernel=kernel)
    certificate = certify(expansion, np.zeros(3))
    norms = np.concatenate([[0.0], 10.0 ** rng.uniform(-3, 4, 50)])
    scores = rng.normal(size=(51, 2)) * 10
    if kernel == "poly2":
        degree = 2
    ours = certificate.rounding.bound(norms**2, scores, degree)
    theirs = certificate.rounding.bound(norms**2, scores, degree, ONNX)
    np.testing.assert_allclose(theirs, ONNX.worse * ours)
    least = certificate.bound(norms**2, scores, degree) + (ONNX.worse - 1) * ours
    assert (certificate.bound(norms**2, scores, degree, ONNX) >= least * (1.0 - 1e-15)).all()


def test_what_targets_promise() -> None:
    assert NUMPY.worse == TORCH.worse == 1.0
    # And not less: other libraries have functions of their own.
    assert C.worse == ONNX.worse == JAVASCRIPT.worse == 4.0
    assert C_SINGLE.worse == 2.0**31
    assert not C_SINGLE.proves


def test_a_worse_exponential_makes_the_remainder_larger() -> None:
    x = np.logspace(-8, 3, 200)
    ours, theirs = lower_gamma(3, x), lower_gamma(3, x, ONNX)
    assert (theirs >= ours).all()
    assert (theirs > ours).any()  # also where only exponentials are worse, not square roots
    assert (theirs <= ours * (1.0 + 1e-12)).all()
