"""LIBSVM's coupling of pairwise probabilities, with its errors, some rows at a time in vectors.

Twin: `machine.heads.coupling.couple`, whose steps, names and rule to stop these are. The last axis
of an array has the rows of a block, so that every loop over it is a loop over vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import Matrix, OutMatrix, Vector, helper, kernel
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.machine.heads.coupling import LIMITS, MOST_APART, MOST_MOVED, STOP

__all__ = ["COUPLED_ROWS", "coupled", "pair_chances"]

COUPLED_ROWS = 32  # of a block
GROWN = 1.0 + 2.0**-40


@helper
def _ready(first: Any, start: int, count: int, s: Any, c: Any, q: Any) -> None:
    """r_jt, c_tj and Q_tt of a block; rows beyond `count` are the last one again."""
    K, wide = q.shape
    q[:] = 0.0
    column = 0
    for t in range(K):
        s[t, t], c[t, t] = 0.0, 0.0
        for j in range(t + 1, K):
            for w in range(wide):
                r = first[start + min(w, count - 1), column]
                s[t, j, w], s[j, t, w] = 1.0 - r, r
                c[t, j, w] = c[j, t, w] = r * (1.0 - r)
            column += 1
    for t in range(K):
        for j in range(K):
            for w in range(wide):
                q[t, w] += s[t, j, w] * s[t, j, w]


@helper
def _begin(c: Any, q: Any, p: Any, room: Any, away: Any) -> None:
    """u, S, Qu and L of a round, and how far each class is from what stops it."""
    u, Qu, S, L = room
    K, wide = q.shape
    S[:], L[:] = 0.0, 0.0
    for t in range(K):
        for w in range(wide):
            u[t, w] = p[t, w]
            S[w] += p[t, w]
            Qu[t, w] = q[t, w] * p[t, w]
        for j in range(K):
            for w in range(wide):
                Qu[t, w] -= c[t, j, w] * p[j, w]
        for w in range(wide):
            L[w] += p[t, w] * Qu[t, w]
    for t in range(K):
        for w in range(wide):
            away[t, w] = abs(Qu[t, w] - L[w])


@helper
def _step(t: int, c: Any, q: Any, room: Any, step: Any) -> None:
    """The sum of a step's terms, what they are without L, and the new u_t."""
    u, _, S, L = room
    g, total, new = step
    wide = len(g)
    g[:] = 0.0
    for j in range(len(q)):
        for w in range(wide):
            g[w] += c[t, j, w] * u[j, w]
    for w in range(wide):
        total[w] = L[w] / S[w] + g[w]
        new[w] = total[w] / q[t, w]


@helper
def _move(t: int, c: Any, q: Any, room: Any, step: Any) -> None:
    """Put the new u_t in place."""
    u, Qu, S, L = room
    g, _, new = step
    wide = len(g)
    for w in range(wide):
        d = new[w] - u[t, w]
        L[w] += d * (q[t, w] * (new[w] + u[t, w]) - 2.0 * g[w])
        S[w] += d
        u[t, w] = new[w]
        Qu[t, w] += d * q[t, w]
        g[w] = d
    for j in range(len(q)):
        for w in range(wide):
            Qu[j, w] -= g[w] * c[t, j, w]


@helper
def _of_chances(
    t: int, s: Any, c: Any, x: Any, u: Any, own: Any, h: Any, moved: Any, most: Any, out: Any
) -> None:
    """What moved chances change in sum_j r_jt (r_jt u_t - r_tj u_j)."""
    out[:], wide = 0.0, len(out)
    for j in range(len(u)):
        for w in range(wide):
            chance, mine = s[t, j, w], own[w]
            slope = abs((1.0 - 2.0 * chance) * u[j, w] - 2.0 * chance * mine)
            slope += u[j, w] * h[j, w] + 2.0 * chance * mine * moved[w]
            far = u[j, w] * (1.0 + h[j, w]) + mine * (1.0 + moved[w])
            slope += 10.0 * most[w] * chance * far
            out[w] += x[t, j, w] * c[t, j, w] * slope
    for w in range(wide):
        out[w] *= 1.0 + 3.0 * most[w]


@helper
def _moved_L(
    sums: Any, q: Any, room: Any, h: Any, most: Any, largest: Any, slack: float, M: Any, rest: Any
) -> None:
    """How far L may be off by moved u, and by moved chances besides."""
    u, Qu, _, L = room
    M[:], rest[:], wide = 0.0, 0.0, len(M)
    for j in range(len(q)):
        for w in range(wide):
            size = abs(Qu[j, w]) + slack * largest[w]
            M[w] += 2.0 * u[j, w] * (size + q[j, w] * u[j, w] * h[j, w]) * h[j, w]
            far = u[j, w] * (1.0 + h[j, w])
            rest[w] += sums[j, w] * far * far
    for w in range(wide):
        lost = slack * largest[w] * largest[w]
        moved = most[w] * (1.0 + most[w])
        R = 0.5 * moved * moved * rest[w]
        rest[w] = 2.0 * np.sqrt(max(L[w] + M[w] + lost, 0.0) * R) + R + lost


