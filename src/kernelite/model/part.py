"""A machine and the scores of a larger model that it adds to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError

if TYPE_CHECKING:
    from kernelite.model.compiled import CompiledModel

__all__ = ["ModelPart"]


@dataclass(frozen=True, eq=False)
class ModelPart:
    """One machine of a model that is made of several.

    Parameters
    ----------
    model : CompiledModel
        The machine compiled by itself.
    outputs : array of int
        The scores of the whole that its own are added to.
    """

    model: CompiledModel
    outputs: NDArray[np.int64]

    def __post_init__(self) -> None:
        outputs = np.asarray(self.outputs, dtype=np.int64)
        if outputs.shape != (self.model.head.n_scores,) or self.model.parts:
            raise InputError("a part is one machine, with a place for each of its scores.")
        object.__setattr__(self, "outputs", outputs)
