"""Affine maps of the inputs: the map itself, and models behind one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVR

import kernelite
from kernelite.backends.cpu.kernels.densify import map_rows
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, RegressorHead
from kernelite.machine.preparation import Preparation
from kernelite.series.rounding import folding
from kernelite.sources import Machine
from kernelite.store.files import dumps, loads
from kernelite.support.errors import InputError
from tests.helpers import random_expansion

MAP = AffineMap([0.5, 2.0, -1.0, 1e-3, 4.0], [1.0, 0.0, -3.0, 500.0, 0.25])

FIVE_UNITS = 5 * Fraction(2) ** -53 * (1 + Fraction(1, 10**9))


def mapped_source(expansion, head=None, input_map=MAP):
    head = RegressorHead(expansion.n_outputs) if head is None else head
    return Machine(
        expansion, head, "mapped", "arrays", "test", preparation=Preparation.of(input_map)
    )


def unmapped(rows):
    """Rows that MAP takes to `rows`, nearly."""
    return rows / MAP.scale + MAP.shift


def test_what_overflows_is_infinite_without_a_warning():
    rows, scaler = np.array([[1e300, 0.0]]), AffineMap([1e10, 1.0], [0.0, 0.0])
    assert scaler(rows).tolist() == scaler(csr_array(rows)).toarray().tolist() == [[np.inf, 0.0]]


def test_dense_and_sparse_rows_map_alike():
    rows = np.arange(10.0).reshape(2, 5)
    expected = (rows - MAP.shift) * MAP.scale
    np.testing.assert_array_equal(MAP(rows), expected)
    np.testing.assert_array_equal(MAP(csr_array(rows)), expected)
    scaling = AffineMap(MAP.scale, np.zeros(5))
    kept = scaling(csr_array(rows))
    assert kept.format == "csr"
    np.testing.assert_array_equal(kept.toarray(), scaling(rows))


def test_the_callers_rows_stay_as_they_are():
    rows = np.ones((2, 5))
    MAP(rows)
    np.testing.assert_array_equal(rows, np.ones((2, 5)))


def test_maps_in_a_row_are_one_map():
    rng = np.random.default_rng(0)
    other = AffineMap(rng.normal(size=5), rng.normal(size=5))
    rows = rng.normal(size=(7, 5))
    np.testing.assert_allclose(MAP.then(other)(rows), other(MAP(rows)), rtol=1e-12, atol=1e-9)
    dropped = AffineMap([0.0], [1.0])
    np.testing.assert_array_equal(dropped.then(AffineMap([2.0], [0.0])).scale, [0.0])
    with pytest.raises(InputError, match="dropped"):
        dropped.then(AffineMap([2.0], [1.0]))
    with pytest.raises(InputError, match="1 and 5 features"):
        dropped.then(MAP)


def real_map(operations, row):
    """The operations on a row of fractions, one after the other."""
    row = [Fraction(z) for z in row]
    for how, numbers in operations:
        by = [Fraction(number) for number in numbers]
        if how == "+":
            row = [z + b for z, b in zip(row, by)]
        elif how == "-":
            row = [z - b for z, b in zip(row, by)]
        else:
            row = [z * b if how == "*" else z / b for z, b in zip(row, by)]
    return row


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    marks=st.text("+-*/", min_size=1, max_size=6),
    away=st.sampled_from([0.0, 1.0, 1e3, 1e6, 1e9, 1e15]),
)
def test_a_chain_of_maps_errs_by_five_units_however_far_the_data_sit(seed, marks, away):
    rng = np.random.default_rng(seed)
    d = 4
    operations = [
        (how, 10.0 ** rng.uniform(-4, 4, d) if how in "*/" else away * rng.normal(size=d))
        for how in marks
    ]
    through = AffineMap.of(*operations)
    # Rows at the zero of the map, beside it by some doubles, and elsewhere.
    near = through.shift + np.spacing(through.shift) * rng.integers(-3, 4, size=(5, d))
    far = through.shift + rng.normal(size=(5, d)) * 10.0 ** rng.uniform(-8, 8, size=(5, d))
    for row in np.concatenate([near, far]):
        for ours in (through(row[None])[0], map_rows(through, row[None])[0]):
            for found, real in zip(ours, real_map(operations, row)):
                room = abs(real) * FIVE_UNITS + Fraction(1, 10**200)  # what underflows
                assert abs(Fraction(found) - real) <= room


def test_maps_are_joined_however_many_there_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    X[:, 0] = 1e3 + 1e-8 * X[:, 0]
    y = np.sin((X[:, 0] - 1e3) * 3e8) + X[:, 1]
    machine = make_pipeline(StandardScaler(), MinMaxScaler((0.3, 0.7)), SVR(gamma=30.0)).fit(X, y)
    fast = kernelite.compile(machine, guarantee="exact")
    assert not fast.preparation.before_map.steps
    np.testing.assert_allclose(fast.predict(X), machine.predict(X), rtol=0, atol=1e-9)


def test_maps_keep_their_low_words_in_files():
    through = AffineMap.of(("*", np.full(5, 3.0)), ("+", np.arange(1.0, 6.0)))
    assert through.low is not None
    expansion = random_expansion(np.random.default_rng(5), d=5)
    model = kernelite.compile(mapped_source(expansion, input_map=through), guarantee="exact")
    again = loads(dumps(model)).preparation.input_map
    for name in ("scale", "shift", "low"):
        np.testing.assert_array_equal(getattr(again, name), getattr(through, name))


def test_what_files_always_held_is_stored_as_ever():
    expansion = random_expansion(np.random.default_rng(5), d=5)
    stored = dumps(kernelite.compile(mapped_source(expansion), guarantee="exact"))
    assert b"input_map.shift" in stored
    assert b"input_map.low" not in stored
    assert b"uncertainty" not in stored


def test_a_second_word_of_another_width_is_refused():
    with pytest.raises(InputError, match="`low` has 1"):
        AffineMap([1.0, 2.0], [0.0, 0.0], [0.0])
    with pytest.raises(InputError, match="`low`"):
        AffineMap([1.0], [0.0], [np.nan])
    with pytest.raises(InputError, match="less than `shift` can tell"):
        AffineMap([1.0], [1.0], [1e-15])


@pytest.mark.parametrize(
    ("operations", "found"),
    [
        ([("/", [0.0])], "divide by zero"),
        ([("/", [1e-200])], "between 1e-100 and 1e"),
        ([("*", [1e-60]), ("*", [1e-60])], "between 1e-100 and 1e"),
        ([("*", [np.inf])], "finite"),
        ([("*", [1.0]), ("+", [1.0, 2.0])], "each feature"),
    ],
)
def test_operations_that_no_map_can_hold_are_refused(operations, found):
    with pytest.raises(InputError, match=found):
        AffineMap.of(*operations)


@pytest.mark.parametrize(
    ("scale", "shift", "found"),
    [
        ([1.0, np.inf], [0.0, 0.0], "`scale`"),
        ([1.0], [[0.0]], "`shift`"),
        ([1.0, 2.0], [0.0], "2 features"),
    ],
)
def test_bad_maps_are_refused(scale, shift, found):
    with pytest.raises(InputError, match=found):
        AffineMap(scale, shift)


def test_a_map_of_another_width_is_refused():
    with pytest.raises(InputError, match="`preparation` makes 5 features"):
        mapped_source(random_expansion(np.random.default_rng(0), d=3))


@pytest.mark.parametrize("guarantee", ["exact", "none", "certified"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_mapped_model_is_the_model_on_mapped_rows(guarantee, sparse):
    rng = np.random.default_rng(1)
    expansion = random_expansion(rng, d=5, k=2, gamma=0.02)
    rows = unmapped(rng.normal(size=(50, 5)))
    plain = kernelite.compile(expansion, MAP(rows), guarantee=guarantee, on_invalid="ignore")
    model = kernelite.compile(
        mapped_source(expansion), rows, guarantee=guarantee, on_invalid="ignore"
    )
    given_rows = csr_array(rows) if sparse else rows
    # The kernel maps and shifts in one step, which rounds once less.
    np.testing.assert_allclose(
        model.predict(given_rows), plain.predict(MAP(rows)), rtol=1e-13, atol=1e-14
    )
    np.testing.assert_array_equal(model.valid(given_rows), plain.valid(MAP(rows)))
    again = loads(dumps(model))
    np.testing.assert_array_equal(again.predict(given_rows), model.predict(given_rows))


def test_a_given_expansion_point_is_in_the_rows_coordinates():
    expansion = random_expansion(np.random.default_rng(2), d=5)
    point = np.full(5, 2.0)
    model = kernelite.compile(mapped_source(expansion), guarantee="none", expansion_point=point)
    np.testing.assert_array_equal(model.form.point, MAP(point[None])[0])


def test_rows_that_overflow_in_the_map_are_infinitely_far():
    expansion = random_expansion(np.random.default_rng(3), d=2, k=1)
    source = mapped_source(expansion, input_map=AffineMap([1e10, 1e10], [0.0, 0.0]))
    for guarantee in ("exact", "certified", "none"):
        model = kernelite.compile(source, guarantee=guarantee, on_invalid="ignore")
        answer = model.predict([[1e305, -1e305], [1e305, 0.0]])
        np.testing.assert_array_equal(answer, np.repeat(expansion.intercept, 2))


def real_score(expansion: KernelExpansion, row: np.ndarray, through: AffineMap) -> arb:
    """f of the mapped row in real arithmetic (400 bits, with its own error ball)."""
    ctx.prec = 400  # as in tests.oracle, for all tests
    z = [
        (arb(float(a)) - arb(float(b))) * arb(float(s))
        for a, b, s in zip(row, through.shift, through.scale)
    ]
    total = arb(float(expansion.intercept[0]))
    for center, weight in zip(expansion.dense_centers(), expansion.coefficients[:, 0]):
        square = sum(((x - arb(float(c))) ** 2 for x, c in zip(z, center)), arb(0))
        total += arb(float(weight)) * (-arb(expansion.gamma) * square).exp()
    return total


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=st.sampled_from([1e-4, 0.02, 1.0, 50.0]),
    away=st.sampled_from([0.0, 1.0, 1e4, 1e8]),
)
def test_the_bounds_cover_the_rounding_of_the_map(seed, gamma, away):
    rng = np.random.default_rng(seed)
    d = 3
    through = AffineMap(10.0 ** rng.uniform(-6, 6, d), rng.normal(size=d) * away)
    # Centers far from the origin of the mapped space: |z'| is large, differences are small.
    offset = rng.normal(size=d) * away
    expansion = KernelExpansion(
        rng.normal(size=(6, d)) + offset, 10.0 ** rng.uniform(-3, 3, 6), [0.3], gamma=gamma
    )
    rows = (rng.normal(size=(4, d)) + offset) / through.scale + through.shift
    model = kernelite.compile(mapped_source(expansion, input_map=through), guarantee="exact")
    computed, bounds = model.predict(rows), model.error_bound(rows)
    for row, value, bound in zip(rows, computed, bounds):
        gap = abs(real_score(expansion, row, through) - arb(float(value)))
        assert gap < arb(float(bound))


def test_labels_stay_proven_behind_a_map():
    rng = np.random.default_rng(4)
    expansion = random_expansion(rng, d=5, k=1, gamma=0.05)
    head = ClassifierHead(np.array([0, 1]), first_positive=False)
    rows = unmapped(rng.normal(size=(300, 5)))
    source = mapped_source(expansion, head)
    fast, exact = (kernelite.compile(source, rows, guarantee=g) for g in ("certified", "exact"))
    np.testing.assert_array_equal(fast.predict(rows), exact.predict(rows))


def test_folding_bounds_a_moved_row():
    # The steepest place of one bump, far from the origin: the bound is within a factor of 4.
    gamma, reach = 0.5, 1e6
    steepest = reach + 1.0 / np.sqrt(2 * gamma)
    moved = steepest * (1 + 5 * 2.0**-53)
    change = abs(np.exp(-gamma * (steepest - reach) ** 2) - np.exp(-gamma * (moved - reach) ** 2))
    bump = KernelExpansion([[reach]], [1.0], [0.0], gamma=gamma)
    bound = folding(bump, np.ones(1), reach, mapped=True)[0]
    assert change <= bound <= 4 * change