@helper
def _moved_rule(model: Any, room: Any, errors: Any, active: Any, known: Any, off: Any) -> None:
    """How far Qu / S - L / S^2 may be off."""
    s, c, q, x, sums, most, slack = model
    u, Qu, S, L = room
    h, largest, apart, M, rest, line = errors
    K, wide = q.shape
    nothing = np.zeros(wide)
    off[:], apart[:] = 0.0, 0.0
    for w in range(wide):
        largest[w] = S[w]
    for t in range(K):
        for j in range(K):
            for w in range(wide):
                seen = h[t, j, w] * u[j, w]
                off[t, w] += c[t, j, w] * seen
                apart[t, w] += seen
        _of_chances(t, s, c, x, u, u[t], h[t], nothing, most, M)
        for w in range(wide):
            off[t, w] = off[t, w] + M[w] + abs(Qu[t, w]) * apart[t, w]
            off[t, w] /= 1.0 - apart[t, w]
    dS, good = np.zeros(wide), np.ones(wide, np.bool_)
    for t in range(K):
        for w in range(wide):
            line[t, w] = apart[t, w] + apart[t, w] * apart[t, w]
            dS[w] += line[t, w] * u[t, w]
            good[w] &= apart[t, w] <= MOST_APART
    _moved_L(sums, q, room, line, most, largest, slack, M, rest)
    for w in range(wide):
        least = 1.0 - dS[w]
        M[w] = (M[w] + rest[w] + 2.0 * L[w] * dS[w]) / (least * least) + slack
        known[w] &= (good[w] & (dS[w] <= MOST_MOVED)) | (not active[w])
    for t in range(K):
        for w in range(wide):
            off[t, w] = (off[t, w] + M[w]) * GROWN


@helper
def _keep(p: Any, h: Any, slack: float, some: Any, known: Any, low: Any, high: Any) -> None:
    """Where the true answer may lie if these rows stop now."""
    wide = p.shape[1]
    for t in range(len(p)):
        apart = np.zeros(wide)
        for j in range(len(p)):
            for w in range(wide):
                apart[w] += h[t, j, w] * p[j, w]
        for w in range(wide):
            off = p[t, w] * apart[w] / (1.0 - apart[w]) * GROWN + slack
            if some[w]:
                known[w] &= apart[w] <= MOST_APART
                low[t, w] = min(low[t, w], p[t, w] - off)
                high[t, w] = max(high[t, w], p[t, w] + off)


@helper
def _follow(
    t: int, model: Any, room: Any, step: Any, errors: Any, active: Any, known: Any, y: Any
) -> None:
    """h_ti of all i after a step."""
    s, c, q, x, sums, most, slack = model
    u, Qu, S, L = room
    _, total, new = step
    h, largest, worst, M, rest, weights = errors
    K, wide = q.shape
    grown, top, own = np.zeros(wide), np.zeros(wide), np.empty(wide)
    worst[:] = 0.0
    for i in range(K):
        top[:] = 0.0
        for j in range(K):
            for w in range(wide):
                worst[j, w] = max(worst[j, w], h[i, j, w])
                top[w] += h[i, j, w] * u[j, w]
        for w in range(wide):
            grown[w] = max(grown[w], top[w] / S[w])
    good = np.empty(wide, np.bool_)
    for w in range(wide):
        good[w] = grown[w] <= MOST_MOVED
        grown[w] = 1.0 / (1.0 - grown[w])
    _moved_L(sums, q, room, worst, most, largest, slack, M, rest)
    for j in range(K):
        for w in range(wide):
            slope = abs(2.0 * Qu[j, w] - L[w] / S[w]) + slack * largest[w]
            bent = 2.0 * q[j, w] * u[j, w] * worst[j, w]
            whole = c[t, j, w] * u[j, w] + grown[w] / S[w] * u[j, w] * (slope + bent)
            weights[j, w] = whole / total[w]
    top[:] = 0.0
    for i in range(K):
        for w in range(wide):
            y[i, w] = rest[w] * grown[w] / S[w] / total[w]
        for j in range(K):
            for w in range(wide):
                y[i, w] += h[i, j, w] * weights[j, w]
        for w in range(wide):
            top[w] = max(top[w], y[i, w])
    _of_chances(t, s, c, x, u, new, worst, top, most, own)
    for i in range(K):
        for w in range(wide):
            more = own[w] / total[w] * (1.0 + 2.0 * top[w])
            moved = (y[i, w] + y[i, w] * y[i, w] + more) * GROWN + slack
            good[w] &= moved <= MOST_APART
            y[i, w] = moved + moved * moved
    for w in range(wide):
        known[w] &= good[w] | (not active[w])
        good[w] = active[w] & known[w]
    for i in range(K):
        if i != t:
            for w in range(wide):
                kept = y[i, w] if good[w] else h[t, i, w]
                h[t, i, w] = h[i, t, w] = kept


