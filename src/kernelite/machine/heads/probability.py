"""Probabilities as LIBSVM computes them from scores: Platt's sigmoids, coupled over the pairs.

    r_ij = 1 / (1 + exp(A_ij f_ij + B_ij)), clipped to [1e-7, 1 - 1e-7];      r_ji = 1 - r_ij
    p = argmin_p sum_i sum_j (r_ji p_i - r_ij p_j)^2  subject to  sum_i p_i = 1

The second line is the second method of Wu, Lin and Weng, "Probability estimates for multi-class
classification by pairwise coupling" (2004), by their fixed-point iteration and LIBSVM's stopping
rule, which is loose enough to be seen in the third digit: so the steps must be the same too.
"""

from __future__ import annotations

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads.votes import pairs
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray, row_blocks

__all__ = ["class_probabilities", "couple", "density_probabilities", "pair_probabilities"]

SMALLEST = 1e-7
BLOCK_NUMBERS = 1 << 20  # of the K x K matrices held at once: 8 MB


def class_probabilities(
    scores_for_first: FloatArray,
    a: FloatArray,
    b: FloatArray,
    n_classes: int,
    *,
    couple_two_classes: bool = False,
) -> FloatArray:
    """Class probabilities from one-vs-one scores.

    Parameters
    ----------
    scores_for_first : ndarray of shape (m, K (K - 1) / 2)
        Positive where the first class of the pair is favoured.
    a, b : ndarray of shape (K (K - 1) / 2,)
        Platt's sigmoid of each pair.
    n_classes : int
        K.
    couple_two_classes : bool
        With two classes, whether to run the iteration all the same, as scikit-learn's copy of
        LIBSVM does; LIBSVM takes the sigmoid itself since version 3.24.

    Returns
    -------
    ndarray of shape (m, K)

    Examples
    --------
    >>> class_probabilities(np.array([[0.0], [2.0]]), np.array([-1.0]), np.array([0.0]), 2).round(3)
    array([[0.5  , 0.5  ],
           [0.881, 0.119]])
    """
    if n_classes == 2 and not couple_two_classes:
        first = pair_probabilities(scores_for_first, a, b)
        return ops(first).concat([first, 1.0 - first], axis=1)
    if not isinstance(scores_for_first, np.ndarray):
        raise UnsupportedModelError("they are coupled by an iteration over the classes")
    m, K = len(scores_for_first), n_classes
    out = np.empty((m, K))
    for block in row_blocks(m, max(1, BLOCK_NUMBERS // (K * K))):
        first = pair_probabilities(scores_for_first[block], a, b)
        r = np.zeros((len(first), K, K))
        for column, (i, j) in enumerate(pairs(K)):
            r[:, i, j] = first[:, column]
            r[:, j, i] = 1.0 - first[:, column]
        out[block] = couple(r)
    return out


def couple(r: FloatArray) -> FloatArray:
    """Class probabilities from pairwise ones, by LIBSVM's iteration.

    Each row's problem is solved by cyclic fixed-point steps on Q p = (p'Qp) 1, Q_ii = sum_j r_ji^2,
    Q_ij = -r_ji r_ij. A row stops when max |Qp - p'Qp| < 0.005 / K, or after max(100, K) rounds.

    Parameters
    ----------
    r : ndarray of shape (m, K, K)
        r[:, i, j] is the probability of class i given that the class is i or j; diagonal zero.

    Returns
    -------
    ndarray of shape (m, K)

    Examples
    --------
    >>> couple(np.array([[[0.0, 0.9, 0.8], [0.1, 0.0, 0.5], [0.2, 0.5, 0.0]]])).round(2)
    array([[0.74, 0.1 , 0.16]])
    """
    m, K = r.shape[:2]
    Q = -r * r.transpose(0, 2, 1)
    Q[:, np.arange(K), np.arange(K)] = np.square(r).sum(axis=1)
    out = np.full((m, K), 1.0 / K)
    active = np.arange(m)
    for _ in range(max(100, K)):
        p = out[active]
        Qp = np.einsum("mtj,mj->mt", Q, p)
        pQp = np.einsum("mt,mt->m", p, Qp)
        running = ~(np.abs(Qp - pQp[:, None]).max(axis=1, initial=0.0) < 0.005 / K)
        if not running.any():
            break
        active, Q = active[running], Q[running]
        out[active] = _one_round(Q, p[running], Qp[running], pQp[running])
    return out


def _one_round(Q: FloatArray, p: FloatArray, Qp: FloatArray, pQp: FloatArray) -> FloatArray:
    """Move each p_t in turn to its fixed point and renormalise, keeping Qp and p'Qp up to date.

    p_t grows by delta = (p'Qp - (Qp)_t) / Q_tt; dividing by 1 + delta makes p sum to one again.
    """
    for t in range(p.shape[1]):
        delta = (pQp - Qp[:, t]) / Q[:, t, t]
        scale = 1.0 + delta
        p[:, t] += delta
        pQp = (pQp + delta * (delta * Q[:, t, t] + 2.0 * Qp[:, t])) / scale / scale
        Qp = (Qp + delta[:, None] * Q[:, t]) / scale[:, None]
        p /= scale[:, None]
    return p


def density_probabilities(scores: FloatArray, marks: FloatArray) -> FloatArray:
    """One-class probabilities: which of LIBSVM's ten density marks a score lies under.

    Parameters
    ----------
    scores : ndarray of shape (m,)
    marks : ndarray of shape (10,)
        The model's `prob_density_marks`.

    Returns
    -------
    ndarray of shape (m, 2)
        Of a normal row, of an outlier: 0.001 below the first mark, 0.999 above the last, else
        i/10 where mark i is the first one above the score. A score equal to the last mark has
        none above and gets 0, as in LIBSVM.

    Examples
    --------
    >>> density_probabilities(np.array([-1.0, 0.25, 2.0]), np.linspace(0.0, 0.9, 10))
    array([[0.001, 0.999],
           [0.3  , 0.7  ],
           [0.999, 0.001]])
    """
    xp = ops(scores)
    under = xp.astype(scores[:, None] < marks[None, 1:], np.float64)
    step = xp.where(xp.max(under, axis=1) > 0, xp.argmax(under, axis=1) + 1, 0)
    inlier = xp.where(scores < marks[0], 0.001, step / len(marks))
    inlier = xp.where(scores > marks[-1], 0.999, inlier)
    return xp.stack([inlier, 1.0 - inlier], axis=1)


def pair_probabilities(scores: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """r_ij = 1 / (1 + exp(a f + b)), by the form that does not overflow, kept from 0 and 1."""
    with np.errstate(over="ignore"):  # an infinite exponent is as good as a large one
        t = scores * a + b
    xp = ops(t)
    small = xp.exp(-xp.abs(t))
    first = xp.where(t >= 0, small / (1.0 + small), 1.0 / (1.0 + small))
    return xp.clip(first, SMALLEST, 1.0 - SMALLEST)
