"""What happens to rows before a model sees them, on tensors: scalers and selections of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.gpu.buffers import Buffers, Tensor
from kernelite.machine.affine import AffineMap
from kernelite.machine.front import Selection

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["RowSteps"]


class RowSteps(Buffers):
    """The steps of a model's preparation, in order.

    Parameters
    ----------
    model : CompiledModel
        Or a part of one.
    """

    def __init__(self, model: ModelFields) -> None:
        super().__init__()
        self.kinds: list[str] = []
        for number, step in enumerate(model.preparation.steps):
            if isinstance(step, AffineMap):
                low = np.zeros(0) if step.low is None else step.low
                self.hold(
                    **{
                        f"scale{number}": step.scale,
                        f"shift{number}": step.shift,
                        f"low{number}": low,
                    }
                )
                self.kinds.append("map")
            elif isinstance(step, Selection):
                self.hold(**{f"columns{number}": step.columns})
                self.kinds.append("select")
            else:
                raise UnsupportedModelError(
                    f"this model prepares its rows by a step ({_name(step)}) that is not lowered "
                    "to torch; transform the rows first, or pass them as an array."
                )

    def forward(self, rows: Tensor) -> Tensor:
        """Rows as the forms take them: shape (m, d); as they are where there is no step."""
        for number, kind in enumerate(self.kinds):
            if kind == "select":
                rows = rows[:, getattr(self, f"columns{number}")]
            else:
                shift, scale = getattr(self, f"shift{number}"), getattr(self, f"scale{number}")
                low = getattr(self, f"low{number}")
                rows = rows.double() - shift
                rows = (rows - low if len(low) else rows) * scale
        return rows


def _name(step: Any) -> str:
    """What messages call a step that is not lowered."""
    return str(getattr(step, "name", type(step).__name__))
