"""|f - score| / bound, rigorously and fast: extended precision first, ball arithmetic if close.

Extended precision has 64 bits, u = 2^-64. With t_i = gamma |x_i - z|^2, a difference, its square,
their sum and the product with gamma err by (d + 4) u of t_i; exp by that and 4 u; the sum by n u:

    |f - computed f| <= E = u (sum_i |A_i| K_i (t_i (d + 4) + n + 8) + (n + 2) |b|).

A value is cleared when (|computed f - score| + E) / bound is at most `CLEAR`. All others, and all
on machines without such a type, are left to `tests.oracle`.
"""

from __future__ import annotations

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.variance import Posterior
from tests.oracle import (
    at_most,
    error_ratios,
    more_digits,
    real,
    root,
    true_scores,
    true_variances,
)

__all__ = ["DeviationJudge", "ElectionJudge", "Judge", "LeadJudge", "VarianceJudge", "VoteJudge"]

CLEAR = 0.5
LONG = np.longdouble
UNIT = float(np.finfo(LONG).eps) / 2.0
EXTENDED = np.finfo(LONG).nmant >= 63 and np.finfo(LONG).maxexp > 10_000
TINY = LONG("1e-4900") if EXTENDED else LONG(0)  # whatever underflows


class Judge:
    """f of some rows, as far as it is needed to judge scores and their bounds.

    Parameters
    ----------
    expansion : KernelExpansion
    rows : ndarray of shape (m, d)
    others : KernelExpansion
        f is the sum of them all.
    """

    def __init__(
        self, expansion: KernelExpansion, rows: np.ndarray, *others: KernelExpansion
    ) -> None:
        self.terms, self.rows = (expansion, *others), rows
        self.escalated = 0
        self._truth: dict[int, list] = {}
        self.extended = EXTENDED and all(one.has_series for one in self.terms)
        if self.extended:
            with np.errstate(all="ignore"):
                self._scores, self._errors = _extended(self.terms, rows)

    def ratios(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Upper bounds of |f - score| / bound, shape (m, k); above `CLEAR` they are sharp."""
        if not self.extended:
            return self.exactly(scores, bounds)
        with np.errstate(all="ignore"):
            rough = self._rough(scores, bounds)
            rough = np.where(np.isnan(rough), np.inf, np.minimum(rough, 1e300)).astype(float)
        close = np.flatnonzero((rough > CLEAR).any(axis=1))
        if len(close):
            rough[close] = self.exactly(scores[close], bounds[close], close)
        return rough

    def exactly(
        self, scores: np.ndarray, bounds: np.ndarray, at: np.ndarray | None = None
    ) -> np.ndarray:
        """The ratios of some rows, or of all, in ball arithmetic."""
        at = np.arange(len(self.rows)) if at is None else at
        self.escalated += len(at)
        ratios = self._sharp([self._true(int(i)) for i in at], scores, bounds)
        doubtful = np.flatnonzero(~(ratios <= 1.0).all(axis=1))
        if len(doubtful):  # where all cancels, the balls themselves may be too wide
            with more_digits():
                truth = [self._computed(int(at[i])) for i in doubtful]
                ratios[doubtful] = self._sharp(truth, scores[doubtful], bounds[doubtful])
        return ratios

    def _true(self, i: int) -> list:
        if i not in self._truth:
            self._truth[i] = self._computed(i)
        return self._truth[i]

    def _computed(self, i: int) -> list:
        each = [true_scores(one, self.rows[[i]])[0] for one in self.terms]
        return [sum(values[1:], start=values[0]) for values in zip(*each)]

    def _rough(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        assert not (bounds < 0).any(), "a bound is negative"
        known = np.isfinite(bounds)
        assert np.isfinite(scores[known]).all(), "a row has a bound, but no score"
        error = np.abs(self._scores - scores) + self._errors + TINY
        return np.where(known, error / bounds.astype(LONG), LONG(0))

    def _sharp(self, truth: list[list], scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        return error_ratios(truth, scores, bounds)


class VarianceJudge(Judge):
    """Judges latent variances of a posterior."""

    def __init__(self, posterior: Posterior, expansion: KernelExpansion, rows: np.ndarray) -> None:
        super().__init__(expansion, rows)
        self.posterior, self.extended = posterior, False

    def _computed(self, i: int) -> list:
        return true_variances(self.posterior, self.terms, [self.rows[[i]]])


class DeviationJudge(VarianceJudge):
    """Judges standard deviations of a posterior."""

    def __init__(self, other: VarianceJudge) -> None:
        super().__init__(other.posterior, other.terms[0], other.rows)
        self.variances = other

    def _true(self, i: int) -> list:
        return [root(value) for value in self.variances._true(i)]

    def _computed(self, i: int) -> list:
        return [root(value) for value in super()._computed(i)]


class LeadJudge(Judge):
    """Judges claims that f is beyond a score, on its side of zero: score / f; NaN claims nothing.

    That is what is proven of a winner's pairs, so a sign that is wrong has the ratio infinity.
    """

    def _rough(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        least = np.sign(scores) * self._scores - self._errors - TINY
        return np.where(np.isnan(scores), 0, np.where(least > 0, np.abs(scores) / least, np.inf))

    def _sharp(self, truth: list[list], scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        ratios = np.zeros(scores.shape)
        for i, j in np.argwhere(~np.isnan(scores)):
            value = truth[i][j] * int(np.sign(scores[i, j]))
            sure = value > 0
            ratios[i, j] = at_most(abs(real(scores[i, j])) / value) if sure else np.inf
        return ratios


class ElectionJudge(Judge):
    """Judges claims that a class has most votes: 0 where it surely has, infinity where not.

    Parameters
    ----------
    expansion, rows
        As of `Judge`.
    ties_to_first : bool
        Whether of several classes with most votes the first is meant; else there must be one.
    """

    def __init__(self, expansion: KernelExpansion, rows: np.ndarray, *, ties_to_first: bool):
        super().__init__(expansion, rows)
        self.ties_to_first = ties_to_first

    def _rough(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(scores), 0.0, np.inf)  # each claim is judged by balls

    def _sharp(self, truth: list[list], scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        ratios = np.zeros(scores.shape)
        for i in np.flatnonzero(~np.isnan(scores[:, 0])):
            ratios[i] = 0.0 if self._elected(truth[i], int(scores[i, 0])) else np.inf
        return ratios

    def _elected(self, pairs: list, winner: int) -> bool:
        K = (1 + round((1 + 8 * len(pairs)) ** 0.5)) // 2
        least, most = [0] * K, [0] * K
        for value, i, j in zip(pairs, *np.triu_indices(K, 1)):
            surely = {i} if value > 0 else {j} if value < 0 else set()
            for c in (i, j):
                least[c] += c in surely
                most[c] += c in surely or not surely
        return all(
            least[winner] > most[c]
            or (self.ties_to_first and winner < c and least[winner] == most[c])
            for c in range(K)
            if c != winner
        )


class VoteJudge(Judge):
    """Judges decision values of shape "ovr": votes, and the sum of a class's pairs squashed."""

    def _rough(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        K = scores.shape[1]
        first, second = np.triu_indices(K, 1)
        sure = np.abs(self._scores) > self._errors
        value, off = np.zeros(scores.shape, LONG), np.zeros(scores.shape, LONG)
        sums, votes = np.zeros(scores.shape, LONG), np.zeros(scores.shape, LONG)
        for pair, (i, j) in enumerate(zip(first, second)):
            f, error = self._scores[:, pair], np.where(sure[:, pair], self._errors[:, pair], np.inf)
            sums[:, i] += f
            sums[:, j] -= f
            votes[:, i] += f > 0
            votes[:, j] += f <= 0
            # Each addition rounds by u of what it adds up to; 1/3 is the steepest slope.
            off[:, i] += error + 2 * K * UNIT * np.abs(f)
            off[:, j] += error + 2 * K * UNIT * np.abs(f)
        value = votes + sums / (3 * (np.abs(sums) + 1))
        error = np.abs(value - scores) + off / 3 + 8 * K * UNIT
        return np.where(np.isfinite(bounds), error / bounds.astype(LONG), LONG(0))

    def _sharp(self, truth: list[list], scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        decisions = [_decision(row, scores.shape[1]) for row in truth]
        return error_ratios(decisions, scores, bounds)


def _decision(pairs: list, K: int) -> list:
    """What scikit-learn's formula gives in real arithmetic."""
    votes, sums = [real(0.0)] * K, [real(0.0)] * K
    for value, i, j in zip(pairs, *np.triu_indices(K, 1)):
        votes[i if value > 0 else j] += 1
        sums[i] += value
        sums[j] -= value
    return [vote + each / (3 * (abs(each) + 1)) for vote, each in zip(votes, sums)]


def _extended(
    terms: tuple[KernelExpansion, ...], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """f of each row and output in extended precision, and what that errs by at most."""
    each = [(_gaussian if one.kernel.damps else _polynomial)(one, rows) for one in terms]
    scores, errors = each[0]
    for more, off in each[1:]:
        scores = scores + more
        errors = errors + off + 2 * UNIT * np.abs(scores)
    return scores, errors


def _gaussian(expansion: KernelExpansion, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of Gaussians."""
    centers, A = expansion.dense_centers().astype(LONG), expansion.coefficients.astype(LONG)
    n, d = centers.shape
    differences = rows.astype(LONG)[:, None, :] - centers[None]
    t = LONG(expansion.gamma) * (differences * differences).sum(axis=2)
    values = np.exp(-t)
    loose = values * (np.where(values > 0, t, 0) * (d + 4) + (n + 8))
    b = expansion.intercept.astype(LONG)
    return values @ A + b, _rounded(loose @ np.abs(A), b, n)


def _polynomial(expansion: KernelExpansion, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for (gamma x.z + c)^2, whose inner part errs by u (d + 4) (gamma |x|.|z| + |c|)."""
    centers, A = expansion.dense_centers().astype(LONG), expansion.coefficients.astype(LONG)
    n, d = centers.shape
    z, gamma, c = rows.astype(LONG), LONG(expansion.gamma), LONG(expansion.coef0)
    inner = gamma * (z @ centers.T) + c
    off = (d + 4) * (gamma * (np.abs(z) @ np.abs(centers.T)) + np.abs(c))
    loose = 2 * np.abs(inner) * off + off * off * UNIT + inner * inner * (n + 8)
    b = expansion.intercept.astype(LONG)
    return (inner * inner) @ A + b, _rounded(loose @ np.abs(A), b, n)


def _rounded(loose: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    return 1.01 * UNIT * (loose + (n + 2) * np.abs(b))
