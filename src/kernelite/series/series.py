"""Second-order series about a point, u = z - p: what all have in common, and the paper's form.

    f^(z) = E (c + v.u + q(u)) + b,    E = exp(-gamma |u|^2), or 1 of a quadratic kernel

How the quadratic part q is held (a matrix, a truncated spectrum) is the subclasses' matter.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks, rows_within
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import POLY2, RBF
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.series.rounding import check_range, damped, damping
from kernelite.series.work import Work, quadratic_work
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.series.approximation import Certificate

__all__ = [
    "ARRAYS_PER_BLOCK",
    "Evaluated",
    "QuadraticForm",
    "SeriesForm",
    "quadratic_form",
]

ARRAYS_PER_BLOCK = 8  # as large as a block of centers, that are made of it
FEWEST_CENTERS = 1024  # of a block: products of fewer are slower


class Evaluated(NamedTuple):
    """What a form gives for rows: scores (m, k), |u|^2 and, of a truncated form, |y|^2: (m,)."""

    scores: FloatArray
    sq_norms: FloatArray
    kept: FloatArray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesForm:
    """The parts that all forms share.

    Parameters
    ----------
    point : ndarray of shape (d,)
        p, the expansion point.
    constant : ndarray of shape (k,)
        c.
    linear : ndarray of shape (d, k)
        v, a column an output.
    intercept : ndarray of shape (k,)
        b.
    gamma : float
    max_sq_norm : float
        |s_max|^2, the largest squared distance of a center from p.
    damped : bool
        Whether E is exp(-gamma |u|^2); else it is 1.
    """

    point: FloatArray
    constant: FloatArray
    linear: FloatArray
    intercept: FloatArray
    gamma: float
    max_sq_norm: float
    damped: bool = True

    def __post_init__(self) -> None:
        d, k = len(self.point), len(self.constant)
        self._check_arrays(point=(d,), constant=(k,), linear=(d, k), intercept=(k,))
        if not (np.isfinite(self.gamma) and self.gamma > 0):
            raise InputError(f"`gamma` of a form must be positive, got {self.gamma!r}.")
        if not self.max_sq_norm >= 0:
            raise InputError(f"`max_sq_norm` must not be negative, got {self.max_sq_norm!r}.")

    def _check_arrays(self, **shapes: tuple[int, ...]) -> None:
        for name, shape in shapes.items():
            array: NDArray[Any] = getattr(self, name)
            if array.shape != shape:
                raise InputError(f"`{name}` of a form must have shape {shape}, got {array.shape}.")
            if not np.isfinite(array).all():
                raise InputError(f"`{name}` of a form contains NaN or infinity.")

    def __pack__(self) -> dict[str, Any]:
        """Fields for a file, which calls the kernel by its name."""
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        del stored["damped"]
        return stored | {"kernel": self.kernel_tag}

    @classmethod
    def __stored__(cls, stored: dict[str, Any]) -> dict[str, Any]:
        """Fields from a file."""
        tag = stored.pop("kernel", None)
        if tag not in (RBF, POLY2):
            raise InputError(f"`kernel` of a form must be '{RBF}' or '{POLY2}', got {tag!r}.")
        return stored | {"damped": tag == RBF}

    @property
    def kernel_tag(self) -> str:
        """What files call the kernel."""
        return RBF if self.damped else POLY2

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.point)

    @property
    def n_outputs(self) -> int:
        """k."""
        return len(self.constant)

    @property
    def name(self) -> str:
        """What plans call it."""
        raise NotImplementedError

    @property
    def work(self) -> Work:
        """What a row takes, bounds aside."""
        raise NotImplementedError

    @property
    def terms(self) -> dict[str, FloatArray]:
        """The arrays that a score is summed from, times coordinates of the row."""
        return {"constant": self.constant, "linear": self.linear, "intercept": self.intercept}

    @property
    def rank(self) -> int | None:
        """Directions that the quadratic part is cut to; None where it is whole."""
        return None

    def evaluate(self, rows: FloatArray) -> Evaluated:
        """The definition: f^ of each row, |u|^2, and |y|^2 of a truncated form.

        Parameters
        ----------
        rows : ndarray of shape (m, d)
        """
        with np.errstate(over="ignore", invalid="ignore"):
            U = rows - self.point
            sq_norms = ops(rows).squared_norms(U)
            quadratic, kept = self.quadratic_part(U, sq_norms)
            g = U @ self.linear + quadratic + self.constant
            if self.damped:
                g = damped(g, damping(sq_norms, self.gamma))
            return Evaluated(g + self.intercept, sq_norms, kept)

    def quadratic_part(
        self, U: FloatArray, sq_norms: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """q(u) of shape (m, k), and |y|^2 of shape (m,) where q lives on fewer directions."""
        raise NotImplementedError

    def truncation_bound(self, sq_norms: FloatArray, kept: FloatArray | None) -> FloatArray | float:
        """What the directions left out may add, (m, k): nothing, unless a subclass says so."""
        return 0.0

    def bounds(
        self,
        certificate: Certificate,
        found: Evaluated,
        degree: int = 2,
        arithmetic: Arithmetic = NUMPY,
    ) -> FloatArray:
        """The certificate of evaluated scores, the truncation included: (m, k)."""
        total = certificate.bound(found.sq_norms, found.scores, degree, arithmetic)
        if found.kept is None:
            return total
        return total + self.truncation_bound(found.sq_norms, found.kept)

    @property
    def gamma_max(self) -> float:
        """The paper's bound on gamma after training: 1 / (4 |s_max|^2)."""
        return float(np.inf) if self.max_sq_norm == 0 else 0.25 / self.max_sq_norm

    def valid(self, sq_norms: FloatArray) -> NDArray[np.bool_]:
        """Rows for which every term of the series is within 3.05%: |s_max|^2 |u|^2 < 1/(16 g^2).

        Parameters
        ----------
        sq_norms : ndarray of shape (m,)
            |u|^2.
        """
        return sq_norms < self.farthest

    @cached_property
    def farthest(self) -> float:
        """|u|^2 from which a row is outside the validity bound."""
        with np.errstate(all="ignore"):
            scale = np.float64(16.0) * self.max_sq_norm * self.gamma * self.gamma
            return float(np.float64(1.0) / scale if self.damped else np.inf)


