"""Probabilities with their bounds, of random heads on random models, and the truth about them.

A head is put on the scores of a model: Platt's sigmoid, coupled or not, a logistic regression, a
calibration by sigmoids, isotonic or several averaged. Its probabilities and their bounds come from
scores and bounds of each engine; the truth comes from the true scores, in ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelite.backends.cpu.heads import chances_of_pairs, couple_rows
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, LinearHead
from kernelite.machine.heads.base import Head
from kernelite.machine.heads.calibrated import (
    Calibrated,
    CalibratedHead,
    IsotonicCalibrator,
    SigmoidCalibrator,
)
from kernelite.machine.heads.coupling import LIMITS, STOP, most_rounds
from kernelite.machine.heads.members import Member
from tests.attack.judge import Judge
from tests.oracle import exponential, real

__all__ = ["ChanceJudge", "bounded_chances", "chances", "random_head", "true_coupled"]

Truth = Callable[[list[Any]], list[Any]]
"""True scores of a row to its true probabilities."""


class ChanceJudge(Judge):
    """Judges probabilities: their formula on the true scores of a row."""

    def __init__(self, expansion: KernelExpansion, rows: np.ndarray, truth: Truth) -> None:
        super().__init__(expansion, rows)
        self.truth, self.extended = truth, False

    def _computed(self, i: int) -> list:
        return self.truth(super()._computed(i))


def bounded_chances(
    head: Head, scores: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and how far they may be off, as `proba_bound` says it."""
    with np.errstate(all="ignore"):
        known = np.isfinite(scores).all(axis=1)
        usable = np.where(known[:, None], scores, 0.0)
        p = head.probabilities(usable)
        off = head.answer_bound("predict_proba", usable, bounds)
    return p, np.where(known[:, None] & ~np.isnan(off), off, np.inf)


