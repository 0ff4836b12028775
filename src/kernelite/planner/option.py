"""An approximation that could be chosen, with what it costs and what the plan calls it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelite.planner.plan import Candidate
from kernelite.series.cells import Approximation
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import DirectionalBound
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm
from kernelite.support.sizes import array_bytes

__all__ = ["Option", "cubic_name", "form_name"]


@dataclass(frozen=True, eq=False)
class Option:
    """An approximation with what it is expected to cost."""

    name: str
    approximation: Approximation
    nanoseconds: float
    open_share: float

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return array_bytes(self.approximation)

    def candidate(self, verdict: str = "") -> Candidate:
        """Its line in the plan."""
        return Candidate(self.name, self.nanoseconds, self.open_share, self.nbytes, verdict)


def form_name(form: QuadraticForm | SpectralForm) -> str:
    """What the plan calls a form."""
    if isinstance(form, SpectralForm):
        return f"rank {form.rank} form"
    return "quadratic form"


def cubic_name(cubic: CubicForm | DirectionalBound | None) -> str:
    """What the plan calls a second tier."""
    if isinstance(cubic, CubicForm):
        return "cubic" if cubic.basis is None else f"cubic on {cubic.rank} directions"
    return "directional bound"
