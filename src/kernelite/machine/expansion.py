"""The one intermediate representation: a kernel machine as a sum over centers.

    f(z) = sum_i A_i k(x_i, z) + b                                   k outputs at once
    k(x, z) = exp(-gamma |x - z|^2)    or    (gamma x.z + coef0)^2    or any other `Kernel`

The first two have the paper's form, and names of their own. Every source becomes a
`KernelExpansion`; nothing downstream knows what a `dual_coef_` was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import (
    FloatArray,
    Rows,
    check_rows,
    dense_block,
    is_sparse,
    row_blocks,
)
from kernelite.machine.exactly import UNIT, Uncertainty
from kernelite.machine.kernels import POLY2, RBF, Gaussian, Kernel, PolynomialKernel
from kernelite.machine.pairs import classes_of_centers, n_classes, own_columns, spread_out
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "KernelExpansion",
    "kernel_function",
    "kernel_values",
    "only_columns",
    "squared_distances",
    "squared_norms",
]

KERNEL_VALUES_PER_TILE = 1 << 20  # kernel values held at once by `scores`: 8 MB
CANCELS = 1e4  # gamma |x|^2 from which a kernel value would err by 1e-11 or more
MOST_UNPACKED = 64  # numbers of a dense array for each one in a file


@dataclass(frozen=True, eq=False, init=False)
class KernelExpansion:
    """A fitted kernel machine: centers, coefficients, intercept and kernel.

    Any model that obeys the representer theorem can be given this way. The arrays are copied.

    Parameters
    ----------
    centers : array-like or sparse matrix of shape (n, d)
        The support vectors x_i.
    coefficients : array-like of shape (n, k) or (n,)
        A_i, one column an output.
    intercept : array-like of shape (k,) or a number
        b.
    gamma : float
        The width of a kernel given by its name, positive and finite.
    kernel : {"rbf", "poly2"} or Kernel
        exp(-gamma |x - z|^2), or (gamma x.z + coef0)^2, or one of `kernelite.machine.kernels`,
        which holds its own parameters. The attribute is a `Kernel` in any case.
    coef0 : float
        Only for "poly2".
    uncertainty : Uncertainty, optional
        How far these numbers may be from those of the model that they were folded from.

    Examples
    --------
    >>> bump = KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
    >>> bump.scores([[0.0, 0.0], [9.0, 9.0]])
    array([[2.5],
           [0.5]])
    """

    centers: Rows
    coefficients: FloatArray
    intercept: FloatArray
    kernel: Kernel
    uncertainty: Uncertainty | None

    def __init__(
        self,
        centers: Any,
        coefficients: Any,
        intercept: Any,
        gamma: float = math.nan,
        kernel: Literal["rbf", "poly2"] | Kernel = "rbf",
        coef0: float = 0.0,
        uncertainty: Uncertainty | None = None,
    ) -> None:
        centers = check_rows(centers, name="centers").copy()
        coefficients = _column_per_output(coefficients, centers.shape[0])
        intercept = _finite("intercept", intercept).reshape(-1)
        if intercept.shape[0] != coefficients.shape[1]:
            raise InputError(
                f"`intercept` has {intercept.shape[0]} values, but `coefficients` has "
                f"{coefficients.shape[1]} outputs."
            )
        kernel = _kernel(kernel, gamma, coef0)
        kernel.check_centers(centers)
        if uncertainty is not None and len(uncertainty.intercept) != len(intercept):
            raise InputError(f"`uncertainty` must be one of {len(intercept)} outputs.")
        for field, value in (
            ("centers", centers),
            ("coefficients", coefficients),
            ("intercept", intercept),
            ("kernel", kernel),
            ("uncertainty", uncertainty),
        ):
            object.__setattr__(self, field, value)

    def __pack__(self) -> dict[str, Any]:
        """For files: dense centers by their entries, where that is less than half the size.

        Of one-vs-one coefficients only those of a center's own pairs.
        """
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        stored |= {"gamma": self.gamma, "coef0": self.coef0}
        if self.has_series:
            stored["kernel"] = self.kernel.tag
        if self.uncertainty is None:
            del stored["uncertainty"]
        if (own := own_columns(self.coefficients)) is not None:
            stored["classes"], stored["coefficients"] = own
        if is_sparse(self.centers) or self.n_centers == 0:
            return stored
        filled = np.count_nonzero(self.centers)
        if not 3 * filled < self.centers.size <= MOST_UNPACKED * filled:
            return stored
        from scipy.sparse import csr_array

        return stored | {"centers": csr_array(self.centers), "dense": True}

    @classmethod
    def __unpack__(cls, stored: dict[str, Any]) -> KernelExpansion:
        """Back from `__pack__`."""
        centers, classes = stored["centers"], stored.pop("classes", None)
        if isinstance(stored.get("kernel"), Kernel):
            stored = {name: stored[name] for name in stored if name not in ("gamma", "coef0")}
        if classes is not None:
            stored = stored | {"coefficients": spread_out(classes, stored["coefficients"])}
        if stored.pop("dense", False):
            # A few bytes in a file must not ask for gigabytes.
            if not is_sparse(centers) or math.prod(centers.shape) > MOST_UNPACKED * centers.nnz:
                raise InputError("`centers` are not what dense ones are stored as.")
            stored = stored | {"centers": centers.toarray()}
        return cls(**stored)

    @property
    def has_series(self) -> bool:
        """Whether the kernel is one of those that have the paper's form."""
        return self.kernel.has_series

    @property
    def gamma(self) -> float:
        """The width of a kernel that has a series; of others, 1."""
        kernel: Any = self.kernel
        return kernel.gamma if kernel.has_series else 1.0

    @property
    def coef0(self) -> float:
        """What a quadratic kernel adds to gamma x.z; of others, 0."""
        kernel: Any = self.kernel
        return kernel.coef0 if kernel.has_series else 0.0

    @property
    def kernel_tag(self) -> str:
        """What files call the kernel; the label of one without a series."""
        return self.kernel.tag

    @property
    def kernel_name(self) -> str:
        """The kernel in a few words, with its parameters."""
        return self.kernel.label

    @property
    def n_centers(self) -> int:
        """n, the number of support vectors."""
        return int(self.centers.shape[0])

    @property
    def n_features(self) -> int:
        """d, the width of a row."""
        return int(self.centers.shape[1])

    @property
    def n_outputs(self) -> int:
        """k, the number of scores a row gets."""
        return int(self.coefficients.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that the exact model needs."""
        centers = self.centers
        own = centers.data.nbytes + centers.indices.nbytes if is_sparse(centers) else centers.nbytes
        return int(own + self.coefficients.nbytes + self.intercept.nbytes)

    @cached_property
    def voting_classes(self) -> int | None:
        """K of a one-vs-one machine, whose outputs are pairs of classes; None of others."""
        pairs = classes_of_centers(self.coefficients) is not None
        return n_classes(self.n_outputs) if pairs else None

    @property
    def meeting_entries(self) -> float:
        """Products of entries other than zero that a row like the centers needs for all x_i.z."""
        centers = self.centers
        if not is_sparse(centers) or not self.n_centers:
            return float(self.n_centers * self.n_features)
        _, holders = np.unique(centers.indices, return_counts=True)  # columns may be 2^31
        return float(np.square(holders, dtype=np.float64).sum()) / self.n_centers

    def rounded(
        self,
        *,
        units: float = 0.0,
        coefficients: Any = 0.0,
        intercept: Any = 0.0,
        gamma: float = 0.0,
        centers: float = 0.0,
        rows: float = 0.0,
        relative: float = 0.0,
    ) -> KernelExpansion:
        """The same numbers, known to be off by more than was known before.

        Parameters
        ----------
        units : float
            Relative roundings of each coefficient and of the intercept, in units of 2^-53.
        coefficients, intercept : floats, or arrays of shape (k,)
            Absolute errors, as `Uncertainty` has them.
        gamma, centers, rows, relative : float
            Likewise.
        """
        u = units * UNIT * (1.0 + 1e-6)  # for higher orders
        with np.errstate(over="ignore"):
            more = Uncertainty(
                u * np.abs(self.coefficients).sum(axis=0) * (1.0 + 1e-9) + coefficients,
                u * np.abs(self.intercept) + intercept,
                gamma,
                centers,
                rows,
                relative,
            )
        return self._known_as(self.known + more)

    def _known_as(self, uncertainty: Uncertainty) -> KernelExpansion:
        """The same arrays, shared: they may take most of the memory."""
        made = object.__new__(type(self))
        for field in fields(self):
            object.__setattr__(made, field.name, getattr(self, field.name))
        object.__setattr__(made, "uncertainty", uncertainty)
        return made

    @cached_property
    def known(self) -> Uncertainty:
        """`uncertainty`, zeros where there is none."""
        return Uncertainty.none(self.n_outputs) if self.uncertainty is None else self.uncertainty

    def dense_centers(self) -> FloatArray:
        """The centers as a dense array of shape (n, d)."""
        return dense_block(self.centers, slice(None))

    @cached_property
    def squares(self) -> FloatArray:
        """|x_i|^2, shape (n,); infinite where it overflows."""
        return squared_norms(self.centers)

    def scores(self, X: Any, /) -> FloatArray:
        """Evaluate f exactly (in double precision), tile by tile.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m, k)
        """
        rows = check_rows(X, n_features=self.n_features)
        out = np.empty((rows.shape[0], self.n_outputs))
        tile = max(16, KERNEL_VALUES_PER_TILE // max(self.n_centers, 1))
        kernel = _Kernel(self)
        for block in row_blocks(rows.shape[0], tile):
            out[block] = kernel(rows[block]) @ self.coefficients + self.intercept
        return out


def kernel_values(expansion: KernelExpansion, rows: Rows) -> FloatArray:
    """k(x_i, z) for every row and center: shape (m, n). The caller keeps m small."""
    return _Kernel(expansion)(rows)


def kernel_function(expansion: KernelExpansion) -> Callable[[Rows], FloatArray]:
    """`kernel_values` of one expansion, for rows that come in several parts."""
    return _Kernel(expansion)


def squared_distances(expansion: KernelExpansion, rows: Rows) -> FloatArray:
    """|x_i - z|^2 for every row and center: shape (m, n). The caller keeps m small."""
    return _Kernel(expansion).squared_distances(rows)


class _Kernel:
    """k(x_i, z), with what depends on the centers alone computed once.

    Squared distances are |x|^2 + |z|^2 - 2 x.z, which cancels when the data sit far from the
    origin; so dense centers and rows are shifted to the centers' mean first. A distance does not
    change by that, and the norms become small. Where they stay large against the kernel's width,
    differences are taken: such are kernels narrower than doubles near the data can tell.
    """

    def __init__(self, expansion: KernelExpansion) -> None:
        self.expansion = expansion
        self.centers = expansion.centers
        self.point: FloatArray | None = None
        if not expansion.has_series and is_sparse(self.centers):
            self.centers = expansion.dense_centers()
        if expansion.kernel.damps:
            if not is_sparse(self.centers) and expansion.n_centers:
                self.point = self.centers.mean(axis=0)
                self.shifted = self.centers - self.point
                self.shifted_norms = squared_norms(self.shifted)
                self.cancels = expansion.gamma * float(self.shifted_norms.max()) > CANCELS
            with np.errstate(over="ignore"):
                self.norms = squared_norms(self.centers)

    def __call__(self, rows: Rows) -> FloatArray:
        gamma, kernel = self.expansion.gamma, self.expansion.kernel
        if not kernel.has_series:
            return kernel.values(dense_block(rows, slice(None)), self.centers)
        if kernel.quadratic:
            products = _products(rows, self.centers)
            products *= gamma
            products += self.expansion.coef0
            return np.square(products, out=products)
        distances = self.squared_distances(rows)
        distances *= -gamma
        with np.errstate(under="ignore"):
            return np.exp(distances, out=distances)

    def squared_distances(self, rows: Rows) -> FloatArray:
        """|x_i - z|^2 of shape (m, n)."""
        if self.point is None or is_sparse(rows):
            centers, norms = self.centers, self.norms
        elif self.cancels:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(rows, self.centers, "sqeuclidean"))
        else:
            rows, centers, norms = rows - self.point, self.shifted, self.shifted_norms
        with np.errstate(over="ignore", invalid="ignore"):
            row_norms = squared_norms(rows)
            out = _products(rows, centers)
            out *= -2.0
            out += row_norms[:, None]
            out += norms[None, :]
        if not (np.isfinite(row_norms).all() and np.isfinite(norms).all()):
            # Beyond 1e154 squares overflow, and inf - inf says nothing: that far is infinitely far.
            out[np.isnan(out)] = np.inf
        return np.maximum(out, 0.0, out=out)


def _products(rows: Rows, centers: Rows) -> FloatArray:
    if is_sparse(rows) and is_sparse(centers) and centers.shape[1] > centers.nnz:
        # A sparse product takes memory for each column; the width may be 2^31.
        rows, centers = _common_columns(rows, centers)
    products = rows @ centers.T
    return products.toarray() if is_sparse(products) else np.asarray(products)


def squared_norms(rows: Rows) -> FloatArray:
    """|z|^2 of each row, shape (m,); infinite where it overflows."""
    with np.errstate(over="ignore"):
        if is_sparse(rows):
            return np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1)
        return np.einsum("ij,ij->i", rows, rows)


def _common_columns(rows: Any, centers: Any) -> tuple[Any, Any]:
    """Both CSR matrices cut down to the columns in which some center is not zero."""
    columns = np.unique(centers.indices)
    return only_columns(rows, columns), only_columns(centers, columns)


def only_columns(rows: csr_array, columns: NDArray[np.integer]) -> csr_array:
    """A CSR matrix cut down to some columns, given in rising order.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> only_columns(csr_array([[1.0, 2.0, 0.0, 3.0]]), np.array([0, 2, 3])).toarray()
    array([[1., 0., 3.]])
    """
    from scipy.sparse import csr_array

    places = np.searchsorted(columns, rows.indices)
    kept = np.append(columns, -1)[places] == rows.indices
    starts = np.append(0, np.cumsum(kept))[rows.indptr]
    shape = rows.shape[0], len(columns)
    return csr_array((rows.data[kept], places[kept], starts), shape=shape)


def _kernel(kernel: Any, gamma: Any, coef0: Any) -> Kernel:
    """The kernel of that name, or the kernel itself."""
    gamma_number, coef0_number = _number("gamma", gamma), _number("coef0", coef0)
    if isinstance(kernel, Kernel):
        own = getattr(kernel, "gamma", gamma_number) if kernel.has_series else gamma_number
        if not math.isnan(gamma_number) and own != gamma_number:
            raise InputError(f"`gamma` is {gamma!r}, but the kernel's own is {own!r}; give one.")
        return kernel
    if not (isinstance(kernel, str) and kernel in (RBF, POLY2)):
        raise InputError(f"`kernel` must be '{RBF}', '{POLY2}' or a Kernel, got {kernel!r}.")
    if not (np.isfinite(gamma_number) and gamma_number > 0):
        raise InputError(f"`gamma` must be positive and finite, got {gamma!r}.")
    if not np.isfinite(coef0_number):
        raise InputError(f"`coef0` must be finite, got {coef0!r}.")
    named = kernel == RBF
    return Gaussian(gamma_number) if named else PolynomialKernel(2, gamma_number, coef0_number)


def _column_per_output(coefficients: Any, n_centers: int) -> FloatArray:
    array = _finite("coefficients", coefficients)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2 or array.shape[0] != n_centers:
        raise InputError(
            f"`coefficients` must have shape ({n_centers}, k), one row a center, got {array.shape}."
        )
    return np.ascontiguousarray(array)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be a number, got {value!r}.") from None


def _finite(name: str, value: Any) -> FloatArray:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers ({error}).") from None
    if not np.isfinite(array).all():
        raise InputError(f"`{name}` contains NaN or infinity.")
    return array
