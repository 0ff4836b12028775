"""The JSON in a `.kernelite` file's metadata: parsed strictly, its version and digest checked.

In: the header of a safetensors file. Out: {"format": "kernelite", "version": 2, "digest": "...",
"model": tree}; version 1 had no digest.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from kernelite.errors import InputError, KerneliteError
from kernelite.store.digest import content_digest
from kernelite.store.packing import Tensors

__all__ = ["KEY", "VERSION", "check_digest", "read_document", "written_document"]

KEY = "kernelite"
VERSION = 3


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
    if version > VERSION:
        raise InputError(
            f"it was written by a newer kernelite (format version {version}, this one reads up to "
            f"{VERSION}); install a newer kernelite"
        )
    keys = ["format", "version", *(["digest"] if version > 1 else []), "model"]
    if set(document) != set(keys):
        raise InputError(f"its metadata must have the keys {', '.join(keys[:-1])} and model")
    return document


def check_digest(document: dict[str, Any], tensors: Tensors, /) -> None:
    """Refuse content that is not what was saved; files of version 1 cannot tell."""
    version = document["version"]
    if version == 1:
        return
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
