"""An approximation that could be chosen, with what it costs and what the plan calls it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelite.planner.plan import Candidate
from kernelite.series.cells import Approximation
from kernelite.support.sizes import array_bytes

__all__ = ["Option"]


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
