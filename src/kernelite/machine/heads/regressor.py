"""Regression: the scores are the values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.rows.inputs import FloatArray

__all__ = ["RegressorHead"]


@dataclass(frozen=True, eq=False)
class RegressorHead:
    """Regression: the score is the value.

    Parameters
    ----------
    n_scores : int
        Outputs k.
    value_shape : tuple of int, optional
        What a row's value is shaped like; by default () for one output, (k,) for more. (1,) is a
        column of a table with one column.
    noise_scale : float, optional
        LIBSVM's sigma of the Laplace noise model (`probA` of a regressor).

    Examples
    --------
    >>> RegressorHead().predict(np.array([[1.5], [2.5]]))
    array([1.5, 2.5])
    """

    n_scores: int = 1
    noise_scale: float | None = None
    value_shape: tuple[int, ...] | None = None

    kind: Literal["regressor"] = "regressor"

    def __post_init__(self) -> None:
        shape = self.value_shape
        if shape is not None and (math.prod(shape) != self.n_scores or min(shape, default=1) < 0):
            raise InputError(
                f"`value_shape` {shape} does not hold the {self.n_scores} outputs of a row."
            )

    @property
    def offers(self) -> frozenset[str]:
        """A regressor predicts."""
        return frozenset({"predict"})

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values of shape (m, *value_shape)."""
        if self.value_shape is not None:
            return scores.reshape(len(scores), *self.value_shape)
        return scores[:, 0] if self.n_scores == 1 else scores

    def decision(self, scores: FloatArray) -> FloatArray:
        """The values themselves."""
        return self.predict(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: a value is within a tolerance or it is not; there is no label to decide."""
        return np.zeros(len(scores), dtype=np.bool_)
