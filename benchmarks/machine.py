"""The machine and the versions, in plain words; no host name, user or path."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["describe", "hardware", "in_words", "load"]

PACKAGES = (
    "kernelite",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "scikit-learn-intelex",
    "onnxruntime",
    "skl2onnx",
)


def describe() -> dict[str, Any]:
    """What a reader needs to judge the figures.

    Examples
    --------
    >>> sorted(describe())
    ['blas', 'cores', 'load', 'memory_gb', 'processor', 'python', 'simd', 'system', 'versions']
    """
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "simd": _simd(),
        "memory_gb": _memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": _blas(),
        "load": load(),
        "versions": _versions(),
    }


def in_words(machine: dict[str, Any]) -> str:
    """One line.

    Examples
    --------
    >>> machine = {"processor": "A CPU", "cores": 2, "simd": "AVX2", "memory_gb": 8}
    >>> machine |= {"python": "3.11", "blas": "openblas 0.3", "system": "Linux"}
    >>> in_words(machine | {"versions": {"numpy": "2.0"}})
    'A CPU, 2 cores, AVX2, 8 GB, Linux; Python 3.11, openblas 0.3, numpy 2.0'
    """
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{hardware(machine)}; Python {machine['python']}, {machine['blas']}, {versions}"


def hardware(machine: dict[str, Any]) -> str:
    """The machine without its versions.

    Examples
    --------
    >>> hardware({"processor": "A CPU", "cores": 2, "simd": "", "memory_gb": 8, "system": "Linux"})
    'A CPU, 2 cores, 8 GB, Linux'
    """
    parts = [machine["processor"], f"{machine['cores']} cores", machine["simd"]]
    parts += [f"{machine['memory_gb']} GB", machine["system"]]
    return ", ".join(str(part) for part in parts if part)


def load() -> float | None:
    """Processes that wanted to run in the last minute; with much of it, times are suspect."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "kernelite" not in found:
        from kernelite import __version__

        found = {"kernelite": __version__, **found}
    if commit := _commit():
        found["kernelite"] += f" (commit {commit})"
    return found


def _commit() -> str:
    """Which code it is, if it lies in a repository; told where it was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def _cpuinfo(field: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    match = re.search(rf"^{field}\s*:\s*(.*)$", text, re.MULTILINE)
    return match.group(1).strip() if match else ""


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _simd() -> str:
    flags = _cpuinfo("flags").split()
    known = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2", "asimd": "NEON"}
    return next((word for flag, word in known.items() if flag in flags), platform.machine())


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return None


def _blas() -> str:
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    if not pools:
        return "BLAS unknown"
    pool = pools[0]
    threads = pool["num_threads"]
    many = "thread" if threads == 1 else "threads"
    return f"{pool['internal_api']} {pool.get('version') or ''} ({threads} {many})"
