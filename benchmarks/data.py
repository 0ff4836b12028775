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

from kernelite.data.datasets import find
from kernelite.data.tables.data import iter_data, read_data
from kernelite.support.files import atomic_write

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


def read(
    name: str, width: int | None = None, most: int | None = None
) -> tuple[sparse.csr_array, np.ndarray]:
    """Rows (CSR, padded or cut to `width`) and labels of a data file; at most its first `most`.

    Raises
    ------
    kernelite.support.errors.InputError
        If the file is absent; the message says how to get it.
    """
    path = find(name, also=[shared() / "data"])
    stamp = path.stat()
    some = "" if most is None else f"-{most}"
    kept = cache_path(f"{name}-{stamp.st_size}-{stamp.st_mtime_ns}{some}.npz")
    arrays = _kept(kept)
    if arrays is None:
        rows, labels = _parsed(path, most)
        arrays = {
            "data": rows.data,
            "indices": rows.indices,
            "indptr": rows.indptr,
            "labels": labels,
        }
        with atomic_write(kept, "wb") as file:
            np.savez(file, **arrays)
    found = int(arrays["indices"].max(initial=-1)) + 1
    rows = sparse.csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]),
        shape=(len(arrays["labels"]), max(found, width or 0)),
    )
    return (rows if width is None else rows[:, :width]), arrays["labels"]


def _parsed(path: Path, most: int | None) -> tuple[Any, np.ndarray]:
    """CSR rows and labels; a long file is not read beyond what is wanted of it."""
    if most is None:
        data = read_data(path, labels="required")
        return data.rows, np.asarray(data.labels, dtype=np.float64)
    parts, labels, count = [], [], 0
    for part in iter_data(path, format="libsvm", labels="required"):
        parts.append(part.rows[: most - count])
        labels.append(np.asarray(part.labels, dtype=np.float64)[: most - count])
        count += len(labels[-1])
        if count == most:
            break
    width = max((part.shape[1] for part in parts), default=0)
    even = [sparse.csr_array((p.data, p.indices, p.indptr), (p.shape[0], width)) for p in parts]
    return sparse.vstack(even, format="csr"), np.concatenate(labels)


def _kept(path: Path) -> dict[str, np.ndarray] | None:
    """What an earlier run parsed; a damaged file counts as none and is written anew."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in ("data", "indices", "indptr", "labels")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
