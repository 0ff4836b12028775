"""Transformers: the scores are the new coordinates of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.rows.inputs import FloatArray

__all__ = ["TransformHead"]


@dataclass(frozen=True, eq=False)
class TransformHead:
    """Kernel PCA, Nystroem features: k coordinates a row.

    Parameters
    ----------
    n_scores : int

    Examples
    --------
    >>> TransformHead(2).transform(np.array([[1.0, 2.0]]))
    array([[1., 2.]])
    """

    n_scores: int

    kind: Literal["transform"] = "transform"

    def __post_init__(self) -> None:
        if self.n_scores < 0:
            raise InputError(f"`n_scores` must not be negative, got {self.n_scores}.")

    @property
    def offers(self) -> frozenset[str]:
        """A transformer transforms."""
        return frozenset({"transform"})

    def transform(self, scores: FloatArray) -> FloatArray:
        """Coordinates of shape (m, k)."""
        return scores

    def predict(self, scores: FloatArray) -> FloatArray:
        """The coordinates; compiled models call it `transform`."""
        return scores

    def decision(self, scores: FloatArray) -> FloatArray:
        """The coordinates."""
        return scores

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: coordinates are within a tolerance or not; there is no label to decide."""
        return np.zeros(len(scores), dtype=np.bool_)
