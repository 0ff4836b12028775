"""Sums of kernel values in registers: statistic, function and weights in one loop."""

from __future__ import annotations

from dataclasses import dataclass

from kernelite.machine.kernels import Kernel
from kernelite.rows.inputs import FloatArray

__all__ = ["FusedPointwise"]


@dataclass(frozen=True, eq=False)
class FusedPointwise:
    """Centers laid out for a loop."""

    ready: bool = False

    @classmethod
    def prepare(
        cls, kernel: Kernel, centers: FloatArray, coefficients: FloatArray
    ) -> FusedPointwise | None:
        """None where there is no loop for the kernel."""
        return None

    def add(self, rows: FloatArray, sums: FloatArray) -> None:
        """sums += sum_i A_i k(x_i, z)."""
