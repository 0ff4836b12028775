"""Heads turn the scores of an expansion into what its library would answer.

In: scores of shape (m, k), and bounds on their errors. Out: labels, values, decision values,
probabilities, between which ends these lie, and which rows' labels are decided whatever the errors
within the bounds. `base` states the contract; here all heads have one address.
"""

from __future__ import annotations

from kernelite.machine.heads.base import Head
from kernelite.machine.heads.calibrated import (
    Calibrated,
    CalibratedHead,
    IsotonicCalibrator,
    SigmoidCalibrator,
)
from kernelite.machine.heads.ensembles import MultiOutputHead, VotingHead
from kernelite.machine.heads.largest import ArgmaxHead, LinearHead
from kernelite.machine.heads.latent import LatentClassesHead, LatentHead, MomentsHead
from kernelite.machine.heads.members import ConstantHead, Member
from kernelite.machine.heads.multiclass import OneVsOneHead, OneVsRestHead, OutputCodeHead
from kernelite.machine.heads.outlier import OutlierHead
from kernelite.machine.heads.svm import ClassifierHead
from kernelite.machine.heads.values import (
    DensityHead,
    KeptInverse,
    MeanHead,
    NamedInverse,
    RegressorHead,
    TargetHead,
    TransformHead,
)

__all__ = [
    "ArgmaxHead",
    "Calibrated",
    "CalibratedHead",
    "ClassifierHead",
    "ConstantHead",
    "DensityHead",
    "Head",
    "IsotonicCalibrator",
    "KeptInverse",
    "LatentClassesHead",
    "LatentHead",
    "LinearHead",
    "MeanHead",
    "Member",
    "MomentsHead",
    "MultiOutputHead",
    "NamedInverse",
    "OneVsOneHead",
    "OneVsRestHead",
    "OutlierHead",
    "OutputCodeHead",
    "RegressorHead",
    "SigmoidCalibrator",
    "TargetHead",
    "TransformHead",
    "VotingHead",
]
