"""Planning for "calibrated": a form, and a threshold on the margin that keeps a promised rate.

The first fifth of `X` (shuffled) chooses the point, the form and the grid of thresholds; the rest
only tests them. Thresholds are tested from most to least fallback, each by an exact binomial
(Clopper-Pearson) bound, stopping at the first failure. In such a fixed sequence every test may use
the full confidence. The promise is statistical, for rows like those tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.approximation import forms_alone
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import FloatArray, Rows, dense_block, row_blocks
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.planner.costs import array_bytes, exact_cost, margin_work, nanoseconds, tiers_cost
from kernelite.planner.plan import Candidate, Plan, exact_name
from kernelite.planner.planner import truncated_form
from kernelite.planner.search import PREFERRED
from kernelite.series.approximation import Approximation
from kernelite.series.series import quadratic_form
from kernelite.support.errors import InputError
from kernelite.support.terminal import progress_bar

__all__ = ["calibrate", "calibrated_plan", "largest_rate", "rows_needed", "threshold_grid"]

# Shares of rows sent to the exact model, finer where most models end up.
RATE_SHARES = (
    *(1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.17, 0.15, 0.13, 0.12, 0.11, 0.1, 0.09, 0.08, 0.07),
    *(0.06, 0.055, 0.05, 0.045, 0.04, 0.035, 0.03, 0.025, 0.02, 0.015, 0.01, 0.005, 0.0),
)


@dataclass(frozen=True)
class Calibration:
    """The chosen threshold and the evidence for it.

    Parameters
    ----------
    threshold : float
        Rows with a margin at or below it go to the exact model.
    fallback : float
        Their share among the rows tested.
    differences, rows : int
        Labels that differed above the threshold, among the rows tested.
    rate_bound : float
        The upper confidence bound of that rate.
    """

    threshold: float
    fallback: float
    differences: int
    rows: int
    rate_bound: float


def rows_needed(max_disagreement: float, confidence: float) -> int:
    """Rows to test before even no difference at all proves the rate.

    Examples
    --------
    >>> rows_needed(1e-3, 0.99)
    4603
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-max_disagreement))


def require_rows(rows: int, max_disagreement: float, confidence: float) -> None:
    """Refuse to calibrate on too few rows."""
    needed = rows_needed(max_disagreement, confidence)
    if rows < needed:
        raise InputError(
            f"calibrating to a rate of {max_disagreement:g} at confidence {confidence:g} needs "
            f"{needed} rows to test on, so `X` must hold at least {math.ceil(needed / 0.8)} rows; "
            f"{rows} are left for testing."
        )


def largest_rate(differences: int, rows: int, confidence: float) -> float:
    """Clopper-Pearson: the largest rate that so few differences leave plausible."""
    from scipy.special import betaincinv

    if differences >= rows:
        return 1.0
    return float(betaincinv(differences + 1, rows - differences, confidence))


def threshold_grid(margins: FloatArray) -> FloatArray:
    """Thresholds from most to least fallback: quantiles of the margins of the choosing rows."""
    grid = np.quantile(margins, RATE_SHARES)
    grid[-1] = -np.inf
    # The first sends every row to the exact model, so the sequence starts with a sure success.
    grid[0] = np.inf
    return grid


def calibrate(
    grid: FloatArray,
    margins: FloatArray,
    differs: NDArray[np.bool_],
    *,
    max_disagreement: float,
    confidence: float,
) -> Calibration:
    """Walk down the grid while the promised rate is proven.

    Parameters
    ----------
    grid : ndarray
        Decreasing thresholds, chosen on other rows.
    margins : ndarray of shape (m,)
    differs : ndarray of shape (m,)
        Whether the form's label is not the exact model's.
    max_disagreement, confidence : float

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> margins = rng.uniform(size=10_000)
    >>> found = calibrate(np.array([np.inf, 0.5, 0.1, 0.0]), margins, margins < 0.2,
    ...                   max_disagreement=1e-3, confidence=0.99)
    >>> found.threshold, found.differences
    (0.5, 0)
    """
    m = len(margins)
    require_rows(m, max_disagreement, confidence)
    best: Calibration | None = None
    for threshold in grid:
        served = margins > threshold
        differences = int(np.count_nonzero(differs & served))
        bound = largest_rate(differences, m, confidence)
        if bound > max_disagreement:
            break
        fallback = 1.0 - float(served.mean())
        best = Calibration(float(threshold), fallback, differences, m, bound)
    assert best is not None
    return best


TESTED_ROWS_PER_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class _Tried:
    """A form, judged on the choosing rows."""

    approximation: Approximation
    fallback: float
    nanoseconds: float

    def candidate(self, verdict: str) -> Candidate:
        name, nbytes = self.approximation.form.name, array_bytes(self.approximation)
        return Candidate(name, self.nanoseconds, self.fallback, nbytes, verdict)


