"""Votes by the kernel against the head's own rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.torch.program import Program
from tests.backends.torch.devices import DEVICE, kernels_run, there

pytestmark = [kernels_run, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def letters(classes: int, names: bool = False) -> tuple[kl.CompiledModel, np.ndarray]:
    rng = np.random.default_rng(classes)
    middles, of = rng.normal(size=(classes, 5)) * 2.0, rng.integers(classes, size=150)
    X = middles[of] + rng.normal(size=(150, 5))
    y = np.array([f"class {c}" for c in of]) if names else of
    fast = kl.compile(SVC(gamma=0.1).fit(X, y), X, guarantee="exact")
    return fast, np.vstack([X[:60], rng.normal(size=(20, 5)) * 3.0, np.full((1, 5), 1e200)])


@pytest.mark.parametrize("classes", [3, 4, 11])
def test_winners_are_the_heads_and_what_is_proven_is(classes: int) -> None:
    fast, rows = letters(classes)
    program = Program(fast).to(DEVICE)
    assert program.votes is not None
    program.kernels = True
    found = program.predict(there(rows))
    np.testing.assert_array_equal(found.labels.cpu(), fast.predict(rows))
    assert found.stage[:-1].double().mean() < 1.2  # nearly all by the fused sums
    assert found.stage[-1] == 2  # the row at 1e200 is out of their range
    given = program.parts[0].fused(there(rows))
    scores, bounds = given.scores, given.bounds
    settled = program.head.settled(scores, bounds)
    # Single precision proves nothing that the bounds spelled out in doubles do not.
    assert not ((found.stage == 1) & ~settled).any()


def test_labels_that_are_text_come_as_positions() -> None:
    fast, rows = letters(4, names=True)
    program = Program(fast).to(DEVICE)
    program.kernels = True
    positions = program.predict(there(rows)).labels.cpu().numpy()
    np.testing.assert_array_equal(fast.classes_[positions], fast.predict(rows))


def test_rows_that_are_not_numbers_are_refused() -> None:
    fast, rows = letters(3)
    program = Program(fast).to(DEVICE)
    program.kernels = True
    rows[7, 2] = np.nan
    with pytest.raises(kl.InputError, match="row 7"):
        program.predict(torch.from_numpy(rows).to(DEVICE))
