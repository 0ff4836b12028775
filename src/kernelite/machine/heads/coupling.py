"""Probabilities as LIBSVM computes them from scores: Platt's sigmoids, coupled over the pairs.

    r_ij = 1 / (1 + exp(A_ij f_ij + B_ij)), clipped to [1e-7, 1 - 1e-7];      r_ji = 1 - r_ij
    p = argmin_p sum_{i<j} (r_ji p_i - r_ij p_j)^2 = p'Qp   subject to   sum_i p_i = 1
    Q_ii = sum_j r_ji^2,    Q_ij = -c_ij,    c_ij = r_ij r_ji

This is the second method of Wu, Lin and Weng, "Probability estimates for multi-class classification
by pairwise coupling" (2004), by their fixed-point iteration and LIBSVM's stopping rule, which is
loose enough to be seen in the third digit: so the rounds must be the same too. LIBSVM moves p_t by
(p'Qp - (Qp)_t) / Q_tt and divides p by its sum, class after class. Here p = u / S, S the sum of u,
is divided once a round, and a step is, with L = u'Qu,

    u_t <- (L / S + sum_{j != t} c_tj u_j) / Q_tt

which is the same in real arithmetic. All its terms are positive, so that errors can be followed:
`couple` says how far its answer may be off while the logit log(r / (1 - r)) of each pair is off by
at most x_ij. Multiplying u by a number changes nothing. So what is followed are ratios: with d_j
the logarithm of true u_j / u_j,

    h_ji >= e^H - 1,    H >= |d_j - d_i|

and, seen from class i, true u_j is u_j within h_ji u_j. Of a step, in which L moves by at most

    M + 2 sqrt((L + M) R) + R,    M = 2 sum_j |(Qu)_j| h_ji u_j + 2 sum_j Q_jj (h_ji u_j)^2,
                                  R = 1/2 x^2 sum_j (sum_i c_ij) u_j^2

(M of u, since u'Qu is a sum of squares (r_ji u_i - r_ij u_j)^2; R of r, since these move by at most
c x, and c^2 (u_i + u_j)^2 <= c (u_i^2 + u_j^2) / 2), h_ti of all i follow from the others, averaged
with the step's own weights, and from what the pairs of class t say of the logarithm of u_t:

    sum_j x_tj c_tj |(1 - 2 r_jt) u_j - 2 r_jt u_t| / (L / S + sum_j c_tj u_j)

Terms of higher order are in the code. Where errors leave open whether a round is the last one, the
answer lies between what either says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.machine.ops import ops
from kernelite.machine.pairs import columns_of_class

__all__ = [
    "LIMITS",
    "MOST_APART",
    "MOST_MOVED",
    "STOP",
    "Chances",
    "Coupling",
    "class_probabilities",
    "couple",
    "logit_errors",
    "most_rounds",
    "pair_probabilities",
    "rounding",
]

LIMITS = 1e-7, 1.0 - 1e-7  # of a pair's probability
STOP = 0.005  # divided by K: LIBSVM's
BLOCK_NUMBERS = 1 << 20  # of the K x K matrices held at once: 8 MB
MOST_APART = 0.5  # h, and what S may be off by seen from a class: beyond, nothing is said
MOST_MOVED = 0.0625  # of a logit, and of what follows for L / S and u: beyond, nothing is said
Coupling: TypeAlias = Callable[
    [FloatArray, int, FloatArray | None], tuple[FloatArray, FloatArray | None]
]
"""What `couple` does."""
Chances: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""What `pair_probabilities` does."""


def most_rounds(n_classes: int) -> int:
    """LIBSVM's."""
    return max(100, n_classes)


def rounding(n_classes: int) -> float:
    """What doubles round in a round of steps, by K^2 and the size of u; eight times over.

    A sum of K terms errs by K u of their size, u = 2^-53, and so do K steps that each add to L and
    to Qu; terms of Qu are K S at most, those of L are K S^2.
    """
    return 2.0**-45 * n_classes**2


