"""LIBSVM's coupling of pairwise probabilities, row after row (`machine.heads.pairwise.couple`)."""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.kernels.compiling import Matrix, OutMatrix, kernel

__all__ = ["coupled"]


@kernel(by_row=("first", "out"))
def coupled(first: Matrix, out: OutMatrix) -> None:
    """Class probabilities (m, K) from those of the first class of each pair, (m, K (K - 1) / 2).

    The steps and the rule to stop are those of the definition.
    """
    K = out.shape[1]
    r, Q = np.zeros((K, K)), np.empty((K, K))
    p, Qp = np.empty(K), np.empty(K)
    for row in range(len(first)):
        column = 0
        for i in range(K):
            for j in range(i + 1, K):
                r[i, j], r[j, i] = first[row, column], 1.0 - first[row, column]
                column += 1
        for i in range(K):
            total = 0.0
            for j in range(K):
                Q[i, j] = -r[i, j] * r[j, i]
                total += r[j, i] * r[j, i]
            Q[i, i] = total
            p[i] = 1.0 / K
        for _ in range(max(100, K)):
            pQp = 0.0
            for t in range(K):
                total = 0.0
                for j in range(K):
                    total += Q[t, j] * p[j]
                Qp[t] = total
                pQp += p[t] * total
            largest = 0.0
            for t in range(K):
                largest = max(largest, abs(Qp[t] - pQp))
            if largest < 0.005 / K:
                break
            for t in range(K):
                delta = (pQp - Qp[t]) / Q[t, t]
                scale = 1.0 + delta
                p[t] += delta
                pQp = (pQp + delta * (delta * Q[t, t] + 2.0 * Qp[t])) / scale / scale
                for j in range(K):
                    Qp[j] = (Qp[j] + delta * Q[t, j]) / scale
                    p[j] /= scale
        for i in range(K):
            out[row, i] = p[i]
