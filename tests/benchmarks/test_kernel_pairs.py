"""Every kernel that an estimator takes agrees with its own library, and is on the page."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite
from benchmarks.kernel_pairs import PAIRS, Pair, answers, data, fitted
from benchmarks.supported import page
from kernelite.store.files import dumps, loads

X, Y, Z = data(120, 200)
ROWS = np.concatenate([Z, X[:20], 1e3 * Z[:5]])  # near, at the centers, far


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
@pytest.mark.parametrize("guarantee", ["certified", "exact"])
def test_every_pair_agrees_with_its_own_library(pair: Pair, guarantee: str) -> None:
    if pair.guarantee == "exact" and guarantee == "certified":
        with pytest.raises(kernelite.UnsupportedModelError, match="guarantee='exact'"):
            kernelite.compile(fitted(pair, X, Y), X)
        return
    model = fitted(pair, X, Y)
    fast = kernelite.compile(model, X, guarantee=guarantee)  # type: ignore[arg-type]
    theirs, ours = answers(model, pair)(ROWS), answers(fast, pair)(ROWS)
    assert ours.shape == theirs.shape
    if theirs.dtype.kind == "i":
        np.testing.assert_array_equal(ours, theirs)
    elif pair.method == "std":
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    else:
        certified = guarantee == "certified" and fast.tolerance is not None
        slack = float(np.max(fast.tolerance)) if certified else 0.0  # type: ignore[arg-type]
        # Splines grow and cancel: there the original is off by as much as a bound says.
        bounds = fast.error_bound(ROWS).reshape(len(ROWS), -1).max(axis=1)
        gaps = np.abs(ours - theirs).reshape(len(ROWS), -1).max(axis=1)
        assert (gaps <= slack + 1e-9 * np.abs(theirs[:-5]).max() + 2.0 * bounds).all()
    again = answers(loads(dumps(fast)), pair)(ROWS)
    np.testing.assert_array_equal(again, ours)


def test_the_page_has_every_pair() -> None:
    told = {(entry["kernel"], entry["estimator"]): entry for entry in page.read()["kernels"]}
    assert list(told) == [(pair.kernel, pair.estimator) for pair in PAIRS]
    assert not any(entry["labels_that_differ"] for entry in told.values())
