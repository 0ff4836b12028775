"""Sums in doubles by the kernel, and open rows answered by it before anyone asks how many."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.exact import ExactSums
from kernelite.backends.torch.program import Program
from kernelite.support.errors import InputError
from tests.backends.torch.devices import DEVICE, kernels_run, random_expansion, there
from tests.oracle import error_ratios, true_scores
from tests.random_models import HOW_MANY, Case, cases

pytestmark = [kernels_run, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.mark.parametrize(
    "shape", [(300, 5, 1), (1, 1, 1), (700, 40, 1), (64, 70, 1), (300, 5, 3), (130, 40, 70)]
)
def test_the_kernel_does_what_the_operations_do(shape: tuple[int, int, int]) -> None:
    n, d, k = shape
    expansion = random_expansion(n, d, k, gamma=0.5 / d)
    exact = ExactSums(DenseExact.prepare(expansion)).to(DEVICE)
    rng = np.random.default_rng(1)
    far = np.stack([np.full(d, 1e200), np.full(d, 1e6), np.full(d, 1e-310)])
    rows = there(np.vstack([rng.normal(size=(50, d)), expansion.dense_centers()[:5], far]))
    one, other = exact(rows), exact(rows, kernel=True)
    torch.testing.assert_close(one.bounds, other.bounds, rtol=1e-9, atol=0.0)
    assert ((one.scores - other.scores).abs() <= one.bounds + other.bounds).all()
    assert exact(rows[:0], kernel=True).scores.shape == (0, k)


@settings(max_examples=max(10, HOW_MANY // 3), deadline=None)
@given(cases(max_features=12, max_centers=40))
def test_no_error_passes_its_bound(case: Case) -> None:
    exact = ExactSums(DenseExact.prepare(case.expansion)).to(DEVICE)
    if not exact.has_kernel:
        return
    given = exact(there(case.rows), kernel=True)
    scores, bounds = given.scores.cpu().numpy(), given.bounds.cpu().numpy()
    assert error_ratios(true_scores(case.expansion, case.rows), scores, bounds).max() <= 1.0


def undecided(count: int) -> tuple[kl.CompiledModel, np.ndarray]:
    """A machine, and rows of which the first `count` lie between its classes to the last bit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    machine = SVC(gamma=0.3).fit(X, X[:, 0] + X[:, 1] ** 2 > 0.5)
    score = machine.decision_function
    above, below = (rng.choice(X[side], count) for side in (score(X) > 0, score(X) < 0))
    for _ in range(70):
        middle = 0.5 * (above + below)
        up = (score(middle) > 0)[:, None]
        above, below = np.where(up, middle, above), np.where(up, below, middle)
    return kl.compile(machine, X, guarantee="exact"), np.vstack([above, X])


@pytest.mark.parametrize("pieces", [40, 1])
@pytest.mark.parametrize("recorded", [False, True])
def test_open_rows_are_answered_however_many(
    pieces: int, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelite.backends.torch.kernels import doubles

    monkeypatch.setattr(doubles, "INTERPRETED_PIECES", pieces)
    fast, rows = undecided(30)
    program = Program(fast).to(DEVICE)
    program.kernels, program.recorded = True, recorded
    found = program(there(rows))
    assert (found.stage[:30] == 2).all()
    assert (found.stage[30:] == 1).double().mean() > 0.9
    exact = program.parts[0].exact(there(rows))
    assert ((found.scores - exact.scores).abs() <= found.bounds + exact.bounds).all()
    sure = (exact.scores.abs() > exact.bounds)[:, 0].cpu().numpy()
    labels = program.predict(there(rows))
    assert (labels.labels.cpu().numpy() == fast.predict(rows))[sure].all()
    assert labels.undecidable.cpu().numpy()[~sure].all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_numbers_are_refused(bad: float) -> None:
    fast, rows = undecided(3)
    program = Program(fast).to(DEVICE)
    program.kernels = True
    rows[40, 2] = bad
    with pytest.raises(InputError, match="row 40"):
        program.predict(there(rows))
