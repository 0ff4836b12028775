"""An approximation: a form about a point, the certificate of its error, and a second form.

A certificate is constants of one expansion about one point that bound every row's error in O(1):

    |f(z) - computed f^(z)|  <=  rho_m sqrt(P(m, 2 gamma |u|^2)) + rounding(|u|)

m = 3 for the quadratic form, 4 for the cubic one. A degree-2 polynomial has rho = 0. `LocalSums`
has the settings of sums over near centers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks, rows_within
from kernelite.machine.exactly import NORM_LOSS
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import DirectionalBound
from kernelite.series.remainder import (
    DoubleSums,
    Each,
    lower_gamma,
    one_by_one,
    remainder_norms,
)
from kernelite.series.rounding import (
    ABOVE,
    LOST_TERMS,
    UNIT,
    RoundingTerms,
    check_range,
    folding,
    polynomial_error,
    polynomial_units,
    round_up,
    square_error,
)
from kernelite.series.series import ARRAYS_PER_BLOCK, Evaluated, SeriesForm
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["Approximation", "Certificate", "LocalSums", "certify", "rounding_terms"]

LARGEST_EXPONENT = 750.0  # gamma |s|^2 beyond which a center's weight is zero


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds of the quadratic and the cubic form of every output.

    Parameters
    ----------
    rho : ndarray of shape (2, k)
        rho_3 and rho_4, rounded up.
    rounding : RoundingTerms
    """

    rho: FloatArray
    rounding: RoundingTerms

    def __post_init__(self) -> None:
        if self.rho.ndim != 2 or self.rho.shape != (2, len(self.rounding.magnitude)):
            raise InputError(f"`rho` must have two rows, one column an output: {self.rho.shape}.")
        if not (np.isfinite(self.rho).all() and (self.rho >= 0).all()):
            raise InputError("`rho` of a certificate must be finite and not negative.")

    def bound(
        self,
        sq_norms: FloatArray,
        scores: FloatArray,
        degree: int = 2,
        arithmetic: Arithmetic = NUMPY,
    ) -> FloatArray:
        """The error of computed scores of the form of `degree` 2 or 3, shape (m, k).

        Parameters
        ----------
        sq_norms : ndarray of shape (m,)
            |u|^2 as computed.
        scores : ndarray of shape (m, k)
        degree : {2, 3}
        arithmetic : Arithmetic
            Of the target that computed them.
        """
        xp, rounding, rho = ops(scores), self.rounding, self.rho[degree - 2]
        total = rounding.bound(sq_norms, scores, degree, arithmetic)
        if not rho.any():
            return total
        # |u|^2 errs by (d + 2) u relatively, 2 gamma |u|^2 by one more, and P grows with it.
        above = 1.0 + arithmetic.worse * square_error(rounding.per_square)
        with np.errstate(over="ignore"):
            x = sq_norms[:, None] * (2.0 * rounding.gamma * above)
        total = total + xp.sqrt(lower_gamma(degree + 1, x, arithmetic)) * rho
        return xp.where(xp.isnan(total), np.inf, total)


def certify(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    mapped: bool = False,
    progress: Callable[[float], None] | None = None,
    sums: DoubleSums | None = None,
    each: Each = one_by_one,
) -> Certificate:
    """Compute the certificate of `expansion` about `point`.

    Parameters
    ----------
    expansion : KernelExpansion
    point : ndarray of shape (d,)
        p.
    mapped : bool
        Whether rows come through an affine map, whose rounding then counts.
    progress : callable, optional
        Told the share that is done, from time to time.
    sums, each : callable, optional
        As for `remainder_norms`.

    Examples
    --------
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> bool(certify(one, np.zeros(1)).rho[0, 0] > certify(one, np.full(1, 0.9)).rho[0, 0])
    True
    """
    check_range(expansion)
    if expansion.kernel.quadratic:
        rho = np.zeros((2, expansion.n_outputs))
    else:
        rho = remainder_norms(expansion, point, progress=progress, sums=sums, each=each)
    if not np.isfinite(rho).all():
        raise UnsupportedModelError(
            "the certificate of this model overflows: its coefficients are too large; divide them "
            "and the intercept by a common factor."
        )
    return Certificate(rho, rounding_terms(expansion, point, mapped=mapped))


