"""The directional bound: the cubic term bounded along the row's own direction, not evaluated.

    |T(u, u, u)| <= |u|^2 sqrt(u'Gu),    G = T_(1) T_(1)' = Q L Q'
    u'Gu <= sum_r l_r y_r^2 + l_next (|u|^2 - |y|^2),    y = Q_r'u

Cheaper than the cubic form where d is large; added to the rho_4 term it replaces the rho_3 one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.approximation.rounding import UNIT, round_up
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray, dense_block, row_blocks

__all__ = ["DirectionalBound", "cubic_gram", "directional_bound"]

BLOCK = 512


@dataclass(frozen=True, eq=False)
class DirectionalBound:
    """Leading eigenpairs of G for every output on a common basis.

    Parameters
    ----------
    basis : ndarray of shape (d, r)
        Q_r.
    cores : ndarray of shape (k, r, r)
        Q_r' G_j Q_r (with the cross terms to the rest added: see `directional_bound`).
    tail : ndarray of shape (k,)
        Bound of G_j beyond the basis, rounded up.
    """

    basis: FloatArray
    cores: FloatArray
    tail: FloatArray

    def __post_init__(self) -> None:
        k, r = len(self.tail), self.basis.shape[1]
        if self.cores.shape != (k, r, r):
            raise InputError(
                f"`cores` of a directional bound must have shape {(k, r, r)}, "
                f"got {self.cores.shape}."
            )
        if self.tail.ndim != 1 or not (self.tail >= 0).all():
            raise InputError("`tail` of a directional bound must hold numbers, none negative.")

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.basis)

    @property
    def n_outputs(self) -> int:
        """k."""
        return len(self.tail)

    def bound(self, U: FloatArray, sq_norms: FloatArray, damping: FloatArray) -> FloatArray:
        """exp(-gamma |u|^2) |u|^2 sqrt(u'Gu), not below the real value: shape (m, k)."""
        with np.errstate(over="ignore", invalid="ignore"):
            Y = U @ self.basis
            kept = np.einsum("ij,ij->i", Y, Y)
            slack = 8.0 * (len(self.basis) + 8) * UNIT * sq_norms
            rest = np.maximum(sq_norms - kept, 0.0) + slack
            out = np.empty((len(U), len(self.tail)))
            for j, core in enumerate(self.cores):
                out[:, j] = np.maximum(np.einsum("ij,ij->i", Y @ core, Y), 0.0)
            # u'Gu <= (sqrt(y'Cy) + sqrt(tail |v|^2))^2 holds for positive semidefinite G.
            out = np.sqrt(out * (1.0 + 1e-9)) + np.sqrt(rest[:, None] * self.tail)
            out *= (sq_norms * damping * (1.0 + 1e-9))[:, None]
        out[damping == 0.0] = 0.0
        return out


def cubic_gram(expansion: KernelExpansion, point: FloatArray, output: int) -> FloatArray:
    """G of one output through pairs of centers: n^2 d operations, no d^3 tensor. Shape (d, d)."""
    gamma, d = expansion.gamma, expansion.n_features
    used = np.flatnonzero(expansion.coefficients[:, output])
    S = dense_block(expansion.centers, used) - point
    with np.errstate(over="ignore", under="ignore"):
        w = expansion.coefficients[used, output] * np.exp(-gamma * np.einsum("ij,ij->i", S, S))
    weighted = S * w[:, None]
    G = np.zeros((d, d))
    for left in row_blocks(len(used), BLOCK):
        pulled = np.zeros((left.stop - left.start, d))
        for right in row_blocks(len(used), BLOCK):
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
    For a positive semidefinite G and u = Qy + v: sqrt(u'Gu) <= sqrt(y'(Q'GQ)y) + sqrt(v'Gv).
    """
    d = grams[0].shape[0]
    total = sum(gram / (np.trace(gram) or 1.0) for gram in grams)
    _, vectors = np.linalg.eigh(np.asarray(total))
    rank = min(rank, d)
    Q, W = np.ascontiguousarray(vectors[:, d - rank :]), vectors[:, : d - rank]
    cores = np.empty((len(grams), rank, rank))
    tail = np.empty(len(grams))
    for j, gram in enumerate(grams):
        rounding = 64.0 * (d + 8) ** 2 * UNIT * float(np.trace(gram)) + slack[j]
        core = Q.T @ gram @ Q
        cores[j] = 0.5 * (core + core.T) + rounding * np.eye(rank)
        outer = np.linalg.eigvalsh(W.T @ gram @ W)[-1] if rank < d else 0.0
        tail[j] = max(float(outer), 0.0) + rounding
    return DirectionalBound(Q, cores, round_up(tail))