def pair_probabilities(scores: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """r_ij = 1 / (1 + exp(a f + b)), by the form that does not overflow, kept from 0 and 1."""
    with np.errstate(over="ignore"):  # an infinite exponent is as good as a large one
        t = scores * a + b
    xp = ops(t)
    small = xp.exp(-xp.abs(t))
    first = xp.where(t >= 0, small / (1.0 + small), 1.0 / (1.0 + small))
    return xp.clip(first, *LIMITS)


def logit_errors(
    scores: FloatArray, bounds: FloatArray, a: FloatArray, b: FloatArray, first: FloatArray
) -> FloatArray:
    """x, in the shape of the scores: how far each pair's logit may be off while scores are.

    `first` is what `pair_probabilities` found. It errs by 4 u of itself besides, and clipping
    brings logits together.
    """
    xp = ops(scores)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.abs(a) * bounds + 2.0**-50 * (xp.abs(scores * a) + np.abs(b))
        moved = (moved + 2.0**-50 / xp.minimum(first, 1.0 - first)) * (1.0 + 2.0**-40)
    return xp.where(moved <= MOST_MOVED, moved, np.inf)  # NaN too


def class_probabilities(
    scores_for_first: FloatArray,
    a: FloatArray,
    b: FloatArray,
    n_classes: int,
    *,
    couple_two_classes: bool = False,
    coupling: Coupling | None = None,
    chances: Chances | None = None,
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
    coupling : callable, optional
        What couples pairs of rows instead of `couple`.
    chances : callable, optional
        What takes the place of `pair_probabilities`.

    Returns
    -------
    ndarray of shape (m, K)

    Examples
    --------
    >>> class_probabilities(np.array([[0.0], [2.0]]), np.array([-1.0]), np.array([0.0]), 2).round(3)
    array([[0.5  , 0.5  ],
           [0.881, 0.119]])
    """
    first = (chances or pair_probabilities)(scores_for_first, a, b)
    if n_classes == 2 and not couple_two_classes:
        return ops(first).concat([first, 1.0 - first], axis=1)
    return (coupling or couple)(first, n_classes, None)[0]


def couple(
    first: FloatArray, n_classes: int, moved: FloatArray | None
) -> tuple[FloatArray, FloatArray | None]:
    """Class probabilities from those of the first class of each pair, and how far they may be off.

    Parameters
    ----------
    first : ndarray of shape (m, K (K - 1) / 2)
    n_classes : int
        K.
    moved : ndarray of shape (m, K (K - 1) / 2), optional
        By how much the logit of each pair may be off; infinite where nothing is known.

    Returns
    -------
    p : ndarray of shape (m, K)
    errors : ndarray of shape (m, K), or None where `moved` is
        1 where nothing is known.

    Examples
    --------
    >>> p, errors = couple(np.array([[0.9, 0.8, 0.5]]), 3, np.full((1, 3), 1e-6))
    >>> p.round(2), bool(errors.max() < 1e-5)
    (array([[0.74, 0.1 , 0.16]]), True)
    """
    if n_classes == 1:
        alone = ops(first).full((first.shape[0], 1), 1.0)
        return alone, None if moved is None else 0.0 * alone
    size = max(1, BLOCK_NUMBERS // n_classes**2)
    if isinstance(first, np.ndarray) and len(first) > size:
        parts = [
            couple(first[some], n_classes, None if moved is None else moved[some])
            for some in row_blocks(len(first), size)
        ]
        p = np.concatenate([part[0] for part in parts])
        return p, None if moved is None else np.concatenate([part[1] for part in parts])
    if moved is None:
        return _iterated(first, n_classes), None
    iterates = ops(first).iterates
    with np.errstate(invalid="ignore", divide="ignore"):  # of rows of which nothing is known
        state = _Rows(first, n_classes, moved)
        for _ in range(most_rounds(n_classes)):
            state.begin()
            if not iterates(state.active):
                break
            for t in range(n_classes):
                state.step(t)
        return state.answers()


def _iterated(first: Any, K: int) -> Any:
    """Probabilities without errors, on any target that iterates."""
    xp = ops(first)
    products, c, q = first * (1.0 - first), [], []
    none = xp.full((first.shape[0], 1), 0.0)
    every = xp.concat([products, none], axis=1)
    for t in range(K):
        against, own = _against(first, K, t), columns_of_class(K, t)
        q.append(xp.sum(against * against, axis=1, keepdims=True))
        c.append(every[:, np.insert(own, t, K * (K - 1) // 2)])  # zero on the diagonal
    uniform = xp.full((first.shape[0], K), 1.0 / K)
    given = xp.concat(c, axis=1), xp.concat(q, axis=1)
    return xp.iterate(partial(_one_round, K), uniform, given, most_rounds(K))


def _one_round(K: int, p: Any, c: Any, q: Any) -> tuple[Any, Any]:
    """A round of steps: p, and which rows had not stopped before, (m,).

    c has its lines side by side, shape (m, K^2).
    """
    xp = ops(p)
    lines = [c[:, t * K : (t + 1) * K] for t in range(K)]
    sums = xp.concat([xp.sum(line * p, axis=1, keepdims=True) for line in lines], axis=1)
    Qp = q * p - sums
    L, S = xp.sum(p * Qp, axis=1, keepdims=True), xp.sum(p, axis=1, keepdims=True)
    running = ~(xp.max(xp.abs(Qp - L), axis=1) < STOP / K)
    for t, line in enumerate(lines):
        here = np.eye(K)[t][None, :]
        g = xp.sum(line * p, axis=1, keepdims=True)
        new, L, S = _stepped(L, S, g, q[:, t : t + 1], p[:, t : t + 1])
        p = p * (1.0 - here) + new * here
    return p / S, running


def _stepped(L: Any, S: Any, g: Any, q: Any, old: Any) -> tuple[Any, Any, Any]:
    """The step of a class with Q_tt = q and g = sum_j c_tj u_j: u_t, and L and S with it."""
    new = (L / S + g) / q
    d = new - old
    return new, L + d * (q * (new + old) - 2.0 * g), S + d


class _Rows:
    """u, L, S and Qu of rows, and how far they may be off.

    Lines of c, s = r_jt and x have a zero on the diagonal. Rows are `active` while they, or the
    true ones, may need another round; `running` until they stop themselves. `known`: whether their
    errors are.
    """

    def __init__(self, first: Any, K: int, moved: Any) -> None:
        xp, m = ops(first), first.shape[0]
        self.xp, self.K, self.slack = xp, K, rounding(K)
        self.p = self.found = xp.full((m, K), 1.0 / K)
        self.running = self.active = xp.full((m,), True)
        products = first * (1.0 - first)
        self.s, self.c, self.x, q = [], [], [], []
        for t in range(K):
            s = _against(first, K, t)
            self.s.append(_with_zero(s, t))
            self.c.append(_with_zero(products[:, columns_of_class(K, t)], t))
            q.append(xp.sum(s * s, axis=1))
        self.q = xp.stack(q, axis=1)
        largest = xp.max(moved, axis=1)
        self.known = largest + self.slack <= MOST_MOVED
        moved = xp.where(self.known[:, None], moved + self.slack, 0.0)
        self.x = [_with_zero(moved[:, columns_of_class(K, t)], t) for t in range(K)]
        self.most = xp.max(moved, axis=1)  # x of the row
        self.all_c = xp.stack(self.c, axis=1)
        self.sums = xp.sum(self.all_c, axis=2)
        self.h = xp.full((m, K, K), 0.0)
        self.low, self.high = xp.full((m, K), 1.0), xp.full((m, K), 0.0)

    def begin(self) -> None:
        """Begin a round, and see which rows need it."""
        xp, limit = self.xp, STOP / self.K
        self.u, self.S = self.p, xp.sum(self.p, axis=1)
        self.Qu = self.q * self.u - xp.stack([xp.sum(c * self.u, axis=1) for c in self.c], axis=1)
        self.L = xp.sum(self.u * self.Qu, axis=1)
        away = xp.abs(self.Qu - self.L[:, None])
        stops = xp.max(away, axis=1) < limit
        self.found = xp.where(self.running[:, None], self.p, self.found)
        self.running = self.running & ~stops
        off = self._moved_rule()
        self._keep(self.active & xp.all(away - off < limit, axis=1))
        surely = xp.all(away + off < limit, axis=1)
        # Rows that stopped, and of which no round could tell, are left.
        tells = self.running | ~self.active | (xp.max(off, axis=1) < limit)
        self.known = self.known & tells
        self.active = self.active & (self.running | (self.known & ~surely))

    def _keep(self, some: Any) -> None:
        """Where the true answer may lie if these rows stop now."""
        xp = self.xp
        apart = xp.sum(self.h * self.p[:, None], axis=2)  # S, seen from class t
        off = self.p * apart / (1.0 - apart) * (1.0 + 2.0**-40) + self.slack
        self.known = self.known & (xp.all(apart <= MOST_APART, axis=1) | ~some)
        self.low = xp.where(some[:, None], xp.minimum(self.low, self.p - off), self.low)
        self.high = xp.where(some[:, None], xp.maximum(self.high, self.p + off), self.high)

    def _moved_rule(self) -> Any:
        """How far Qu / S - L / S^2 may be off, shape (m, K): S is 1.

        (Qu)_t is seen from class t, L from the mean of all classes, by their probabilities.
        """
        xp, u = self.xp, self.u
        self.largest = self.S
        nothing = xp.full((u.shape[0],), 0.0)
        seen = self.h * u[:, None]
        off = xp.sum(self.all_c * seen, axis=2)
        each = [self._of_chances(t, u[:, t], self.h[:, t], nothing) for t in range(self.K)]
        apart = xp.sum(seen, axis=2)
        off = (off + xp.stack(each, axis=1) + xp.abs(self.Qu) * apart) / (1.0 - apart)
        h = apart + apart * apart
        dS = xp.sum(h * u, axis=1)
        least = 1.0 - dS
        both = (self._moved_L(h) + 2.0 * self.L * dS) / (least * least) + self.slack
        good = (dS <= MOST_MOVED) & xp.all(apart <= MOST_APART, axis=1)
        self.known = self.known & (good | ~self.active)
        return (off + both[:, None]) * (1.0 + 2.0**-40)

    def _of_chances(self, t: int, own: Any, h: Any, moved: Any) -> Any:
        """What moved chances change in sum_j r_jt (r_jt u_t - r_tj u_j), u_t being `own`: (m,).

        u_j may be off by h_j of itself, u_t by `moved`; chances move along the way by e^x.
        """
        s, c, u, x = self.s[t], self.c[t], self.u, self.most[:, None]
        own, moved = own[:, None], moved[:, None]
        slope = self.xp.abs((1.0 - 2.0 * s) * u - 2.0 * s * own)
        slope = slope + u * h + 2.0 * s * own * moved
        slope = slope + 10.0 * x * s * (u * (1.0 + h) + own * (1.0 + moved))
        total = self.xp.sum(self.x[t] * c * slope, axis=1)
        return total * (1.0 + 3.0 * self.most)

    def _moved_L(self, h: Any) -> Any:
        """How far L may be off while u_j is by h_j of itself, shape (m,)."""
        M = self.xp.sum(self._weights(h) * h, axis=1)
        return M + self._of_chances_in_L(h, M)

    def _weights(self, h: Any) -> Any:
        """What M is made of, times h."""
        sizes = self.xp.abs(self.Qu) + (self.slack * self.largest)[:, None]
        return 2.0 * self.u * (sizes + self.q * self.u * h)

    def _of_chances_in_L(self, h: Any, M: Any) -> Any:
        """The rest of what L may be off by."""
        xp, slack = self.xp, self.slack * self.largest * self.largest
        most, x = self.u * (1.0 + h), self.most * (1.0 + self.most)
        R = 0.5 * (x * x) * xp.sum(self.sums * most * most, axis=1)
        inside = xp.maximum(self.L + M + slack, 0.0)
        return 2.0 * xp.sqrt(inside * R) + R + slack

    def step(self, t: int) -> None:
        """Move u_t."""
        xp, c, q, u = self.xp, self.c[t], self.q[:, t], self.u
        g = xp.sum(c * u, axis=1)
        new, L, S = _stepped(self.L, self.S, g, q, u[:, t])
        self._follow(t, self.L / self.S + g, new)
        self.L, self.S, self.u = L, S, _with_column(u, t, new)
        self.Qu = self.Qu + (new - u[:, t])[:, None] * _with_column(-c, t, q)
        self.largest = xp.maximum(self.largest, self.S)
        if t == self.K - 1:
            self.p = xp.where(self.active[:, None], self.u / self.S[:, None], self.p)

    def _follow(self, t: int, total: Any, new: Any) -> None:
        """h_ti of all i after a step."""
        xp, u, h, S = self.xp, self.u, self.h, self.S[:, None]
        worst = xp.max(h, axis=1)  # of class j, seen from any
        apart = xp.max(xp.sum(h * u[:, None], axis=2), axis=1) / self.S  # of S
        grown = (1.0 / (1.0 - apart))[:, None]
        # L / S, of which S moves too: L + M - (L / S) (S + moved) is what is left of L's part.
        slope = xp.abs(2.0 * self.Qu - self.L[:, None] / S) + self.slack * self.largest[:, None]
        bent = 2.0 * self.q * u * worst
        weights = (self.c[t] * u + grown / S * u * (slope + bent)) / total[:, None]
        M = xp.sum(self._weights(worst) * worst, axis=1)
        rest = self._of_chances_in_L(worst, M) * grown[:, 0] / self.S
        y = xp.sum(h * weights[:, None], axis=2) + (rest / total)[:, None]
        most = xp.max(y, axis=1)
        own = self._of_chances(t, new, worst, most) / total * (1.0 + 2.0 * most)
        y = (y + y * y + own[:, None]) * (1.0 + 2.0**-40) + self.slack
        good = (apart <= MOST_MOVED) & (xp.max(y, axis=1) <= MOST_APART) & (self.most <= MOST_MOVED)
        self.known = self.known & (good | ~self.active)
        y = y + y * y
        keep, row, column = _places(self.K, t)
        moved = h * keep + y[:, None] * row + y.reshape(y.shape[0], self.K, 1) * column
        # Rows that stopped, and those of which nothing is known, keep what they have.
        self.h = xp.where((self.active & self.known).reshape(y.shape[0], 1, 1), moved, h)

    def answers(self) -> tuple[Any, Any]:
        """Probabilities, and how far they may be off."""
        xp = self.xp
        found = xp.where(self.running[:, None], self.p, self.found)
        self._keep(self.active)  # after as many rounds as there are
        off = xp.maximum(self.high - found, found - self.low)
        return found, xp.where(self.known[:, None], xp.minimum(off, 1.0), 1.0)


def _with_zero(x: Any, t: int) -> Any:
    """x with a column of zeros before its column t."""
    xp = ops(x)
    return xp.concat([x[:, :t], xp.full((x.shape[0], 1), 0.0), x[:, t:]], axis=1)


@cache
def _places(K: int, t: int) -> tuple[NDArray[np.float64], ...]:
    """Ones where neither class of a pair is t, where the first is, where the second is: (K, K)."""
    row, column = np.zeros((K, K)), np.zeros((K, K))
    row[t], column[:, t] = 1.0, 1.0
    row[t, t] = column[t, t] = 0.0
    return (1.0 - np.maximum(row, column)) * (1.0 - np.eye(K)), row, column


def _with_column(x: Any, t: int, column: Any) -> Any:
    """x with another column t."""
    return ops(x).concat([x[:, :t], column[:, None], x[:, t + 1 :]], axis=1)


def _against(first: Any, K: int, t: int) -> Any:
    """r_jt of the others j of t's pairs: shape (m, K - 1)."""
    later = np.arange(K - 1) >= t  # t is the first of its pairs with later classes
    signs, shifts = np.where(later, -1.0, 1.0), np.where(later, 1.0, 0.0)
    return first[:, columns_of_class(K, t)] * signs[None, :] + shifts[None, :]
