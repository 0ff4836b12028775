"""Real data and models for the benchmarks: found by name, parsed once, kept as arrays.

Files come from $KERNELITE_DATA, ../shared/data or the folder of `kernelite fetch`; parsed rows are
kept in benchmarks/cache (or $KERNELITE_BENCH_CACHE), which can be deleted at any time.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kernelite.datasets import find
from kernelite.formats.data import read_data
from kernelite.formats.files import atomic_write

__all__ = ["cache_path", "has", "read", "shared"]

ROOT = Path(__file__).parents[1]


def shared() -> Path:
    """The folder of shared data and models; it need not exist."""
    return Path(os.environ.get("KERNELITE_SHARED", ROOT.parent / "shared"))


def cache_path(name: str) -> Path:
    """A file of the benchmarks' own cache; its folder is made."""
    folder = Path(os.environ.get("KERNELITE_BENCH_CACHE", ROOT / "benchmarks" / "cache"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def has(name: str) -> bool:
    """Whether a data file is on this machine."""
    try:
        find(name, also=[shared() / "data"])
    except ValueError:
        return False
    return True


def read(name: str, width: int | None = None) -> tuple[sparse.csr_array, np.ndarray]:
    """Rows (CSR, padded or cut to `width`) and labels of a data file.

    Raises
    ------
    kernelite.errors.InputError
        If the file is absent; the message says how to get it.
    """
    path = find(name, also=[shared() / "data"])
    stamp = path.stat()
    kept = cache_path(f"{name}-{stamp.st_size}-{stamp.st_mtime_ns}.npz")
    arrays = _kept(kept)
    if arrays is None:
        data = read_data(path, labels="required")
        rows: Any = data.rows
        arrays = {
            "data": rows.data,
            "indices": rows.indices,
            "indptr": rows.indptr,
            "labels": np.asarray(data.labels, dtype=np.float64),
        }
        with atomic_write(kept, "wb") as file:
            np.savez(file, **arrays)
    found = int(arrays["indices"].max(initial=-1)) + 1
    rows = sparse.csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]),
        shape=(len(arrays["labels"]), max(found, width or 0)),
    )
    return (rows if width is None else rows[:, :width]), arrays["labels"]


def _kept(path: Path) -> dict[str, np.ndarray] | None:
    """What an earlier run parsed; a damaged file counts as none and is written anew."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in ("data", "indices", "indptr", "labels")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
