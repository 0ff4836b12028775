"""One machine of a model: its rows' steps, and what scores them at each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelite.cpu.exact_dense import DenseExact
from kernelite.errors import UnsupportedModelError
from kernelite.gpu.buffers import Bounded, Buffers, Tensor
from kernelite.gpu.exact import ExactSums
from kernelite.gpu.forms import Forms
from kernelite.gpu.fused import FusedSums
from kernelite.gpu.rows import RowSteps
from kernelite.machine.heads.votes import pairs

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["DOUBLE", "FORM", "FUSED", "Part"]

FORM, FUSED, DOUBLE = 0, 1, 2  # the stages, in order


class Part(Buffers):
    """A machine, and the outputs of the whole that its scores are added to.

    Parameters
    ----------
    model : CompiledModel
        Without parts of its own.
    outputs : ndarray of int
    """

    def __init__(self, model: ModelFields, outputs: Any) -> None:
        super().__init__()
        if model.tail is not None:
            raise UnsupportedModelError(
                "a model with a polynomial beside its kernels is not lowered to torch; pass rows "
                "as an array instead of a tensor."
            )
        if model.expansion is not None and not model.expansion.has_series:
            raise UnsupportedModelError(
                f"the kernel of this model ({model.expansion.kernel_name}) is not lowered to "
                "torch; pass rows as an array instead of a tensor."
            )
        self.steps = RowSteps(model)
        self.forms = None if model.approximation is None else Forms(model.approximation)
        self.fused = self.exact = None
        if model.expansion is not None:
            mapped = model.preparation.input_map is not None
            dense = DenseExact.prepare(model.expansion, mapped=mapped)
            self.exact = ExactSums(dense)
            if FusedSums.serves(dense):
                self.fused = FusedSums(dense, _families(model.head))
        self.hold(outputs=np.asarray(outputs))

    def forward(self, rows: Tensor, stage: int, *, kernels: bool) -> Bounded:
        """Scores and bounds at a stage; a part that lacks it answers by its next one."""
        rows = self.steps(rows)
        if stage == FORM and self.forms is not None:
            return self.forms(rows, kernel=kernels)
        if stage <= FUSED and self.fused is not None:
            return self.fused(rows, kernel=kernels)
        assert self.exact is not None
        return self.exact(rows, kernel=kernels)


def _families(head: Any) -> list[np.ndarray]:
    """Of a one-vs-one machine: the pairs of each class."""
    if not head.scores_are_pairs or len(head.classes) < 3:
        return []
    of_pair = np.array(list(pairs(len(head.classes))))
    return [np.flatnonzero((of_pair == c).any(axis=1)) for c in range(len(head.classes))]
