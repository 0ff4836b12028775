"""The third order for less: bounded along the row's own direction, or replaced by a product.

The directional bound does not evaluate the cubic term:

    |T(u, u, u)| <= |u|^2 sqrt(u'Gu),    G = T_(1) T_(1)', positive semidefinite
    sqrt(u'Gu) <= sqrt(y'(Q'GQ)y) + sqrt(v'Gv),    y = Q'u,   v = u - Qy,   v'Gv <= tail |v|^2

Cheaper than the cubic form where d is large; added to the rho_4 term it replaces the rho_3 one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.series.cubic import CubicForm, unpack
from kernelite.series.rounding import (
    ABOVE,
    UNIT,
    RoundingTerms,
    damped,
    damping,
    eigenvalue_error,
    hidden_square,
    round_up,
)
from kernelite.series.spectral import frobenius, skewness
from kernelite.series.work import Work, directional_work
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.series.approximation import Certificate

__all__ = [
    "DirectionalBound",
    "PairedCubic",
    "cubic_gram",
    "directional_bound",
    "gram_slack",
    "may_pair",
    "paired_cubic",
]

GRAM_CENTERS_PER_BLOCK = 512


@dataclass(frozen=True, eq=False)
class DirectionalBound:
    """Leading eigenpairs of G for every output on a common basis.

    Parameters
    ----------
    basis : ndarray of shape (d, r)
        Q_r.
    cores : ndarray of shape (k, r, r)
        Q' G_j Q, with its rounding added on the diagonal.
    tail : ndarray of shape (k,)
        The largest eigenvalue of G_j beyond the basis, rounded up.
    slack : ndarray of shape (k,)
        What sqrt(v'Gv) may gain because Q is not quite orthonormal, a |u|.
    """

    basis: FloatArray
    cores: FloatArray
    tail: FloatArray
    slack: FloatArray
    evaluated: ClassVar[bool] = False
    """Whether a row's third order is known, not bounded alone."""

    def __post_init__(self) -> None:
        k, r = len(self.tail), self.rank
        if self.cores.shape != (k, r, r):
            raise InputError(
                f"`cores` of a directional bound must have shape {(k, r, r)}, "
                f"got {self.cores.shape}."
            )
        for name in ("tail", "slack"):
            array = getattr(self, name)
            if array.shape != (k,) or not (array >= 0).all():
                raise InputError(f"`{name}` of a directional bound must be numbers, none negative.")

    @property
    def rank(self) -> int:
        """r."""
        return int(self.basis.shape[1])

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.basis)

    @property
    def n_outputs(self) -> int:
        """k."""
        return len(self.tail)

    @property
    def name(self) -> str:
        """What plans call it."""
        return "directional bound"

    @property
    def work(self) -> Work:
        """What a row takes."""
        return directional_work(self.n_features, self.n_outputs, self.basis.shape[1])

    def term(
        self, U: FloatArray, sq_norms: FloatArray, gamma: float, arithmetic: Arithmetic = NUMPY
    ) -> tuple[float, FloatArray]:
        """As `CubicForm.term`: the third order is not evaluated, all of it is in the bound."""
        return 0.0, self.bound(U, sq_norms, damping(sq_norms, gamma), arithmetic)

    def bound(
        self,
        U: FloatArray,
        sq_norms: FloatArray,
        factor: FloatArray,
        arithmetic: Arithmetic = NUMPY,
    ) -> FloatArray:
        """exp(-gamma |u|^2) |u|^2 sqrt(u'Gu), not below the real value: shape (m, k)."""
        xp, squares = ops(U), sq_norms[:, None]
        hidden = arithmetic.worse * hidden_square(*self.basis.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            Y = U @ self.basis
            # |u|^2 - |y|^2 errs by `hidden`.
            rest = xp.maximum(squares - xp.squared_norms(Y)[:, None], 0.0) + squares * hidden
            inner = xp.maximum(xp.contract(Y, self.cores), 0.0)
            root = xp.sqrt(inner) + xp.sqrt(rest * self.tail) + xp.sqrt(squares) * self.slack
            return damped(root * squares * ABOVE, factor)  # else in the underflow term


def cubic_gram(expansion: KernelExpansion, point: FloatArray, output: int) -> FloatArray:
    """G of one output through pairs of centers: n^2 d operations, no d^3 tensor. Shape (d, d)."""
    gamma, d = expansion.gamma, expansion.n_features
    used = np.flatnonzero(expansion.coefficients[:, output])
    S = dense_block(expansion.centers, used)
    with np.errstate(over="ignore", under="ignore"):
        S -= point
        w = expansion.coefficients[used, output] * np.exp(-gamma * np.einsum("ij,ij->i", S, S))
    seen = w != 0.0  # the others are in the underflow term, and might overflow here
    S, w = S[seen], w[seen]
    weighted = S * w[:, None]
    G = np.zeros((d, d))
    for left in row_blocks(len(w), GRAM_CENTERS_PER_BLOCK):
        pulled = np.zeros((left.stop - left.start, d))
        for right in row_blocks(len(w), GRAM_CENTERS_PER_BLOCK):
            pulled += np.square(S[left] @ S[right].T) @ weighted[right]
        G += weighted[left].T @ pulled
    G *= (2.0 * gamma) ** 6 / 36.0
    return 0.5 * (G + G.T)


def directional_bound(grams: list[FloatArray], rank: int, slack: FloatArray) -> DirectionalBound:
    """Cut the grams of all outputs to `rank` common directions.

    Parameters
    ----------
    grams : list of ndarray of shape (d, d)
    rank : int
    slack : ndarray of shape (k,)
        What rounding may have taken from each G, in spectral norm.

    Notes
    -----
    The diagonal of a core and the tail gain 64 (d + 8)^2 u trace(G): the rounding of G, of Q'GQ,
    of the eigenvalue, and at run time of y and y'(Q'GQ)y.

    Examples
    --------
    >>> bound = directional_bound([np.diag([4.0, 1.0])], 1, np.zeros(1))
    >>> bound.tail.round(9)
    array([1.])
    """
    d, k = grams[0].shape[0], len(grams)
    traces = np.array([float(np.trace(gram)) for gram in grams])
    total = sum((gram / (trace or 1.0) for gram, trace in zip(grams, traces)), np.zeros((d, d)))
    _, vectors = np.linalg.eigh(total)
    rank = min(rank, d)
    Q, W = np.ascontiguousarray(vectors[:, d - rank :]), vectors[:, : d - rank]
    skew = skewness(vectors)
    rounding = eigenvalue_error(d) * traces + slack
    cores, tail = np.empty((k, rank, rank)), np.empty(k)
    for j, gram in enumerate(grams):
        core = Q.T @ gram @ Q
        cores[j] = 0.5 * (core + core.T) + rounding[j] * np.eye(rank)
        outer = np.linalg.eigvalsh(W.T @ gram @ W)[-1] if rank < d else 0.0
        tail[j] = max(float(outer), 0.0) + rounding[j]
    # v = WW'u up to skew |u|, and |W'u|^2 = |u|^2 - |y|^2 up to skew |u|^2.
    skewed = 2.0 * skew * np.sqrt(traces + rounding) + np.sqrt(tail * skew)
    return DirectionalBound(Q, cores, round_up(tail), round_up(skewed))


def gram_slack(expansion: KernelExpansion, rounding: RoundingTerms) -> FloatArray:
    """What rounding may have taken from G of each output, in spectral norm: shape (k,).

    Sums over pairs of centers, relative to the square of a_3; and a floor for what underflows.
    """
    lengths = 2.0 * rounding.sums + 8.0 * expansion.n_features
    lengths += 4.0 * rounding.per_square * rounding.gamma * rounding.radius_sq
    with np.errstate(over="ignore"):
        floor = 1e-290 * (1.0 + (2.0 * expansion.gamma) ** 6)
        return UNIT * lengths * rounding.moments[3] ** 2 + floor


# The third order as one quadratic form times a linear one, the rest bounded: O(k d) beside it.
#
#     T_j(u, u, u) = (a_j.u) (u'Bu) + R_j(u, u, u),     |R_j(u, u, u)| <= rest_j |u|^3
#
# B is shared by all outputs. Rows that are spread evenly about the point make nearly all of the
# third order such a product: for normal ones with covariance C, a machine that is close to linear
# has T = sym(a (x) C). In: packed tensors (see cubic.py). Out: a_j, B by alternating least squares,
#
#     <T, a (x) B> = a.(T:B),     |sym(a (x) B)|^2 = (|a|^2 |B|^2 + 2 |Ba|^2) / 3
#
# and rest_j, the spectral norm of R_j unfolded, rounded up. What (a.u) (u'Bu) errs by when it is
# computed is bounded as the third order's own rounding is, with |a_j| |B| added to its moment a_3.

LEAST_SQUARES_TURNS = 8  # of least squares; the first few do nearly all
MOST_DIRECTIONAL_FEATURES = 48  # beyond, the tensors take longer to fit than they save
MOST_TENSOR_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class PairedCubic:
    """Products of forms that stand for the third order of k outputs.

    Parameters
    ----------
    vectors : ndarray of shape (k, d)
        a_j.
    matrix : ndarray of shape (d, d)
        B, symmetric, of norm 1.
    rest : ndarray of shape (k,)
        What is left of the third order, times |u|^3; rounded up.
    sizes : ndarray of shape (k,)
        |a_j| |B|, rounded up.
    """

    vectors: FloatArray
    matrix: FloatArray
    rest: FloatArray
    sizes: FloatArray

    def values(self, U: FloatArray) -> FloatArray:
        """(a_j.u) (u'Bu), shape (m, k)."""
        form = np.einsum("ij,ij->i", U @ self.matrix, U)
        return np.asarray((U @ self.vectors.T) * form[:, None])

    def bound(self, norms: FloatArray, damping: FloatArray) -> FloatArray:
        """What the rest may add, shape (m, k).

        Parameters
        ----------
        norms, damping : ndarray of shape (m,)
            |u| and exp(-gamma |u|^2).
        """
        with np.errstate(over="ignore", invalid="ignore"):
            reach = damping * norms**3 * ABOVE
            bound = np.multiply.outer(reach, self.rest)
        bound[damping == 0.0] = 0.0  # in the underflow term
        return bound

    def widened(self, certificate: Certificate) -> Certificate:
        """The form's certificate, its rounding up to the third order with the product's."""
        moments = certificate.rounding.moments.copy()
        moments[3] = round_up(moments[3] + self.sizes)
        return replace(certificate, rounding=replace(certificate.rounding, moments=moments))


def may_pair(d: int, k: int) -> bool:
    """Whether products are tried for third orders of that size.

    Examples
    --------
    >>> may_pair(20, 2), may_pair(780, 1)
    (True, False)
    """
    return d <= MOST_DIRECTIONAL_FEATURES and k * d**3 <= MOST_TENSOR_ENTRIES


def paired_cubic(cubic: CubicForm) -> PairedCubic:
    """Fit products to a cubic form that is held in full.

    Examples
    --------
    >>> paired = paired_cubic(CubicForm(np.ones((1, 1)), None, np.zeros(1), np.zeros(1), 1))
    >>> (paired.vectors[0, 0] * paired.matrix[0, 0]).round(9), bool(paired.rest[0] < 1e-5)
    (np.float64(1.0), True)
    """
    assert cubic.basis is None
    d, tensors = cubic.rank, unpack(cubic.packed, cubic.rank)
    norms = np.array([frobenius(tensor) for tensor in tensors])
    # Outputs count alike, whatever their size; those without a third order not at all.
    units = tensors / np.where(norms > 0.0, norms, 1.0)[:, None, None, None]
    B = np.eye(d) / math.sqrt(d)
    for _ in range(LEAST_SQUARES_TURNS):
        B = _best_matrix(units, _best_vectors(units, B), B)
    vectors = _best_vectors(units, B) * norms[:, None]
    sizes = round_up(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * frobenius(B))
    rest = np.array([_rest(T, a, B) for T, a in zip(tensors, vectors)])
    # The entries of T - sym(a (x) B) err by a few units of what they are made of.
    return PairedCubic(vectors, B, round_up(rest + 16.0 * UNIT * (norms + sizes)), sizes)


def _best_vectors(tensors: FloatArray, B: FloatArray) -> FloatArray:
    """a_j for a given B: ((|B|^2 I + 2 B^2) / 3) a = T:B."""
    d = len(B)
    normal = (np.sum(B * B) * np.eye(d) + 2.0 * (B @ B)) / 3.0
    right = tensors.reshape(-1, d, d * d) @ B.reshape(-1)
    return np.asarray(np.linalg.solve(normal, right.T).T)


def _best_matrix(tensors: FloatArray, vectors: FloatArray, before: FloatArray) -> FloatArray:
    """B for given a_j: tr(S) B + S B + B S = 3 sum_j T_j.a_j with S = sum_j a_j a_j'; norm 1."""
    values, Q = np.linalg.eigh(vectors.T @ vectors)
    d = len(values)
    right = 3.0 * np.einsum("jabc,jc->ab", tensors, vectors)
    scales = values.sum() + values[:, None] + values
    if not values.sum() > 0.0:
        return before
    B = Q @ ((Q.T @ right @ Q) / np.maximum(scales, 1e-300)) @ Q.T
    B = 0.5 * (B + B.T)
    size = frobenius(B)
    return B / size if size > 0.0 and np.isfinite(size) else np.eye(d) / math.sqrt(d)


def _rest(tensor: FloatArray, a: FloatArray, B: FloatArray) -> float:
    """The spectral norm of T - sym(a (x) B), unfolded; not below the real one."""
    d = len(a)
    left = (
        tensor
        - (
            np.multiply.outer(a, B)
            + np.multiply.outer(B, a)
            + np.multiply.outer(B, a).transpose(0, 2, 1)
        )
        / 3.0
    )
    size = frobenius(left)
    unit = left.reshape(d, d * d) / (size or 1.0)
    largest = float(np.linalg.eigvalsh(unit @ unit.T)[-1])
    # Rounding of the product and of the eigenvalue; the trace is 1.
    return size * math.sqrt(max(largest, 0.0) + eigenvalue_error(d))