def random_head(
    rng: np.random.Generator, pairs: bool, k: int, size: float
) -> tuple[str, Head, Truth]:
    """A name, a head for k scores of some size, and its formula in real arithmetic."""
    a, b = -(10.0 ** rng.uniform(-1, 1.3, k)) / size, rng.normal(size=k) * rng.choice([0.0, 1.0])
    if pairs:
        return _platt(rng, a, b, (1 + round((1 + 8 * k) ** 0.5)) // 2, coupled=True)
    if k == 1:
        kind = rng.choice(["platt", "coupled", "logistic", "isotonic", "sigmoid"])
        if kind in ("platt", "coupled"):
            return _platt(rng, a, b, 2, coupled=bool(kind == "coupled"))
        if kind == "logistic":
            return _logistic(2)
        if kind == "isotonic":
            return _isotonic(rng, size)
    elif k > 2 and rng.random() < 0.5:
        return _logistic(k)
    return _sigmoids(a, b)


def _platt(
    rng: np.random.Generator, a: np.ndarray, b: np.ndarray, K: int, *, coupled: bool
) -> tuple[str, Head, Truth]:
    towards_first = bool(K > 2 or rng.random() < 0.5)
    head = ClassifierHead(
        np.arange(K),
        first_positive=towards_first,
        platt_a=a,
        platt_b=b,
        couple_two_classes=coupled,
    )
    sign = 1 if towards_first else -1

    def truth(scores: list[Any]) -> list[Any]:
        first = [_clipped(_sigmoid(a[i], b[i], sign * f)) for i, f in enumerate(scores)]
        return true_coupled(first, K) if coupled else [first[0], 1 - first[0]]

    by_loop = coupled and rng.random() < 0.5
    name = f"coupled, {K} classes" if coupled else "platt"
    return name, head.coupled_by(couple_rows, chances_of_pairs) if by_loop else head, truth


def _logistic(K: int) -> tuple[str, Head, Truth]:
    def truth(scores: list[Any]) -> list[Any]:
        if K == 2:
            second = _sigmoid(-1.0, 0.0, scores[0])
            return [1 - second, second]
        powers = [exponential(f - scores[0]) for f in scores]
        return [power / sum(powers[1:], start=powers[0]) for power in powers]

    return f"logistic, {K} classes", LinearHead(np.arange(K), logistic=True), truth


def _sigmoids(a: np.ndarray, b: np.ndarray) -> tuple[str, Head, Truth]:
    """As many machines as scores, averaged."""
    two = ClassifierHead(np.arange(2), first_positive=False)
    machines = tuple(
        Calibrated(Member(two, [i]), (SigmoidCalibrator(float(a[i]), float(b[i])),))
        for i in range(len(a))
    )

    def truth(scores: list[Any]) -> list[Any]:
        each = [_sigmoid(a[i], b[i], f) for i, f in enumerate(scores)]
        second = sum(each[1:], start=each[0]) / len(each)
        return [1 - second, second]

    return f"calibrated, {len(a)} folds", CalibratedHead(np.arange(2), machines), truth


def _isotonic(rng: np.random.Generator, size: float) -> tuple[str, Head, Truth]:
    two = ClassifierHead(np.arange(2), first_positive=False)
    steps = int(rng.integers(1, 6))
    x = np.unique(np.sort(rng.normal(size=steps)) * size)
    y = np.sort(rng.uniform(size=len(x)).round(rng.integers(1, 17)))
    head = CalibratedHead(
        np.arange(2), (Calibrated(Member(two, [0]), (IsotonicCalibrator(x, y),)),)
    )

    def at(t: Any) -> Any:
        """Linear between places, of a t that is a point."""
        if t <= real(x[0]):
            return real(y[0])
        for i in range(1, len(x)):
            if t <= real(x[i]):
                share = (t - real(x[i - 1])) / (real(x[i]) - real(x[i - 1]))
                return real(y[i - 1]) + share * (real(y[i]) - real(y[i - 1]))
        return real(y[-1])

    def truth(scores: list[Any]) -> list[Any]:
        second = _hull(at, scores[0])
        return [1 - second, second]

    return "isotonic", head, truth


def _hull(function: Callable[[Any], Any], value: Any) -> Any:
    """A monotone function of a ball: what its ends give, and all between."""
    if not hasattr(value, "union"):
        return function(value)
    return function(value.lower()).union(function(value.upper()))


def _sigmoid(a: float, b: float, f: Any) -> Any:
    return 1 / (1 + exponential(real(a) * f + real(b)))


def _clipped(p: Any) -> Any:
    low, high = (real(end) for end in LIMITS)
    if p < low:
        return low
    if p > high:
        return high
    return p if p > low and p < high else _hull(lambda q: min(max(q, low), high), p)


def true_coupled(first: list[Any], K: int) -> list[Any]:
    """LIBSVM's own steps in real arithmetic.

    Anything from 0 to 1, where it takes more digits to tell whether they stop.
    """
    r = [[real(0.0)] * K for _ in range(K)]
    for p, i, j in zip(first, *np.triu_indices(K, 1)):
        r[i][j], r[j][i] = p, 1 - p
    Q = [[-r[j][t] * r[t][j] for j in range(K)] for t in range(K)]
    for t in range(K):
        Q[t][t] = sum((r[j][t] * r[j][t] for j in range(K) if j != t), start=real(0.0))
    p, limit = [real(1.0) / K] * K, real(STOP / K)
    for _ in range(most_rounds(K)):
        Qp = [sum((Q[t][j] * p[j] for j in range(K)), start=real(0.0)) for t in range(K)]
        pQp = sum((p[t] * Qp[t] for t in range(K)), start=real(0.0))
        away = [abs(value - pQp) for value in Qp]
        if all(value < limit for value in away):
            break
        if not any(value >= limit for value in away):
            return [real(0.0).union(real(1.0))] * K
        for t in range(K):
            delta = (pQp - Qp[t]) / Q[t][t]
            p = [value + delta if i == t else value for i, value in enumerate(p)]
            scale = 1 + delta
            pQp = (pQp + delta * (delta * Q[t][t] + 2 * Qp[t])) / (scale * scale)
            Qp = [(Qp[j] + delta * Q[t][j]) / scale for j in range(K)]
            p = [value / scale for value in p]
    return p


def chances(
    expansion: KernelExpansion,
    rows: np.ndarray,
    engines: dict[str, tuple[np.ndarray, np.ndarray]],
    *,
    pairs: bool,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Judge, np.ndarray, np.ndarray]]:
    """Answers of a random head to the scores of each engine."""
    known = np.abs(next(iter(engines.values()))[0])
    known = known[np.isfinite(known) & (known > 0)]
    size = float(np.median(known)) if len(known) else 1.0
    name, head, truth = random_head(rng, pairs, expansion.n_outputs, min(max(size, 1e-100), 1e100))
    judge = ChanceJudge(expansion, rows, truth)
    for how, (scores, bounds) in engines.items():
        yield f"chances, {name}, {how}", judge, *bounded_chances(head, scores, bounds)
