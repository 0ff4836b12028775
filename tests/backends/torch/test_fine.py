"""Sums from digits: the kernel against its definition, both against the truth."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.fine import FINE_EXP2, POWERS, FineSums
from kernelite.backends.torch.fused import SliceSums
from kernelite.machine.expansion import KernelExpansion
from tests.backends.torch.devices import DEVICE, kernels_run, random_expansion, there
from tests.backends.torch.twins import digits_of, sums_of_digits, sums_of_slices
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def some_rows(expansion: KernelExpansion) -> np.ndarray:
    rng, d = np.random.default_rng(1), expansion.n_features
    far = np.stack([np.full(d, 1e200), np.full(d, 1e6), np.full(d, 1e-310), np.zeros(d)])
    bad = np.full((1, d), np.nan)
    return np.vstack([rng.normal(size=(17, d)), expansion.dense_centers()[:3], far, bad])


def test_the_polynomial_is_as_good_as_it_says() -> None:
    f = np.linspace(-0.5, 0.5, 200_001)
    found = np.polynomial.polynomial.polyval(f, POWERS)
    assert np.abs(found / np.exp2(f) - 1.0).max() < 0.75 * FINE_EXP2
    # Between two places the error moves by less than its slope times their distance.
    slope = np.polynomial.polynomial.polyval(f, np.polynomial.polynomial.polyder(POWERS))
    assert np.abs(slope - np.log(2.0) * np.exp2(f)).max() * 5e-6 < 0.1 * FINE_EXP2


@kernels_run
@pytest.mark.parametrize("shape", [(300, 5), (3, 1), (500, 40), (130, 70), (200, 128)])
def test_the_kernel_does_what_its_definition_says(shape: tuple[int, int]) -> None:
    from kernelite.backends.torch.kernels.rows import run_digits

    expansion = random_expansion(*shape, 1, gamma=0.5 / shape[1])
    fine = FineSums(DenseExact.prepare(expansion)).to(DEVICE)
    rows = there(some_rows(expansion))
    digits, kernel_digits = digits_of(fine, rows), run_digits(fine, rows)
    assert torch.equal(digits.table, kernel_digits.table)
    torch.testing.assert_close(digits[1:], kernel_digits[1:], rtol=1e-14, atol=0.0)
    one, other = sums_of_digits(fine, rows), fine(rows)
    torch.testing.assert_close(one.bounds, other.bounds, rtol=1e-12, atol=0.0)
    known = torch.isfinite(one.bounds)
    torch.testing.assert_close(one.scores[known], other.scores[known], rtol=1e-9, atol=1e-12)
    assert known[:20].all()
    assert not known[[20, 21, 24]].any()  # huge rows and NaN are left to the next stage
    coarse = sums_of_slices(SliceSums(DenseExact.prepare(expansion)).to(DEVICE), rows)
    assert (other.bounds[:20] < 0.2 * coarse.bounds[:20]).all()


@kernels_run
@settings(max_examples=max(10, HOW_MANY // 3), deadline=None)
@given(cases(max_features=12, max_centers=40))
def test_no_error_passes_its_bound(case: Case) -> None:
    dense = DenseExact.prepare(case.expansion)
    if not FineSums.serves(dense):
        return
    fine = FineSums(dense).to(DEVICE)
    truth = true_scores(case.expansion, case.rows)
    for kernel in (False, True):
        given = (fine if kernel else partial(sums_of_digits, fine))(there(case.rows))
        scores, bounds = given.scores.cpu().numpy(), given.bounds.cpu().numpy()
        assert error_ratios(truth, scores, bounds).max() <= 1.0


def test_what_the_proof_does_not_cover_is_not_served() -> None:
    far = KernelExpansion([[0.0], [1e6]], [1.0, 1.0], 0.0, gamma=1.0)
    wide = random_expansion(5, 129, 1, 0.01)
    two = random_expansion(5, 3, 2, 0.01)
    powers = KernelExpansion([[0.0], [1.0]], [1.0, 2.0], 0.0, gamma=1.0, kernel="poly2")
    for expansion in (far, wide, two, powers):
        assert not FineSums.serves(DenseExact.prepare(expansion))
