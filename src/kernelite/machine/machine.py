"""What every reader returns: an expansion or a sum of machines, its head, where they came from.

A machine may have a polynomial beside its expansion (`PolynomialTail`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, check_rows, is_sparse
from kernelite.machine.exactly import UNIT, Uncertainty, exact_sum, gap, nearest_all
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.machine.preparation import NO_STEPS, Preparation
from kernelite.machine.variance import Posterior
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = [
    "Machine",
    "MachinePart",
    "PolynomialTail",
    "SumOfMachines",
    "describe",
    "merge_expansions",
]

# A polynomial beside an expansion, evaluated exactly: the tail of an RBF interpolant.
#
#     P(z) = sum_t beta_t prod_j ((z_j - shift_j) / scale_j)^p_tj
#
# A row's terms are products of at most their degree's factors, each of which errs by 2u, and there
# are t of them: |computed P - P| <= u (4 degree + t + 8) sum_t |beta_t| |monomial_t|.


@dataclass(frozen=True, eq=False)
class PolynomialTail:
    """A polynomial of d variables with k outputs.

    Parameters
    ----------
    powers : ndarray of int, shape (t, d)
        The exponents of each monomial.
    coefficients : ndarray of shape (t, k)
    shift, scale : ndarray of shape (d,)

    Examples
    --------
    >>> line = PolynomialTail(np.array([[0], [1]]), np.array([[1.0], [2.0]]), [0.0], [1.0])
    >>> line.values(np.array([[3.0]]))[0]
    array([[7.]])
    """

    powers: NDArray[np.int64]
    coefficients: FloatArray
    shift: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        for name in ("coefficients", "shift", "scale"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if not np.isfinite(array).all():
                raise InputError(f"`{name}` of a polynomial must be finite.")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "powers", np.array(self.powers, dtype=np.int64))
        t, d = self.powers.shape if self.powers.ndim == 2 else (-1, -1)
        if self.coefficients.ndim != 2 or len(self.coefficients) != t:
            raise InputError("a polynomial needs a row of `coefficients` for each of `powers`.")
        if self.shift.shape != (d,) or self.scale.shape != (d,) or (self.scale == 0).any():
            raise InputError(f"`shift` and `scale` of a polynomial must hold {d} numbers.")
        if (self.powers < 0).any() or (self.powers > 100).any():
            raise InputError("`powers` of a polynomial must lie between 0 and 100.")

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.shift)

    @property
    def n_outputs(self) -> int:
        """k."""
        return int(self.coefficients.shape[1])

    @property
    def units(self) -> int:
        """What P may be off by, in units of u times the sum of its terms' sizes."""
        return 4 * int(self.powers.sum(axis=1).max(initial=0)) + len(self.powers) + 8

    def values(
        self, rows: FloatArray, arithmetic: Arithmetic = NUMPY
    ) -> tuple[FloatArray, FloatArray]:
        """P of rows of shape (m, d), and bounds on its rounding: each of shape (m, k)."""
        xp, monomials = ops(rows), []
        with np.errstate(over="ignore", invalid="ignore"):
            z = (rows - self.shift) / self.scale
            for powers in self.powers:
                term = xp.full((rows.shape[0],), 1.0)
                for factor in np.repeat(np.arange(len(powers)), powers).tolist():
                    term = term * z[:, factor]
                monomials.append(term)
            terms = xp.stack(monomials, axis=1)
            sizes = xp.abs(terms) @ np.abs(self.coefficients)
        unit = arithmetic.worse * 1.05 * UNIT * self.units
        return terms @ self.coefficients, sizes * unit


