"""`make release-check`: is what would be uploaded sound?

Builds the distribution twice and compares bytes, looks into wheel and sdist, asks twine about the
metadata, installs the wheel into a fresh environment and predicts with it. Exit code 1 and a line
for each thing that is wrong.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
EPOCH = "1577836800"  # the time that files inside the archives get
IN_SDIST = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "Makefile"),
    *("SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff", "pyproject.toml", "hatch_build.py"),
    *("docs/conf.py", "docs/index.md", "examples/compile_svc.py", "tests/test_imports.py"),
)
IN_WHEEL = (
    *(
        "kernelite/__init__.py",
        "kernelite/py.typed",
        "kernelite/model/report/templates/report.html",
    ),
    *("kernelite/backends/c/templates/main.c", "kernelite/cli/predict.py"),
)
# Kernels come with the wheel where this is run.
LIBRARIES = sys.platform == "linux" and platform.machine() == "x86_64"
LARGEST = 6_000_000  # bytes of a wheel
SMOKE = f"""
import importlib.util
import kernelite as kl
import numpy as np

assert importlib.util.find_spec("sklearn") is None
X = np.random.default_rng(0).normal(size=(200, 4))
fast = kl.compile(kl.KernelExpansion(X, np.cos(X[:, 0]), 0.1, gamma=0.02), X)
fast.save("waves.kernelite")
assert (kl.load("waves.kernelite").predict(X) == fast.predict(X)).all()
from kernelite.backends.cpu.kernels.providers import jit_available
assert jit_available() == {LIBRARIES}
print(kl.__version__)
"""
SMOKE_SKLEARN = """
import kernelite as kl
from sklearn.datasets import load_iris
from sklearn.svm import SVC

X, y = load_iris(return_X_y=True)
svc = SVC(gamma=0.02, C=10).fit(X, y)
assert (kl.compile(svc, X).predict(X) == svc.predict(X)).all()
"""


def main() -> int:
    """Run every check; say what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        faults = list(checks(Path(folder)))
    for fault in faults:
        print(f"release-check: {fault}", file=sys.stderr)
    print("release-check: ready" if not faults else f"release-check: {len(faults)} faults")
    return int(bool(faults))


def checks(folder: Path) -> Iterator[str]:
    """What is wrong, a sentence each."""
    first, second = build(folder / "first"), build(folder / "second")
    for one, other in zip(first, second, strict=True):
        same = digest(one) == digest(other)
        print(f"{one.name}: {digest(one)[:16]}, {'the same' if same else 'NOT the same'} twice")
        if not same:
            yield f"{one.name} has other bytes when it is built again"
    sdist, wheel = first
    yield from contents(sdist, wheel)
    run = command([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
    if run.returncode:
        yield f"twine: {' '.join((run.stdout + run.stderr).split())}"
    yield from installed(wheel, folder / "fresh")


def build(out: Path) -> tuple[Path, Path]:
    """sdist and wheel."""
    run = command(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        env={
            **os.environ,
            "SOURCE_DATE_EPOCH": EPOCH,
            "KERNELITE_WHEEL": platform.machine() if LIBRARIES else "none",
        },
    )
    if run.returncode:
        sys.exit(f"release-check: the build failed\n{run.stdout}\n{run.stderr}")
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def contents(sdist: Path, wheel: Path) -> Iterator[str]:
    """Files that are missing, and files that do not belong there."""
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    yield from (f"{sdist.name} has no {name}" for name in IN_SDIST if name not in packed)
    yield from (f"{wheel.name} has no {name}" for name in IN_WHEEL if name not in inside)
    yield from (
        f"{wheel.name} should not have {name}"
        for name in sorted(inside)
        if not name.startswith("kernelite") or "__pycache__" in name
    )
    libraries = (
        {f"kernelite/backends/cpu/kernels/x86-64-v{n}.so" for n in (3, 4)} if LIBRARIES else set()
    )
    yield from (f"{wheel.name} has no {name}" for name in sorted(libraries - inside))
    if wheel.stat().st_size > LARGEST:
        yield f"{wheel.name} has more than {LARGEST} bytes"
    sources = {str(path.relative_to(ROOT / "src")) for path in ROOT.glob("src/kernelite/**/*.py")}
    yield from (f"{wheel.name} has no {name}" for name in sorted(sources - inside))


def installed(wheel: Path, place: Path) -> Iterator[str]:
    """What fails in an environment that has nothing but the wheel."""
    venv.create(place, with_pip=True)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for what, words in {
        "installing": [programs / "python", "-m", "pip", "install", "--quiet", wheel],
        "the dependencies": [programs / "python", "-m", "pip", "check"],
        "predicting": [programs / "python", "-c", SMOKE],
        "the command": [programs / "kernelite", "inspect", "waves.kernelite"],
        "approxsvm's command": [programs / "approx-svm", "--help"],
        "the extra": [programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[sklearn]"],
        "compiling": [programs / "python", "-c", SMOKE_SKLEARN],
    }.items():
        run = command([str(word) for word in words], cwd=place, env=clean)
        print(f"{what}: {'works' if run.returncode == 0 else 'FAILS'}")
        if run.returncode:
            yield f"{what} fails in a fresh environment: {(run.stderr or run.stdout)[-400:]}"
            return


def command(
    words: list[str], cwd: Path = ROOT, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run, and keep what it says."""
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
