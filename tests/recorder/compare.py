"""How a replay may differ from its recording.

Same bits, or, where a kernel was rewritten: equal labels, scores within both bounds, bounds at most
1% looser. Every difference is told by name, with whether it is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.recorder.record import Entries

__all__ = ["Difference", "differences", "same_bits"]

LOOSER = 1.01  # times the old bound
TINY = 1e-300
NO_BOUND = 1e-6  # of the largest score, where no bound is stated
PROBABILITY = 2e-3  # each side promises half of it


@dataclass(frozen=True)
class Difference:
    """An entry whose bits differ; `allowed` where the rule for rewritten kernels accepts it."""

    name: str
    allowed: bool
    why: str


def same_bits(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether two entries have one type, one shape and the same bytes (any NaN is NaN).

    Examples
    --------
    >>> same_bits(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    True
    >>> same_bits(np.array([1.0]), np.array([1]))
    False
    """
    if old.dtype.kind != new.dtype.kind or old.shape != new.shape:
        return False
    if old.dtype.kind != "f":
        return bool((old == new).all())
    alike = (old == new) & (np.signbit(old) == np.signbit(new))
    return old.dtype == new.dtype and bool((alike | (np.isnan(old) & np.isnan(new))).all())


def differences(old: Entries, new: Entries) -> list[Difference]:
    """All entries that differ in a bit."""
    found = []
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            found.append(Difference(name, False, "new" if name in new else "gone"))
        elif not same_bits(old[name], new[name]):
            found.append(Difference(name, *_judged(name, old, new)))
    return found


def _judged(name: str, old: Entries, new: Entries) -> tuple[bool, str]:
    before, after = old[name], new[name]
    *place, what = name.split(", ")
    if what == "stats":
        return True, f"{before} -> {after}"
    if what == "plan":
        first, second = (str(text).splitlines()[0] for text in (before, after))
        return True, f"{first} -> {second}" if first != second else "the same choice, other figures"
    if before.dtype.kind != after.dtype.kind or before.shape != after.shape:
        return False, f"{_told(before)} -> {_told(after)}"
    if before.dtype.kind != "f" or (what == "predict" and _labels(place[0], old)):
        return False, f"{np.count_nonzero(before != after)} of {before.size} answers"
    if what == "error_bound":
        looser = after > LOOSER * before + TINY
        worst = _largest(after / np.maximum(before, TINY))
        return not looser.any(), f"bounds at most {worst:.4g} times the old ones"
    return _within(what, before, after, [_bound(place, entries) for entries in (old, new)])


def _within(
    what: str, before: np.ndarray, after: np.ndarray, bounds: list[np.ndarray | None]
) -> tuple[bool, str]:
    """Whether both answers may be right about the same score."""
    off = np.abs(before - after).reshape(len(before), -1)
    off[~np.isfinite(off)] = np.where(same_where(before, after)[~np.isfinite(off)], 0.0, np.inf)
    if what == "predict_proba":
        return bool((off <= PROBABILITY).all()), f"off by at most {_largest(off):.3g}"
    if any(bound is None for bound in bounds):
        scale = _largest(np.abs(before))
        return bool((off <= NO_BOUND * scale).all()), (
            f"off by at most {_largest(off):.3g}, no bound is stated, scale {scale:.3g}"
        )
    room = sum(bound for bound in bounds if bound is not None)
    if room.shape != off.shape:  # votes, sums and logarithms of scores: the row's total
        room = 2 * room.sum(axis=1, keepdims=True) + 1e-12 * np.abs(before).reshape(off.shape)
    told = (
        f"off by at most {_largest(off):.3g}, {_largest(off / np.maximum(room, TINY)):.3g} bounds"
    )
    return bool((off <= room).all()), told


def same_where(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Entries that are the same infinity, or both NaN: shape (m, k)."""
    alike = (before == after) | (np.isnan(before) & np.isnan(after))
    return alike.reshape(len(before), -1)


def _bound(place: list[str], entries: Entries) -> np.ndarray | None:
    bound = entries.get(", ".join([*place, "error_bound"]))
    return bound if bound is not None and bound.dtype.kind == "f" else None


def _labels(guarantee: str, entries: Entries) -> bool:
    return str(entries.get(f"{guarantee}, kind")) in ("classifier", "outlier")


def _told(array: np.ndarray) -> str:
    return f"'{array}'" if array.dtype.kind == "U" and not array.shape else f"shape {array.shape}"


def _largest(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else 0.0