# The paper's form: a second-order series about a point p, with u = z - p and s_i = x_i - p.
#
#     f(z) = exp(-gamma |u|^2) g(u) + b,   g(u) = sum_i w_i exp(2 gamma s_i.u) ~ c + v.u + u'Mu
#     w_i = A_i exp(-gamma |s_i|^2),  c = sum w_i,  v = 2 gamma S'w,  M = 2 gamma^2 S' diag(w) S
#
# A degree-2 polynomial kernel has this form exactly, about the origin and without the exponentials.


@dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticForm(SeriesForm):
    """f^(z) = E (c + v.u + u'Mu) + b.

    Parameters
    ----------
    quadratic : ndarray of shape (k, d, d)
        M, symmetric.
    """

    quadratic: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_arrays(quadratic=(self.n_outputs, self.n_features, self.n_features))

    @property
    def name(self) -> str:
        """What plans call it."""
        return "quadratic form"

    @property
    def work(self) -> Work:
        """What a row takes, bounds aside."""
        return quadratic_work(self.n_features, self.n_outputs)

    @property
    def terms(self) -> dict[str, FloatArray]:
        """With M."""
        return super().terms | {"quadratic": self.quadratic}

    def quadratic_part(self, U: FloatArray, sq_norms: FloatArray) -> tuple[FloatArray, None]:
        """u'Mu."""
        return ops(U).contract(U, self.quadratic), None

    def __pack__(self) -> dict[str, Any]:
        """Fields for a file, with one triangle of M: shape (k, d (d + 1) / 2), row by row."""
        M = self.quadratic
        if not np.array_equal(M, M.transpose(0, 2, 1)):
            raise InputError("`quadratic` of a form must be symmetric.")
        stored = super().__pack__()
        del stored["quadratic"]
        return stored | {"triangle": M[:, _upper(self.n_features)]}

    @classmethod
    def __unpack__(cls, stored: dict[str, Any]) -> QuadraticForm:
        """Back from `__pack__`."""
        triangle, d = stored.pop("triangle"), len(stored["point"])
        if triangle.ndim != 2 or triangle.shape[1] != d * (d + 1) // 2:
            raise InputError(f"`triangle` does not fit {d} features, got shape {triangle.shape}.")
        M = np.empty((len(triangle), d, d))
        M[:, _upper(d)] = triangle
        M.transpose(0, 2, 1)[:, _upper(d)] = triangle
        return cls(quadratic=M, **stored)


