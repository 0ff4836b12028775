"""Labels of several classes as a stage: the class that surely wins its one-vs-one pairs."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernelite.backends.cpu.exact import ExactEngine, as_dense
from kernelite.backends.cpu.fused_pairs import FusedPairs
from kernelite.backends.cpu.mapped import MappedRows
from kernelite.data.rows.inputs import FloatArray
from kernelite.program.bounded import OPEN, PAIRS, Bounded
from kernelite.program.cascade import Block
from kernelite.program.criteria import Criterion
from kernelite.support.records import dataclass

__all__ = ["WinnersPairs"]


@dataclass(frozen=True, eq=False)
class WinnersPairs:
    """Labels without scores, where votes decide and only the label is asked for."""

    engine: ExactEngine
    name = PAIRS
    accepts_all = False

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        previous: Bounded | None = None,
        into: FloatArray | None = None,
    ) -> Bounded | None:
        """The winner of each row; rows without a sure one stay open."""
        if not self.serves(criterion):
            return None
        assert self._pairs is not None
        assert criterion is not None
        dense = rows[:] if isinstance(rows, MappedRows) else as_dense(rows)
        winners, _leads = self._pairs.winners(dense, ties_to_first=criterion.ties_to_first)
        stage = np.zeros(len(winners), dtype=np.int8)
        stage[winners < 0] = OPEN
        return Bounded(np.empty((len(winners), self._outputs)), stage=stage, winners=winners)

    def serves(self, criterion: Criterion | None) -> bool:
        """Whether this is asked for, and can be had."""
        asked = criterion is not None and criterion.voting_classes is not None
        return asked and self._pairs is not None

    @cached_property
    def _pairs(self) -> FusedPairs | None:
        return self.engine.pairs

    @cached_property
    def _outputs(self) -> int:
        return self.engine.expansion.n_outputs

    def bound(self, rows: Block, criterion: Criterion | None) -> None:
        """A label has no bound."""
        return None
