"""`python -m benchmarks ready`: how soon a process answers, what it holds, what a call costs.

Each figure is the best of several fresh interpreters: seconds from their start to `import numpy`,
`import kernelite`'s models, and the first label of a saved model, by the clock and of the processor
(which other work on the machine disturbs less); megabytes resident then, and of
the packages that are installed for it. A call of a kernel is compared with numba's own dispatch.
`--python` measures another environment, such as one with nothing but the wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS
from kernelite.cli.console import print_table

__all__ = ["main", "ready"]

STEPS = {
    "Python alone": "",
    "import kernelite": "import kernelite",
    "import numpy": "import numpy as np",
    "import the loader": "import numpy as np\nfrom kernelite import load",
    "first label": "import numpy as np\nfrom kernelite import load\n"
    "load('model.kernelite').predict(np.zeros((1, 8)))",
    "first label, text file": "from kernelite.cli import main\n"
    "assert main(['predict', 'rows.svm', 'model.kernelite', 'labels', '-q']) == 0",
}
SEEN = """
import json, sys
names = ("numba", "llvmlite", "scipy", "sklearn", "kernelite")
loaded = [name for name in names if name in sys.modules]
family = None
if "kernelite.backends.cpu.kernels.providers" in sys.modules:
    from kernelite.backends.cpu.kernels.providers import provider
    family = provider().family
with open("/proc/self/status") as file:
    status = dict(line.split(":") for line in file)
print(json.dumps([int(status["VmHWM"].split()[0]) / 1024, loaded, family]))
"""
SIZES = """
import json
from importlib import metadata
from pathlib import Path
names = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "safetensors", "threadpoolctl",
         "rich", "pygments", "markdown-it-py", "mdurl", "kernelite")
def size(name):
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return None
    return sum(Path(f.locate()).stat().st_size for f in files if Path(f.locate()).is_file()) / 1e6
print(json.dumps({name: size(name) for name in names}))
"""


def ready(python: str = sys.executable, repeats: int = 5) -> dict[str, Any]:
    """Seconds and megabytes of each of the `STEPS`, packages, and microseconds of a call."""
    with tempfile.TemporaryDirectory() as folder:
        _model(Path(folder))
        steps = {name: _step(python, code, Path(folder), repeats) for name, code in STEPS.items()}
        sizes = json.loads(_run(python, SIZES, Path(folder)))
    return {"steps": steps, "megabytes": sizes, "call_us": _calls()}


def _model(folder: Path) -> None:
    """A certified model and a few rows of text."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    model = kl.KernelExpansion(X, np.sin(X[:, 0]), 0.1, gamma=0.02)
    kl.compile(model, X, plan="estimate").save(folder / "model.kernelite")
    (folder / "rows.svm").write_text("1 1:0.5 2:1 8:0.25\n" * 100)


def _run(python: str, code: str, folder: Path) -> str:
    # Isolated from the folder and from what this process was told, but for where sources are.
    keep = {k: v for k, v in os.environ.items() if python == sys.executable or k != "PYTHONPATH"}
    run = subprocess.run(
        [python, "-c", code], cwd=folder, env=keep, capture_output=True, text=True, check=True
    )
    return run.stdout


def _step(python: str, code: str, folder: Path, repeats: int) -> dict[str, Any]:
    seconds, processor = [], []
    for _ in range(repeats):
        begin, used = perf_counter(), _processor_seconds()
        _run(python, f"{code}\nimport os; os._exit(0)", folder)
        seconds.append(perf_counter() - begin)
        processor.append(_processor_seconds() - used)
    memory, loaded, family = json.loads(_run(python, code + SEEN, folder).splitlines()[-1])
    times = {"seconds": min(seconds), "processor_seconds": min(processor)}
    return times | {"megabytes": memory, "loaded": loaded, "kernels": family}


def _processor_seconds() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _calls(number: int = 20_000) -> dict[str, float]:
    """Microseconds of a call that does nearly nothing: of 9 arguments, and of numba's dispatch."""
    from kernelite.backends.cpu.kernels.radial import radial_kernel
    from kernelite.machine.kernels import Rbf

    found = {}
    rows, flat, out = np.zeros((1, 1)), np.zeros(64), np.zeros((1, 1))
    arguments = rows, flat, flat, 0, 0, 1.0, 1.0, True, out
    function: Any = radial_kernel(Rbf, ())
    found["ours, 9 arguments"] = _best(function, arguments, number)
    try:
        import numba
    except ImportError:
        return found
    # The same types, and nothing done.
    same = numba.njit(lambda rows, a, b, first, count, x, y, summed, out: None)
    found["numba's dispatch, 9 arguments"] = _best(same, arguments, number)
    return found


def _best(function: Any, arguments: tuple[Any, ...], number: int) -> float:
    function(*arguments)
    best = float("inf")
    for _ in range(7):
        begin = perf_counter()
        for _ in range(number):
            function(*arguments)
        best = min(best, perf_counter() - begin)
    return 1e6 * best / number


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ready")
    parser.add_argument("--python", default=sys.executable, help="another environment's")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    args = parser.parse_args(argv)
    found = ready(args.python)
    table = [
        [
            name,
            f"{1e3 * one['seconds']:.0f}",
            f"{1e3 * one['processor_seconds']:.0f}",
            f"{one['megabytes']:.0f}",
            one["kernels"] or "-",
        ]
        for name, one in found["steps"].items()
    ]
    print_table(["", "ms", "ms of the processor", "MB resident", "kernels"], table)
    for name, size in found["megabytes"].items():
        print(f"{name}: {'not installed' if size is None else f'{size:.1f} MB'}")
    for name, us in found["call_us"].items():
        print(f"a call, {name}: {us:.2f} us")
    print(results.save("ready", found, PRESETS["quick"], "quick", args.out))
    return 0
