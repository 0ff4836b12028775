"""Changes to files: of bytes, of text, and of what stands in arrays, models and tables.

Each takes a generator and bytes and gives bytes; the same generator gives the same bytes.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import random
import re
from collections.abc import Callable

from tests.fuzz.containers import (
    change_footer,
    change_model,
    change_npy,
    change_npz,
    change_table,
)
from tests.fuzz.corpus import ENDINGS, corpus

__all__ = ["mutated"]

Mutator = Callable[[random.Random, bytes], bytes]

TOKENS = """
0 -0 1 -1 2 3 7 255 256 65536 2147483647 2147483648 -2147483649 4294967296
9223372036854775807 9223372036854775808 18446744073709551616 1e308 1e309 -1e400 1e-320
1e-400 1e999999 0.1 .5 5. +1 ++1 --1 1e 1e+ e5 nan NaN -nan inf -inf Infinity 0x10 0x1p3
1_000 1,5 1.2.3 1d5 1e5f ١٢ ½ 00000000000000000000001
0.00000000000000000000000000000000000000000000000001 16777217 1000000000 None null true "1"
'1' 1:1 :1 1: 1::1 -1:1 0:1 2147483647:1 2147483648:1 99999999999999999999:1 1e3:2
"""
NUMBERS = TOKENS.split()
PIECES = [
    *(b"\0", b"\x1c", b"\x1d", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff", b"\xed\xa0\x80"),
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"\t",
        b" ",
        b"  ",
        b",",
        b";",
        b":",
        b"#",
        b'"',
        b"'",
        b"\\",
    ),
    *(b"\xef\xbb\xbf", b"\x0b", b"\x0c", b"\x1b[2J", b"\xe2\x80\xae", b"\x1a", b"\xc3\xa9"),
    *(b"SV\n", b"nr_sv 1 1\n", b"label 1 2\n", b"probA 1\n", b"x\n", b"y\n", b"M\n", b"v 1\n"),
]


def flip_bit(rng: random.Random, data: bytes) -> bytes:
    """One bit."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def set_byte(rng: random.Random, data: bytes) -> bytes:
    """One byte, often an extreme one."""
    if not data:
        return data
    at = rng.randrange(len(data))
    value = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return data[:at] + bytes([value]) + data[at + 1 :]


def set_word(rng: random.Random, data: bytes) -> bytes:
    """Four or eight bytes: sizes and offsets of binary formats."""
    size = rng.choice((2, 4, 8))
    if len(data) < size:
        return data
    at = rng.randrange(len(data) - size + 1)
    value = rng.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1))
    return data[:at] + (value % 2 ** (8 * size)).to_bytes(size, "little") + data[at + size :]


def cut(rng: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def drop(rng: random.Random, data: bytes) -> bytes:
    """A span is missing."""
    start, stop = _span(rng, data)
    return data[:start] + data[stop:]


def repeat(rng: random.Random, data: bytes) -> bytes:
    """A span comes again, sometimes often."""
    start, stop = _span(rng, data)
    times = rng.choice((1, 1, 2, 3, 50, 2000))
    return data[:stop] + data[start:stop] * min(times, 60_000 // (stop - start + 1)) + data[stop:]


def move(rng: random.Random, data: bytes) -> bytes:
    """A span stands elsewhere."""
    start, stop = _span(rng, data)
    rest = data[:start] + data[stop:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[start:stop] + rest[at:]


def insert_piece(rng: random.Random, data: bytes) -> bytes:
    """A separator, a control character, a broken sequence, a keyword."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(PIECES) * rng.choice((1, 1, 1, 2, 40)) + data[at:]


def other_token(rng: random.Random, data: bytes) -> bytes:
    """Another number, or another of the file's words, in a word's place."""
    words = list(re.finditer(rb"[^\s,;:]+", data))
    if not words:
        return rng.choice(NUMBERS).encode()
    word = rng.choice(words)
    by = rng.choice(NUMBERS).encode() if rng.random() < 0.8 else rng.choice(words).group()
    if rng.random() < 0.02:
        by = by * rng.choice((10, 1000, 30_000))
    return data[: word.start()] + by + data[word.end() :]


def change_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines in another order, missing, or twice."""
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif how == 1:
        del lines[i]
    elif how == 2:
        lines[i:i] = [lines[j]] * rng.choice((1, 2, 100))
    else:
        lines[i] = lines[i] + lines[j]
    return b"\n".join(lines)


def splice(rng: random.Random, data: bytes) -> bytes:
    """The start of one file and the end of another, maybe of another format."""
    other = rng.choice(corpus(rng.choice(list(ENDINGS)))).data
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def pack(rng: random.Random, data: bytes) -> bytes:
    """Compressed; sometimes damaged, sometimes blown up."""
    if rng.random() < 0.05:
        data = data + rng.choice((b"\n", b"0", b" ", b"1,2,3,4\n", b"1:1 ")) * 10 ** rng.randrange(
            7
        )
    pack = rng.choice([lambda d: gzip.compress(d, 1, mtime=0), bz2.compress, lzma.compress])
    packed = pack(data)
    return flip_bit(rng, packed) if rng.random() < 0.3 else packed


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 16, 64, 512)))


BINARY: tuple[Mutator, ...] = (flip_bit, set_byte, set_word, cut, drop, repeat, move, splice)
TEXT: tuple[Mutator, ...] = (
    *(other_token,) * 6,
    *(change_lines, change_lines, insert_piece, insert_piece),
    *(flip_bit, set_byte, cut, drop, repeat, move, splice),
)
STRUCTURED: dict[str, Mutator] = {
    "kernelite": lambda rng, data: change_model(rng, data, renewed=False),
    "kernelite, digest renewed": lambda rng, data: change_model(rng, data, renewed=True),
    "npy": change_npy,
    "npz": change_npz,
    "parquet": lambda rng, data: (
        change_footer(rng, data) if rng.random() < 0.5 else change_table(rng, "parquet")
    ),
    "arrow": lambda rng, data: change_table(rng, "arrow"),
}
PACKED = ("libsvm model", "libsvm data", "range", "approxsvm", "csv")


def mutated(rng: random.Random, name: str, data: bytes) -> bytes:
    """A file of a format, changed in one to four ways."""
    own = STRUCTURED.get(name)
    if name == "kernelite, digest renewed":
        assert own is not None
        return own(rng, data)
    binary = own is not None or data[:2] in (b"\x1f\x8b", b"BZ")
    if own is not None and rng.random() < 0.5:
        with contextlib.suppress(ValueError, IndexError, OverflowError):  # NumPy cannot hold it
            data = own(rng, data)
        if rng.random() < 0.7:
            return data
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(BINARY if binary else TEXT)(rng, data)
    return pack(rng, data) if name in PACKED and rng.random() < 0.05 else data
