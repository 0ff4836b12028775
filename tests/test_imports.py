"""Imports point one way, and `import kernelite` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import kernelite
from kernelite.backends.cpu.kernels.providers import provider

ROOT = Path(kernelite.__file__).parent

# What each part may import, wherever in the file the import stands; a part that is not named fails.
# `data` and `backends` are rooms with parts of their own.
SUBROOMS = {"data", "backends"}
EVERYWHERE = {"data.rows", "support"}
CPU = {"backends.cpu"}
MODEL = {"machine", "series", "program", "planner", "model", *CPU} | EVERYWHERE
ALLOWED: dict[str, set[str]] = {
    "support": set(),
    "data": set(),
    "data.rows": {"support"},
    "machine": EVERYWHERE,
    "series": {"machine"} | EVERYWHERE,
    "program": {"machine"} | EVERYWHERE,
    "backends": set(),
    "backends.cpu": {"machine", "series", "program"} | EVERYWHERE,
    "data.tables": CPU | EVERYWHERE,  # how kernels are compiled, and threads
    "data.datasets": {"data.tables"} | EVERYWHERE,
    "data.gamma": {"data.tables"} | EVERYWHERE,
    "sources": {"machine", "data.tables"} | EVERYWHERE,
    "planner": {"machine", "series", "program", *CPU} | EVERYWHERE,
    # A model's own methods save, export, report and answer tensors: by imports inside them.
    "model": MODEL
    | {"sources", "store", "explain"}
    | {"backends.torch", "backends.onnx", "backends.c", "backends.javascript"},
    "explain": {"machine", "model", "program", *CPU} | EVERYWHERE,
    "store": {"data.tables"} | MODEL,
    "backends.torch": {"machine", "series", "program", "model", *CPU} | EVERYWHERE,
    # Targets of exports import no other target: what they share is in `model.export`.
    "backends.onnx": {"machine", "model"} | EVERYWHERE,
    "backends.javascript": {"machine", "model"} | EVERYWHERE,
    "backends.c": {"machine", "series", "program", "model"} | EVERYWHERE,
    "data.scoring": {"program", "data.tables", "model", "store", *CPU} | EVERYWHERE,
    "dask": {"program", "data.tables", "model", "data.scoring", *CPU} | EVERYWHERE,
    "spark": {"model", "data.scoring", *CPU} | EVERYWHERE,
    "ray": {"data.tables", "model", "data.scoring", *CPU} | EVERYWHERE,
    "mlflow": {"model", "store"} | EVERYWHERE,
    "torch": {"backends.torch", "model"} | EVERYWHERE,
    "xarray": {"model", "data.scoring"} | EVERYWHERE,
    "__main__": {"cli"},
}
ALLOWED["cli"] = set(ALLOWED) - {
    *("__main__", "cli", "mlflow", "spark", "ray", "torch", "xarray"),
    *("backends.torch", "backends.onnx", "backends.c", "backends.javascript"),
    *("machine", "series"),
}


@cache
def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(ROOT.rglob("*.py"))
        if path != ROOT / "__init__.py"
    }


def imported(tree: ast.AST) -> set[str]:
    """Modules of kernelite that `tree` imports, without the package's name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    known = modules()
    short = {name.removeprefix("kernelite.") for name in found if name.startswith("kernelite.")}
    return {name for name in short if name in known}


def part(module: str) -> str:
    """The room, or the part of a room that has parts."""
    names = module.split(".")
    return ".".join(names[: 2 if names[0] in SUBROOMS else 1])


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_what_is_below_it(name: str) -> None:
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    parts = {part(module) for module in imported(tree)} - {part(name), *SUBROOMS}
    assert parts <= ALLOWED[part(name)]


def test_no_module_needs_itself_to_be_imported() -> None:
    """Imports at the top of modules have no cycle."""
    graph = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        graph[name] = imported(ast.Module(top, [])) - {name}
    left = dict(graph)
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"these import each other: {sorted(left)}"


def loaded_after(statement: str, depth: int = 1) -> set[str]:
    """Packages in memory after a statement, in a fresh interpreter."""
    names = f"{{'.'.join(name.split('.')[:{depth}]) for name in sys.modules}}"
    code = f"import sys\n{statement}\nprint(*{names})"
    path = [str(ROOT.parent)]
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stdout.splitlines()[-1].split())


HEAVY = {"sklearn", "scipy", "numba", "rich", "pandas", "pyarrow", "safetensors", "joblib"}


def test_import_kernelite_is_light() -> None:
    loaded = loaded_after("import kernelite")
    assert "kernelite" in loaded
    assert not loaded & (HEAVY | {"numpy"})


def test_the_public_names_can_be_had_without_scikit_learn() -> None:
    loaded = loaded_after("from kernelite import KernelExpansion, compile, load, gamma_max")
    assert "numpy" in loaded
    assert not loaded & {"sklearn", "numba", "pandas", "rich"}


def test_help_loads_no_numerical_library() -> None:
    loaded = loaded_after(
        "from kernelite.cli import main\nassert main(['--help']) == 0\nassert main([]) == 0"
    )
    assert not loaded & (HEAVY | {"numpy"})


@pytest.mark.parametrize("guarantee", ["none", "certified"])
def test_predicting_dense_rows_does_without_scipys_slow_parts(
    tmp_path: Path, guarantee: str
) -> None:
    """They take longer to load than everything else that a command needs."""
    rows = np.random.default_rng(0).normal(size=(50, 3))
    model = kernelite.KernelExpansion(rows, np.cos(rows[:, 0]), 0.1, gamma=0.1)
    kernelite.compile(model, rows, guarantee=guarantee).save(tmp_path / "m.kernelite")
    data = tmp_path / "rows.svm"
    data.write_text("1 1:0.5 2:1 3:0.25\n" * 60_000)  # enough for the compiled reader
    paths = [str(data), str(tmp_path / "m.kernelite"), str(tmp_path / "out")]
    loaded = loaded_after(
        f"from kernelite.cli import main\nassert main(['predict', *{paths!r}]) == 0", depth=3
    )
    assert "kernelite.backends.cpu" in loaded
    if provider().family != "numba":  # which loads parts of SciPy itself
        assert "numba.core" not in loaded
        assert not loaded & {"scipy.sparse", "scipy.linalg", "scipy.special", "sklearn.base"}
    assert not loaded & {
        "kernelite.model.compiler",
        "kernelite.sources",
        "kernelite.planner.planner",
    }


def test_a_first_label_loads_no_module_that_it_does_not_need(tmp_path: Path) -> None:
    """Together they took a tenth of the time from the interpreter's start to it."""
    rows = np.random.default_rng(0).normal(size=(50, 3))
    model = kernelite.KernelExpansion(rows, np.cos(rows[:, 0]), 0.1, gamma=0.1)
    kernelite.compile(model, rows).save(tmp_path / "m.kernelite")
    by_numpy = loaded_after("import numpy as np", depth=2)
    loaded = loaded_after(
        "import kernelite, numpy as np\n"
        f"kernelite.load({str(tmp_path / 'm.kernelite')!r}).predict(np.zeros((1, 3)))",
        depth=2,
    )
    assert "safetensors" in loaded
    if provider().family != "numba":
        spared = {"numpy.ma", "html", "secrets", "gzip", "bz2", "lzma", "tempfile", "rich", "scipy"}
        assert not (loaded - by_numpy) & spared


def test_every_public_name_exists() -> None:
    for name in kernelite.__all__:
        assert getattr(kernelite, name) is not None
    assert set(kernelite.__all__) <= set(dir(kernelite))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = kernelite.nothing_like_it
