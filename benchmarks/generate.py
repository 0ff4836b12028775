"""Generated models and rows: any d, n_sv and gamma / gamma_max, without training.

The coefficients' signs follow a smooth function of the centers with some noise, as support vectors
do; the intercept splits the rows in halves. Timing and size are those of a real model; accuracy
would mean nothing.
"""

from __future__ import annotations

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead
from kernelite.machine.machine import describe
from kernelite.sources import Machine

__all__ = ["generated_rows", "generated_source"]

CLUSTERS = 4


def generated_rows(m: int, d: int, *, seed: int = 0) -> np.ndarray:
    """Rows in a few overlapping clusters, most of them within the unit ball: shape (m, d)."""
    rng = np.random.default_rng([seed, m, d])
    centers = np.random.default_rng([7, d]).normal(size=(CLUSTERS, d)) / np.sqrt(d)
    rows = rng.normal(size=(m, d)) * (0.5 / np.sqrt(d))
    rows += 0.5 * centers[rng.integers(CLUSTERS, size=m)]
    return np.round(rows, 5)  # so that text with six digits holds them exactly


def generated_source(n_sv: int, d: int, *, gamma_ratio: float = 0.5, seed: int = 0) -> Machine:
    """A two-class model with `n_sv` centers, and gamma that many times gamma_max.

    Examples
    --------
    >>> source = generated_source(40, 3)
    >>> source.expansion.n_centers, source.expansion.n_features
    (40, 3)
    """
    rng = np.random.default_rng([seed, n_sv, d, 1])
    centers = generated_rows(n_sv, d, seed=seed + 1)
    gamma = gamma_ratio * 0.25 / np.square(centers).sum(axis=1).max()
    slope = np.random.default_rng([11, d]).normal(size=d)
    side = centers @ slope - np.median(centers @ slope)
    noisy = side + 0.5 * side.std() * rng.normal(size=n_sv)
    weights = np.where(noisy > 0, 1.0, -1.0) * rng.uniform(0.2, 1.0, size=n_sv)
    weights[weights < 0] *= weights[weights > 0].sum() / -weights[weights < 0].sum()
    # LIBSVM keeps the vectors of the first label, those with positive weights, first.
    order = np.argsort(weights < 0, kind="stable")
    centers, weights = centers[order], weights[order]
    bare = KernelExpansion(centers, weights, np.zeros(1), gamma=gamma)
    middle = np.median(bare.scores(generated_rows(min(500, 4 * n_sv), d, seed=seed + 2)))
    expansion = KernelExpansion(centers, weights, np.array([-middle]), gamma=gamma)
    head = ClassifierHead(np.array([1, -1]), first_positive=True)
    return Machine(expansion, head, describe("generated", expansion), "libsvm", "c_svc")
