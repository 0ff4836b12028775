"""Arrays of a compiled model as buffers of torch modules that keep their precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch

__all__ = ["Bounded", "Buffers", "Tensor"]

Tensor: TypeAlias = "torch.Tensor"


class Bounded(NamedTuple):
    """Scores (m, k) and bounds of their errors (m, k), infinite where nothing is known."""

    scores: Tensor
    bounds: Tensor


class Buffers(torch.nn.Module):
    """A module whose buffers move between devices and never change their type.

    Bounds are proven for the types that the arrays have; so `.half()` and `.to(torch.float32)`
    move nothing and round nothing.
    """

    def hold(self, **arrays: Any) -> None:
        """Register arrays as buffers, numbers too: all that a run needs lies on the device."""
        for name, array in arrays.items():
            held = array if isinstance(array, torch.Tensor) else torch.from_numpy(_own(array))
            self.register_buffer(name, held)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def moved(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found if found.dtype == tensor.dtype else tensor.to(found.device)

        return super()._apply(moved, recurse)


def _own(array: Any) -> np.ndarray[Any, Any]:
    """A contiguous copy that torch may keep."""
    return np.array(array, order="C")