@dataclass(frozen=True, eq=False)
class Machine:
    """A fitted model in kernelite's terms.

    Parameters
    ----------
    expansion : KernelExpansion or SumOfMachines
        Centers, coefficients, intercept and kernel; or several such.
    head : Head
        What turns the expansion's scores into the machine's own answers.
    description : str
        One line for people, e.g. "LIBSVM c_svc, 11877 support vectors, gamma 0.01".
    family : str
        "libsvm", "scikit-learn" or "arrays".
    type_name : str
        The model's type in its family's words: "c_svc", "SVC", ...
    feature_names : tuple of str, optional
        Column names seen at fit time.
    width_is_open : bool
        Whether rows may carry features beyond the model's width; they then count in |z|^2, as in
        LIBSVM, where every vector is zero in the features that it does not name.

    ignores_beyond : bool
        Whether such features are dropped instead (behind svm-scale).
    preparation : Preparation
        What rows go through before: steps of data, transformers kept as they are, and at last an
        affine map to the coordinates of the expansion (length scales, scalers).
    posterior : Posterior, optional
        Of a Gaussian process: what its variance is computed from.
    tail : PolynomialTail, optional
        A polynomial of the rows that is added to the scores.
    notes : tuple of str
        Sentences that a plan should say about what was read.

    Examples
    --------
    >>> from kernelite.machine.heads import RegressorHead
    >>> bump = KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
    >>> Machine(bump, RegressorHead(), "a bump", "arrays", "KernelExpansion").expansion.n_features
    2
    """

    expansion: KernelExpansion | SumOfMachines
    head: Head
    description: str
    family: str
    type_name: str
    feature_names: tuple[str, ...] | None = None
    width_is_open: bool = False
    preparation: Preparation = NO_STEPS
    posterior: Posterior | None = None
    tail: PolynomialTail | None = None
    ignores_beyond: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.head.n_scores != self.expansion.n_outputs:
            raise InputError(
                f"`head` expects {self.head.n_scores} scores a row, but `expansion` has "
                f"{self.expansion.n_outputs} outputs."
            )
        width, d = self.preparation.n_out, self.expansion.n_features
        if width is not None and width != d and not isinstance(self.expansion, SumOfMachines):
            raise InputError(f"`preparation` makes {width} features, but `expansion` has {d}.")

    @property
    def n_features(self) -> int:
        """The width of the rows that come in; an AttributeError where that is text."""
        if self.preparation.steps:
            return self.preparation.width
        if self.expansion.n_features is None:
            raise AttributeError("this model takes no rows of numbers")
        return self.expansion.n_features

    @property
    def single(self) -> KernelExpansion:
        """The expansion of a model that is one machine, or several merged into one."""
        if isinstance(self.expansion, SumOfMachines):
            raise UnsupportedModelError(
                f"this {self.type_name} is made of {len(self.expansion.parts)} machines whose "
                "kernels or inputs differ, so that it has no single expansion."
            )
        return self.expansion

    def scores(self, X: Any, /) -> FloatArray:
        """The expansion's outputs for rows as they come, evaluated exactly; shape (m, k).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
        """
        before, input_map = self.preparation.before_map, self.preparation.input_map
        if before.steps:
            X = before(X, self.feature_names)
        elif not isinstance(self.expansion, SumOfMachines):
            X = check_rows(X, n_features=self.n_features, feature_names=self.feature_names)
        scores = self.expansion.scores(X if input_map is None else input_map(X))
        return scores if self.tail is None else scores + self.tail.values(X)[0]


def describe(name: str, expansion: KernelExpansion) -> str:
    """One line about a model, e.g. "LIBSVM c_svc, 11877 support vectors, gamma 0.01".

    Examples
    --------
    >>> describe("SVR", KernelExpansion([[0.0]], [2.0], 0.5, gamma=0.5, kernel="poly2"))
    'SVR, 1 support vector, polynomial of degree 2, gamma 0.5, coef0 0'
    """
    n = expansion.n_centers
    vectors = f"{n} support vector" if n == 1 else f"{n} support vectors"
    return f"{name}, {vectors}, {expansion.kernel_name}"


# Several kernel machines as one expansion: merged where they can be, side by side otherwise.
#
#     f(z) = sum over parts p of  f_p(z), on the outputs that p has a share in
#
# Machines merge when rows reach them the same way and their kernels agree: centers that are the
# same row are kept once, coefficients get a column an output. What does not merge stays a part of
# its own, with its own kernel, its own map of the inputs and later its own approximation.


@dataclass(frozen=True, eq=False)
class MachinePart:
    """A machine and its place in a composite.

    Parameters
    ----------
    machine : Machine
        With its own head: what the machine alone would have to decide.
    outputs : array of int
        The composite's outputs to which this machine's are added.
    """

    machine: Machine
    outputs: NDArray[np.int64]

    def __post_init__(self) -> None:
        outputs = np.asarray(self.outputs, dtype=np.int64).reshape(-1)
        if len(outputs) != self.machine.expansion.n_outputs or len(set(outputs)) != len(outputs):
            raise InputError("`outputs` must name a place for each output of the part.")
        object.__setattr__(self, "outputs", outputs)


