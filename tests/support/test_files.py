"""Outputs are whole or not there at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import IO, Any

import pytest

import kernelite as kl
from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.files import _own_group, atomic_write, open_binary, open_to_others


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


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_a_folder_that_takes_no_files_is_not_called_absent() -> None:
    with pytest.raises(InputError, match="the system makes no files in `/proc`"):
        atomic_write("/proc/out").__enter__()


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    for path, reason in [(tmp_path / "no" / "out", "there is no folder"), (tmp_path, "directory")]:
        with pytest.raises(InputError, match=reason) as caught, atomic_write(path):
            pass
        assert f"`{path}`" in str(caught.value)


SHM = Path("/dev/shm")


@pytest.mark.skipif(not os.access(SHM, os.W_OK), reason="no /dev/shm here")
def test_files_in_shared_memory_are_whole_too() -> None:
    with TemporaryDirectory(dir=SHM) as folder:
        path = Path(folder, "out")
        path.write_text("old")
        with pytest.raises(KeyboardInterrupt):
            write_half(path, KeyboardInterrupt)
        assert path.read_text() == "old"
        assert os.listdir(folder) == ["out"]


def test_a_standard_stream_is_written_directly(tmp_path: Path) -> None:
    code = (
        "import os, sys; from kernelite.support.files import atomic_write\n"
        "with atomic_write('/dev/stdout') as file: file.write('one\\n')\n"
        "with atomic_write('/dev/fd/2') as file: file.write('two\\n')\n"
    )
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        inodes = [os.fstat(file.fileno()).st_ino for file in (out, err)]
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=err, check=True)
    for name, inode, text in zip(("out", "err"), inodes, ("one\n", "two\n")):
        assert (tmp_path / name).read_text() == text
        assert (tmp_path / name).stat().st_ino == inode


def test_names_as_bytes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "out")
    with atomic_write(path) as file:
        file.write("1")
    with open_binary(path) as binary:
        assert binary.read() == b"1"
    with pytest.raises(FileFormatError, match=r"no.svm: there is no such file"):
        open_binary(os.fsencode(tmp_path / "no.svm"))
    with pytest.raises(InputError, match="there is no folder"), atomic_write(b"no/such/out"):
        pass


def test_what_replaces_a_private_file_is_private_and_loses_setuid(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("secret")
    for before, after in [(0o600, 0o600), (0o4755, 0o755)]:
        path.chmod(before)
        with atomic_write(path) as file:
            (temporary,) = set(os.listdir(tmp_path)) - {"out"}
            assert stat.S_IMODE((tmp_path / temporary).stat().st_mode) & 0o077 == 0
            file.write("still")
        assert stat.S_IMODE(path.stat().st_mode) == after


def test_a_loop_of_links_is_not_replaced(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.symlink_to(two)
    two.symlink_to(one)
    with pytest.raises(InputError, match="symbolic links"), atomic_write(one):
        pass
    assert one.is_symlink()
    assert two.is_symlink()


def test_temporaries_of_killed_runs_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".out.0123456789ab.tmp", tmp_path / ".out.ba9876543210.tmp"
    others = {".out.notes.tmp", ".other.0123456789ab.tmp", new.name}
    for name in (old.name, *others):
        (tmp_path / name).write_text("half")
        if name != new.name:
            os.utime(tmp_path / name, (0, 0))
    with atomic_write(tmp_path / "out") as file:
        file.write("1")
    assert set(os.listdir(tmp_path)) == {"out", *others}


def test_the_folder_reaches_the_disk_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: synced.append(
            (stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "out").exists())
        ),
    )
    with atomic_write(tmp_path / "out") as file:
        file.write("1")
    assert synced == [(False, False), (True, True)]


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_full_disk_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    model = kl.compile(kl.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0), guarantee="exact")
    with monkeypatch.context() as patch:
        if failing == "write":
            patch.setattr("kernelite.support.files.open", _full_file, raising=False)
        else:
            patch.setattr(os, failing, fail)
        with pytest.raises(InputError, match=r"cannot write `.*`: No space left on device"):
            model.save(tmp_path / "m.kernelite")
    assert os.listdir(tmp_path) == []
    with pytest.raises(InputError, match="not a file name"):
        model.save("nul\0byte")


def _full_file(name: str, mode: str, opener: Callable[[str, int], int], **text: str) -> IO[Any]:
    os.close(opener(name, 0))
    return open("/dev/full", mode, **text)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
@pytest.mark.parametrize(
    ("group", "members", "own"),
    [("ada", [], True), ("ada", ["ada"], True), ("ada", ["ada", "eve"], False), ("all", [], False)],
)
def test_a_group_may_write_where_it_is_the_users_alone(
    group: str, members: list[str], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grp
    import pwd

    me = os.geteuid()
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_name="ada"))
    found = SimpleNamespace(gr_name=group, gr_mem=members)
    monkeypatch.setattr(grp, "getgrgid", lambda number: found)
    _own_group.cache_clear()
    state: Any = SimpleNamespace(st_uid=me, st_gid=77, st_mode=0o40770)
    try:
        assert open_to_others(state) == (None if own else "can be written by its group")
    finally:
        _own_group.cache_clear()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_who_else_could_write() -> None:
    me = os.geteuid()

    def reason(user: int, mode: int, *, above: bool = False) -> str | None:
        state: Any = SimpleNamespace(st_uid=user, st_gid=2**31 - 7, st_mode=mode)
        return open_to_others(state, above=above)

    assert reason(me, 0o755) is reason(0, 0o755) is None
    assert reason(me + 12345, 0o700) == "belongs to another user"
    assert reason(me + 12345, 0o1700, above=True) == "belongs to another user"
    assert reason(me, 0o757) == "can be written by everybody"
    assert reason(me, 0o1777) == "can be written by everybody"
    assert reason(me, 0o1777, above=True) is None
    assert reason(me, 0o777, above=True) == "can be written by everybody"
    assert reason(me, 0o775) == "can be written by its group"  # a group that there is not
