"""Heads turn the scores of an expansion into what its library would answer.

In: scores of shape (m, k), and bounds on their errors. Out: labels, values, decision values,
probabilities, and which rows' labels are decided whatever the errors within the bounds. One file
a kind of answer stands in `kernelite.machine.heads`; here they have one address.
"""

from __future__ import annotations

from kernelite.machine.heads.argmax import ArgmaxHead
from kernelite.machine.heads.base import Head
from kernelite.machine.heads.density import DensityHead
from kernelite.machine.heads.latent import LatentHead
from kernelite.machine.heads.latent_classes import LatentClassesHead
from kernelite.machine.heads.one_vs_one import ClassifierHead
from kernelite.machine.heads.outlier import OutlierHead
from kernelite.machine.heads.regressor import RegressorHead
from kernelite.machine.heads.transform import TransformHead

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
