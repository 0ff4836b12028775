"""Merging machines, and models of several parts, against machines evaluated one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import kernelite as kl
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import RegressorHead
from kernelite.machine.machine import MachinePart, SumOfMachines, merge_expansions
from kernelite.machine.preparation import Preparation, Selection
from kernelite.sources import Machine, read
from kernelite.sources.combine import assembled, weighted
from kernelite.support.errors import InputError, UnsupportedModelError
from tests.helpers import random_expansion


def machines(rng: np.random.Generator, gammas: list[float], **options: Any) -> list[Machine]:
    return [read(random_expansion(rng, gamma=gamma, **options)) for gamma in gammas]


def together(sources: list[Machine], outputs: Any = None, k: int | None = None) -> Machine:
    head = RegressorHead(k or sum(source.expansion.n_outputs for source in sources))
    return assembled(SimpleNamespace(n_features_in_=5), "Several", sources, head, outputs)


@given(st.integers(0, 2**31), st.booleans(), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_merging_adds_up_what_machines_say(seed: int, sparse: bool, count: int) -> None:
    rng = np.random.default_rng(seed)
    pool = rng.normal(size=(12, 3)) * (rng.random((12, 3)) > 0.4)
    expansions, outputs = [], []
    for _ in range(count):
        chosen = pool[rng.integers(0, 12, rng.integers(0, 8))]
        k = int(rng.integers(1, 3))
        outputs.append(rng.permutation(3)[:k])
        centers: Any = csr_array(chosen) if sparse else chosen
        A, b = rng.normal(size=(len(chosen), k)), rng.normal(size=k)
        expansions.append(KernelExpansion(centers, A, b, gamma=0.5))
    merged = merge_expansions(expansions, outputs, 3)
    X = rng.normal(size=(6, 3))
    expected = np.zeros((6, 3))
    for expansion, columns in zip(expansions, outputs):
        expected[:, columns] += expansion.scores(X)
    np.testing.assert_allclose(merged.scores(X), expected, atol=1e-12)
    dense = merged.dense_centers()
    assert len(np.unique(dense, axis=0)) == len(dense), "a center is there twice"


def test_minus_zero_is_zero() -> None:
    one = KernelExpansion([[0.0, 1.0]], [1.0], 0.0, gamma=1.0)
    two = KernelExpansion([[-0.0, 1.0]], [2.0], 0.0, gamma=1.0)
    merged = merge_expansions([one, two], [np.array([0]), np.array([0])], 1)
    assert merged.n_centers == 1


def test_machines_with_the_same_kernel_become_one_expansion() -> None:
    rng = np.random.default_rng(0)
    sources = machines(rng, [0.1, 0.1, 0.1])
    source = together(sources)
    assert isinstance(source.expansion, KernelExpansion)
    X = rng.normal(size=(7, 5))
    expected = np.hstack([s.expansion.scores(X) for s in sources])
    np.testing.assert_allclose(source.expansion.scores(X), expected, atol=1e-12)


@pytest.mark.parametrize("guarantee", ["exact", "certified", "none"])
@pytest.mark.parametrize("added", [False, True])
def test_machines_that_differ_stay_parts(guarantee: str, added: bool) -> None:
    rng = np.random.default_rng(1)
    sources = machines(rng, [0.01, 0.02, 0.01, 0.03], k=2)
    sources[3] = replace(
        sources[3], preparation=Preparation.of(AffineMap(np.full(5, 0.5), np.ones(5)))
    )
    outputs = [np.arange(2)] * 4 if added else None
    source = together(sources, outputs, 2 if added else None)
    assert isinstance(source.expansion, SumOfMachines)
    assert len(source.expansion.parts) == 3, "the two of the same gamma are one part"
    X = rng.normal(size=(200, 5))
    each = [s.scores(X) for s in sources]
    expected = np.sum(each, axis=0) if added else np.hstack(each)
    np.testing.assert_allclose(source.scores(X), expected, atol=1e-11)
    fast = kl.compile(source, X, guarantee=guarantee, on_invalid="ignore")
    assert len(fast.parts) == 3
    gap = np.abs(fast.predict(X) - expected)
    if guarantee == "exact":
        assert gap.max() < 1e-11
    elif guarantee == "certified":
        assert fast.tolerance is not None
        assert (gap <= fast.tolerance + 1e-12).all()
        assert (np.abs(fast.scores(X) - expected) <= fast.score_bound(X) + 1e-12).all()
    assert fast.valid(X).shape == (200,)


def test_rows_that_stay_open_are_exact_part_by_part() -> None:
    rng = np.random.default_rng(2)
    source = together(machines(rng, [0.05, 0.06, 0.07], n=80), [np.array([0])] * 3, 1)
    X = 2.0 * rng.normal(size=(300, 5))
    fast = kl.compile(source, X, tolerance=1e-3)
    if all(part.model.approximation is None for part in fast.parts):
        # The plan may find exact cheaper; forms are what is tried here.
        parts = tuple(
            replace(part, model=kl.compile(p.machine, X, tolerance=3e-4))
            for part, p in zip(fast.parts, source.expansion.parts)  # type: ignore[union-attr]
        )
        fast = replace(fast, parts=parts)
    values, stats = fast.predict(X, return_stats=True)
    assert np.abs(values - source.scores(X)[:, 0]).max() <= 1e-3
    assert stats.rows == 300
    assert sum(stats.stages.values()) == 300


def test_parts_reached_by_an_outer_way_keep_it() -> None:
    rng = np.random.default_rng(3)
    inner = together(machines(rng, [0.1, 0.2]))
    scaled = AffineMap(np.full(5, 2.0), np.zeros(5))
    outer = replace(inner, preparation=Preparation.of(Selection([4, 3, 2, 1, 0], 5), scaled))
    source = together([outer, *machines(rng, [0.3])])
    assert isinstance(source.expansion, SumOfMachines)
    assert len(source.expansion.parts) == 3
    X = rng.normal(size=(5, 5))
    np.testing.assert_allclose(source.scores(X)[:, :2], inner.scores(2.0 * X[:, ::-1]), atol=1e-12)


def test_weights_multiply_outputs() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4, 5))
    for source in (machines(rng, [0.1])[0], together(machines(rng, [0.1, 0.2]))):
        np.testing.assert_allclose(
            weighted(source, Fraction(1, 4)).scores(X), 0.25 * source.scores(X), atol=1e-13
        )


def test_composites_cannot_be_calibrated_or_be_one_expansion() -> None:
    rng = np.random.default_rng(5)
    source = together(machines(rng, [0.1, 0.2]))
    with pytest.raises(InputError, match="2 machines whose kernels or inputs differ"):
        kl.compile(source, rng.normal(size=(9, 5)), guarantee="calibrated")
    with pytest.raises(UnsupportedModelError, match="no single expansion"):
        _ = source.single
    fast = kl.compile(source, guarantee="exact")
    assert not hasattr(fast, "gamma")
    with pytest.raises(InputError, match="no certificate"):
        kl.compile(source, guarantee="none").error_bound(rng.normal(size=(2, 5)))


def test_parts_must_fit_the_whole() -> None:
    rng = np.random.default_rng(6)
    (source,) = machines(rng, [0.1])
    with pytest.raises(InputError, match="a place for each output"):
        MachinePart(source, np.array([0, 1]))
    with pytest.raises(InputError, match="reach each of its outputs"):
        SumOfMachines((MachinePart(source, np.array([1])),), 5, 2)
    fast = kl.compile(together(machines(rng, [0.1, 0.2])), guarantee="exact")
    with pytest.raises(InputError, match="do not reach each score"):
        replace(fast, parts=fast.parts[:1])
    with pytest.raises(InputError, match="must have its guarantee"):
        replace(fast, guarantee="certified")
    with pytest.raises(InputError, match="in its parts only"):
        replace(fast, expansion=fast.parts[0].model.expansion)
