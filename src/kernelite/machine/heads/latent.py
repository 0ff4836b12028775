"""Binary Gaussian process classifiers: the sign of a latent mean, and the probability behind it.

scikit-learn approximates the logistic sigmoid by five error functions (Williams and Barber), whose
mean under a normal distribution is known: pi(f, v) = sum_i c_i erf(l_i f / sqrt(1 + 2 v l_i^2)) / 2
+ sum_i c_i / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.rows.inputs import FloatArray

__all__ = ["LatentHead"]

SLOPES = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
WEIGHTS = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])


@dataclass(frozen=True, eq=False)
class LatentHead:
    """Two classes, told apart by the sign of the latent mean; zero means the first.

    Parameters
    ----------
    classes : array of shape (2,)

    Examples
    --------
    >>> head = LatentHead(np.array(["no", "yes"]))
    >>> head.predict(np.array([[0.0], [0.5]]))
    array(['no', 'yes'], dtype='<U3')
    >>> head.class_probabilities(np.array([[0.5]]), np.array([1.0])).round(3)
    array([[0.398, 0.602]])
    """

    classes: NDArray[Any]

    kind: Literal["classifier"] = "classifier"
    n_scores: Literal[1] = 1

    def __post_init__(self) -> None:
        classes = np.asarray(self.classes)
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise InputError("`classes` of a latent head must be two different labels.")
        object.__setattr__(self, "classes", classes)

    needs_posterior: ClassVar[frozenset[str]] = frozenset({"predict_proba"})

    @property
    def offers(self) -> frozenset[str]:
        """As GaussianProcessClassifier: no decision values."""
        return frozenset({"predict", "predict_proba"})

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,)."""
        return self.classes[(scores[:, 0] > 0).astype(np.intp)]

    def decision(self, scores: FloatArray) -> FloatArray:
        """The latent mean, shape (m,)."""
        return scores[:, 0]

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose sign cannot change within the bounds."""
        return np.asarray(np.abs(scores[:, 0]) > bounds[:, 0])

    def class_probabilities(self, scores: FloatArray, variance: FloatArray) -> FloatArray:
        """Probabilities of shape (m, 2), from latent means (m, 1) and variances (m,)."""
        from scipy.special import erf

        # The variance of a row far from all others is rounded; below zero it has no root.
        spread = np.sqrt(1.0 + 2.0 * np.maximum(variance, 0.0)[:, None] * SLOPES**2)
        second = erf(scores * SLOPES / spread) @ (0.5 * WEIGHTS) + 0.5 * WEIGHTS.sum()
        return np.stack([1.0 - second, second], axis=1)
