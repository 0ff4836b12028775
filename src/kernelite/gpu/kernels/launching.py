"""How many programs a kernel that walks over tiles is started with."""

from __future__ import annotations

import torch

__all__ = ["programs"]


def programs(device: torch.device, tiles: int, each: int) -> int:
    """So many per multiprocessor, at most one per tile; few in Triton's interpreter."""
    if device.type != "cuda":
        return min(tiles, 4)
    return min(tiles, each * torch.cuda.get_device_properties(device).multi_processor_count)
