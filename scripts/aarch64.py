"""Run Python for aarch64 on another machine, by emulation: `make test-aarch64`.

    python scripts/aarch64.py -m pytest -q tests/backends/cpu/kernels

Debian's Python of that architecture and wheels of NumPy and the rest are put into a folder, once,
by apt and pip, which need not be root for it; the library of kernels is built there again whenever
sources have changed. Then QEMU runs the command with them. Emulated code takes ten times longer
than its own processor would need, so nothing is measured here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-aarch64"
SYSTEM, PACKAGES, CACHE = (FOLDER / name for name in ("system", "packages", "cache"))
PYTHON = "python3.11"  # Debian's
DEBIAN = (PYTHON, "libgomp1", "libstdc++6", "libgfortran5")
NEEDED = ("qemu-aarch64", "aarch64-linux-gnu-gcc", "apt-get", "dpkg")
# numba is for kernels that tests declare themselves; those of the package come from the library.
WHEELS = ("numpy", "scipy", "scikit-learn", "safetensors", "threadpoolctl", "rich", "numba")
TESTS = ("pytest", "hypothesis", "python-flint")


def install_system() -> None:
    """Unpack Debian's Python and what it needs."""
    state, archives = FOLDER / "apt", FOLDER / "apt" / "archives"
    for folder in (state / "lists" / "partial", archives / "partial", SYSTEM):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    places = {
        "APT::Architecture": "arm64",
        "APT::Architectures::": "arm64",
        "APT::Sandbox::User": "",
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Cache::archives": archives,
    }
    options = [word for name, value in places.items() for word in ("-o", f"{name}={value}")]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    wanted = ["install", "-qq", "-y", "--no-install-recommends", "--download-only", *DEBIAN]
    subprocess.run(["apt-get", *options, *wanted], check=True, stdout=subprocess.DEVNULL)
    for package in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(SYSTEM)], check=True)


def install_packages() -> None:
    """Wheels for that architecture, of the versions that this environment has."""
    from importlib import metadata

    versions = [f"{name}=={metadata.version(name)}" for name in (*WHEELS, *TESTS)]
    systems = [f"--platform=manylinux_2_{n}_aarch64" for n in (17, 24, 26, 27, 28, 31, 34)]
    kind = ["--only-binary=:all:", f"--python-version={PYTHON[6:]}", "--implementation=cp"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(PACKAGES)]
    older = "--platform=manylinux2014_aarch64"
    subprocess.run([*command, older, *systems, *kind, *versions], check=True)


def build_kernels() -> None:
    """The library, where Python will look for it; kept while sources stay the same."""
    module = "kernelite.backends.cpu.kernels.build"
    subprocess.run(
        [sys.executable, "-m", module, "--family", "aarch64"],
        env={**os.environ, "KERNELITE_CACHE": str(CACHE), "PYTHONPATH": str(ROOT / "src")},
        check=True,
    )


def main() -> int:
    """Set up what is missing, then run."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        sys.exit(
            f"{', '.join(missing)} not found: this needs Debian or Ubuntu with the packages "
            "gcc-aarch64-linux-gnu and qemu-user."
        )
    for folder, install in ((SYSTEM, install_system), (PACKAGES, install_packages)):
        done = folder / ".installed"
        if not done.exists():
            install()
            done.touch()
    build_kernels()
    environment = {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{PACKAGES}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "KERNELITE_CACHE": str(CACHE),
        "KERNELITE_KERNELS": "aarch64",
    }
    given = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    program = str(SYSTEM / "usr" / "bin" / PYTHON)
    return subprocess.run(
        ["qemu-aarch64", "-L", str(SYSTEM), *given, program, *sys.argv[1:]]
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
