"""Kept kernels: whose files are trusted, what damage does (nothing), and where they may lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import kernelite
from kernelite.cpu.kernels import cache as cache_kernels
from kernelite.cpu.kernels.cache import MAGIC, kernel_folders

SOURCE = Path(kernelite.__file__).parents[1]
RUN = """
import os
import sys
from pathlib import Path
import numpy as np
from kernelite.cpu.kernels import cache as cache_kernels
cache_kernels.kernel_folders = lambda: [Path(name) for name in sys.argv[2:]]
from kernelite.cpu.kernels.compiling import array_type, kernel

@kernel(array_type(1), array_type(1, writable=True))
def double(x, out):
    for i in range(len(x)):
        out[i] = 2.0 * x[i]

out = np.empty(2)
if sys.argv[1] != "None":
    import numba

    numba.njit(lambda x: x + 1.0)(1.0)  # loads all that another user may not be able to read
    os.seteuid(int(sys.argv[1]))
double(np.array([1.0, 2.0]), out)
print(out.tolist(), "compiled" if double._cache.missed else "kept")
"""
COMPILED, KEPT = "[2.0, 4.0] compiled", "[2.0, 4.0] kept"


def run(script: Path, *folders: Path, user: int | None = None) -> tuple[str, str]:
    """What a process with a kernel says, on stdout and stderr."""
    script.write_text(RUN)
    ran = subprocess.run(
        [sys.executable, str(script), str(user), *map(str, folders)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "KERNELITE_COMPILE": "wait"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip(), ran.stderr


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel's file."""
    folder = tmp_path_factory.mktemp("kept")
    assert run(folder / "script.py", folder / "cache") == (COMPILED, "")
    (file,) = (folder / "cache").iterdir()
    assert run(folder / "script.py", folder / "cache") == (KEPT, "")
    return file


def cache_of(folder: Path, kept: Path) -> Path:
    """A cache with one kernel; returns its file."""
    (folder / "cache").mkdir()
    return Path(shutil.copy(kept, folder / "cache"))


DAMAGE = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "a flipped bit": lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    "another digest": lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
    "numba's own format": lambda data: b"\x80\x04\x95" + data[60:],
    "a pickle that runs code": lambda data: MAGIC + data[19:51] + b"cos\nabort\n(tR.",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_kernels_are_compiled_again(damage, kept: Path, tmp_path: Path) -> None:
    file = cache_of(tmp_path, kept)
    file.write_bytes(damage(file.read_bytes()))
    assert run(tmp_path / "script.py", file.parent) == (COMPILED, "")
    assert run(tmp_path / "script.py", file.parent) == (KEPT, "")  # mended


def test_a_kernel_of_another_name_is_none(kept: Path, tmp_path: Path) -> None:
    digest_of_another = cache_kernels._digest(b"another kernel", b"its code")
    file = cache_of(tmp_path, kept)
    file.write_bytes(MAGIC + digest_of_another + b"its code")
    assert cache_kernels._read(file, b"another kernel") == b"its code"
    assert run(tmp_path / "script.py", file.parent) == (COMPILED, "")


@pytest.mark.skipif(os.name == "nt", reason="permissions are POSIX's")
@pytest.mark.parametrize("what", ["file", "folder", "parent"])
def test_what_others_can_write_is_not_loaded(what: str, kept: Path, tmp_path: Path) -> None:
    file = cache_of(tmp_path, kept)
    {"file": file, "folder": file.parent, "parent": tmp_path}[what].chmod(0o777)
    said, warned = run(tmp_path / "script.py", file.parent)
    assert said == COMPILED
    if what == "file":  # a new one takes its place
        assert warned == ""
        assert file.stat().st_mode & 0o022 == 0
    else:
        assert "can be written by everybody" in warned
        assert "nobody else can write" in warned


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give")
@pytest.mark.parametrize("what", ["file", "folder", "parent"])
def test_what_belongs_to_others_is_not_loaded(what: str, kept: Path, tmp_path: Path) -> None:
    file = cache_of(tmp_path, kept)
    os.chown({"file": file, "folder": file.parent, "parent": tmp_path}[what], 12345, 12345)
    said, warned = run(tmp_path / "script.py", file.parent)
    assert said == COMPILED
    assert ("belongs to another user" in warned) == (what != "file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can lend")
def test_what_root_warmed_is_used_by_others() -> None:
    """As in an image: root's folder is read-only for the user who predicts."""
    with TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        script, cache = Path(name, "script.py"), Path(name, "cache")
        assert run(script, cache) == (COMPILED, "")
        assert run(script, cache, user=12345) == (KEPT, "")
        Path(name, "private").mkdir(mode=0o700)  # as root's home, where nobody changed HOME
        assert run(script, Path(name, "private", "own"), cache, user=12345) == (KEPT, "")


def test_a_link_is_not_followed(kept: Path, tmp_path: Path) -> None:
    file = cache_of(tmp_path, kept)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert run(tmp_path / "script.py", file.parent) == (COMPILED, "")
    assert not file.is_symlink()


def test_no_folder_to_keep_them_in(tmp_path: Path) -> None:
    blocked = tmp_path / "file"  # where the folder should be: not even root can write there
    blocked.write_text("")
    said, warned = run(tmp_path / "script.py", blocked / "inside")
    assert said == COMPILED
    assert warned.count("JitWarning") == 1
    assert "KERNELITE_CACHE" in warned


def test_the_next_folder_serves_where_the_first_cannot(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    for expected in (COMPILED, KEPT):
        said = run(tmp_path / "script.py", blocked / "inside", tmp_path / "second")
        assert said == (expected, "")


def test_a_folder_that_cannot_be_asked_about_is_passed_over(tmp_path: Path) -> None:
    said = run(tmp_path / "script.py", tmp_path / ("x" * 300), tmp_path / "second")
    assert said == (COMPILED, "")


def test_folders_that_were_asked_for_come_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("KERNELITE_CACHE", str(tmp_path / "own"))
    assert kernel_folders() == [
        tmp_path / "numba" / "kernelite",
        tmp_path / "own" / "kernels",
        Path(cache_kernels.__file__).parents[2] / "__pycache__" / "kernels",
    ]
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.delenv("KERNELITE_CACHE")
    assert len(kernel_folders()) == 2
