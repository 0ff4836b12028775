"""Kernels as data: one small frozen class each, which states definition, size and rounding once.

Definitions are written in the operations of `kernelite.machine.ops`, so that exports have them too.
To add one: write its class in a file here, import it below, name it in `kernelite.store.registry`,
and let a source read it. `kernelite.backends.cpu.exact_dense` then serves it. Of a function of
distances, the `profile` is compiled as it stands (`Kernel.statistic`).
"""

from __future__ import annotations

from kernelite.machine.kernels.base import (
    POLY2,
    RBF,
    FunctionKernel,
    Kernel,
    ProductKernel,
    Reach,
    SumKernel,
)
from kernelite.machine.kernels.exponential import (
    AdditiveChiSquared,
    ChiSquared,
    ExpSineSquared,
    Laplacian,
    Matern,
)
from kernelite.machine.kernels.powers import (
    Bump,
    InverseMultiquadric,
    InverseQuadratic,
    Multiquadric,
    PowerSpline,
    RationalQuadratic,
    ThinPlateSpline,
)
from kernelite.machine.kernels.products import CosineKernel, PolynomialKernel, SigmoidKernel
from kernelite.machine.kernels.radial import Gaussian, Radial, Rbf

__all__ = [
    "POLY2",
    "RBF",
    "AdditiveChiSquared",
    "Bump",
    "ChiSquared",
    "CosineKernel",
    "ExpSineSquared",
    "FunctionKernel",
    "Gaussian",
    "InverseMultiquadric",
    "InverseQuadratic",
    "Kernel",
    "Laplacian",
    "Matern",
    "Multiquadric",
    "PolynomialKernel",
    "PowerSpline",
    "ProductKernel",
    "Radial",
    "RationalQuadratic",
    "Rbf",
    "Reach",
    "SigmoidKernel",
    "SumKernel",
    "ThinPlateSpline",
]
