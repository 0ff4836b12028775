"""Single flipped bits in `.kernelite` files: refused, or no harm done."""

from __future__ import annotations

import random
from typing import Any

from kernelite.store.files import loads
from kernelite.support.errors import KerneliteError
from tests.fuzz.corpus import corpus
from tests.fuzz.models import answers_of

__all__ = ["flips"]


def flips(count: int, seed: int = 0) -> dict[str, Any]:
    """Flip so many bits, one at a time, in files of every kind of model."""
    rng, files = random.Random(seed), corpus("kernelite")
    found: dict[str, Any] = {"seed": seed, "flips": count, "refused": 0, "same": 0, "wrong": []}
    for number in range(count):
        at = number % len(files)
        data = bytearray(files[at].data)
        bit = rng.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        try:
            model = loads(bytes(data))
        except KerneliteError:
            found["refused"] += 1
        else:
            if answers_of(model) == files[at].answers:
                found["same"] += 1
            else:
                found["wrong"].append(f"bit {bit} of file {at}")
    return found
