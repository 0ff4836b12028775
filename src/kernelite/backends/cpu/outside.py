"""Rows with features beyond a model's width, in which all centers are zero.

With beta the squared norm of those features, an RBF kernel value is e^(-gamma beta) times the one
without them, so that

    f(z) = E (f(z_in) - b) + b,    E = e^(-gamma beta)

one damping of scores and bounds. E errs by (eta + 2u) gamma beta + 2u relatively where beta errs by
eta, and what follows rounds four times. `Damped` takes rows through the stages; `damp_one` is the
same for one score, without arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import Bounded, spelled_out
from kernelite.program.cascade import Cascade, Stage
from kernelite.program.criteria import Criterion
from kernelite.series.rounding import LOST_TERMS, SAFETY, UNIT
from kernelite.series.series import SeriesForm
from kernelite.support.records import dataclass

__all__ = ["Damped", "OutsideRows", "damp_one", "damped"]


@dataclass(frozen=True, eq=False)
class OutsideRows:
    """Rows at the model's width, and what lies beyond it.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (m, d)
    sq_norms : ndarray of shape (m,)
        beta, possibly infinite.
    error : float
        eta, relative.
    """

    rows: Any
    sq_norms: FloatArray
    error: float

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return self.rows.shape[0], self.rows.shape[1]

    def __getitem__(self, index: Any) -> OutsideRows:
        return OutsideRows(self.rows[index], self.sq_norms[index], self.error)


def damp_one(
    score: float, bound: float, gamma: float, intercept: float, outside: OutsideRows
) -> tuple[float, float]:
    """One row's score and bound, damped; as `Damped.defined`.

    Examples
    --------
    >>> row = OutsideRows(np.zeros((1, 2)), np.array([2.0]), 1e-15)
    >>> damp_one(3.0, 0.5, 0.5 * math.log(2.0), 1.0, row)[0]
    2.0
    """
    exponent = min(gamma * outside.sq_norms.item(), 1e300)
    E, above = math.exp(-exponent), score - intercept
    out = E * above + intercept if E > 0.0 else intercept
    relative = (outside.error + 4.0 * UNIT) * min(exponent, 800.0) + 8.0 * UNIT
    rounding = E * abs(above) * relative + 4.0 * UNIT * (abs(intercept) + abs(out))
    own = E * bound * (1.0 + 1e-12)
    return out, own + SAFETY * rounding + LOST_TERMS * (1.0 + abs(above) + bound)


def damped(cascade: Cascade, gamma: float, intercept: FloatArray, form: Any) -> Cascade:
    """The same stages for `OutsideRows`; `form` is the first one, where there is one."""
    stages = tuple(Damped(stage, gamma, intercept, form) for stage in cascade.stages)
    return Cascade(stages, cascade.answers_all)


@dataclass(frozen=True, eq=False)
class Damped:
    """A stage of an RBF machine, for rows with features beyond its width."""

    stage: Stage
    gamma: float
    intercept: FloatArray
    form: SeriesForm | None

    @property
    def name(self) -> str:
        """What statistics call it."""
        return self.stage.name

    @property
    def accepts_all(self) -> bool:
        """As the stage does."""
        return self.stage.accepts_all

    def run(
        self,
        rows: OutsideRows,
        criterion: Criterion | None,
        previous: Bounded | None = None,
        into: FloatArray | None = None,
    ) -> Bounded | None:
        """Scores and bounds of the stage, damped.

        Criteria are for damped scores. Where one asks for a label alone it shows, nevertheless,
        that few digits are enough.
        """
        few_digits = criterion is not None and criterion.labels_alone and len(self.intercept) == 1
        found = self.stage.run(rows.rows, criterion if few_digits else None, None)
        if found is None:
            return None
        bounds = None if found.bounds is None else spelled_out(found.bounds)
        scores, bounds = self._damp(rows, found.scores, bounds)
        valid = found.valid
        if self.form is not None and found.sq_norms is not None:
            valid = self.form.valid(found.sq_norms + rows.sq_norms)
        return Bounded(scores, bounds, found.sq_norms, valid=valid)

    def bound(self, rows: OutsideRows, criterion: Criterion | None) -> FloatArray | None:
        """The stage's own bound, damped, and the rounding of that."""
        bounds = self.stage.bound(rows.rows, None)
        found = None if bounds is None else self.stage.run(rows.rows, None, None)
        return None if found is None else self._damp(rows, found.scores, bounds)[1]

    def _damp(
        self, rows: OutsideRows, scores: FloatArray, bounds: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        if not jit_available():
            return self.defined(rows, scores, bounds)
        from kernelite.backends.cpu.kernels.judging import damp_rows, rows_per_thread

        damped, own = scores.copy(), None if bounds is None else bounds.copy()
        share_rows(
            *(damp_rows, len(damped), rows_per_thread(damped.shape[1])),
            *(rows.sq_norms, self.intercept),
            *(self.gamma, rows.error, damped, np.empty((0, 0)) if own is None else own),
        )
        return damped, own

    def defined(
        self, rows: OutsideRows, scores: FloatArray, bounds: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Scores and bounds, damped."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            exponent = np.minimum(self.gamma * rows.sq_norms, 1e300)[:, None]
            E = np.exp(-exponent)
            above = scores - self.intercept
            out = np.where(E == 0.0, 0.0, E * above) + self.intercept
            if bounds is None:
                return out, None
            relative = (rows.error + 4.0 * UNIT) * np.minimum(exponent, 800.0) + 8.0 * UNIT
            own = np.where(E == 0.0, 0.0, E * bounds) * (1.0 + 1e-12)
            rounding = np.where(E == 0.0, 0.0, E * np.abs(above) * relative)
            rounding += 4.0 * UNIT * (np.abs(self.intercept) + np.abs(out))
            total = own + SAFETY * rounding + LOST_TERMS * (1.0 + np.abs(above) + bounds)
        return out, np.where(np.isnan(total), np.inf, total)
