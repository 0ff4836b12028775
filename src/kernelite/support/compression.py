"""Compressed files as the bytes they hold, within limits: hostile until they have been read.

gzip, bzip2 and xz by Python's own modules, each loaded by the first such file; zstd by that of
Python 3.14, or by pyarrow.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kernelite.support.errors import FileFormatError, InputError, KerneliteError, optional

if TYPE_CHECKING:
    import lzma

__all__ = [
    "BUFFER",
    "ENDINGS",
    "Expansion",
    "TooLargeError",
    "decompressed",
    "find_compression",
    "granted",
    "too_large",
    "without_ending",
]

Compression: TypeAlias = Literal["gzip", "bzip2", "xz", "zstd"]

ENDINGS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
BUFFER = 2**17  # bytes that are asked for at once; what an error cuts off is lost
VARIABLE = "KERNELITE_MAX_EXPANSION"
"""Environment variable that raises `MOST_EXPANSION`."""

MOST_EXPANSION = 200  # data compress by 3 to 30
ALWAYS_GRANTED = 2**21  # bytes, read in seconds whatever they hold
MOST_XZ_MEMORY = 2**28  # bytes: `xz -9` needs 65 MiB, a hostile header may ask for 4 GiB
_STARTS: dict[Compression, re.Pattern[bytes]] = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}


def without_ending(name: str) -> str:
    """A file's name in small letters, without the ending of a compression.

    Examples
    --------
    >>> without_ending("Rows.CSV.gz"), without_ending("rows.svm")
    ('rows.csv', 'rows.svm')
    """
    lower = name.lower()
    return next((lower.removesuffix(end) for end in ENDINGS if lower.endswith(end)), lower)


def find_compression(raw: io.BufferedReader, path: str) -> Compression | None:
    """How a file is compressed, by its first bytes; a name that says otherwise is refused."""
    try:
        start = raw.peek(10)[:10]
    except OSError as error:
        raise FileFormatError(path, f"cannot be read ({error.strerror or error})") from None
    for kind, mark in _STARTS.items():
        if mark.match(start):
            return kind
    for ending, kind in ENDINGS.items():
        if str(path).endswith(ending):
            raise FileFormatError(
                path, f"the name ends in `{ending}` but the content is not {kind} data"
            )
    return None


def decompressed(raw: io.BufferedReader, compression: Compression | None) -> io.BufferedReader:
    """A file's content as bytes, decompressed as it is read."""
    if compression is None:
        return raw
    content: Any
    match compression:
        case "gzip":
            content = import_module("gzip").GzipFile(fileobj=raw)
        case "bzip2":
            content = import_module("bz2").BZ2File(raw)
        case "xz":
            content = _Xz(raw)
        case "zstd":
            content = _zstd(raw)
    info = os.fstat(raw.fileno())
    # The length of a pipe is not known; its reader decides when it is enough.
    most = granted(info.st_size) if stat.S_ISREG(info.st_mode) else sys.maxsize
    # GzipFile.readline is slow on its own; the buffer above it does the line splitting.
    return io.BufferedReader(_Bounded(content, most), BUFFER)


def granted(size: int) -> int:
    """Bytes that a compressed file of `size` bytes may become.

    Examples
    --------
    >>> granted(10**6)
    202097152
    """
    return ALWAYS_GRANTED + most_expansion() * size


def most_expansion() -> int:
    """Bytes that each byte of a compressed file may become, beyond those that all are granted."""
    text = os.environ.get(VARIABLE, str(MOST_EXPANSION))
    if not text.isascii() or not text.isdecimal():
        raise InputError(f"the environment variable {VARIABLE} must be a whole number, got {text}.")
    return int(text)


def too_large(what: str, than: str) -> str:
    """That something is more than is granted, and the cure."""
    return (
        f"{what} over {most_expansion()} times {than}; if you trust it, set the environment "
        f"variable {VARIABLE} to a larger number"
    )


class Expansion:
    """Counts what a file becomes as it is read, up to what it is granted.

    Parameters
    ----------
    path : str
    size : int
        Bytes of the file.

    Examples
    --------
    >>> Expansion("rows.parquet", 100).add(10**7)
    Traceback (most recent call last):
    kernelite.FileFormatError: rows.parquet: its columns become over 200 times as long as ...
    """

    def __init__(self, path: str, size: int) -> None:
        self._path, self._most, self._total = path, granted(size), 0

    def add(self, count: int) -> None:
        """Count more bytes."""
        self._total += count
        self.check(self._total)

    @property
    def over(self) -> bool:
        """Whether more was counted than is granted."""
        return self._total > self._most

    def check(self, total: int) -> None:
        """Refuse so many bytes in all, if they are too many."""
        if total > self._most:
            raise FileFormatError(
                self._path, too_large("its columns become", "as long as the file")
            )


class TooLargeError(OSError):
    """A compressed file that becomes more than it is granted."""


class _Bounded(io.RawIOBase):
    """A stream that ends in an error after `most` bytes."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream = stream
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            count = int(self._stream.readinto(buffer))
        except (OSError, EOFError, zlib.error, KerneliteError):
            raise
        except RuntimeError:  # libbzip2, when it is asked again after it found an error
            raise OSError("Invalid data stream") from None
        except Exception as error:  # zstd's module has an error of its own
            raise OSError(str(error) or type(error).__name__) from None
        self._left -= count
        if self._left < 0:
            raise TooLargeError(too_large("the content is", "as long as the file"))
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Xz(io.RawIOBase):
    """The content of xz streams, one after the other; `lzma.LZMAFile` has no limit of memory."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self._decoder = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while True:
            if self._decoder.eof:
                rest = self._decoder.unused_data or self._raw.read1(BUFFER)
                while rest and not (rest := rest.lstrip(b"\0")):  # padding between streams
                    rest = self._raw.read1(BUFFER)
                if not rest:
                    return 0
                self._decoder = self._new()
            else:
                rest = self._raw.read1(BUFFER) if self._decoder.needs_input else b""
                if self._decoder.needs_input and not rest:
                    raise EOFError("the file ended before its content did")
            data = self._decoder.decompress(rest, max_length=len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        import lzma

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ_MEMORY)


def _zstd(raw: io.BufferedReader) -> Any:
    try:
        return import_module("compression.zstd").ZstdFile(raw)
    except ImportError:
        pass
    need = "reading zstd files needs Python 3.14 or pyarrow"
    arrow = optional("pyarrow", need, "pyarrow", "arrow")
    return arrow.CompressedInputStream(arrow.PythonFile(raw, mode="r"), "zstd")
