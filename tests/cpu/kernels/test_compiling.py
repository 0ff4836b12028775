"""What happens without numba, without a cache folder, and between processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernelite

SOURCE = Path(kernelite.__file__).parents[1]
RUN = """
import numpy as np
from kernelite.cpu.kernels.compiling import array_type, kernel

@kernel(array_type(1), array_type(1, writable=True))
def double(x, out):
    for i in range(len(x)):
        out[i] = 2.0 * x[i]

out = np.empty(2)
double(np.array([1.0, 2.0]), out)
print(out.tolist())
"""


def run(code: str, *, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    script = cwd / "script.py"
    script.write_text(code)
    return subprocess.run(
        [sys.executable, str(script)],
        env={**inherited, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_available_here() -> None:
    from kernelite.cpu.kernels.compiling import jit_available

    assert jit_available()


def test_others_kernels_may_still_use_linear_algebra(tmp_path: Path) -> None:
    """SciPy's is not loaded with numba, but found by whoever needs it."""
    code = (
        "import numba, numpy as np\nfrom kernelite.cpu.kernels.compiling import jit_available"
        "\nassert jit_available()\nprint(numba.njit(lambda a: np.dot(a, a))(np.ones(3)))"
    )
    assert run(code, cwd=tmp_path).stdout.strip() == "3.0"


@pytest.mark.parametrize(
    ("prologue", "reason"),
    [
        ("import sys; sys.modules['numba'] = None", "numba"),
        ("import os; os.environ['NUMBA_DISABLE_JIT'] = '1'", "switched off"),
    ],
)
def test_one_note_when_it_cannot_be_used(tmp_path: Path, prologue: str, reason: str) -> None:
    code = prologue + (
        "\nfrom kernelite.cpu.kernels.compiling import jit_available"
        "\nprint(jit_available(), jit_available())"
    )
    done = run(code, cwd=tmp_path)
    assert done.stdout.split() == ["False", "False"]
    assert done.stderr.count("JitWarning") == 1
    assert reason in done.stderr
    assert "prediction runs on BLAS" in done.stderr


NOTICE = "kernelite: compiling kernels for this processor, once"


def test_kernels_are_kept_between_processes(tmp_path: Path) -> None:
    kept = tmp_path / "cache"
    first, second = (
        run(RUN, cwd=tmp_path, NUMBA_CACHE_DIR=str(kept), KERNELITE_COMPILE="") for _ in range(2)
    )
    assert first.stdout.strip() == second.stdout.strip() == "[2.0, 4.0]"
    assert first.stderr.startswith(NOTICE)
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""
    assert len(list(kept.rglob("*.kernel"))) == 1


def test_an_edited_helper_is_compiled_again(tmp_path: Path) -> None:
    package = tmp_path / "kernelite"
    shutil.copytree(SOURCE / "kernelite", package, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import numpy as np\nfrom kernelite.cpu.kernels.pointwise import exp_in_place\n"
        "tile = np.zeros((1, 1))\nexp_in_place(tile)\nprint(tile[0, 0])"
    )
    kept = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(code, cwd=tmp_path, **kept).stdout.strip() == "1.0"
    helpers = package / "cpu" / "kernels" / "exp.py"
    text = helpers.read_text()
    assert text.count("mantissa * scale") == 1
    helpers.write_text(text.replace("mantissa * scale", "mantissa * scale * 3.0"))
    assert run(code, cwd=tmp_path, **kept).stdout.strip() == "3.0"
