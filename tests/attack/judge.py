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
from tests.oracle import error_ratios, true_scores

__all__ = ["Judge"]

CLEAR = 0.5
LONG = np.longdouble
UNIT = float(np.finfo(LONG).eps) / 2.0
EXTENDED = np.finfo(LONG).nmant >= 63 and np.finfo(LONG).maxexp > 10_000
TINY = LONG("1e-4900") if EXTENDED else LONG(0)  # whatever underflows


class Judge:
    """f of some rows, as far as it is needed to judge scores and their bounds."""

    def __init__(self, expansion: KernelExpansion, rows: np.ndarray) -> None:
        self.expansion, self.rows = expansion, rows
        self.escalated = 0
        self._truth: dict[int, list] = {}
        if EXTENDED:
            compute = _gaussian if expansion.kernel == "rbf" else _polynomial
            with np.errstate(all="ignore"):
                self._scores, self._errors = compute(expansion, rows)

    def ratios(self, scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Upper bounds of |f - score| / bound, shape (m, k); above `CLEAR` they are sharp."""
        if not EXTENDED:
            return self._exactly(scores, bounds, np.arange(len(self.rows)))
        assert not (bounds < 0).any(), "a bound is negative"
        known = np.isfinite(bounds)
        assert np.isfinite(scores[known]).all(), "a row has a bound, but no score"
        with np.errstate(all="ignore"):
            error = np.abs(self._scores - scores) + self._errors + TINY
            found = np.where(known, error / bounds.astype(LONG), LONG(0))
            rough = np.where(np.isnan(found), np.inf, np.minimum(found, 1e300)).astype(float)
        close = np.flatnonzero((rough > CLEAR).any(axis=1))
        if len(close):
            rough[close] = self._exactly(scores[close], bounds[close], close)
        return rough

    def _exactly(self, scores: np.ndarray, bounds: np.ndarray, at: np.ndarray) -> np.ndarray:
        self.escalated += len(at)
        for i in at:
            if int(i) not in self._truth:
                self._truth[int(i)] = true_scores(self.expansion, self.rows[[i]])[0]
        return error_ratios([self._truth[int(i)] for i in at], scores, bounds)


def _gaussian(expansion: KernelExpansion, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f of each row and output in extended precision, and what that errs by at most."""
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
