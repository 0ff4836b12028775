"""Features beyond a LIBSVM model's width: they count, however large; no numbers are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelite as kl
from kernelite.support.errors import InputError

MODEL = """svm_type c_svc
kernel_type rbf
gamma 0.1
nr_class 2
total_sv 3
rho 0.25
label 1 -1
nr_sv 2 1
SV
1 1:1 2:0.5
0.5 1:0.5
-0.75 2:-1
"""


@pytest.fixture
def fast(tmp_path: Path) -> kl.CompiledModel:
    (tmp_path / "svm.model").write_text(MODEL)
    return kl.compile(tmp_path / "svm.model", np.random.default_rng(0).normal(size=(50, 2)))


@pytest.mark.parametrize("sparse", [False, True])
def test_any_finite_row_has_an_answer(fast: kl.CompiledModel, sparse: bool) -> None:
    rows = np.array([[1.0, 0.5, 1e200], [1.0, 0.5, -1e154], [1.0, 0.5, 0.0], [1.0, 0.5, 40.0]])
    X = csr_array(rows) if sparse else rows
    # So far from all support vectors only -rho is left.
    assert fast.predict(X).tolist() == [-1, -1, 1, -1]
    np.testing.assert_allclose(fast.scores(X)[:2, 0], -0.25, atol=fast.error_bound(X).max())


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_no_number_is_refused(fast: kl.CompiledModel, sparse: bool, bad: float) -> None:
    rows = np.array([[1.0, 0.5, 1e200], [1.0, 0.5, bad]])
    with pytest.raises(InputError, match="first in row 1"):
        fast.predict(csr_array(rows) if sparse else rows)


@pytest.mark.parametrize("bad", [np.ones(2), -np.ones(3), np.full(3, np.nan), np.ones((3, 1)), "x"])
def test_norms_that_do_not_suit_the_rows_are_refused(fast: kl.CompiledModel, bad: Any) -> None:
    with pytest.raises(InputError, match="`beyond` must hold 3"):
        fast.predict(np.zeros((3, 2)), beyond=bad)


def test_norms_may_be_a_list(fast: kl.CompiledModel) -> None:
    rows = np.array([[1.0, 0.5, 0.0], [1.0, 0.5, 40.0]])
    expected = fast.decision_function(rows)
    np.testing.assert_allclose(fast.decision_function(rows[:, :2], beyond=[0, 1600]), expected)


def test_an_unknown_policy_is_refused_by_every_model(fast: kl.CompiledModel) -> None:
    with pytest.raises(InputError, match="`on_invalid` must be"):
        fast.predict(np.zeros((1, 2)), on_invalid="shout")  # type: ignore[call-overload]


@pytest.mark.parametrize("guarantee", ["none", "certified"])
def test_what_is_decided_depends_on_what_lies_beyond(tmp_path: Path, guarantee: str) -> None:
    (tmp_path / "svm.model").write_text(MODEL.replace("rho 0.25", "rho 0"))
    sample = np.random.default_rng(0).normal(size=(50, 2))
    options = {"certificate": True} if guarantee == "none" else {}
    fast = kl.compile(tmp_path / "svm.model", sample, guarantee=guarantee, **options)
    rows = np.array([[1.0, 0.5]] * 3)
    beyond = np.array([0.0, 100.0, 1e6])
    wide = np.column_stack([rows, np.sqrt(beyond)])
    assert fast.decided(rows, beyond=beyond).tolist() == fast.decided(wide).tolist()
    assert fast.decided(rows, beyond=beyond).tolist() == [True, True, False]
