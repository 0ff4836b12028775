"""Building the kernels for this machine, from Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import kernelite
from kernelite.backends.cpu.kernels import build, providers
from kernelite.backends.cpu.kernels.build import build_if_missing
from kernelite.cli import main
from kernelite.support import errors


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of some family, without libraries; building one takes no time."""

    def built(
        family: str, path: Path, tell: Callable[[int, int], None], only: list[str], objects: object
    ) -> int:
        tell(1, 1)
        path.write_bytes(providers.finished(b"code", family + providers.PART if only else family))
        return 1

    monkeypatch.setattr(providers, "families_here", lambda: ["x86-64-v3"])
    monkeypatch.setattr(providers, "library_folders", lambda: [tmp_path / "kernels"])
    monkeypatch.setattr(build, "build", built)
    return tmp_path / "kernels"


def test_it_is_built_once(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up"]) == 0
    path = empty / providers.library_name("x86-64-v3")
    assert path.exists()
    assert capsys.readouterr().out == f"built 1 kernels for x86-64-v3 (0 s): {path}\n"
    assert main(["warm-up", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["kernels"], said["family"], said["path"]) == (0, "x86-64-v3", str(path))
    assert kernelite.warm_up().kernels == 0


def test_some_are_built_until_all_are(empty: Path) -> None:
    first = build_if_missing(["one"])
    assert (first.kernels, first.family) == (1, "x86-64-v3")
    assert first.path == empty / providers.library_name("x86-64-v3-part")
    again = build_if_missing(["one"])
    assert (again.kernels, again.path) == (0, first.path)
    whole = kernelite.warm_up()
    assert (whole.kernels, whole.path) == (1, empty / providers.library_name("x86-64-v3"))
    again = build_if_missing(["one"])
    assert (again.kernels, again.path) == (0, whole.path)


def test_every_file_with_kernels_is_built() -> None:
    names = {kernel.function.__module__ for kernel in build.declare_all()}
    source = Path(kernelite.__file__).parent
    with_kernels = {
        ".".join(("kernelite", *path.relative_to(source).with_suffix("").parts))
        for path in source.rglob("*.py")
        if "\n@kernel(" in path.read_text(encoding="utf-8")
    }
    assert len(names) >= 10
    assert with_kernels <= names


@pytest.mark.parametrize(
    ("where", "value", "reason"),
    [
        (
            "kernelite.backends.cpu.kernels.providers.families_here",
            list,
            "elsewhere numba compiles",
        ),
        (
            "kernelite.backends.cpu.kernels.build.why_distrusted",
            lambda path: "`x` is open",
            "`x` is open",
        ),
    ],
)
def test_why_it_cannot_be_built(
    empty: Path, monkeypatch: pytest.MonkeyPatch, where: str, value: object, reason: str
) -> None:
    monkeypatch.setattr(where, value)
    with pytest.raises(errors.InputError, match=reason):
        kernelite.warm_up()


@pytest.mark.parametrize(
    ("where", "reason"), [("importlib.util.find_spec", "needs numba"), ("shutil.which", "linker")]
)
def test_what_building_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, reason: str
) -> None:
    monkeypatch.setattr(where, lambda name: None)
    with pytest.raises(errors.KerneliteError, match=reason):
        build.build("x86-64-v3", tmp_path / "x.so")
    assert not list(tmp_path.iterdir())
