"""Steps on rows of numbers, feature by feature or row by row, as scikit-learn computes them.

`exact` steps do not round. The values of the others are taken as computed: the exact model begins
with the doubles that come out of them. `Polynomial` alone is counted, if nothing but scaling
follows: each product of k factors is off by (k - 1) u relatively, and by k times what its factors
were off.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add, mul, sub, truediv
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.columns import refuse_infinite
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = [
    "Normalize",
    "NumberStep",
    "OwnScaling",
    "Polynomial",
    "PowerMap",
    "QuantileMap",
    "Threshold",
]

NEARLY_ZERO = 10 * np.finfo(np.float64).eps  # smaller norms are not divided by, as in scikit-learn
EDGE = 1e-7  # of a distribution, that is cut off before a normal one is made of it


class NumberStep:
    """A step that works on any block of rows of numbers."""

    rowwise: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    mixes: ClassVar[bool] = True
    """Whether what comes out may be made of several features."""

    if TYPE_CHECKING:  # a field of some steps

        @property
        def n_features(self) -> int:
            """d, the width of the rows that come in."""

        def __call__(self, rows: Rows) -> FloatArray:
            """The rows that come out."""

    @property
    def n_out(self) -> int:
        """The width of the rows that come out: the same, unless a step says otherwise."""
        return self.n_features

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """The columns that each feature is made of, from those of the features that come in."""
        return mixed(given, self.n_out) if self.mixes else list(given)


def mixed(given: Sequence[frozenset[int]], count: int) -> list[frozenset[int]]:
    """The columns of `count` features that may be made of all."""
    return [frozenset().union(*given)] * count


def check_width(rows: Rows, n_features: int) -> None:
    """Refuse rows of another width."""
    if rows.shape[1] != n_features:
        raise InputError(f"`X` has {rows.shape[1]} features, but this model takes {n_features}.")


def dense(rows: Rows, n_features: int) -> FloatArray:
    """Rows of the expected width as a dense array."""
    check_width(rows, n_features)
    return rows.toarray() if is_sparse(rows) else np.asarray(rows)


@dataclass(frozen=True, eq=False)
class OwnScaling(NumberStep):
    """A scaler's own arithmetic, operation by operation, where no bound can hold another's.

    Parameters
    ----------
    marks : str
        Of '+', '-', '*' and '/', in order.
    by : tuple of float arrays of shape (d,)
        With what.
    """

    marks: str
    by: tuple[NDArray[np.float64], ...]
    mixes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(self.marks) != len(self.by) or not self.by or set(self.marks) - set("+-*/"):
            raise InputError("a scaling needs an array per operation.")
        AffineMap.of(*zip(self.marks, self.by, strict=True))  # type: ignore[arg-type]  # checks

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.by[0])

    def formula(self, rows: Any) -> Any:
        """Of dense rows, over `machine.ops`."""
        acts = {"+": add, "-": sub, "*": mul, "/": truediv}
        for mark, by in zip(self.marks, self.by, strict=True):
            rows = acts[mark](rows, by[None, :])
        return rows

    def __call__(self, rows: Rows) -> FloatArray:
        """Scaled rows."""
        with np.errstate(over="ignore"):
            return np.asarray(self.formula(dense(rows, self.n_features)))


@dataclass(frozen=True, eq=False)
class Polynomial(NumberStep):
    """Products of features, as PolynomialFeatures makes them.

    Parameters
    ----------
    powers : int array of shape (terms, d)
        Of each feature in each product.

    Examples
    --------
    >>> Polynomial(np.array([[0, 0], [1, 0], [1, 2]]))(np.array([[2.0, 3.0]]))
    array([[ 1.,  2., 18.]])
    """

    powers: NDArray[np.int64]

    def __post_init__(self) -> None:
        powers = np.array(self.powers, dtype=np.int64)
        if powers.ndim != 2 or (powers < 0).any() or (powers > 64).any():
            raise InputError("`powers` of a polynomial must be a table of small whole numbers.")
        object.__setattr__(self, "powers", powers)

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.powers.shape[1])

    @property
    def n_out(self) -> int:
        """The number of products."""
        return len(self.powers)

    @property
    def degree(self) -> int:
        """The largest number of factors of a product."""
        return int(self.powers.sum(axis=1).max(initial=0))

    def formula(self, rows: Any) -> Any:
        """Of dense rows, over `machine.ops`: factor by factor, a one where there is none left."""
        xp, d = ops(rows), self.n_features
        whole = xp.concat([rows, xp.full((rows.shape[0], 1), 1.0)], axis=1)
        places = np.full((max(self.degree, 1), self.n_out), d)
        for term, powers in enumerate(self.powers):
            factors = np.repeat(np.arange(d), powers)
            places[: len(factors), term] = factors
        return reduce(mul, (whole[:, factors] for factors in places))

    def __call__(self, rows: Rows) -> FloatArray:
        """Products of features of each row."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.ascontiguousarray(self.formula(dense(rows, self.n_features)))