def quadratic_form(expansion: KernelExpansion, point: FloatArray) -> QuadraticForm:
    """Build the form of `expansion` about `point`, centers in blocks.

    Parameters
    ----------
    expansion : KernelExpansion
    point : ndarray of shape (d,)
        Of a quadratic kernel it must be the origin.

    Examples
    --------
    >>> one = KernelExpansion([[1.0]], [1.0], 0.0, gamma=0.5)
    >>> form = quadratic_form(one, np.array([1.0]))
    >>> form.constant, form.linear, form.quadratic
    (array([1.]), array([[0.]]), array([[[0.]]]))
    """
    d, k, gamma = expansion.n_features, expansion.n_outputs, expansion.gamma
    if not expansion.has_series:
        raise UnsupportedModelError(f"a {expansion.kernel.label} kernel has no quadratic form.")
    polynomial = expansion.kernel.quadratic
    if polynomial and point.any():
        raise InputError("a degree-2 polynomial kernel has its form about the origin only.")
    check_range(expansion)
    c, v, M = np.zeros(k), np.zeros((d, k)), np.zeros((k, d, d))
    largest = 0.0
    for block in row_blocks(expansion.n_centers, rows_within(ARRAYS_PER_BLOCK * d, FEWEST_CENTERS)):
        with np.errstate(over="ignore", under="ignore"):
            S = dense_block(expansion.centers, block) - point
            sq_norms = np.einsum("ij,ij->i", S, S)
            A = expansion.coefficients[block]
            w = A if polynomial else A * np.exp(-gamma * sq_norms)[:, None]
        largest = max(largest, float(sq_norms.max(initial=0.0)))
        with np.errstate(over="ignore", invalid="ignore"):
            c += w.sum(axis=0)
            v += S.T @ w
        for output in range(k):
            _add_weighted_gram(M[output], S, w[:, output])
    with np.errstate(over="ignore", invalid="ignore"):
        for matrix in M:  # BLAS does not promise symmetry to the last bit; the form does
            matrix += matrix.T
        if polynomial:
            c *= expansion.coef0**2
            v *= 2 * expansion.coef0 * gamma
            M *= 0.5 * gamma**2
        else:
            v *= 2 * gamma
            M *= gamma**2
    if not all(np.isfinite(part).all() for part in (c, v, M)):
        raise UnsupportedModelError(
            "the quadratic form of this model overflows: its coefficients are too large, or its "
            "support vectors too far from the expansion point; scale the features before training."
        )
    return QuadraticForm(
        point=np.array(point, dtype=np.float64),
        constant=c,
        linear=v,
        quadratic=M,
        intercept=expansion.intercept.copy(),
        gamma=gamma,
        max_sq_norm=largest,
        damped=expansion.kernel.damps,
    )


def _upper(d: int) -> NDArray[np.bool_]:
    """Where the upper triangle is; shape (d, d)."""
    return np.triu(np.ones((d, d), dtype=np.bool_))


def _add_weighted_gram(out: FloatArray, S: FloatArray, w: FloatArray) -> None:
    """out += S' diag(w) S, over the rows whose weight is not zero.

    One-vs-one columns are mostly zeros, so skipping them saves most of the work.
    """
    used = np.flatnonzero(w)
    if len(used) < len(w):
        S, w = S[used], w[used]
    with np.errstate(over="ignore", invalid="ignore"):
        out += S.T @ (S * w[:, None])
