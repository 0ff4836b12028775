"""What the tests of lowerings share: the device, and whether kernels can run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernelite.backends.torch.kernels import has_triton
from kernelite.machine.expansion import KernelExpansion

__all__ = ["DEVICE", "NO_CUDA", "kernels_run", "needs_cuda", "random_expansion", "there"]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NO_CUDA = "no CUDA device"
needs_cuda = pytest.mark.skipif(DEVICE == "cpu", reason=NO_CUDA)
kernels_run = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")


def there(rows: np.ndarray) -> torch.Tensor:
    """Rows on the device."""
    return torch.from_numpy(np.array(rows)).to(DEVICE)


def random_expansion(n: int, d: int, k: int, gamma: float, seed: int = 0) -> KernelExpansion:
    """Normal centers and coefficients."""
    rng = np.random.default_rng(seed)
    centers, A = rng.normal(size=(n, d)), rng.normal(size=(n, k))
    return KernelExpansion(centers, A, rng.normal(size=k), gamma=gamma)
