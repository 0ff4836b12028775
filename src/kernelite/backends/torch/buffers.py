"""What torch modules share: buffers that keep their precision, and rows in blocks that fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import numpy as np
import torch

if TYPE_CHECKING:
    from kernelite.backends.torch.program import Program

__all__ = ["FEWEST_BUFFER_ROWS", "Buffers", "Tensor", "block_rows", "in_blocks"]

Tensor: TypeAlias = "torch.Tensor"


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


# Rows in blocks that fit the device: a block that does not is halved, not given up.

SHARE, CPU_BYTES = 8, 1 << 27  # of the device's memory, and of the host's, for a block
FEWEST_BUFFER_ROWS = 64

Found = TypeVar("Found", bound=tuple[Tensor, ...])


def block_rows(rows: Tensor, program: Program) -> int:
    """Rows of a block: as many as an eighth of the memory takes.

    How much of it is free is not asked, since that takes a millisecond.
    """
    budget = CPU_BYTES
    if rows.is_cuda:
        budget = torch.cuda.get_device_properties(rows.device).total_memory // SHARE
    return max(FEWEST_BUFFER_ROWS, budget // program.row_bytes(rows))


def in_blocks(run: Callable[[Tensor, int], Found], rows: Tensor, program: Program) -> list[Tensor]:
    """What `run` finds for each block and the number of its first row, joined.

    Parameters
    ----------
    run : callable of (block, first row)
        Gives a tuple of tensors, one row per row.
    rows : tensor of shape (m, d)
    program : Program
        That tells what a row takes.
    """
    size = block_rows(rows, program)
    start = 0
    parts: list[tuple[Tensor, ...]] = []
    while start < len(rows) or not parts:
        try:
            parts.append(run(rows[start : start + size], start))
        except torch.OutOfMemoryError:
            if size <= FEWEST_BUFFER_ROWS:
                raise
            size = max(FEWEST_BUFFER_ROWS, min(size, len(rows)) // 2)
            torch.cuda.empty_cache()
            continue
        start += size
    if len(parts) == 1:
        return list(parts[0])
    return [torch.cat(columns) for columns in zip(*parts)]
