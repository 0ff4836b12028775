"""Lines come out numbered and bounded, from any compression."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelite.data.tables import lines as lines_module
from kernelite.data.tables.data import read_data
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import Defect
from kernelite.support.errors import FileFormatError, MissingExtraError


def zstd(content: bytes) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    sink = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    return sink.getvalue().to_pybytes()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, **PACKED}


def lines_of(path: Path, **options: int) -> list[tuple[int, str]]:
    with Lines(path, **options) as lines:
        return list(lines)


def problem_of(path: Path, **options: int) -> str:
    with pytest.raises(FileFormatError) as caught:
        lines_of(path, **options)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize("extension", PACKERS)
@given(rows=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_round_trip(tmp_path: Path, extension: str, rows: list[str]) -> None:
    path = tmp_path / f"a.txt{extension}"
    for end in ("\n", "\r\n"):
        path.write_bytes(PACKERS[extension]("".join(row + end for row in rows).encode()))
        expected = [row.removeprefix("\ufeff") if i == 0 else row for i, row in enumerate(rows)]
        assert lines_of(path) == list(enumerate(expected, start=1))


def test_last_line_without_end_and_bom(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\ntwo")
    assert lines_of(path) == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("extension", PACKERS)
def test_compression_is_found_by_content(tmp_path: Path, extension: str) -> None:
    path = tmp_path / "no-extension"
    path.write_bytes(PACKERS[extension](b"x\n"))
    assert lines_of(path) == [(1, "x")]


def test_concatenated_streams(tmp_path: Path) -> None:
    for extension in PACKED:
        path = tmp_path / f"a{extension}"
        path.write_bytes(PACKERS[extension](b"x\ny") + PACKERS[extension](b"z\n"))
        assert lines_of(path) == [(1, "x"), (2, "yz")]


@pytest.mark.parametrize("extension", PACKED)
def test_damaged_streams(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a{extension}"
    whole = PACKERS[extension](os.urandom(4000).hex().encode() + b"\n")
    path.write_bytes(whole[: len(whole) // 2])
    assert "stream is corrupt or cut off" in problem_of(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(255 - b for b in whole[middle:]))
    assert "stream is corrupt or cut off" in problem_of(path)
    path.write_bytes(b"+1 1:1\n")
    assert f"the name ends in `{extension}`" in problem_of(path)


def test_xz_that_asks_for_much_memory(tmp_path: Path) -> None:
    """The dictionary of a hostile file is as long as its header says."""
    path = tmp_path / "a.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}]
    path.write_bytes(lzma.compress(b"x\n", filters=filters))
    assert "stream is corrupt or cut off (Memory usage limit exceeded)" in problem_of(path)
    path.write_bytes(lzma.compress(b"x\n", preset=9) + bytes(8) + lzma.compress(b"y\n"))
    assert lines_of(path) == [(1, "x"), (2, "y")]


def test_zstd_without_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(zstd(b"x\n"))
    for name in ("pyarrow", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"Python 3.14 or pyarrow.*the extra .arrow."):
        lines_of(path)


def test_bad_text(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"good\nb\xe9d\n")
    assert problem_of(path).startswith(":2: `b\\xe9d` is not UTF-8 text (byte 2")
    path.write_bytes(b"good\n\0\n")
    assert problem_of(path).startswith(":2: the line holds a NUL byte")


def test_bad_names(tmp_path: Path) -> None:
    assert problem_of(tmp_path / "missing") == ": there is no such file"
    assert "directory" in problem_of(tmp_path)
    with pytest.raises(FileFormatError, match="not a file name"):
        lines_of(Path("a\0b"))


def test_long_lines_are_refused_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "2000")
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"1" * 10**6)
        file.write(b"\nlast")
    found: list[Defect] = []
    tracemalloc.start()
    with Lines(path, report=found.append, max_line_bytes=2**20) as lines:
        assert list(lines) == [(2, "last")]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [defect.line for defect in found] == [1]
    assert "1048576 bytes" in found[0].problem
    assert peak < 20 * 2**20


def test_the_limit_is_on_the_text_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345\r\n12345\n12345")
    assert lines_of(path, max_line_bytes=5) == [(1, "12345"), (2, "12345"), (3, "12345")]
    path.write_bytes(b"12345\r\n123456\r\n")
    assert problem_of(path, max_line_bytes=5).startswith(":2:")


def test_all_defects_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xff\nok\n\0\n" + b"x" * 99 + b"\nfine\n")
    found: list[Defect] = []
    with Lines(path, report=found.append, max_line_bytes=50) as lines:
        assert list(lines) == [(2, "ok"), (5, "fine")]
    assert [defect.line for defect in found] == [1, 3, 4]


def test_push_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x\ny\n")
    with Lines(path) as lines:
        first = next(lines)
        lines.push_back(first)
        assert list(lines) == [(1, "x"), (2, "y")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes(tmp_path: Path) -> None:
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(b"x\ny\n"),))
    writer.start()
    assert lines_of(pipe) == [(1, "x"), (2, "y")]
    writer.join()


def test_blank_lines_without_end_are_given_up(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lines_module, "MOST_BLANK", 1000)
    path = tmp_path / "a.svm"
    for end in ("\n", "\r\n"):
        path.write_bytes((f"1 1:1{end}" + end * 1000 + f"2 1:1{end}").encode())
        with Lines(path) as lines:
            assert [text for _, text in lines if text] == ["1 1:1", "2 1:1"]
        path.write_bytes((f"1 1:1{end}" + end * 1001 + f"2 1:1{end}").encode())
        found = []
        with Lines(path, report=found.append) as lines:
            assert [text for _, text in lines if text] == ["1 1:1"]
        assert [(one.line, one.problem) for one in found] == [
            (1002, "there are over 1000 blank lines in a row")
        ]
        with pytest.raises(FileFormatError, match="blank lines in a row"):
            read_data(path)
