"""The Laplacian kernel exp(-gamma |x - z|_1), with a kink at zero in every feature.

By differences, |x - z|_1 errs relatively by (d + 2) u, and t exp(-t) <= 1 / e: near rows and
centers are as exact as far ones. Where coordinates move by c u, the distance moves by at most
c u sqrt(d) (|z| + |x|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernelite.machine.kernels.base import Kernel, Reach, check_positive, units
from kernelite.machine.ops import elementwise, ops
from kernelite.rows.inputs import FloatArray

__all__ = ["Laplacian"]

FARTHEST = 1e290  # of a distance whose sum is surely no overflow


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-gamma |x - z|_1).

    Parameters
    ----------
    gamma : float

    Examples
    --------
    >>> Laplacian(1.0).values(np.zeros((1, 2)), np.array([[1.0, -1.0]])).round(4)
    array([[0.1353]])
    """

    gamma: float

    def __post_init__(self) -> None:
        check_positive(gamma=self.gamma)

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        xp = ops(rows)
        with np.errstate(over="ignore", under="ignore"):
            distances = xp.city_distances(rows, centers)
            return elementwise(lambda r: xp.exp(r * -self.gamma), distances)

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return np.ones(len(rows))

    def largest(self, reach: Reach) -> FloatArray:
        return np.ones(len(reach.rows))

    def error(self, reach: Reach) -> FloatArray:
        length = reach.n_features + 8.0 + reach.relative
        found = units(length) * 0.37 + units(16.0)
        if reach.moves:
            root = math.sqrt(reach.n_features)
            moved = self.gamma * (3.0 * reach.radius + 2.0 * reach.offset) + 0.74
            found += units(reach.moves) * root * moved
        if reach.moved:
            found += 1.01 * reach.moved * math.sqrt(reach.n_features) * self.gamma
        return np.where(reach.distances < FARTHEST, min(found, 1.0 + 1e-9), 1.0 + 1e-9)

    @property
    def label(self) -> str:
        return f"Laplacian, gamma {self.gamma:.6g}"