def calibrated_plan(
    expansion: KernelExpansion,
    head: Head,
    rows: Rows,
    point: FloatArray | None,
    *,
    max_disagreement: float,
    confidence: float,
    random_state: int,
) -> tuple[Approximation | None, float | None, Plan]:
    """The approximation, its threshold and the plan; (None, None, plan) when exact is cheaper.

    Without a `point` the form is about the mean of the choosing rows: the rows that test a
    threshold must have no part in what they test.
    """
    if not head.proves_labels:
        raise InputError(f"guarantee='calibrated' is about labels; a {head.kind} has none.")
    choosing, testing = _split(rows, random_state)
    require_rows(testing.shape[0], max_disagreement, confidence)
    with progress_bar("calibrating") as on_progress:
        engine = ExactEngine.prepare(expansion)
        trial = _Trial(engine, head, choosing, max_disagreement, confidence)
        truth = trial.exact_labels(choosing)
        on_progress(0.2)
        form = quadratic_form(expansion, choosing.mean(axis=0) if point is None else point)
        cut = truncated_form(form, choosing)
        forms = [form] if cut is form else [form, cut]
        tried = [trial.judged(Approximation(one), truth) for one in forms]
        best = min(tried, key=lambda option: option.nanoseconds)
        on_progress(0.5)
        found = trial.tested(best.approximation, testing)
        on_progress(1.0)
    return trial.plan(tried, best, found)


def _split(rows: Rows, random_state: int) -> tuple[FloatArray, Rows]:
    order = np.random.default_rng(random_state).permutation(rows.shape[0])
    fifth = rows.shape[0] // 5
    return dense_block(rows, np.sort(order[:fifth])), rows[np.sort(order[fifth:])]


@dataclass(frozen=True, eq=False)
class _Trial:
    """The exact model, the rows that choose a form, and what is promised."""

    engine: ExactEngine
    head: Head
    choosing: FloatArray
    max_disagreement: float
    confidence: float

    def exact_labels(self, rows: FloatArray) -> NDArray[np.generic]:
        return self.head.predict(self.engine.run(rows).scores)

    def answers(
        self, approximation: Approximation, rows: FloatArray
    ) -> tuple[FloatArray, NDArray[np.generic]]:
        """Margins and labels of a form alone."""
        scores = forms_alone(approximation, fused=False).run(rows, None).scores
        return self.head.margin(scores), self.head.predict(scores)

    def cost(self, approximation: Approximation, fallback: float) -> float:
        """Nanoseconds per row, where this share of rows goes on to the exact model."""
        expansion = self.engine.expansion
        forms = tiers_cost(approximation, expansion, fallback, fallback)
        return (forms + nanoseconds(margin_work(expansion))) / thread_count()

    def judged(self, approximation: Approximation, truth: NDArray[np.generic]) -> _Tried:
        """Cost on the choosing rows, at the threshold that just keeps the rate there."""
        margins, labels = self.answers(approximation, self.choosing)
        allowed = int(self.max_disagreement * len(truth))
        wrong = np.sort(margins[labels != truth])[::-1]
        threshold = wrong[allowed] if len(wrong) > allowed else -np.inf
        fallback = float(np.mean(margins <= threshold))
        return _Tried(approximation, fallback, self.cost(approximation, fallback))

    def tested(self, approximation: Approximation, testing: Rows) -> Calibration:
        """The threshold, confirmed on rows that were not used to choose the form."""
        grid = threshold_grid(self.answers(approximation, self.choosing)[0])
        parts = []
        for block in row_blocks(testing.shape[0], TESTED_ROWS_PER_BLOCK):
            dense = dense_block(testing, block)
            margins, labels = self.answers(approximation, dense)
            parts.append((margins, labels != self.exact_labels(dense)))
        return calibrate(
            grid,
            np.concatenate([margins for margins, _ in parts]),
            np.concatenate([differs for _, differs in parts]),
            max_disagreement=self.max_disagreement,
            confidence=self.confidence,
        )

    def plan(
        self, tried: list[_Tried], best: _Tried, found: Calibration
    ) -> tuple[Approximation | None, float | None, Plan]:
        """What `calibrated_plan` returns."""
        expansion, cost = self.engine.expansion, self.cost(best.approximation, found.fallback)
        exact = exact_cost(expansion, labels=True) / thread_count()
        tested = _Tried(best.approximation, found.fallback, cost)
        # Costs of the others are those at the threshold that the choosing rows suggest.
        others = [
            option.candidate(f"{option.nanoseconds / best.nanoseconds:.2g}x the cost when chosen")
            for option in tried
            if option is not best
        ]
        name = exact_name(expansion.n_centers)
        line = Candidate(name, exact, 1.0, expansion.nbytes, "looks at every support vector")
        if cost >= PREFERRED * exact:
            note = "No threshold keeps the promised rate at clearly less than the exact cost."
            lost = tested.candidate(f"{cost / exact:.2g}x the cost of exact, once tested")
            line = replace(line, verdict="no form is cheaper here")
            return None, None, Plan("calibrated", line, (lost, *others), exact, (note,))
        notes = (
            f"Statistical, for rows like `X`: labels differ on at most {self.max_disagreement:g} "
            f"of them, with confidence {self.confidence:g}.",
            f"Tested on {found.rows:,} rows: {found.differences} labels differed above the "
            f"threshold {found.threshold:.4g}, so the rate is at most {found.rate_bound:.2g}.",
        )
        chosen = tested.candidate("cheapest on the rows that choose")
        plan = Plan("calibrated", chosen, (*others, line), exact, notes)
        return best.approximation, found.threshold, plan
