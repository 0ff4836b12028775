"""An approximation: a form about a point, with what is known of its error, and a second form.

In: what a plan chose. Out: the forms in their order, checked against each other. `LocalSums` has
the settings of sums over near centers.
"""

from __future__ import annotations

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.ops import NUMPY, Arithmetic
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import DirectionalBound
from kernelite.series.series import Evaluated, SeriesForm
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["Approximation", "LocalSums"]


@dataclass(frozen=True, eq=False)
class Approximation:
    """A form about a point, and what is known of its error.

    Parameters
    ----------
    form : SeriesForm
        The first form.
    certificate : Certificate, optional
    full : SeriesForm, optional
        Where `form` is truncated: what the second form starts from instead.
    cubic : CubicForm or DirectionalBound, optional
        What the second form adds.
    """

    form: SeriesForm
    certificate: Certificate | None = None
    full: SeriesForm | None = None
    cubic: CubicForm | DirectionalBound | None = None

    def __post_init__(self) -> None:
        d, k = self.form.n_features, self.form.n_outputs
        if self.certificate is not None and self.certificate.rho.shape[1] != k:
            raise InputError(f"the certificate of an approximation must be for its {k} outputs.")
        for name in ("full", "cubic"):
            part = getattr(self, name)
            if part is not None and (part.n_features, part.n_outputs) != (d, k):
                raise InputError(
                    f"`{name}` of an approximation must have {d} features and {k} outputs."
                )
        if self.full is not None and self.full.rank is not None:
            raise InputError("`full` of an approximation must not be truncated.")
        if self.full is not None and not np.array_equal(self.full.point, self.form.point):
            raise InputError("`full` of an approximation must be about the same point as its form.")

    @property
    def certified(self) -> bool:
        """Whether there is a certificate."""
        return self.certificate is not None

    @property
    def has_second_form(self) -> bool:
        """Whether open rows have somewhere to go before the exact model."""
        return self.certified and not (self.full is None and self.cubic is None)

    def second(
        self, rows: FloatArray, first: Evaluated | None = None, arithmetic: Arithmetic = NUMPY
    ) -> tuple[Evaluated, FloatArray]:
        """The second form by its definition: what it gives for rows, and bounds (m, k).

        Parameters
        ----------
        rows : ndarray of shape (m, d)
        first : Evaluated, optional
            What the untruncated form gave for these rows.
        arithmetic : Arithmetic
        """
        assert self.certificate is not None
        form = self.form if self.full is None else self.full
        found = form.evaluate(rows) if first is None else first
        if self.cubic is None:
            return found, form.bounds(self.certificate, found, arithmetic=arithmetic)
        third, left_out = self.cubic.term(rows - form.point, found.sq_norms, form.gamma, arithmetic)
        found = found._replace(scores=found.scores + third)
        bounds = form.bounds(self.certificate, found, 3, arithmetic)
        return found, bounds + left_out


# How much of an expansion may be left out: the settings of sums over near centers only.
#
# Centers are sorted into boxes; those far from a row are left out of its sum, and what they could
# add at most is in its error bound. No arrays: the boxes are made when a model is first run.


@dataclass(frozen=True, eq=False)
class LocalSums:
    """What may be left out of a row's sum: absolute + relative * sum, an output.

    Parameters
    ----------
    absolute : ndarray of shape (k,)
    relative : float
        For one output whose coefficients are all positive; else 0.
    start : float
        gamma distance^2 up to which boxes are summed at once, before what is left out is looked
        at. Any value is sound; a good one saves looking.

    Examples
    --------
    >>> LocalSums(np.array([1e-3])).start
    6.0
    """

    absolute: FloatArray
    relative: float = 0.0
    start: float = 6.0

    def __post_init__(self) -> None:
        if self.absolute.ndim != 1 or not (self.absolute >= 0).all():
            raise InputError("`absolute` must hold numbers not below zero, one an output.")
        if not (0.0 <= self.relative < 1.0 and 0.0 <= self.start < np.inf):
            raise InputError("`relative` must lie between 0 and 1, and `start` not below 0.")
        if self.relative and len(self.absolute) != 1:
            raise InputError("a relative budget is for one output.")