@dataclass(frozen=True, eq=False)
class SumOfMachines:
    """Several expansions whose outputs are added up.

    Parameters
    ----------
    parts : tuple of MachinePart
    n_features : int, optional
        The width of the rows that come in; None where they are not rows of numbers (text).
    n_outputs : int
    """

    parts: tuple[MachinePart, ...]
    n_features: int | None
    n_outputs: int

    def __post_init__(self) -> None:
        reached = {int(output) for part in self.parts for output in part.outputs}
        if reached != set(range(self.n_outputs)):
            raise InputError("the parts of a composite must reach each of its outputs.")

    @property
    def n_centers(self) -> int:
        """Support vectors of all parts."""
        return sum(part.machine.expansion.n_centers for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that the exact model needs."""
        return sum(part.machine.expansion.nbytes for part in self.parts)

    def scores(self, X: Any, /) -> FloatArray:
        """Evaluate exactly, shape (m, k).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        """
        total: FloatArray | None = None
        for part in self.parts:
            scores = part.machine.scores(X)
            if total is None:
                total = np.zeros((len(scores), self.n_outputs))
            total[:, part.outputs] += scores
        assert total is not None
        return total


def merge_expansions(
    expansions: list[KernelExpansion], outputs: list[NDArray[np.int64]], n_outputs: int
) -> KernelExpansion:
    """One expansion from several with the same kernel.

    Parameters
    ----------
    expansions : list of KernelExpansion
        Of the same width, kernel, gamma and coef0.
    outputs : list of int arrays
        Where the outputs of each go; what meets is added.
    n_outputs : int

    Returns
    -------
    KernelExpansion
        Centers that are the same row in several are there once.

    Examples
    --------
    >>> one = KernelExpansion([[0.0], [1.0]], [1.0, 2.0], 0.5, gamma=1.0)
    >>> two = KernelExpansion([[1.0], [2.0]], [3.0, 4.0], 0.25, gamma=1.0)
    >>> merged = merge_expansions([one, two], [np.array([0]), np.array([0])], 1)
    >>> merged.coefficients.ravel(), merged.intercept
    (array([1., 5., 4.]), array([0.75]))
    """
    first = expansions[0]
    if any(is_sparse(expansion.centers) for expansion in expansions):
        from scipy.sparse import csr_array, vstack

        stacked: Any = csr_array(vstack([csr_array(e.centers) for e in expansions]))
        stacked.sort_indices()
    else:
        stacked = np.concatenate([expansion.centers for expansion in expansions])
    kept, place = _distinct_rows(stacked)
    shape = len(kept), n_outputs
    coefficients, sizes, counts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    constants: list[list[float]] = [[] for _ in range(n_outputs)]
    errors, lost = np.zeros(n_outputs), np.zeros(n_outputs)
    start = 0
    for expansion, columns in zip(expansions, outputs):
        rows = place[start : start + expansion.n_centers, None]
        start += expansion.n_centers
        A = expansion.coefficients
        for total, more in ((coefficients, A), (sizes, np.abs(A)), (counts, A != 0.0)):
            np.add.at(total, (rows, columns[None, :]), more)
        for column, constant in zip(columns, expansion.intercept):
            constants[column].append(constant)
        errors[columns] += expansion.known.coefficients
        lost[columns] += expansion.known.intercept
    sums = [exact_sum(constant) for constant in constants]
    intercept = nearest_all(sums)
    # Of c terms, c - 1 sums were rounded; none where centers did not meet.
    errors += UNIT * (np.maximum(counts - 1.0, 0.0) * sizes).sum(axis=0) * (1.0 + 1e-6)
    lost += list(map(gap, intercept, sums))
    uncertainty = Uncertainty(
        errors,
        lost,
        gamma=max(expansion.known.gamma for expansion in expansions),
        centers=max(expansion.known.centers for expansion in expansions),
    )
    return replace(
        first,
        centers=stacked[kept],
        coefficients=coefficients,
        intercept=intercept,
        uncertainty=uncertainty,
    )


def _distinct_rows(rows: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the first of equal rows, in order; and for each row, which of them it equals."""
    seen: dict[bytes, int] = {}
    place = np.empty(rows.shape[0], dtype=np.intp)
    kept: list[int] = []
    for index, key in enumerate(_row_keys(rows)):
        if key not in seen:
            seen[key] = len(kept)
            kept.append(index)
        place[index] = seen[key]
    return np.array(kept, dtype=np.intp), place


def _row_keys(rows: Any) -> Any:
    if is_sparse(rows):
        rows.eliminate_zeros()
        for start, stop in zip(rows.indptr, rows.indptr[1:]):
            yield rows.indices[start:stop].tobytes() + b"|" + rows.data[start:stop].tobytes()
    else:
        for row in rows + 0.0:  # minus zero is zero
            yield row.tobytes()
