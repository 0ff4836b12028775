"""Labels of several classes as a stage: the class that surely wins its one-vs-one pairs."""

from __future__ import annotations

import numpy as np

from kernelite.backends.cpu.exact import ExactEngine, as_dense
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
        if criterion is None or criterion.voting_classes is None:
            return None
        pairs = self.engine.pairs
        if pairs is None or not pairs.ready:
            return None
        dense = rows[:] if isinstance(rows, MappedRows) else as_dense(rows)
        winners, _leads = pairs.winners(dense, ties_to_first=criterion.ties_to_first)
        stage = np.where(winners < 0, np.int8(OPEN), np.int8(0))
        scores = np.empty((len(dense), self.engine.expansion.n_outputs))
        return Bounded(scores, stage=stage, winners=winners)

    def bound(self, rows: Block, criterion: Criterion | None) -> None:
        """A label has no bound."""
        return None
