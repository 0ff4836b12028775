"""The third order: for rows that the first bound leaves open.

    f3(z) = f^(z) + exp(-gamma |u|^2) T(u, u, u),     |f - f3| <= rho_4 sqrt(P(4, 2 gamma |u|^2))
    T = (2 gamma)^3 / 6 sum_i w_i s_i (x) s_i (x) s_i

T is held packed, sum_{a<=b<=c} t_abc u_a u_b u_c, in full or on the r leading eigenvectors Q of
G = T_(1) T_(1)'. There, with y = Q'u and v = u - Qy,

    T(u, u, u) - T(Qy, Qy, Qy) = T(v, u, u) + T(Qy, v, u) + T(Qy, Qy, v)
    |T(v, a, b)| <= sqrt(v'Gv) |a| |b|,   sqrt(v'Gv) <= tail |v| + slack |u|

where tail^2 is the largest eigenvalue of G beyond Q; slack is for Q'Q not being I, and for the
rounding of T on Q: three products of length d, so 3 (d + 2) r^(3/2) u |T|.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, dense_block, row_blocks, rows_within
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.ops import NUMPY, Arithmetic, ops
from kernelite.series.rounding import (
    ABOVE,
    UNIT,
    damped,
    damping,
    eigenvalue_error,
    hidden_square,
    round_up,
)
from kernelite.series.spectral import frobenius, skewness
from kernelite.series.tensors import monomials
from kernelite.series.work import Work, cubic_work, packed_size
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = [
    "CubicForm",
    "cubic_form",
    "cubic_tensor",
    "cubic_values",
    "pack",
    "project",
    "unpack",
]

FEATURES_PER_STRIPE = 32  # of a tensor, whose products are taken at once


@dataclass(frozen=True, eq=False)
class CubicForm:
    """T of every output, packed, in full or on leading directions.

    Parameters
    ----------
    packed : ndarray of shape (k, r (r + 1) (r + 2) / 6)
        t_abc for a <= b <= c in lexicographic order, multiplicities folded in.
    basis : ndarray of shape (d, r), optional
        Q; None means r = d and the tensor in full.
    tail, slack : ndarray of shape (k,)
        Zero for a full tensor; rounded up.
    rank : int
        r.
    """

    packed: FloatArray
    basis: FloatArray | None
    tail: FloatArray
    slack: FloatArray
    rank: int
    evaluated: ClassVar[bool] = True
    """Whether a row's third order is known, not bounded alone."""

    def __post_init__(self) -> None:
        if self.packed.shape != (len(self.tail), packed_size(self.rank)):
            raise InputError(
                f"`packed` of a cubic form of rank {self.rank} must have shape "
                f"({len(self.tail)}, {packed_size(self.rank)}), got {self.packed.shape}."
            )
        if self.basis is not None and (self.basis.ndim != 2 or self.basis.shape[1] != self.rank):
            raise InputError(f"`basis` of a cubic form must have {self.rank} columns.")
        for name in ("tail", "slack"):
            array = getattr(self, name)
            if array.shape != (len(self.packed),) or not (array >= 0).all():
                raise InputError(f"`{name}` of a cubic form must hold numbers, none negative.")

    @property
    def n_features(self) -> int:
        """d."""
        return self.rank if self.basis is None else len(self.basis)

    @property
    def n_outputs(self) -> int:
        """k."""
        return len(self.tail)

    @property
    def name(self) -> str:
        """What plans call it."""
        return "cubic" if self.basis is None else f"cubic on {self.rank} directions"

    @property
    def work(self) -> Work:
        """What a row takes."""
        return cubic_work(self.n_features, self.n_outputs, self.rank)

    def term(
        self,
        U: FloatArray,
        sq_norms: FloatArray,
        gamma: float,
        arithmetic: Arithmetic = NUMPY,
    ) -> tuple[FloatArray, FloatArray | float]:
        """The third order of each row, and what the directions left out may add: (m, k) each.

        Parameters
        ----------
        U : ndarray of shape (m, d)
            u = z - p.
        sq_norms : ndarray of shape (m,)
            |u|^2.
        gamma : float
        arithmetic : Arithmetic
            Of the target that computes it.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Y, E = U if self.basis is None else U @ self.basis, damping(sq_norms, gamma)
            third = damped(cubic_values(self.packed, Y), E)
            if self.basis is None:
                return third, 0.0
            return third, self.tail_bound(sq_norms, ops(U).squared_norms(Y), E, arithmetic)

    def tail_bound(
        self,
        sq_norms: FloatArray,
        kept: FloatArray,
        factor: FloatArray,
        arithmetic: Arithmetic = NUMPY,
    ) -> FloatArray:
        """What the directions left out may add, shape (m, k).

        Parameters
        ----------
        sq_norms, kept : ndarray of shape (m,)
            |u|^2 and |y|^2.
        factor : ndarray of shape (m, 1)
            exp(-gamma |u|^2).
        arithmetic : Arithmetic
        """
        assert self.basis is not None
        xp, squares, inner = ops(sq_norms), sq_norms[:, None], kept[:, None]
        hidden = arithmetic.worse * hidden_square(*self.basis.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            # |u|^2 - |y|^2 errs by `hidden`.
            rest = xp.sqrt(xp.maximum(squares - inner, 0.0) + squares * hidden)
            reach = (squares + xp.sqrt(squares * inner) + inner) * ABOVE
            size = reach * (rest * self.tail + xp.sqrt(squares) * self.slack)
        return damped(size, factor)  # else in the underflow term


def cubic_values(packed: FloatArray, U: FloatArray) -> FloatArray:
    """sum_{a<=b<=c} t_abc u_a u_b u_c for each row and output: shape (m, k).

    Parameters
    ----------
    packed : ndarray of shape (k, r (r + 1) (r + 2) / 6)
    U : ndarray of shape (m, r)

    Examples
    --------
    >>> cubic_values(np.array([[2.0]]), np.array([[3.0]]))
    array([[54.]])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return ops(U).contract_cubic(U, packed)


