"""Outputs are whole or not there at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kernelite.errors import InputError
from kernelite.formats.files import atomic_write


def test_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with atomic_write(path) as file:
        file.write("ä\n")
        assert not path.exists()
    assert path.read_bytes() == "ä\n".encode()
    with atomic_write(path, "wb") as file:
        file.write(b"\r\n")
    assert path.read_bytes() == b"\r\n"
    assert os.listdir(tmp_path) == ["out"]


def write_half(path: Path, error: type[BaseException]) -> None:
    with atomic_write(path) as file:
        file.write("half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError, ZeroDivisionError])
def test_nothing_is_left_behind(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out"
    for before in (None, "old"):
        if before is not None:
            path.write_text(before)
        with pytest.raises(error):
            write_half(path, error)
        assert os.listdir(tmp_path) == ([] if before is None else ["out"])
    assert path.read_text() == "old"


def test_permissions_and_links(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    path, link = tmp_path / "out", tmp_path / "link"
    with atomic_write(path) as file:
        file.write("1")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    link.symlink_to(path)
    with atomic_write(link) as file:
        file.write("2")
    assert link.is_symlink()
    assert path.read_text() == "2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_devices_are_written_directly() -> None:
    with atomic_write("/dev/null") as file:
        file.write("gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    for path, reason in [(tmp_path / "no" / "out", "there is no folder"), (tmp_path, "directory")]:
        with pytest.raises(InputError, match=reason) as caught, atomic_write(path):
            pass
        assert f"`{path}`" in str(caught.value)
