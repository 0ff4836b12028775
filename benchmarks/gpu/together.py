"""The attack in several processes at once: models are small, so one process leaves a GPU idle."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

__all__ = ["attack_together"]

SECONDS = 360.0  # at most


def attack_together(models: int, seed: int, device: str) -> dict[str, Any]:
    """As `attack`, shared out; seeds follow each other from `seed` on."""
    from benchmarks.gpu.attack import attack

    count = 1 if device == "cpu" else min(14, os.cpu_count() or 1)
    shares = [
        (models // count + (i < models % count), seed + i, device, SECONDS) for i in range(count)
    ]
    if count == 1:
        return attack(*shares[0])
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # processes, not threads
        os.environ[f"{library}_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        found = pool.starmap(attack, shares)
    names = sorted({name for one in found for name in one["worst"]})
    return {
        "models": sum(one["models"] for one in found),
        "seeds": [one["seed"] for one in found],
        "violated": sum(one["violated"] for one in found),
        "worst": {name: max(one["worst"].get(name, 0.0) for one in found) for name in names},
        "tried": {name: sum(one["tried"].get(name, 0) for one in found) for name in names},
        "finite": {
            name: sum(one["finite"].get(name, 0.0) * one["tried"].get(name, 0) for one in found)
            / max(1, sum(one["tried"].get(name, 0) for one in found))
            for name in names
        },
        "samples": [sample for one in found for sample in one["samples"]],
    }
