"""Truncated forms: the right eigenpairs are kept, and the error terms are what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelite.series.rounding import UNIT
from kernelite.series.series import QuadraticForm, quadratic_form
from kernelite.series.spectral import frobenius, skewness, spectrum, truncate
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.helpers import random_expansion


def form_of(matrices: np.ndarray) -> QuadraticForm:
    """A form with these quadratic parts and nothing else."""
    k, d, _ = matrices.shape
    return QuadraticForm(
        point=np.zeros(d),
        constant=np.zeros(k),
        linear=np.zeros((d, k)),
        quadratic=matrices,
        intercept=np.zeros(k),
        gamma=1e-20,
        max_sq_norm=1.0,
    )


def test_the_narrowest_window_is_dropped() -> None:
    rng = np.random.default_rng(0)
    values = np.array([-9.0, -5.0, 1.0, 1.1, 1.25, 1.3, 8.0])
    Q, _ = np.linalg.qr(rng.normal(size=(7, 7)))
    M = Q @ np.diag(values) @ Q.T
    cut = truncate(spectrum(form_of(((M + M.T) / 2)[None])), 3)
    assert cut.mid[0] == pytest.approx(1.15)
    assert cut.spread[0] == pytest.approx(0.15)
    kept = np.sort(np.diag(cut.cores[0]) + cut.mid[0])
    np.testing.assert_allclose(kept, [-9.0, -5.0, 8.0])
    assert cut.cross[0] < 1e-200


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("rank", [0, 1, 4, 8])
def test_the_error_terms_bound_the_difference(k: int, rank: int) -> None:
    rng = np.random.default_rng(k)
    M = rng.normal(size=(k, 8, 8))
    form = form_of(M + M.transpose(0, 2, 1))
    cut = truncate(spectrum(form), rank)
    U = rng.normal(size=(500, 8)) * 10.0 ** rng.uniform(-3, 3, (500, 1))
    # Rows in the span of the basis, where |u|^2 - |y|^2 is nothing but rounding.
    U = np.concatenate([U, U[:100] @ cut.basis @ cut.basis.T])
    scores, sq_norms, kept = cut.evaluate(U)
    error = np.abs(scores - form.evaluate(U)[0])
    assert kept is not None
    bound = cut.truncation_bound(sq_norms, kept)
    size = np.linalg.norm(form.quadratic, axis=(1, 2)) * sq_norms[:, None]
    assert (error <= bound + 1e-14 * size).all()
    if rank == 8:
        assert (bound <= 1e-9 * size).all()


def test_full_rank_is_the_form() -> None:
    rng = np.random.default_rng(1)
    form = quadratic_form(random_expansion(rng, n=30, d=6, k=2), np.zeros(6))
    cut = truncate(spectrum(form), 6)
    Z = rng.normal(size=(40, 6))
    np.testing.assert_allclose(cut.evaluate(Z)[0], form.evaluate(Z)[0], atol=1e-11)


def test_skew_and_norm() -> None:
    assert skewness(np.eye(4)[:, :2]) < 1e-14
    assert skewness(1.5 * np.eye(2)) == pytest.approx(1.25 * np.sqrt(2))
    for scale in (1e-300, 1.0, 1e300):
        assert frobenius(np.array([[3.0, 4.0]]) * scale) == pytest.approx(5.0 * scale)
    assert frobenius(np.zeros((2, 2))) == 0.0


def test_wrong_eigenvectors_are_refused() -> None:
    found = spectrum(form_of(np.eye(3)[None]))
    with pytest.raises(UnsupportedModelError, match="converge"):
        replace(found, skew=0.1)
    with pytest.raises(UnsupportedModelError, match="converge"):
        replace(found, skew=float("nan"))


def test_negative_error_terms_are_refused() -> None:
    cut = truncate(spectrum(form_of(np.eye(3)[None])), 1)
    with pytest.raises(InputError, match="leftover"):
        replace(cut, leftover=np.array([-1.0]))


def test_what_the_rounding_of_coordinates_hides_meets_the_coupled_part() -> None:
    """|u|^2 - |y|^2 of a row in the basis may come out as zero, and be some units of |u|^2."""
    M = np.random.default_rng(0).normal(size=(3, 8, 8)) + 20.0 * np.diag(np.arange(8.0) > 3.0)
    whole = spectrum(form_of(M + M.transpose(0, 2, 1)))
    cut = truncate(replace(whole, skew=0.0, residual=0.0 * whole.residual), 4)
    assert (cut.cross > 0.1).all()
    hidden = (8 + 4) * UNIT
    assert (cut.truncation_bound(np.ones(1), np.ones(1))[0] > 2 * cut.cross * hidden**0.5).all()


def test_of_several_outputs_the_largest_squares_are_kept() -> None:
    M = np.diag([-9.0, 0.1, 8.0, 0.2, 7.0, -0.1, -6.0, 0.0])
    cut = truncate(spectrum(form_of(np.stack([M, 2.0 * M]))), 4)
    np.testing.assert_allclose(cut.spread, [0.15, 0.3], rtol=1e-9)