@kernel(by_row=("scores", "first"))
def pair_chances(scores: Matrix, a: Vector, b: Vector, first: OutMatrix) -> None:
    """As `machine.heads.coupling.pair_probabilities`, within the same 4 u."""
    low, high = LIMITS
    for i in range(len(scores)):
        for j in range(len(a)):
            t = scores[i, j] * a[j] + b[j]
            small = exp_nonpositive(-abs(t))
            r = (small if t >= 0.0 else 1.0) / (1.0 + small)
            r = low if r < low else r
            first[i, j] = high if r > high else r


@kernel(by_row=("first", "moved", "out", "errors"))
def coupled(
    first: Matrix, moved: Matrix, rounds: int, slack: float, out: OutMatrix, errors: OutMatrix
) -> None:
    """Class probabilities (m, K) from those of the first class of each pair, (m, K (K - 1) / 2).

    With `moved`, the errors of logits, also how far they may be off; if it has no rows, not.
    """
    K, wide, bounded = out.shape[1], max(1, min(COUPLED_ROWS, len(first))), len(moved) > 0
    squares, matrices = np.zeros((4, K, K, wide)), np.zeros((13, K, wide))
    vectors = np.zeros((9, wide))
    s, c, x, h = squares[0], squares[1], squares[2], squares[3]
    u, Qu, q, away = matrices[0], matrices[1], matrices[2], matrices[3]
    p, found = matrices[4], matrices[5]
    low, high, off, y, sums = matrices[6], matrices[7], matrices[8], matrices[9], matrices[10]
    table, lines = matrices[11], matrices[12]
    S, L, most, largest = vectors[0], vectors[1], vectors[2], vectors[3]
    g, total, new, M, rest = vectors[4], vectors[5], vectors[6], vectors[7], vectors[8]
    running, active = np.empty(wide, np.bool_), np.empty(wide, np.bool_)
    known, some = np.empty(wide, np.bool_), np.empty(wide, np.bool_)
    room, step = (u, Qu, S, L), (g, total, new)
    model, follow = (s, c, q, x, sums, most, slack), (h, largest, table, M, rest, lines)
    limit = STOP / K
    for start in range(0, len(first), wide):
        count = min(wide, len(first) - start)
        _ready(first, start, count, s, c, q)
        p[:], low[:], high[:] = 1.0 / K, 1.0, 0.0
        running[:], known[:] = True, True
        for w in range(wide):
            active[w] = w < count
        if bounded:
            most[:], h[:], sums[:] = 0.0, 0.0, 0.0
            column = 0
            for t in range(K):
                for j in range(t + 1, K):
                    for w in range(wide):
                        far = moved[start + min(w, count - 1), column] + slack
                        known[w] &= far <= MOST_MOVED
                        x[t, j, w] = x[j, t, w] = far
                    column += 1
            for t in range(K):
                for j in range(K):
                    for w in range(wide):
                        x[t, j, w] = x[t, j, w] if known[w] else 0.0
                        most[w] = max(most[w], x[t, j, w])
                        sums[t, w] += c[t, j, w]
        for _ in range(rounds):
            _begin(c, q, p, room, away)
            for w in range(wide):
                largest[w] = 0.0
            for t in range(K):
                for w in range(wide):
                    largest[w] = max(largest[w], away[t, w])
                    found[t, w] = p[t, w] if running[w] else found[t, w]
            for w in range(wide):
                running[w] &= not largest[w] < limit
            if bounded:
                _moved_rule(model, room, follow, active, known, off)
                for w in range(wide):
                    some[w], g[w], M[w] = active[w], 0.0, 0.0
                for t in range(K):
                    for w in range(wide):
                        M[w] = max(M[w], off[t, w])
                        some[w] &= away[t, w] - off[t, w] < limit
                        g[w] = max(g[w], away[t, w] + off[t, w])
                _keep(p, h, slack, some, known, low, high)
                for w in range(wide):
                    known[w] &= running[w] | (M[w] < limit) | (not active[w])
                    active[w] &= running[w] | (known[w] & (not g[w] < limit))
            else:
                for w in range(wide):
                    active[w] &= running[w]
            if not active.any():
                break
            for t in range(K):
                _step(t, c, q, room, step)
                if bounded:
                    _follow(t, model, room, step, follow, active, known, y)
                _move(t, c, q, room, step)
                if bounded:
                    for w in range(wide):
                        largest[w] = max(largest[w], S[w])
            for t in range(K):
                for w in range(wide):
                    p[t, w] = u[t, w] / S[w] if active[w] else p[t, w]
        for t in range(K):
            for w in range(wide):
                found[t, w] = p[t, w] if running[w] else found[t, w]
        if bounded:
            _keep(p, h, slack, active, known, low, high)
            for t in range(K):
                for w in range(count):
                    far = max(high[t, w] - found[t, w], found[t, w] - low[t, w])
                    errors[start + w, t] = min(far, 1.0) if known[w] else 1.0
        for t in range(K):
            for w in range(count):
                out[start + w, t] = found[t, w]
