"""Sums on tensor cores: slices, the kernel against its definition, both against real arithmetic."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.exact_rounding import ExactRounding
from kernelite.backends.torch.fused import SliceSums, in_range, slice_bits, sliced
from kernelite.machine.expansion import KernelExpansion
from tests.backends.torch.devices import DEVICE, kernels_run, random_expansion, there
from tests.backends.torch.twins import slices_of, sums_of_slices
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases

# Triton's interpreter is NumPy, which warns where a GPU just overflows.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SHAPES = ((300, 5, 1), (150, 22, 1), (100, 70, 1), (60, 122, 1), (130, 200, 1), (200, 16, 3))
SHAPES += ((100, 80, 5), (90, 10, 70))


def some_rows(expansion: KernelExpansion) -> np.ndarray:
    rng = np.random.default_rng(1)
    centers, d = expansion.dense_centers(), expansion.n_features
    far = np.stack([np.zeros(d), np.full(d, 1e200), np.full(d, 1e-310), np.full(d, np.nan)])
    return np.vstack([centers[:9], rng.normal(size=(9, d)), rng.normal(size=(3, d)) * 30, far])


@pytest.mark.parametrize("bits", [6, 7, 8, 9])
def test_slices_hold_all_but_what_the_proof_leaves_out(bits: int) -> None:
    values = np.random.default_rng(0).uniform(-(2.0**bits), 2.0**bits, size=5000)
    whole, fraction, rest = sliced(values, bits).astype(np.float64)
    assert np.array_equal(whole, np.rint(whole))
    assert np.array_equal(fraction * 2.0**bits, np.rint(fraction * 2.0**bits))
    assert np.abs(whole).max() <= 2.0**bits
    assert np.abs(fraction).max() <= 0.5
    assert np.abs(rest).max() <= 2.0 ** -(bits + 1)
    assert np.abs(values - whole - fraction - rest).max() <= 2.0 ** -(bits + 12) + 2.0**-25


@pytest.mark.parametrize("length", [1, 22, 64, 65, 122, 776, 4096])
def test_whole_slices_sum_exactly(length: int) -> None:
    assert length * 2.0 ** (2 * slice_bits(length)) <= 2.0**24


@kernels_run
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_does_what_its_definition_says(shape: tuple[int, int, int]) -> None:
    from kernelite.backends.torch.kernels.rows import run_split

    expansion = random_expansion(*shape, gamma=0.5 / shape[1])
    fused = SliceSums(DenseExact.prepare(expansion)).to(DEVICE)
    rows = there(some_rows(expansion))
    slices, kernel_slices = slices_of(fused, rows), run_split(fused, rows)
    assert torch.equal(slices.table[:2], kernel_slices.table[:2])
    torch.testing.assert_close(slices.table[2], kernel_slices.table[2])
    torch.testing.assert_close(slices[1:], kernel_slices[1:])
    one, other = sums_of_slices(fused, rows), fused(rows)
    torch.testing.assert_close(one.bounds, other.bounds, rtol=1e-5, atol=0.0)
    known = torch.isfinite(one.bounds)
    assert ((one.scores - other.scores).abs() <= one.bounds + other.bounds)[known].all()
    assert known[:21].all()
    assert not known[[22, 24]].any()  # huge rows and NaN are left to the next stage


@kernels_run
def test_pairs_of_classes_are_summed_class_by_class() -> None:
    rng = np.random.default_rng(0)
    pairs, of = list(itertools.combinations(range(5), 2)), rng.integers(5, size=200)
    A = np.stack([np.isin(of, pair) * rng.normal(size=200) for pair in pairs], axis=1)
    expansion = KernelExpansion(rng.normal(size=(200, 6)), A, np.zeros(10), gamma=0.1)
    families = [[p for p, pair in enumerate(pairs) if c in pair] for c in range(5)]
    dense = DenseExact.prepare(expansion)
    fused = SliceSums(dense, families).to(DEVICE)
    assert fused.n_groups == 5
    rows = rng.normal(size=(20, 6))
    for kernel in (False, True):
        found = (fused if kernel else partial(sums_of_slices, fused))(there(rows))
        parts = found.scores.cpu().numpy(), found.bounds.cpu().numpy()
        ratios = error_ratios(true_scores(expansion, rows), *parts)
        assert ratios.max() <= 1.0


@kernels_run
@settings(max_examples=max(10, HOW_MANY // 3), deadline=None)
@given(cases(max_features=12, max_centers=40))
def test_no_error_passes_its_bound(case: Case) -> None:
    dense = DenseExact.prepare(case.expansion)
    if not SliceSums.serves(dense):
        return
    fused = SliceSums(dense).to(DEVICE)
    truth = true_scores(case.expansion, case.rows)
    for kernel in (False, True):
        given = (fused if kernel else partial(sums_of_slices, fused))(there(case.rows))
        scores, bounds = given.scores.cpu().numpy(), given.bounds.cpu().numpy()
        assert error_ratios(truth, scores, bounds).max() <= 1.0


def test_what_the_proof_does_not_cover_is_not_served() -> None:
    far = KernelExpansion([[0.0], [1e6]], [1.0, 1.0], 0.0, gamma=1.0)
    zero = KernelExpansion([[0.0], [1.0]], np.zeros((2, 1)), 0.0, gamma=1.0)
    powers = KernelExpansion([[0.0], [1.0]], [1.0, 2.0], 0.0, gamma=1.0, kernel="poly2")
    for expansion in (far, zero, powers):
        assert not SliceSums.serves(DenseExact.prepare(expansion))
    rounding = ExactRounding(random_expansion(5, 2, 1, 1e13), 1.0, 1.0, 2, False)
    assert not in_range(rounding)
