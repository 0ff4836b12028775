"""Steps before a model: selections, affine maps, transformers kept as they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.preprocessing import Normalizer

from kernelite.machine.affine import AffineMap
from kernelite.machine.preparation import Kept, Preparation, Selection
from kernelite.machine.preparation.numeric import Normalize, PowerMap
from kernelite.support.errors import InputError

X = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("columns", [[0], [2, 0], [1, 1, 2], []])
def test_a_selection_is_indexing(columns: list[int]) -> None:
    step = Selection(np.array(columns, dtype=int), 3)
    np.testing.assert_array_equal(step(X), X[:, columns])
    sparse = step(csr_array(X))
    np.testing.assert_array_equal(sparse.toarray(), X[:, columns])
    assert np.all(np.diff(sparse.indices[: sparse.indptr[1]]) > 0), "the kernels want sorted rows"
    assert step(X).flags.c_contiguous


@pytest.mark.parametrize("columns", [[3], [-1], [[0, 1]]])
def test_a_selection_refuses_features_that_are_not_there(columns: list[int]) -> None:
    with pytest.raises(InputError, match="between 0 and 2"):
        Selection(np.array(columns), 3)


def test_a_selection_refuses_rows_of_another_width() -> None:
    with pytest.raises(InputError, match=r"`X` has 3 features, but this model takes 4"):
        Selection([0], 4)(X)


def test_steps_run_in_their_order() -> None:
    front = Preparation((Selection([2, 1], 3), AffineMap([2.0, 1.0], [1.0, 0.0])), 3)
    np.testing.assert_array_equal(front(X), (X[:, [2, 1]] - [1, 0]) * [2, 1])
    assert front.rowwise
    assert front.width == 3


def test_a_kept_transformer_sees_rows_as_they_came() -> None:
    class Spy:
        def transform(self, rows: object) -> object:
            self.rows = rows
            return np.asarray(rows, dtype=float)

    spy, rows = Spy(), [["1", "2"]]
    front = Preparation((Kept(spy, "Spy"),), None)
    front(rows)
    assert spy.rows is rows
    assert not front.rowwise
    with pytest.raises(AttributeError, match="no rows of numbers"):
        _ = front.width


def test_the_last_map_is_told_from_what_stands_before_it() -> None:
    chosen, scaled = Selection([2, 1], 3), AffineMap([2.0, 1.0], [1.0, 0.0])
    both = Preparation.of(chosen, None, scaled)
    assert both.input_map is scaled
    assert both.before_map.steps == (chosen,)
    alone = Preparation.of(chosen)
    assert alone.input_map is None
    assert alone.before_map is alone
    assert both.n_out == alone.n_out == 2


def test_no_steps_leave_rows_as_they_are() -> None:
    nothing = Preparation.of(None)
    assert nothing.apply(X) is X
    assert (nothing.steps, nothing.n_features, nothing.n_out, nothing.rowwise) == (
        (),
        None,
        None,
        True,
    )


def test_widths_are_checked_behind_a_kept_transformer() -> None:
    kept = Kept(Normalizer(), "Normalizer", 3)
    assert Preparation.of(kept).n_out is None
    assert Preparation.of(kept, Selection([0], 2)).n_out == 1
    with pytest.raises(InputError, match="3 features stands behind 1"):
        Preparation.of(kept, Selection([0], 2), AffineMap(np.ones(3), np.zeros(3)))


def test_a_preparation_of_numbers_needs_a_width() -> None:
    with pytest.raises(InputError, match="cannot be None"):
        Preparation((Selection([0], 2),), None)


def test_a_kept_transformer_says_why_it_cannot_be_stored() -> None:
    kept = Kept(Normalizer(), "Normalizer", 3)
    assert "keeps a Normalizer in front" in kept.__unstorable__
    assert "joblib.dump" in kept.__unstorable__


def test_numbers_that_overflow_on_the_way_are_refused() -> None:
    powers = PowerMap("yeo-johnson", np.array([1.0, 1e200]))
    made = Preparation.of(powers, Normalize("l2", 2))
    assert np.isfinite(made.apply(np.array([[1.0, 0.0]]))).all()
    with pytest.raises(InputError, match="overflows; drop such rows"):
        made.apply(np.array([[1.0, 1.0]]))
    # NaN that came in is told of later, by the number of its row.
    assert np.isnan(made.apply(np.array([[np.nan, 0.0]]))).any()


def test_rows_are_looked_at_again_only_where_numbers_may_get_lost() -> None:
    scaled = AffineMap([2.0, 1.0], [1.0, 0.0])
    for steps in ((), (scaled,), (Selection([1, 0], 2), scaled), (Selection([0, 1], 2),)):
        assert not Preparation.of(*steps)._may_lose
    assert Preparation.of(scaled, Normalize("l2", 2))._may_lose
