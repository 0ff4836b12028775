"""Puts libraries of kernels into wheels where they can be built; elsewhere says that it cannot.

$KERNELITE_WHEEL says which: all of a machine (`x86_64`, `aarch64`), `none`, or by default this
processor's. They are built by the environment that is installed into: pip's own for builds has no
numba.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FAMILIES = {"x86_64": ("x86-64-v4", "x86-64-v3"), "aarch64": ("aarch64",)}
MODULE = "kernelite.backends.cpu.kernels.build"


class Libraries(BuildHookInterface):  # type: ignore[misc]
    """The hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the libraries, and say what the wheel is for."""
        wanted = os.environ.get("KERNELITE_WHEEL", "")
        if version == "editable" or wanted == "none":
            return
        if wanted and wanted not in FAMILIES:
            sys.exit(f"KERNELITE_WHEEL should be one of {', '.join(FAMILIES)} or none: {wanted!r}")
        folder = Path(self.root, "build", "kernels")
        families = ["--family", *FAMILIES[wanted]] if wanted else []
        run = subprocess.run(
            [sys.executable, "-m", MODULE, *families, "--into", str(folder)],
            env={**os.environ, "PYTHONPATH": str(Path(self.root, "src"))},
            stdout=subprocess.PIPE,
            stderr=None if wanted else subprocess.PIPE,
            text=True,
        )
        libraries = sorted(map(Path, run.stdout.splitlines()))
        if run.returncode or not libraries:
            if wanted:
                sys.exit("the libraries of kernels cannot be built")
            said = (run.stderr or "").strip().splitlines()
            why = said[-1] if said else "nothing was built"
            self.app.display_warning(f"kernelite is built without libraries of kernels: {why}")
            return
        build_data["pure_python"] = False
        system = _oldest_system(libraries) if wanted else "linux"
        build_data["tag"] = f"py3-none-{system}_{wanted or platform.machine()}"
        inside = {str(path): f"kernelite/backends/cpu/kernels/{path.name}" for path in libraries}
        build_data["force_include"].update(inside)


def _oldest_system(libraries: list[Path]) -> str:
    """The oldest C library that has all functions that are called: versions stand in the code."""
    called = [re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes()) for path in libraries]
    return f"manylinux_2_{max(int(one) for some in called for one in some)}"
