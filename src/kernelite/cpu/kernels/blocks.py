"""Quadratic forms over a tile of rows: the upper triangle of a matrix in 4 x 4 blocks.

    g += sum_{a <= b} m_ab u_a u_b + v.u

A block keeps its 16 coefficients in registers along all rows of the tile, loads 8 features and
does 20 multiply-adds: as many as a core can start in that time.
"""

from __future__ import annotations

import numpy as np

from kernelite.cpu.kernels.compiling import helper
from kernelite.rows.inputs import FloatArray

__all__ = ["add_triangle", "padded", "triangle_blocks"]


def padded(n_features: int) -> int:
    """The next multiple of four."""
    return (n_features + 3) // 4 * 4


def triangle_blocks(triangles: FloatArray) -> FloatArray:
    """Cut upper triangles, shape (k, d, d), into blocks row by row: (k, n_blocks, 16).

    Examples
    --------
    >>> triangle_blocks(np.ones((1, 5, 5))).shape
    (1, 3, 16)
    """
    k, d, _ = triangles.shape
    width = padded(d)
    filled = np.zeros((k, width, width))
    filled[:, :d, :d] = triangles
    blocks = filled.reshape(k, width // 4, 4, width // 4, 4).swapaxes(2, 3)
    lines, columns = np.triu_indices(width // 4)
    return np.ascontiguousarray(blocks[:, lines, columns].reshape(k, len(lines), 16))


@helper
def add_triangle(
    tile: FloatArray, width: int, blocks: FloatArray, linear: FloatArray, g: FloatArray
) -> int:
    """g[r] += v.u + u'Mu for the rows r < width of a tile; returns the number of blocks used."""
    index = 0
    for a in range(0, tile.shape[0], 4):
        m = blocks[index]
        m00, m01, m02, m03 = m[0], m[1], m[2], m[3]
        m11, m12, m13, m22, m23, m33 = m[5], m[6], m[7], m[10], m[11], m[15]
        v0, v1, v2, v3 = linear[a], linear[a + 1], linear[a + 2], linear[a + 3]
        index += 1
        for r in range(width):
            u0, u1, u2, u3 = tile[a, r], tile[a + 1, r], tile[a + 2, r], tile[a + 3, r]
            left = u0 * (v0 + m00 * u0 + m01 * u1 + m02 * u2 + m03 * u3)
            left += u1 * (v1 + m11 * u1 + m12 * u2 + m13 * u3)
            g[r] += left + (u2 * (v2 + m22 * u2 + m23 * u3) + u3 * (v3 + m33 * u3))
        for b in range(a + 4, tile.shape[0], 4):
            m = blocks[index]
            m00, m01, m02, m03, m10, m11, m12, m13 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
            m20, m21, m22, m23 = m[8], m[9], m[10], m[11]
            m30, m31, m32, m33 = m[12], m[13], m[14], m[15]
            index += 1
            for r in range(width):
                u0, u1, u2, u3 = tile[b, r], tile[b + 1, r], tile[b + 2, r], tile[b + 3, r]
                left = tile[a, r] * (m00 * u0 + m01 * u1 + m02 * u2 + m03 * u3)
                left += tile[a + 1, r] * (m10 * u0 + m11 * u1 + m12 * u2 + m13 * u3)
                right = tile[a + 2, r] * (m20 * u0 + m21 * u1 + m22 * u2 + m23 * u3)
                right += tile[a + 3, r] * (m30 * u0 + m31 * u1 + m32 * u2 + m33 * u3)
                g[r] += left + right
    return index
