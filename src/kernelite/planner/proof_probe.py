"""Whether a proof has any hope, asked before an expensive certificate is computed.

For every row, rho is at least |f - f^| / sqrt(P), so a few rows of the sample give a lower bound of
rho. Bounds that are computed from it, with the cubic tier's smaller P, are tighter than true ones
can be: a row that they leave open stays open. If there are many centers, some of them also estimate
rho, which shows whether a proof may win. All this only decides what is tried.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.forms import certify
from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.criteria import Criterion
from kernelite.series.approximation import Certificate
from kernelite.series.remainder import PAIR_OVERHEAD, lower_gamma
from kernelite.series.series import SeriesForm, quadratic_form
from kernelite.support.errors import UnsupportedModelError

__all__ = ["ProofProbe"]

LEAST_SETTLED_SHARE = 0.2  # of the rows: a proof of fewer is not worth its computation
PROBED_ROWS = 256
CHEAP_PAIRS = 4e6  # pairs of centers, times outputs: below, certificates are cheap enough to try
CENTERS_PER_BLOCK = 4096  # centers at a time
DEAR_PAIRS = 1e10  # multiply-adds of all pairs, half a second, from which rho is estimated first
SOME_CENTERS = 4096  # that estimate it
OPTIMISM = 0.5  # of an estimated rho, that must leave too many rows open for a form to be given up


class ProofProbe:
    """A few rows with their exact scores, for asking about several forms.

    Parameters
    ----------
    expansion : KernelExpansion
    sample : ndarray of shape (m, d)
    criterion : callable of (scores, bounds)
        Which rows the guarantee accepts.
    engine : ExactEngine
        Of the expansion.
    """

    def __init__(
        self,
        expansion: KernelExpansion,
        sample: FloatArray,
        criterion: Criterion,
        engine: ExactEngine,
    ) -> None:
        self.expansion, self.criterion, self.engine = expansion, criterion, engine
        few = expansion.n_centers**2 * expansion.n_outputs < CHEAP_PAIRS
        self.cheap = few or expansion.kernel.quadratic
        self.rows = sample[:: -(-len(sample) // PROBED_ROWS) or 1]
        pairs = expansion.n_centers**2 / 2 * (expansion.n_features + PAIR_OVERHEAD)
        self.dear = expansion.kernel.damps and pairs > DEAR_PAIRS
        self._forms: dict[bytes, SeriesForm] = {}

    def left(self, point: FloatArray, least: float) -> bool:
        """Whether a form about this point may settle this share of rows, or a fifth."""
        least = max(least, LEAST_SETTLED_SHARE)
        if self.cheap or not len(self.rows):
            return True
        return float(self._settled(point, self.rows, self._exact).mean()) >= least

    def left_open(self, point: FloatArray, certificate: Certificate) -> tuple[float, float]:
        """Shares of rows that a certificate leaves open where two, or three, orders are known."""
        U, scores = self.rows - point, self._exact
        sq_norms = np.einsum("ij,ij->i", U, U)
        bounds = (certificate.bound(sq_norms, scores, degree) for degree in (2, 3))
        second, third = (1.0 - float(self.criterion(scores, bound).mean()) for bound in bounds)
        return second, third

    def estimate(self, point: FloatArray) -> Certificate:
        """A certificate with half of the rho that some of the centers let expect.

        A sum over pairs has n terms i = j, and n^2 others, which are estimated each on its own.
        """
        some = self._some_centers
        found, share = certify(some, point), some.n_centers / self.expansion.n_centers
        squares = ((dense_block(some.centers, slice(None)) - point) ** 2).sum(axis=1)
        own = np.stack([lower_gamma(m, 2.0 * some.gamma * squares) for m in (3, 4)])
        alone = own @ some.coefficients**2
        others = np.maximum(found.rho**2 - alone, 0.0)
        rho = OPTIMISM * np.sqrt(alone / share + others / share**2)
        return Certificate(rho, found.rounding)

    @cached_property
    def _some_centers(self) -> KernelExpansion:
        expansion = self.expansion
        n = expansion.n_centers
        drawn = np.sort(np.random.default_rng(0).choice(n, min(SOME_CENTERS, n), replace=False))
        return KernelExpansion(
            dense_block(expansion.centers, drawn),
            expansion.coefficients[drawn],
            expansion.intercept,
            gamma=expansion.gamma,
        )

    def form(self, point: FloatArray) -> SeriesForm:
        """The quadratic form about a point, built once."""
        key = point.tobytes()
        if key not in self._forms:
            self._forms[key] = quadratic_form(self.expansion, point)
        return self._forms[key]

    @cached_property
    def _exact(self) -> FloatArray:
        return self.engine.run(self.rows).scores

    def _settled(
        self, point: FloatArray, rows: FloatArray, scores: FloatArray
    ) -> NDArray[np.bool_]:
        formed, sq_norms = self._formed(point, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            x = 2.0 * self.expansion.gamma * sq_norms
            second, third = (np.sqrt(lower_gamma(order, x))[:, None] for order in (3, 4))
            errors = np.abs(scores - formed)
            rho = np.divide(errors, second, out=np.zeros_like(errors), where=second > 1e-6)
            return self.criterion(scores, rho.max(axis=0, initial=0.0) * third)

    def _formed(self, point: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What the quadratic form about a point would answer, and |u|^2.

        With many features and outputs its matrices cost more than these few rows.
        """
        expansion, U = self.expansion, rows - point
        d, k = expansion.n_features, expansion.n_outputs
        if k * d * d <= len(self.rows) * (d + PAIR_OVERHEAD):
            with suppress(UnsupportedModelError):  # it overflows
                return self.form(point).evaluate(rows)[:2]
        sq_norms = np.einsum("ij,ij->i", U, U)
        sums = np.zeros((len(rows), expansion.n_outputs))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for block in row_blocks(expansion.n_centers, CENTERS_PER_BLOCK):
                S = dense_block(expansion.centers, block) - point
                weights = np.exp(-expansion.gamma * np.einsum("ij,ij->i", S, S))
                t = 2.0 * expansion.gamma * (U @ S.T)
                series = 1.0 + t + 0.5 * t * t
                sums += series @ (weights[:, None] * expansion.coefficients[block])
            damp = np.exp(-expansion.gamma * sq_norms)
            return damp[:, None] * sums + expansion.intercept, sq_norms
