"""Heads turn the scores of an expansion into what its library would answer.

In: scores of shape (m, k), and bounds on their errors. Out: labels, values, decision values,
probabilities, and which rows' labels are decided whatever the errors within the bounds. One file
a kind of answer stands in `kernelite.heads`; here they have one address.
"""

from __future__ import annotations

from kernelite.heads.argmax import ArgmaxHead
from kernelite.heads.base import Head
from kernelite.heads.density import DensityHead
from kernelite.heads.latent import LatentHead
from kernelite.heads.latent_classes import LatentClassesHead
from kernelite.heads.one_vs_one import ClassifierHead
from kernelite.heads.outlier import OutlierHead
from kernelite.heads.regressor import RegressorHead
from kernelite.heads.transform import TransformHead

__all__ = [
    "ArgmaxHead",
    "ClassifierHead",
    "DensityHead",
    "Head",
    "LatentClassesHead",
    "LatentHead",
    "OutlierHead",
    "RegressorHead",
    "TransformHead",
]
