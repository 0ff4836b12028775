"""The JSON in a `.kernelite` file's metadata: parsed strictly, its version and digest checked.

In: the header of a safetensors file. Out: {"format": "kernelite", "version": 4, "digest": "...",
"model": tree}. How the digest is computed stands first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.store.packing import Tensors
from kernelite.support.errors import InputError, KerneliteError

__all__ = ["KEY", "VERSION", "check_digest", "content_digest", "read_document", "written_document"]

# A digest of what a `.kernelite` file holds: it finds damage, not forgery.
#
#     digest = blake2b(size of tree, tree, and of every tensor by name: size of head, head, pieces)
#
# with the tree as JSON in one spelling, a head of name, type and shape, and blake2b of each
# `TENSOR_BYTES_PER_PIECE`. It is of the content, not of the bytes around it: another order of
# tensors is no damage. Whoever can change a file can give it a new digest; where that matters,
# sign the file.

DIGEST_BYTES = 16  # bytes
TENSOR_BYTES_PER_PIECE = 1 << 20  # bytes of a tensor that a thread takes at a time


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
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
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
    starts = range(0, len(data), TENSOR_BYTES_PER_PIECE)
    found = [b""] * len(starts)

    def part(block: slice) -> None:
        for i in range(len(starts))[block]:
            piece = data[starts[i] : starts[i] + TENSOR_BYTES_PER_PIECE]
            found[i] = hashlib.blake2b(piece, digest_size=DIGEST_BYTES).digest()

    for_each_chunk(part, len(starts), 1)
    return found


# The document: written, and read strictly.

KEY = "kernelite"
VERSION = 4
OLDEST_VERSION = 3  # that is still read


def written_document(tree: Any, tensors: Tensors, /) -> str:
    """The JSON for a packed model, as the current version writes it."""
    digest = content_digest(VERSION, tree, tensors)
    document = {"format": KEY, "version": VERSION, "digest": digest, "model": tree}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def read_document(header: dict[str, Any], /) -> dict[str, Any]:
    """The JSON under our key of the metadata, with format and version checked."""
    text = (header.get("__metadata__") or {}).get(KEY)
    if text is None:
        raise InputError("this is a safetensors file, but not a kernelite model")
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except KerneliteError:
        raise
    except ValueError as error:
        raise InputError(f"its metadata are not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("format") != KEY:
        raise InputError("its metadata do not say that it is a kernelite model")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise InputError("its metadata give no format version")
    if version < OLDEST_VERSION:
        raise InputError(
            f"it was written before the first release (format version {version}, this one reads "
            f"{OLDEST_VERSION} to {VERSION}); compile the model again"
        )
    if version > VERSION:
        raise InputError(
            f"it was written by a newer kernelite (format version {version}, this one reads up to "
            f"{VERSION}); install a newer kernelite"
        )
    keys = ["format", "version", "digest", "model"]
    if set(document) != set(keys):
        raise InputError(f"its metadata must have the keys {', '.join(keys[:-1])} and model")
    return document


def check_digest(document: dict[str, Any], tensors: Tensors, /) -> None:
    """Refuse content that is not what was saved."""
    version = document["version"]
    if document["digest"] != content_digest(version, document["model"], tensors):
        raise InputError(
            "it is damaged: its content does not agree with its digest; get another copy, or "
            "compile the model again"
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        raise InputError("its metadata have a key twice")
    return built


def _no_constant(token: str) -> NoReturn:
    raise InputError(f"its metadata contain {token}, which is not JSON")


def _finite(token: str) -> float:
    number = float(token)
    if number in (float("inf"), float("-inf")):
        raise InputError("its metadata contain a number that is too large for a double")
    return number
