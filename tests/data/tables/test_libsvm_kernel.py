"""The compiled reader accepts what the careful one accepts, and reads the same from it."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelite.backends.cpu.threads import limit_threads
from kernelite.data.tables import data as reader
from kernelite.data.tables import libsvm_data
from kernelite.data.tables.data import iter_data, read_data
from kernelite.data.tables.libsvm_data import SparseBlock, data_lines, parse_block
from kernelite.data.tables.parsing import Defect
from kernelite.support.errors import FileFormatError


def careful(block: bytes, labelled: bool, n_features: int | None = None) -> SparseBlock | None:
    """What the careful reader gives, or None if it finds a defect."""
    found: list[Defect] = []
    try:
        texts = block.decode().split("\n")
    except UnicodeDecodeError:
        return None
    if "\0" in block.decode():
        return None
    lines = [(i, text.removesuffix("\r")) for i, text in enumerate(texts, 1)]
    rows = parse_block(list(data_lines(iter(lines))), labelled, found.append, n_features)
    return None if found else rows


def assert_same(block: bytes, labelled: bool, n_features: int | None = None) -> None:
    expected = careful(block, labelled, n_features)
    got = libsvm_data.read_block(block, labelled, n_features)
    if expected is None or (got is None and _odd(block)):
        assert got is None
        return
    assert got is not None
    assert got.n_lines == block.count(b"\n") + (not block.endswith(b"\n"))
    for name in ("indptr", "indices", "values"):
        ours, theirs = getattr(got.rows, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
    assert (got.rows.labels is None) == (expected.labels is None)
    if expected.labels is not None and got.rows.labels is not None:
        assert got.rows.labels.tobytes() == expected.labels.tobytes()


def _odd(block: bytes) -> bool:
    """Whether comments hold what is left to the careful reader."""
    return any(c not in b"\t\n" and not 32 <= c < 127 for c in block.replace(b"\r\n", b"\n"))


def values_of(tokens: list[str]) -> np.ndarray:
    read = libsvm_data.read_block("\n".join(tokens).encode() + b"\n", True)
    assert read is not None
    assert read.rows.labels is not None
    return read.rows.labels


SIGNS = st.sampled_from(["", "-", "+"])
DIGITS = st.text("0123456789", max_size=25)
EXPONENTS = st.one_of(st.just(""), st.builds("{}{}{}".format, st.sampled_from("eE"), SIGNS, DIGITS))
NUMBERS = st.one_of(
    st.builds("{}{}.{}{}".format, SIGNS, DIGITS, DIGITS, EXPONENTS),
    st.builds("{}{}{}".format, SIGNS, DIGITS, EXPONENTS),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["nan", "inf", "1_0", "0x1", "", ".", "1..2", "1e", "e5", "--1", "٣"]),
)
PAIRS = st.builds("{}:{}".format, st.one_of(st.integers(1, 9), DIGITS), NUMBERS)
BLANKS = st.sampled_from([" ", " ", " ", "\t", "  ", "", "\r"])
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", " \n", " # a note\n", "#\n", "#\u00e9\n", "\n\n"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    lines = []
    for _ in range(draw(st.integers(0, 4))):
        tokens = draw(st.lists(st.one_of(PAIRS, NUMBERS), max_size=4))
        lines.append(draw(BLANKS).join(tokens) + draw(ENDS))
    return "".join(lines).encode()


@settings(max_examples=500, deadline=None)
@given(block=texts(), labelled=st.booleans(), n_features=st.sampled_from([None, 5]))
@example(b"1 1:1\r1:2\n", True, None)
@example(b"1 1:1", True, None)
@example(b"1\x00 1:1\n", True, None)
@example(b"1 2147483646:1\n1 2147483647:1\n", True, None)
@example(b"1 00000000000000000000000000002:1\n", True, None)
@example(b"1 18446744073709551617:1\n", True, None)
def test_any_text(block: bytes, labelled: bool, n_features: int | None) -> None:
    assert_same(block, labelled, n_features)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_files_damaged_by_a_few_bytes(data: st.DataObject) -> None:
    block = bytearray(b"+1 1:0.25 7:-1e-3 # note\r\n-1 2:3\n\n1 1:.5\t3:5.\n" * 3)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(block) - 1))
        block[place] = data.draw(st.sampled_from(b"\n\r\t #:.+-eE019\x00\x7f\xc3a"))
    assert_same(bytes(block), True)


def test_doubles_in_their_shortest_form() -> None:
    bits = np.random.default_rng(1).integers(0, 2**63, 40_000, dtype=np.uint64)
    doubles = bits.view(np.float64)
    doubles = np.concatenate([doubles, np.random.default_rng(2).normal(size=40_000)])
    doubles = doubles[np.isfinite(doubles)]
    got = values_of([repr(x) for x in doubles.tolist()])
    assert got.tobytes() == doubles.tobytes()


@pytest.mark.parametrize("digits", [1, 5, 15, 16, 17, 18, 19, 20, 25, 40])
def test_digits_and_exponents_as_float_reads_them(digits: int) -> None:
    rng = random.Random(digits)
    tokens = []
    for _ in range(4000):
        whole = str(rng.randrange(10**digits))
        place = rng.randrange(len(whole) + 1)
        power = rng.choice([0, rng.randrange(-30, 30), rng.randrange(-360, 300)])
        tokens.append(f"{rng.choice('+- ').strip()}{whole[:place]}.{whole[place:]}e{power}")
    expected = np.array([float(token) for token in tokens])
    kept = np.isfinite(expected)
    got = values_of([token for token, finite in zip(tokens, kept) if finite])
    assert got.tobytes() == expected[kept].tobytes()


def test_middles_between_doubles_and_their_neighbours() -> None:
    rng = np.random.default_rng(3)
    tokens = []
    for x in [*(10.0 ** rng.uniform(-300, 300, 400)).tolist(), 1.0, 2.0**53, 2.0**60, 0.1]:
        middle = (Fraction(x) + Fraction(float(np.nextafter(x, np.inf)))) / 2
        power = len(str(int(middle))) if middle > 1 else -len(str(int(1 / middle)))
        scaled = middle * Fraction(10) ** (19 - power)
        for whole in (int(scaled) - 1, int(scaled), int(scaled) + 1):
            tokens.append(f"{whole}e{power - 19}")
        tokens += [str(9007199254740993), "9007199254740993.0000000000000000001"]
    got = values_of(tokens)
    assert got.tobytes() == np.array([float(token) for token in tokens]).tobytes()


def test_ends_of_the_range() -> None:
    tokens = ["0", "-0", "0e999999999", "0.000e-400", "1e-400", "-1e-999999999", "5e-324", "2e-324"]
    tokens += ["2.2250738585072011e-308", "2.2250738585072014e-308", "1.7976931348623157e308"]
    tokens += ["0" * 400 + "1.5", "0." + "0" * 400 + "1e401", "1" + "0" * 300]
    got = values_of(tokens)
    assert got.tobytes() == np.array([float(token) for token in tokens]).tobytes()
    for large in ("1.7976931348623159e308", "1e309", "1e999999999", "1" + "0" * 400):
        assert libsvm_data.read_block(large.encode() + b" 1:1\n", True) is None


def lines_of(n: int) -> bytes:
    rng = np.random.default_rng(n)
    return b"".join(
        b"%d %d:%.6f %d:%.17g\n" % (i % 3, 1 + i % 7, x, 9 + i % 5, x / 3)
        for i, x in enumerate(rng.normal(size=n).tolist())
    )


def test_pieces_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libsvm_data, "PIECE_BYTES", 1000)
    for threads in (1, 3):
        with limit_threads(threads):
            assert_same(lines_of(2000), True)
            assert_same(lines_of(2000)[:-1], True)
            assert_same(lines_of(1000) + b"1 0:1\n" + lines_of(1000), True)


def test_streams_whatever_reads_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.svm"
    path.write_bytes(lines_of(3000) + b"# odd, but right: \xc3\xa9\n1 1:1\n" + lines_of(500))
    slow = read_data(path)
    monkeypatch.setattr(reader, "_FAST_FROM", 0)
    monkeypatch.setattr(reader, "_CHUNK_CHARACTERS", 10_000)
    fast = read_data(path)
    np.testing.assert_array_equal(slow.rows.toarray(), fast.rows.toarray())
    np.testing.assert_array_equal(slow.labels, fast.labels)
    parts = list(iter_data(path, chunk_rows=100))
    assert max(part.rows.shape[0] for part in parts) == 100
    assert [part.first_row for part in parts] == list(
        np.cumsum([0, *(part.rows.shape[0] for part in parts)])[:-1]
    )
    assert sum(part.rows.shape[0] for part in parts) == 3501


def test_errors_name_the_line_wherever_the_block_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bad.svm"
    path.write_bytes(b"# first\n\n" + lines_of(3000) + b"1 1:x\n" + lines_of(10))
    messages = []
    for fast_from in (0, 2**20):
        monkeypatch.setattr(reader, "_FAST_FROM", fast_from)
        monkeypatch.setattr(reader, "_CHUNK_CHARACTERS", 10_000)
        with pytest.raises(FileFormatError) as caught:
            read_data(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith(f"{path}:3003: ")


@pytest.mark.parametrize("content", [b"", b"# note\n", b"\n\n"])
def test_blocks_without_rows(content: bytes) -> None:
    read = libsvm_data.read_block(content + b"\n")
    assert read is not None
    assert read.rows.n_rows == 0


def test_a_note_before_rows_without_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FAST_FROM", 0)
    monkeypatch.setattr(reader, "_CHUNK_CHARACTERS", 5)
    path = tmp_path / "unlabelled.svm"
    path.write_bytes(b"# a long note at the top\n3:1\n1:1 2:1\n")
    data = read_data(path, format="libsvm")
    assert data.labels is None
    assert data.rows.toarray().tolist() == [[0, 0, 1], [1, 1, 0]]


def test_reading_goes_on_after_memory_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    room = libsvm_data._Room()
    room.arrays(64)
    empty = np.empty

    def fail(shape: object, dtype: object = float) -> np.ndarray:
        if dtype is np.int32:
            raise MemoryError
        return empty(shape, dtype)  # type: ignore[arg-type, call-overload, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(libsvm_data.np, "empty", fail)
        with pytest.raises(MemoryError):
            room.arrays(4096)
    labels, indptr, indices, values = room.arrays(4096)
    assert (len(labels), len(indptr)) == (2049, 2050)
    assert (len(indices), len(values)) == (1025, 1025)
