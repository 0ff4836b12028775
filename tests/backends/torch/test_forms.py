"""Forms in torch operations and by the kernel, against the CPU's and against real arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.torch.forms import FirstForm
from kernelite.backends.torch.tensors import TensorValue
from kernelite.machine.ops import TORCH
from kernelite.series.approximation import Approximation, certify
from kernelite.series.remainder import lower_gamma
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.backends.torch.devices import DEVICE, kernels_run, random_expansion, there
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases

# Triton's interpreter is NumPy, which warns where a GPU just overflows.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def cell_of(d: int, k: int = 1, rank: int | None = None, point: float = 0.1) -> Approximation:
    expansion = random_expansion(60, d, k, gamma=0.1 / d)
    about = np.full(d, point)
    form = quadratic_form(expansion, about)
    cut = form if rank is None else truncate(spectrum(form), rank)
    return Approximation(cut, certify(expansion, about))


CELLS = {
    "full": cell_of(5),
    "full, three outputs": cell_of(4, k=3),
    "truncated": cell_of(9, rank=3),
    "truncated, wide": cell_of(70, rank=20),
    "truncated, two outputs": cell_of(9, k=2, rank=4),
}


def rows_for(cell: Approximation) -> np.ndarray:
    rows = np.random.default_rng(1).normal(size=(70, cell.form.n_features))
    return np.vstack([rows, rows[:5] * 1e3, rows[:5] * 1e-8, cell.form.point[None, :]])


@pytest.mark.parametrize("name", CELLS)
def test_torch_operations_do_what_the_cpu_does(name: str) -> None:
    cell = CELLS[name]
    rows = rows_for(cell)
    evaluated = FormEngine(cell.form, cell.certificate, fused=False).run(rows)
    bounds = evaluated.bounds
    found = FirstForm(cell).to(DEVICE)(there(rows))
    np.testing.assert_allclose(found.scores.cpu(), evaluated.scores, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.bounds.cpu(), bounds, rtol=1e-9)


@kernels_run
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if cell.form.n_outputs == 1])
def test_the_kernel_is_hardly_looser_and_never_tighter(name: str, dtype: torch.dtype) -> None:
    lowered = FirstForm(CELLS[name]).to(DEVICE)
    rows = there(rows_for(CELLS[name])).to(dtype)
    definition, found = lowered(rows), lowered.layout(rows)
    torch.testing.assert_close(found.scores, definition.scores, rtol=1e-11, atol=1e-13)
    assert (found.bounds >= definition.bounds).all()
    # Where nothing but rounding is left, |u|^2 from directions costs some digits.
    assert (found.bounds <= 1.01 * definition.bounds + 1e-10).all()


@kernels_run
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("d", [4, 6, 14, 22, 32])
def test_rows_read_in_boxes_give_the_same(d: int, rank: int | None) -> None:
    pytest.importorskip("triton.tools.tensor_descriptor")
    from kernelite.backends.torch.kernels.form import run_form

    layout = FirstForm(cell_of(d, rank=rank)).to(DEVICE).layout
    rows = there(np.random.default_rng(1).normal(size=(150, d)))
    found = torch.empty(2, 2, 150, 1, dtype=torch.float64, device=DEVICE)
    for boxed in (False, True):
        run_form(layout, rows, *found[int(boxed)], boxed=boxed)
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=0.0)


@kernels_run
@pytest.mark.parametrize("d", [1, 3, 7, 9, 31, 33])
def test_rows_of_any_width_are_scored(d: int) -> None:
    lowered = FirstForm(cell_of(d)).to(DEVICE)
    rows = there(np.random.default_rng(1).normal(size=(20, d)))
    definition, found = lowered(rows), lowered.layout(rows)
    torch.testing.assert_close(found.scores, definition.scores, rtol=1e-11, atol=1e-13)


@kernels_run
@settings(max_examples=max(10, HOW_MANY // 3), deadline=None)
@given(cases(max_features=12, max_centers=40), st.integers(1, 11))
def test_no_error_passes_its_bound(case: Case, rank: int) -> None:
    form = quadratic_form(case.expansion, case.point)
    certificate = certify(case.expansion, case.point)
    truth = true_scores(case.expansion, case.rows)
    forms = [form]
    if rank < form.n_features:
        forms.append(truncate(spectrum(form), rank))
    for one in forms:
        lowered = FirstForm(Approximation(one, certificate)).to(DEVICE)
        found = [lowered(there(case.rows))]
        if lowered.layout is not None:
            found.append(lowered.layout(there(case.rows)))
        for one in found:
            scores, bounds = one.scores.cpu().numpy(), one.bounds.cpu().numpy()
            ratios = error_ratios(truth, scores, bounds)
            assert ratios.max() <= 1.0


def test_rows_that_overflow_or_are_not_numbers_stay_open() -> None:
    rows = np.array([[1e200, 0.0], [np.nan, 0.0], [np.inf, 1.0], [0.0, 0.0]])
    cell = cell_of(2)
    bounds = FirstForm(cell).to(DEVICE)(there(rows)).bounds[:, 0].cpu()
    assert torch.isinf(bounds).tolist() == [True, True, True, False]


def test_the_incomplete_gamma_function_is_the_cpus() -> None:
    x = np.concatenate([np.logspace(-12, 3, 400), [0.0, 1.0, np.inf]])
    formula: Any = lower_gamma
    found = formula(3, TensorValue(there(x)), TORCH).tensor.cpu().numpy()
    np.testing.assert_allclose(found, lower_gamma(3, x), rtol=1e-12)
