"""The third order for less: bounded along the row's own direction, not evaluated.

    |T(u, u, u)| <= |u|^2 sqrt(u'Gu),    G = T_(1) T_(1)', positive semidefinite
    sqrt(u'Gu) <= sqrt(y'(Q'GQ)y) + sqrt(v'Gv),    y = Q'u,   v = u - Qy,   v'Gv <= tail |v|^2

Cheaper than the cubic form where d is large; added to the rho_4 term it replaces the rho_3 one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks
from kernelite.machine.arithmetic import NUMPY, Arithmetic
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import ops
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
from kernelite.series.series import PRODUCT
from kernelite.series.spectral import skewness
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = [
    "DirectionalBound",
    "cubic_gram",
    "directional_bound",
    "directional_cost",
    "gram_slack",
]

BLOCK = 512


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
    def cost(self) -> float:
        """Nanoseconds of one core per row."""
        return directional_cost(self.n_features, self.n_outputs, self.basis.shape[1])

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
    for left in row_blocks(len(w), BLOCK):
        pulled = np.zeros((left.stop - left.start, d))
        for right in row_blocks(len(w), BLOCK):
            pulled += np.square(S[left] @ S[right].T) @ weighted[right]
        G += weighted[left].T @ pulled
    G *= (2.0 * gamma) ** 6 / 36.0
    return 0.5 * (G + G.T)


def directional_cost(d: int, k: int, rank: int) -> float:
    """Nanoseconds of one core per row for a bound on so many directions."""
    return (d * rank + k * rank * rank) * PRODUCT


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
