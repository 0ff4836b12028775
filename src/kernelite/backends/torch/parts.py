"""One machine of a model: the steps of its rows, on tensors, and what scores them at each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.buffers import Buffers, Tensor
from kernelite.backends.torch.exact import ExactSums, KernelSums
from kernelite.backends.torch.fine import FineSums
from kernelite.backends.torch.forms import FirstForm
from kernelite.backends.torch.formulas import Formula, TensorValue
from kernelite.backends.torch.fused import SliceSums
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads.pairwise import pairs
from kernelite.machine.preparation import Selection
from kernelite.program.bounded import Bounded
from kernelite.support.errors import UnsupportedModelError

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["DOUBLE", "FINE", "FORM", "FUSED", "PartModule", "RowSteps"]

# What happens to rows before a model sees them, on tensors: scalers and selections of features.


class RowSteps(Buffers):
    """The steps of a model's preparation, in order.

    Parameters
    ----------
    model : CompiledModel
        Or a part of one.
    """

    def __init__(self, model: ModelFields) -> None:
        super().__init__()
        self.formulas: list[Formula] = []
        for step in model.preparation.steps:
            if not isinstance(step, AffineMap | Selection):
                raise UnsupportedModelError(
                    f"this model prepares its rows by a step ({_name(step)}) that is not lowered "
                    "to torch; transform the rows first, or pass them as an array."
                )
            self.formulas.append(step.formula)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows as the forms take them: shape (m, d); as they are where there is no step."""
        for formula in self.formulas:
            rows = formula(TensorValue(rows)).tensor
        return rows


def _name(step: Any) -> str:
    """What messages call a step that is not lowered."""
    return str(getattr(step, "name", type(step).__name__))


# The machine: its stages, and what answers at each.

FORM, FUSED, DOUBLE, FINE = 0, 1, 2, 3
"""Stages: a row goes from the form to the fused sums, for values to sums of digits, to doubles."""


class PartModule(Buffers):
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
        self.steps = RowSteps(model)
        self.forms = None if model.approximation is None else FirstForm(model.approximation)
        self.fused = self.fine = self.exact = None
        expansion, mapped = model.expansion, model.preparation.input_map is not None
        if expansion is not None and not expansion.has_series:
            self.exact = KernelSums(expansion, mapped=mapped)
        elif expansion is not None:
            dense = DenseExact.prepare(expansion, mapped=mapped)
            self.exact = ExactSums(dense)
            if SliceSums.serves(dense):
                self.fused = SliceSums(dense, _families(model.head))
            if FineSums.serves(dense):
                self.fine = FineSums(dense)
        self.hold(outputs=np.asarray(outputs))

    def forward(self, rows: Tensor, stage: int, *, kernels: bool) -> Bounded:
        """Scores and bounds at a stage; a part that lacks it answers by its next one."""
        rows = self.steps(rows)
        if stage == FORM and self.forms is not None:
            return self.forms(rows, kernel=kernels)
        if stage <= FUSED and self.fused is not None and kernels:
            return self.fused(rows)
        assert self.exact is not None
        return self.exact(rows, kernel=kernels)


def _families(head: Any) -> list[np.ndarray]:
    """Of a one-vs-one machine: the pairs of each class."""
    if not head.scores_are_pairs or len(head.classes) < 3:
        return []
    of_pair = np.array(list(pairs(len(head.classes))))
    return [np.flatnonzero((of_pair == c).any(axis=1)) for c in range(len(head.classes))]