def cubic_tensor(expansion: KernelExpansion, point: FloatArray, output: int) -> FloatArray:
    """T of one output as a dense symmetric tensor (d, d, d); n d^3 / 6 multiply-adds, and some."""
    d, gamma = expansion.n_features, expansion.gamma
    pairs = np.zeros((d, d * (d + 1) // 2))  # T_abc for b <= c; those with b < a are not needed
    used = np.flatnonzero(expansion.coefficients[:, output])
    for block in row_blocks(len(used), rows_within(pairs.shape[1])):
        S = dense_block(expansion.centers, used[block]) - point
        with np.errstate(over="ignore", under="ignore"):
            damping = np.exp(-gamma * np.einsum("ij,ij->i", S, S))
        w = expansion.coefficients[used[block], output] * damping
        S[w == 0.0] = 0.0  # so far away that products of its entries may overflow
        across = np.ascontiguousarray(S.T)
        products = monomials(across, 2)
        for some in row_blocks(d, FEATURES_PER_STRIPE):
            first = some.start * (2 * d - some.start + 1) // 2  # where b >= a begins
            pairs[some, first:] += (across[some] * w) @ products[first:].T
    pairs *= (2.0 * gamma) ** 3 / 6.0
    T, upper = np.empty((d, d, d)), np.triu_indices(d)
    for a in range(d):
        T[a][upper] = T[a].T[upper] = pairs[a]
    for a in range(d):
        corner = T[a, a:, a:].copy()
        T[a:, a, a:] = corner
        T[a:, a:, a] = corner
    return T


def project(tensor: FloatArray, basis: FloatArray) -> FloatArray:
    """T on the columns of `basis` in all three modes: (r, r, r)."""
    r = basis.shape[1]
    d = basis.shape[0]
    out = (tensor.reshape(d * d, d) @ basis).reshape(d, d, r)
    out = np.einsum("abz,by->ayz", out, basis, optimize=True)
    return (basis.T @ out.reshape(d, r * r)).reshape(r, r, r)


def cubic_form(tensors: list[FloatArray], rank: int) -> CubicForm:
    """Pack the tensors of all outputs, on `rank` leading directions (all of them if rank >= d).

    Examples
    --------
    >>> form = cubic_form([np.ones((1, 1, 1))], 1)
    >>> form.packed, form.basis
    (array([[1.]]), None)
    """
    d, k = tensors[0].shape[0], len(tensors)
    if rank >= d:
        packed = pack(tensors)
        return CubicForm(packed, None, np.zeros(k), np.zeros(k), d)
    sizes = np.array([frobenius(tensor) for tensor in tensors])
    grams = [_unit_gram(tensor, size) for tensor, size in zip(tensors, sizes)]
    _, vectors = np.linalg.eigh(sum(grams, np.zeros((d, d))))
    Q = np.ascontiguousarray(vectors[:, d - rank :])
    outside = np.eye(d) - Q @ Q.T
    tail = np.empty(k)
    for j, gram in enumerate(grams):
        rest = outside @ gram @ outside
        largest = float(np.linalg.eigvalsh(0.5 * (rest + rest.T))[-1])
        # Rounding of gram, of the projection and of the eigenvalue; the trace of gram is 1.
        tail[j] = math.sqrt(max(largest, 0.0) + eigenvalue_error(d))
    packed = pack([project(tensor, Q) for tensor in tensors])
    skew = skewness(Q)
    # |v|^2 = |u|^2 - |y|^2 + y'(Q'Q - I)y, under a root: |v| grows by sqrt(skew) |u|.
    slack = tail * math.sqrt(skew) + 4.0 * skew + 4.0 * (d + 4) * rank**1.5 * UNIT
    return CubicForm(packed, Q, round_up(tail * sizes), round_up(slack * sizes), rank)


def _unit_gram(tensor: FloatArray, size: float) -> FloatArray:
    """T_(1) T_(1)' of a tensor brought to norm 1: squares neither over- nor underflow."""
    d = len(tensor)
    unit = tensor.reshape(d, d * d) / (size or 1.0)
    return np.asarray(unit @ unit.T)


def pack(tensors: list[FloatArray]) -> FloatArray:
    """Coefficients t_abc for a <= b <= c in lexicographic order, multiplicities folded in.

    Examples
    --------
    >>> pack([np.ones((2, 2, 2))])
    array([[1., 3., 3., 1.]])
    """
    r = tensors[0].shape[0]
    packed = np.empty((len(tensors), packed_size(r)))
    start = 0
    for a in range(r):
        rest = r - a
        stop = start + rest * (rest + 1) // 2
        # Multiplicity of (a, b, c): 6 all different, 3 two equal, 1 all equal.
        weights = np.full((rest, rest), 6.0)
        np.fill_diagonal(weights, 3.0)
        weights[0] = 3.0
        weights[0, 0] = 1.0
        upper = np.triu_indices(rest)
        for j, tensor in enumerate(tensors):
            packed[j, start:stop] = (tensor[a, a:, a:] * weights)[upper]
        start = stop
    return packed


def unpack(packed: FloatArray, rank: int) -> FloatArray:
    """Symmetric tensors of shape (k, r, r, r) from what `pack` made of them, within a rounding.

    Examples
    --------
    >>> unpack(pack([np.ones((2, 2, 2))]), 2).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]]
    """
    tensors = np.zeros((len(packed), rank, rank, rank))
    start = 0
    for a in range(rank):
        b, c = np.triu_indices(rank - a)
        values = packed[:, start : start + len(b)]
        # Multiplicities as in `pack`: 6 all different, 3 two equal, 1 all equal.
        values = values / np.where(b == c, np.where(b == 0, 1.0, 3.0), np.where(b == 0, 3.0, 6.0))
        b, c, start = b + a, c + a, start + len(b)
        for i, j, k in ((b, c, a), (c, b, a), (b, a, c), (c, a, b), (a, b, c), (a, c, b)):
            tensors[:, i, j, k] = values
    return tensors
