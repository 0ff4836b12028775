"""Contestants answer for the model they were given; wrong ones are caught before a clock runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.batch import contestants
from benchmarks.contestant import Absent, Contestant, WrongAnswer, verify
from benchmarks.exact import exact_scores
from benchmarks.modes import MODES
from benchmarks.modes import contestant as kernelite
from benchmarks.peers import PEERS, prepare
from benchmarks.rebuild import rebuilt_svc, write_data, write_model
from benchmarks.workloads import Workload
from kernelite.data.tables.data import read_data
from kernelite.sources import read
from tests.helpers import random_expansion


def made(name: str, workload: Workload) -> Contestant:
    try:
        return prepare(name, workload) if name in PEERS else kernelite(workload, name)
    except Absent as error:
        pytest.skip(f"{name}: {error}")


def test_the_reference_is_the_slow_sum() -> None:
    rng = np.random.default_rng(0)
    for kernel in ("rbf", "poly2"):
        model = random_expansion(rng, k=3, kernel=kernel)
        rows = rng.normal(size=(7, 5))
        np.testing.assert_allclose(exact_scores(model, rows), model.scores(rows), rtol=1e-11)


def test_sparse_rows_bring_sparse_contestants(sparse_toy: Workload) -> None:
    ready, absent = contestants(sparse_toy, ("scikit-learn, CSR", "certified", "none"))
    assert [one.name for one in ready] == [
        "scikit-learn, CSR",
        "kernelite certified",
        "kernelite certified, CSR",
        "kernelite none",
        "kernelite none, CSR",
    ]
    assert not absent
    for one in ready[:3]:
        assert verify(one, sparse_toy, 300).differences == 0


@pytest.mark.parametrize("name", [name for name in (*PEERS, *MODES) if "CSR" not in name])
def test_each_contestant_answers_and_is_judged(name: str, toy: Workload) -> None:
    one = made(name, toy)
    verdict = verify(one, toy, 200)
    assert verdict.rows == 200
    # A coarse approximation may err, but not on half the rows: that would be the wrong model.
    assert verdict.differences <= (0 if one.must_agree else 60)
    assert one.nbytes > 0


def test_a_wrong_answer_is_refused(toy: Workload) -> None:
    liar = Contestant("liar", "exact", lambda rows: np.ones(len(rows)), True, 1)
    with pytest.raises(WrongAnswer, match=r"liar on generated toy: \d+ of 200 labels"):
        verify(liar, toy, 200)
    assert verify(replace(liar, must_agree=False), toy, 200).differences > 0


def test_an_unknown_peer_lists_the_known(toy: Workload) -> None:
    with pytest.raises(ValueError, match="known are scikit-learn"):
        prepare("abacus", toy)


@pytest.mark.parametrize("for_sparse", [False, True])
def test_a_rebuilt_svc_has_the_same_scores(toy: Workload, for_sparse: bool) -> None:
    svc = rebuilt_svc(toy.source, for_sparse=for_sparse)
    rows = toy.csr[:50] if for_sparse else toy.rows[:50]
    # scikit-learn's sign: positive means the second class.
    np.testing.assert_allclose(-svc.decision_function(rows), toy.scores[:50, 0], atol=1e-9)
    again = read(svc) if not for_sparse else None
    if again is not None:
        np.testing.assert_allclose(-again.expansion.scores(rows), toy.scores[:50], atol=1e-9)


def test_written_models_and_data_are_read_back(toy: Workload, tmp_path: Path) -> None:
    folder = tmp_path
    write_model(toy.source, folder / "toy.model")
    write_data(toy.rows, toy.labels, folder / "toy.svm")
    data = read_data(folder / "toy.svm")
    np.testing.assert_array_equal(data.rows.toarray(), toy.rows)
    np.testing.assert_array_equal(data.labels, toy.labels)
    source = read(folder / "toy.model")
    np.testing.assert_allclose(source.expansion.scores(toy.rows), toy.scores, atol=1e-12)
    np.testing.assert_array_equal(source.head.predict(toy.scores), toy.labels)
