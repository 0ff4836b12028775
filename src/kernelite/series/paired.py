"""The third order as one quadratic form times a linear one, the rest bounded: O(k d) beside it.

    T_j(u, u, u) = (a_j.u) (u'Bu) + R_j(u, u, u),     |R_j(u, u, u)| <= rest_j |u|^3

B is shared by all outputs. Rows that are spread evenly about the point make nearly all of the
third order such a product: for normal ones with covariance C, a machine that is close to linear
has T = sym(a (x) C). In: packed tensors (see cubic.py). Out: a_j, B by alternating least squares,

    <T, a (x) B> = a.(T:B),     |sym(a (x) B)|^2 = (|a|^2 |B|^2 + 2 |Ba|^2) / 3

and rest_j, the spectral norm of R_j unfolded, rounded up. What (a.u) (u'Bu) errs by when it is
computed is bounded as the third order's own rounding is, with |a_j| |B| added to its moment a_3.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm, unpack
from kernelite.series.rounding import ABOVE, UNIT, eigenvalue_error, round_up
from kernelite.series.series import CERTIFY, LOOP
from kernelite.series.spectral import frobenius
from kernelite.support.records import dataclass

__all__ = ["PairedCubic", "may_pair", "paired_cubic", "product_cost"]

TURNS = 8  # of least squares; the first few do nearly all
MOST_FEATURES = 48  # beyond, the tensors take longer to fit than they save
MOST_ENTRIES = 1 << 22


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
    return d <= MOST_FEATURES and k * d**3 <= MOST_ENTRIES


def product_cost(d: int, k: int) -> float:
    """Nanoseconds of one core per row for a product in the third order's place, and its bound."""
    return CERTIFY * k + (d * (d + 1) / 2 + k * d) * LOOP


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
    for _ in range(TURNS):
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
