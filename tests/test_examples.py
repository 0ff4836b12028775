"""The examples run, and say what they promise."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "arrays.py": "largest difference",
    "browser.py": "4 columns, labels: 0 2",
    "compile_svc.py": "same labels: True",
    "grid_search.py": "test accuracy 0.9",
    "libsvm_model.py": "about the mean: 0 of 150 rows outside the bound, 0 labels differ",
    "own_kernel.py": "the same labels: True, True",
    "parquet_files.py": "proven: 150 of 150",
    "patched.py": "the same scores: True",
    "rasters.py": "18,600 pixels, the same labels: True, at the same place: True",
    "runtime.py": "labels: 0 2",
}
MISSING = {
    "browser.py": which("node") is None,
    "rasters.py": find_spec("rasterio") is None,
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if MISSING.get(name, False):
        pytest.skip("what it needs is not installed")
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert EXPECTED[name] in capsys.readouterr().out
