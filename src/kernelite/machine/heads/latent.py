"""Gaussian process classifiers: the sign of a latent mean, and the probability behind it.

scikit-learn approximates the logistic sigmoid by five error functions (Williams and Barber), whose
mean under a normal distribution is known: pi(f, v) = sum_i c_i erf(l_i f / sqrt(1 + 2 v l_i^2)) / 2
+ sum_i c_i / 2.

With three classes or more there is a latent machine per class, or per pair of classes. scikit-learn
compares the machines' probabilities, which depend on their variances too; so a label needs both
moments of every machine, exactly.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, BySign, LabelHead
from kernelite.machine.heads.multiclass import OneVsOneHead, OneVsRestHead
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["LatentClassesHead", "LatentHead", "MomentsHead"]

SLOPES = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
WEIGHTS = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])


@dataclass(frozen=True, eq=False)
class LatentHead(LabelHead):
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
    offers: ClassVar[frozenset[str]] = frozenset({"predict", "predict_proba"})

    def __post_init__(self) -> None:
        classes = np.asarray(self.classes)
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise InputError("`classes` of a latent head must be two different labels.")
        object.__setattr__(self, "classes", classes)

    needs_posterior: ClassVar[frozenset[str]] = frozenset({"predict_proba"})

    @property
    def by_sign(self) -> BySign:
        """The second class where the latent mean is positive."""
        return BySign(self.classes[::-1])

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        return ops(scores).where(scores[:, 0] > 0, 1, 0)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The latent mean, shape (m,)."""
        return scores[:, 0]

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose sign cannot change within the bounds."""
        return ops(scores).abs(scores[:, 0]) > bounds[:, 0]

    def from_moments(self, method: str, means: FloatArray, variances: FloatArray) -> NDArray[Any]:
        """Probabilities; labels need no variance."""
        return self.class_probabilities(means, variances[:, 0])

    def class_probabilities(self, scores: FloatArray, variance: FloatArray) -> FloatArray:
        """Probabilities of shape (m, 2), from latent means (m, 1) and variances (m,)."""
        xp = ops(scores)
        # The variance of a row far from all others is rounded; below zero it has no root.
        spread = xp.sqrt(1.0 + 2.0 * xp.maximum(variance, 0.0)[:, None] * SLOPES**2)
        terms = xp.erf(scores * SLOPES / spread) * (0.5 * WEIGHTS)
        second = xp.sum(terms, axis=1) + 0.5 * WEIGHTS.sum()
        return xp.stack([1.0 - second, second], axis=1)


@dataclass(frozen=True, eq=False)
class MomentsHead(LabelHead):
    """One binary machine, on its latent mean and variance.

    Parameters
    ----------
    latent : LatentHead

    Examples
    --------
    >>> head = MomentsHead(LatentHead(np.array([0, 1])))
    >>> head.probabilities(np.array([[0.5, 1.0]])).round(3)
    array([[0.398, 0.602]])
    """

    latent: LatentHead

    kind: Literal["classifier"] = "classifier"
    n_scores: Literal[2] = 2

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels."""
        return self.latent.classes

    @property
    def offers(self) -> frozenset[str]:
        """As the machine by itself."""
        return self.latent.offers

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """By the sign of the mean, shape (m,)."""
        return self.latent.winners(scores)

    def decision(self, scores: FloatArray) -> FloatArray:
        """The mean, shape (m,)."""
        return self.latent.decision(scores)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose sign cannot change within the bounds."""
        return self.latent.decided(scores, bounds)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Shape (m, 2)."""
        return self.latent.class_probabilities(scores[:, :1], scores[:, 1])


@dataclass(frozen=True, eq=False)
class LatentClassesHead(LabelHead):
    """Several binary machines; `inner` answers from all means, then all variances.

    Parameters
    ----------
    inner : OneVsRestHead or OneVsOneHead
        Whose members are `MomentsHead`s, the i-th of K on columns i and K + i.
    """

    inner: OneVsRestHead | OneVsOneHead

    kind: Literal["classifier"] = "classifier"
    needs_posterior: ClassVar[frozenset[str]] = frozenset({"predict", "predict_proba"})

    @property
    def classes(self) -> NDArray[Any]:
        """Labels."""
        return self.inner.classes

    @property
    def n_scores(self) -> int:
        """A latent mean per machine."""
        return self.inner.n_scores // 2

    @property
    def offers(self) -> frozenset[str]:
        """Pairs of classes have no probabilities."""
        likely = "predict_proba" in self.inner.offers
        return frozenset({"predict", "predict_proba"} if likely else {"predict"})

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Refused: means alone do not tell."""
        raise InputError("labels of this Gaussian process need the variance of every machine.")

    def machine_probabilities(self, means: FloatArray, variances: FloatArray) -> FloatArray:
        """Each machine's for itself, of the same shape: not yet divided by their sum."""
        latent = LatentHead(np.arange(2))
        each = latent.class_probabilities(means.reshape(-1, 1), variances.reshape(-1))
        return each[:, 1].reshape(means.shape)

    def from_moments(self, method: str, means: FloatArray, variances: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,), or probabilities of shape (m, K)."""
        return self.inner.answer(method, ops(means).concat([means, variances], axis=1))
