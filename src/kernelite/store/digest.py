"""A digest of what a `.kernelite` file holds: it finds damage, not forgery.

    digest = blake2b(size of tree, tree, and of every tensor by name: size of head, head, pieces)

with the tree as JSON in one spelling, a head of name, type and shape, and blake2b of each `PIECE`
bytes. It is of the content, not of the bytes around it: another order of tensors is no damage.
Whoever can change a file can give it a new digest; where that matters, sign the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.threads import for_each_chunk

__all__ = ["content_digest"]

SIZE = 16  # bytes
PIECE = 1 << 20  # bytes of a tensor that a thread takes at a time


def content_digest(version: int, tree: Any, tensors: Mapping[str, NDArray[Any]], /) -> str:
    """The digest of a packed model, 32 hexadecimal digits.

    Parameters
    ----------
    version : int
        Of the format.
    tree : what JSON can hold
    tensors : mapping of str to ndarray

    Returns
    -------
    str

    Examples
    --------
    >>> content_digest(2, {"a": 1.0}, {"b": np.arange(3.0)})
    'b6231cd6e164f1a0f484002221299f4d'
    >>> content_digest(2, {"a": 1.0}, {"b": np.arange(3)})[:8]
    '0083acc7'
    """
    state = hashlib.blake2b(digest_size=SIZE)
    _add(state, json.dumps([version, tree], separators=(",", ":"), sort_keys=True))
    for name in sorted(tensors):
        array = tensors[name]
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        _add(state, json.dumps([name, little.dtype.str, array.shape]))
        for piece in _pieces(memoryview(little.reshape(-1).view(np.uint8).data)):
            state.update(piece)
    return state.hexdigest()


def _add(state: Any, text: str) -> None:
    data = text.encode()
    state.update(len(data).to_bytes(8, "little"))
    state.update(data)


def _pieces(data: memoryview) -> list[bytes]:
    """Digests of the pieces, found on all threads: hashing takes as long as reading the file."""
    starts = range(0, len(data), PIECE)
    found = [b""] * len(starts)

    def part(block: slice) -> None:
        for i in range(len(starts))[block]:
            piece = data[starts[i] : starts[i] + PIECE]
            found[i] = hashlib.blake2b(piece, digest_size=SIZE).digest()

    for_each_chunk(part, len(starts), 1)
    return found
