"""Kernels as data: one small frozen class each, which states definition, size and rounding once.

To add one: write its class in a file here, name it in `kernelite.store.registry`, and let a source
read it. `kernelite.cpu.exact_pointwise` then serves it; a loop in `kernelite.cpu.kernels.pointwise`
makes it faster.
"""

from __future__ import annotations

from kernelite.machine.kernels.algebra import Product, Sum
from kernelite.machine.kernels.base import Kernel, Reach
from kernelite.machine.kernels.laplacian import Laplacian
from kernelite.machine.kernels.matern import Matern
from kernelite.machine.kernels.periodic import ExpSineSquared
from kernelite.machine.kernels.products import Cosine, Polynomial, Sigmoid
from kernelite.machine.kernels.radial import Radial, Rbf
from kernelite.machine.kernels.rational import (
    InverseMultiquadric,
    InverseQuadratic,
    Multiquadric,
    RationalQuadratic,
)
from kernelite.machine.kernels.splines import PowerSpline, ThinPlateSpline

__all__ = [
    "Cosine",
    "ExpSineSquared",
    "InverseMultiquadric",
    "InverseQuadratic",
    "Kernel",
    "Laplacian",
    "Matern",
    "Multiquadric",
    "Polynomial",
    "PowerSpline",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Rbf",
    "Reach",
    "Sigmoid",
    "Sum",
    "ThinPlateSpline",
]
