"""How far certified values may be off: given, or a share of how much the exact values vary."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads import Head
from kernelite.support.errors import InputError

__all__ = ["DEFAULT_TOLERANCE", "default_tolerance", "given_tolerance", "score_tolerance"]

DEFAULT_TOLERANCE = 1e-3  # of the standard deviation of the exact values


def given_tolerance(head: Head, tolerance: Any) -> FloatArray:
    """A user's tolerance, checked, of shape (values,).

    Examples
    --------
    >>> from kernelite.machine.heads import RegressorHead
    >>> given_tolerance(RegressorHead(2), 0.5)
    array([0.5, 0.5])
    """
    k = head.n_values
    try:
        if np.asarray(tolerance).dtype.kind in "USb":  # text would pass for the number it spells
            raise TypeError
        array = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), (k,)).copy()
    except (TypeError, ValueError):
        raise InputError(
            f"`tolerance` must be a number, or {k} of them, got {tolerance!r}."
        ) from None
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"`tolerance` must be positive and finite, got {tolerance!r}.")
    return array


def default_tolerance(head: Head, scores: FloatArray) -> FloatArray | None:
    """1e-3 of the standard deviation of the values that exact scores give; None for labels.

    Parameters
    ----------
    head : Head
    scores : ndarray of shape (m, k)
        Exact, of a sample.

    Examples
    --------
    >>> from kernelite.machine.heads import RegressorHead
    >>> default_tolerance(RegressorHead(), np.array([[1.0], [3.0]]))
    array([0.001])
    """
    if head.proves_labels:
        return None
    return _share_of_spread(head.predict(scores), len(scores), head.n_values)


def score_tolerance(head: Head, scores: FloatArray) -> FloatArray | None:
    """1e-3 of the standard deviation of `decision_function`'s own columns; None if there is none.

    Parameters
    ----------
    head : Head
    scores : ndarray of shape (m, k)
        Exact, of a sample.

    Examples
    --------
    >>> from kernelite.machine.heads import OutlierHead
    >>> score_tolerance(OutlierHead(), np.array([[1.0], [3.0]]))
    array([0.001])
    """
    if not head.proves_labels or "decision_function" not in head.offers:
        return None
    if not len(scores):
        return None
    return _share_of_spread(head.decision(scores), len(scores), 1)


def _share_of_spread(values: Any, count: int, columns: int) -> FloatArray:
    """The default tolerance of each column, from its values on a sample."""
    if not count:
        return np.full(columns, DEFAULT_TOLERANCE)
    values = np.asarray(values).reshape(count, -1)
    values = values[np.isfinite(values).all(axis=1)]  # rows at which a polynomial overflows
    if not len(values):
        return np.full(columns, DEFAULT_TOLERANCE)
    # A constant output has no scale of its own; take the size of its value.
    size = np.maximum(np.abs(values).max(axis=0), 1e-300)
    spread = (values / size).std(axis=0)  # squares of the values themselves might overflow
    return np.asarray(DEFAULT_TOLERANCE * np.where(spread > 1e-12, spread * size, size))
