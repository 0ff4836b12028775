"""svm-predict's numbers, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_squared_error

from kernelite.cli.answers import Accuracy, SquaredError, metric_for, same_labels
from kernelite.support.errors import InputError

numbers = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)


def test_kinds() -> None:
    assert isinstance(metric_for("classifier"), Accuracy)
    assert isinstance(metric_for("outlier"), Accuracy)
    assert isinstance(metric_for("regressor"), SquaredError)


@given(numbers, st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_chunks_do_not_matter(values, cut, seed) -> None:
    truth = np.array(values)
    predicted = truth + np.random.default_rng(seed).normal(size=len(truth))
    parts, whole = SquaredError(), SquaredError()
    parts.add(truth[:cut], predicted[:cut])
    parts.add(truth[cut:], predicted[cut:])
    whole.add(truth, predicted)
    np.testing.assert_allclose(parts.mean, mean_squared_error(truth, predicted))
    np.testing.assert_allclose(parts.mean, whole.mean)
    if len(truth) > 2 and np.ptp(truth) > 1:
        expected = np.corrcoef(truth, predicted)[0, 1] ** 2
        np.testing.assert_allclose(whole.correlation, expected, rtol=1e-6, atol=1e-6)


def test_nothing_to_measure() -> None:
    assert Accuracy().lines() == ["Accuracy = nan% (0/0) (classification)"]
    assert np.isnan(SquaredError().summary()["mean_squared_error"])
    constant = SquaredError()
    constant.add(np.ones(3), np.zeros(3))
    assert constant.lines() == [
        "Mean squared error = 1 (regression)",
        "Squared correlation coefficient = nan (regression)",
    ]


def test_labels_of_different_types() -> None:
    ones = np.array([1.0, 2.0])
    assert same_labels(ones, np.array([1, 3])).tolist() == [True, False]
    assert same_labels(ones, np.array(["1", "b"])).tolist() == [True, False]
    assert same_labels(np.array(["a", "b"]), np.array(["a", "c"], object)).tolist() == [True, False]
    assert same_labels(np.array([True, False]), np.array([1, 1])).tolist() == [True, False]


def test_values_that_overflow_and_names() -> None:
    metric = SquaredError()
    metric.add(np.array([1e308, -1e200]), np.array([-1e308, 1e200]))
    assert metric.mean == np.inf
    assert np.isnan(metric.correlation)
    with pytest.raises(InputError, match="--label-column none"):
        metric.add(np.array(["a"]), np.array([1.0]))
