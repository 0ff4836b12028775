"""Regression: the scores are the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelite.heads.base import BoolArray
from kernelite.inputs import FloatArray

__all__ = ["RegressorHead"]


@dataclass(frozen=True, eq=False)
class RegressorHead:
    """Regression: the score is the value.

    Parameters
    ----------
    n_scores : int
        Outputs; `predict` returns shape (m,) for one, (m, k) for more.
    noise_scale : float, optional
        LIBSVM's sigma of the Laplace noise model (`probA` of a regressor).

    Examples
    --------
    >>> RegressorHead().predict(np.array([[1.5], [2.5]]))
    array([1.5, 2.5])
    """

    n_scores: int = 1
    noise_scale: float | None = None

    kind: Literal["regressor"] = "regressor"

    @property
    def offers(self) -> frozenset[str]:
        """A regressor predicts."""
        return frozenset({"predict"})

    def predict(self, scores: FloatArray) -> FloatArray:
        """Values of shape (m,) or (m, k)."""
        return scores[:, 0] if self.n_scores == 1 else scores

    def decision(self, scores: FloatArray) -> FloatArray:
        """The values themselves."""
        return self.predict(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: a value is within a tolerance or it is not; there is no label to decide."""
        return np.zeros(len(scores), dtype=np.bool_)
