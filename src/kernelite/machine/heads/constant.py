"""A machine that always answers the same: one-vs-rest puts it where a class is always or never."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.ranges import Range
from kernelite.rows.inputs import FloatArray

__all__ = ["ConstantHead"]


@dataclass(frozen=True, eq=False)
class ConstantHead:
    """Answers `value`, 0 or 1, without looking at any score.

    Examples
    --------
    >>> ConstantHead(1).probabilities(np.zeros((2, 0)))
    array([[0., 1.],
           [0., 1.]])
    """

    value: int

    kind: Literal["classifier"] = "classifier"
    n_scores: Literal[0] = 0

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels of a binary machine."""
        return np.array([0, 1])

    @property
    def offers(self) -> frozenset[str]:
        """All that a binary machine can be asked."""
        return frozenset({"predict", "decision_function", "predict_proba"})

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """The constant, shape (m,)."""
        return np.full(len(scores), self.value)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The constant, shape (m,)."""
        return np.full(len(scores), float(self.value))

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Every row."""
        return np.ones(len(scores), dtype=np.bool_)

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Both ends are the constant."""
        return self.decision(scores), self.decision(scores)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, 2)."""
        return np.tile([1.0 - self.value, float(self.value)], (len(scores), 1))

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Both ends are the constant's."""
        return self.probabilities(scores), self.probabilities(scores)