@dataclass(frozen=True, eq=False)
class Normalize(NumberStep):
    """Rows divided by their norm, as Normalizer does.

    Parameters
    ----------
    norm : {"l1", "l2", "max"}
    n_features : int
    """

    norm: Literal["l1", "l2", "max"]
    n_features: int

    def formula(self, rows: Any) -> Any:
        """Of dense rows, over `machine.ops`."""
        xp = ops(rows)
        if self.norm == "l2":
            norms = xp.sqrt(xp.squared_norms(rows))[:, None]
        else:
            total = xp.max if self.norm == "max" else xp.sum
            norms = total(xp.abs(rows), axis=1, keepdims=True)
        return rows / xp.where(norms < NEARLY_ZERO, 1.0, norms)

    def __call__(self, rows: Rows) -> Rows:
        """Rows of norm 1, sparse ones as such."""
        with np.errstate(over="ignore", invalid="ignore"):
            if is_sparse(rows):
                norms = self._norms(np.abs(rows))
                made = rows.copy()
                made.data /= np.repeat(np.where(norms == 0.0, 1.0, norms), np.diff(rows.indptr))
                return made
            return np.asarray(self.formula(dense(rows, self.n_features)))

    def _norms(self, sizes: Any) -> FloatArray:
        """Of sparse rows."""
        if self.norm == "max":
            return np.asarray(sizes.max(axis=1).toarray())
        if self.norm == "l1":
            return np.asarray(sizes.sum(axis=1))
        return np.sqrt(np.asarray(sizes.multiply(sizes).sum(axis=1)))


@dataclass(frozen=True, eq=False)
class Threshold(NumberStep):
    """1 above a threshold, else 0, as Binarizer does.

    Parameters
    ----------
    threshold : float
    n_features : int
    """

    threshold: float
    n_features: int
    exact: ClassVar[bool] = True
    mixes: ClassVar[bool] = False

    def formula(self, rows: Any) -> Any:
        """Of dense rows, over `machine.ops`."""
        return ops(rows).where(rows > self.threshold, 1.0, 0.0)

    def __call__(self, rows: Rows) -> FloatArray:
        """Zeros and ones."""
        rows = dense(rows, self.n_features)
        refuse_infinite(rows, nan=True)
        return np.asarray(self.formula(rows))