def rounding_terms(
    expansion: KernelExpansion, point: FloatArray, *, mapped: bool = False
) -> RoundingTerms:
    """Absolute moments of the centers about `point`, and the lengths of the sums over them."""
    n, d = expansion.n_centers, expansion.n_features
    gamma = 0.0 if expansion.kernel.quadratic else expansion.gamma
    sums, radius_sq = _absolute_sums(expansion, point, gamma)
    with np.errstate(over="ignore"):
        # An overflow to infinity is sound. The floor is for products that underflow in a
        # polynomial, where no exponential keeps |u| small: u times it is
        # LOST_TERMS (1 + |u| + |u|^2).
        total = np.abs(expansion.coefficients).sum(axis=0)
        moments = round_up(sums * np.array(_factors(expansion))[:, None]) * ABOVE
        reach = math.sqrt(radius_sq) + math.hypot(*point)
        # 72: exponentials. 4 sqrt(d) (d + 5): products with a basis V, whose rounding grows like
        # sqrt(r) |u|.
        lengths = n + 3 * d + 72 + 4.0 * math.sqrt(d) * (d + 5)
        if not gamma:
            lengths += polynomial_units(expansion, mapped=mapped)
            error = polynomial_error(expansion) / (UNIT * lengths)  # the least that meets a moment
            if error.any():
                for m, factor in enumerate(_factors(expansion)[:3]):
                    moments[m] += error * (factor * (reach + NORM_LOSS) ** m)
            # a_1 |u| + a_2 |u|^2 where |u| is larger than it seems by as much.
            moments[0] += NORM_LOSS * (moments[1] + NORM_LOSS * moments[2])
            moments[1] += 2.0 * NORM_LOSS * moments[2]
        moments += LOST_TERMS / UNIT * (1.0 + total)
        absolute = LOST_TERMS * (1.0 + total)
        absolute += folding(expansion, total, reach, mapped=mapped)
    return RoundingTerms(
        moments=moments,
        sums=float(lengths),
        per_square=float(d + 5),
        radius_sq=min(radius_sq, LARGEST_EXPONENT / gamma) if gamma else 0.0,
        gamma=gamma,
        magnitude=np.abs(expansion.intercept),
        underflow=absolute,
    )


def _absolute_sums(
    expansion: KernelExpansion, point: FloatArray, gamma: float
) -> tuple[FloatArray, float]:
    """sum_i |w_i| |s_i|^m for m = 0 to 3 (2 without an exponential), and max |s_i|^2."""
    sums = np.zeros((4, expansion.n_outputs))
    radius_sq = 0.0
    orders = 4 if gamma else 3
    for block in row_blocks(
        expansion.n_centers, rows_within(ARRAYS_PER_BLOCK * expansion.n_features)
    ):
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            S = dense_block(expansion.centers, block) - point
            squares = np.einsum("ij,ij->i", S, S)
            size = np.exp(-gamma * squares) if gamma else np.ones(len(S))
            norms = np.sqrt(squares) + (0.0 if gamma else NORM_LOSS)
            powers = np.stack([np.where(size > 0, size * norms**m, 0.0) for m in range(orders)])
            sums[:orders] += powers @ np.abs(expansion.coefficients[block])
        radius_sq = max(radius_sq, float(squares.max(initial=0.0)))
    return sums, radius_sq


def _factors(expansion: KernelExpansion) -> list[float]:
    """What the sums are multiplied with to give the moments."""
    gamma = expansion.gamma
    if expansion.kernel.quadratic:
        beta = abs(expansion.coef0)
        return [beta**2, 2.0 * beta * gamma, gamma**2, 0.0]
    return [(2.0 * gamma) ** m / math.factorial(m) for m in range(4)]


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
