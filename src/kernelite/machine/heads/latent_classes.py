"""Gaussian process classifiers of three classes or more: a latent machine a class, or a pair.

scikit-learn compares the machines' probabilities, which depend on their variances too; so a label
needs both moments of every machine, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.latent import LatentHead
from kernelite.machine.heads.one_vs_rest import OneVsRestHead
from kernelite.machine.heads.pairwise import PairwiseHead
from kernelite.rows.inputs import FloatArray

__all__ = ["LatentClassesHead", "MomentsHead"]


@dataclass(frozen=True, eq=False)
class MomentsHead:
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

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """By the sign of the mean, shape (m,)."""
        return self.latent.predict(scores)

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
class LatentClassesHead:
    """Several binary machines; `inner` answers from all means, then all variances.

    Parameters
    ----------
    inner : OneVsRestHead or PairwiseHead
        Whose members are `MomentsHead`s, the i-th of K on columns i and K + i.
    """

    inner: OneVsRestHead | PairwiseHead

    kind: Literal["classifier"] = "classifier"
    needs_posterior: ClassVar[frozenset[str]] = frozenset({"predict", "predict_proba"})

    @property
    def classes(self) -> NDArray[Any]:
        """Labels."""
        return self.inner.classes

    @property
    def n_scores(self) -> int:
        """A latent mean a machine."""
        return self.inner.n_scores // 2

    @property
    def offers(self) -> frozenset[str]:
        """Pairs of classes have no probabilities."""
        names = (
            {"predict", "predict_proba"} if hasattr(self.inner, "probabilities") else {"predict"}
        )
        return frozenset(names)

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Refused: means alone do not tell; see `kernelite.model.moments`."""
        raise InputError("labels of this Gaussian process need the variance of every machine.")

    def decision(self, scores: FloatArray) -> FloatArray:
        """The latent means."""
        return scores

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """No row: means alone do not tell."""
        return np.zeros(len(scores), dtype=np.bool_)