@dataclass(frozen=True, eq=False)
class PowerMap(NumberStep):
    """A power of each feature, as PowerTransformer takes it before it standardises.

    Parameters
    ----------
    method : {"yeo-johnson", "box-cox"}
    exponents : float array of shape (d,)
        lambda of each feature.
    """

    method: Literal["yeo-johnson", "box-cox"]
    exponents: NDArray[np.float64]
    mixes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.exponents.ndim != 1 or not np.isfinite(self.exponents).all():
            raise InputError("`exponents` of a power map must be a list of finite numbers.")

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.exponents)

    def formula(self, rows: Any) -> Any:
        """Of dense rows, over `machine.ops`: (e^(lambda t) - 1) / lambda, t the logarithm."""
        xp, lambdas = ops(rows), self.exponents[None, :]

        def power(t: Any, by: FloatArray) -> Any:
            flat = (np.abs(by) < np.spacing(1.0)).astype(np.float64)  # there it is t itself
            by = np.where(flat > 0.0, 1.0, by)
            return t * flat + xp.function("expm1", t * by) / by * (1.0 - flat)

        if self.method == "box-cox":
            return power(xp.log(rows), lambdas)
        up = power(xp.function("log1p", xp.maximum(rows, 0.0)), lambdas)
        down = power(xp.function("log1p", xp.maximum(-rows, 0.0)), 2.0 - lambdas)
        return xp.where(rows >= 0.0, up, -down)

    def __call__(self, rows: Rows) -> FloatArray:
        """Powers, by SciPy's functions."""
        rows = dense(rows, self.n_features)
        refuse_infinite(rows)
        if self.method == "box-cox":
            if not np.nanmin(rows, initial=1.0) > 0:
                raise InputError(
                    "`X` must be positive, since a Box-Cox transformation stands first."
                )
            from scipy.special import boxcox as power
        else:
            from scipy.stats import yeojohnson as power
        out = np.empty(rows.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            for j, exponent in enumerate(self.exponents):
                # It refuses empty arrays.
                out[:, j] = power(np.ascontiguousarray(rows[:, j]), exponent) if len(rows) else 0.0
        if np.isinf(out).any():
            raise InputError(
                "`X` has numbers so large that a power of them overflows; drop such rows."
            )
        return out


@dataclass(frozen=True, eq=False)
class QuantileMap(NumberStep):
    """Each feature by its quantiles, as QuantileTransformer does.

    Parameters
    ----------
    quantiles : float array of shape (q, d)
        Of each feature, in order.
    references : float array of shape (q,)
        The shares that they stand for.
    normal : bool
        Whether a normal distribution is made of the uniform one.
    """

    quantiles: NDArray[np.float64]
    references: NDArray[np.float64]
    normal: bool
    mixes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.quantiles.ndim != 2 or self.references.shape != self.quantiles.shape[:1]:
            raise InputError("`quantiles` must have a line per reference.")
        if not len(self.references):
            raise InputError("a quantile map needs at least one quantile.")

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.quantiles.shape[1])

    def formula(self, rows: Any) -> Any:
        """Of dense rows, over `machine.ops`; a normal distribution is not written there."""
        xp, found = ops(rows), []
        if self.normal:
            raise UnsupportedModelError(
                "its QuantileTransformer gives a normal distribution, which no target has; fit it "
                "with output_distribution='uniform', or transform rows before"
            )
        references = self.references
        for j, quantiles in enumerate(self.quantiles.T):
            x = rows[:, j]
            upwards = xp.interp(x, quantiles, references)
            downwards = xp.interp(-x, -quantiles[::-1], -references[::-1])
            shares = xp.where(x == quantiles[-1], 1.0, 0.5 * (upwards - downwards))
            found.append(xp.where(x == quantiles[0], 0.0, shares))
        return xp.stack(found, axis=1)

    def __call__(self, rows: Rows) -> Rows:
        """Shares, or what a normal distribution has there; of sparse rows, their entries alone."""
        refuse_infinite(rows.data if is_sparse(rows) else rows)
        if is_sparse(rows):
            made = rows.tocsc(copy=True)
            for j, (start, stop) in enumerate(pairwise(made.indptr)):
                made.data[start:stop] = self._column(made.data[start:stop], self.quantiles[:, j])
            return made.tocsr()
        rows = dense(rows, self.n_features)
        out = np.empty(rows.shape)
        for j, quantiles in enumerate(self.quantiles.T):
            out[:, j] = self._column(np.ascontiguousarray(rows[:, j]), quantiles)
        return out

    def _column(self, x: FloatArray, quantiles: FloatArray) -> FloatArray:
        first, last = quantiles[0], quantiles[-1]
        if self.normal:
            low, high = x - EDGE < first, x + EDGE > last
        else:
            low, high = x == first, x == last
        # From both sides: where quantiles repeat, the middle of the shares counts.
        upwards = np.interp(x, quantiles, self.references)
        downwards = np.interp(-x, -quantiles[::-1], -self.references[::-1])
        shares = 0.5 * (upwards - downwards)
        shares[high] = 1.0
        shares[low] = 0.0
        if not self.normal:
            return shares
        from scipy.special import ndtri

        margin = EDGE - np.spacing(1)
        return np.asarray(np.clip(ndtri(shares), ndtri(margin), ndtri(1 - margin)))
