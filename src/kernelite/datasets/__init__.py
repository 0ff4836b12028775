"""The paper's data sets: `known` lists and finds them, `download` brings those that are absent."""

from __future__ import annotations

from kernelite.datasets.known import (
    BASE,
    FILES,
    SETS,
    DataFile,
    cache_folder,
    check,
    files_of,
    find,
)

__all__ = ["BASE", "FILES", "SETS", "DataFile", "cache_folder", "check", "files_of", "find"]
