"""Text files opened safely, and outputs moved into place whole.

`Lines` walks the lines of a plain, gzip or bzip2 file with their numbers, in bounded memory;
`atomic_write` gives a temporary file that becomes the named one only when all went well.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Literal, Self

from kernelite.errors import FileFormatError, InputError
from kernelite.formats.defects import Defect, Report, raise_first

__all__ = ["MAX_LINE_BYTES", "Lines", "atomic_write", "open_binary"]

MAX_LINE_BYTES = 16 * 2**20
"""Longest accepted line of a text file: a row of about a million `index:value` pairs."""

Compression = Literal["gzip", "bzip2"]

_BZ2_START = re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)")
_BUFFER = 2**17  # bytes that are asked for at once; what an error cuts off is lost
_BOM = b"\xef\xbb\xbf"


def open_binary(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file for reading bytes, with errors that name it in one sentence.

    Parameters
    ----------
    path : path-like
        A file, or a pipe such as /dev/stdin.

    Returns
    -------
    io.BufferedReader
        To be closed by the caller.

    Raises
    ------
    FileFormatError
        If it does not exist, is a directory, or may not be read.

    Examples
    --------
    >>> open_binary("no/such.svm")
    Traceback (most recent call last):
    kernelite.errors.FileFormatError: no/such.svm: there is no such file
    """
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file") from None
    except IsADirectoryError:
        raise FileFormatError(path, "this is a directory, expected a file") from None
    except OSError as error:
        raise FileFormatError(path, f"cannot be opened ({error.strerror or error})") from None
    except ValueError:  # a NUL byte in the name
        raise FileFormatError(repr(path), "this is not a file name") from None


class Lines(Iterator[tuple[int, str]]):
    """The lines of a text file with their 1-based numbers, without their ends.

    Plain, gzip and bzip2 files are told apart by their first bytes. A byte order mark is dropped;
    lines end in LF or CRLF and the last one may lack its end. Memory stays bounded: a line longer
    than `max_line_bytes` is a defect and is skipped, as are lines that are not UTF-8 or hold a NUL.
    A corrupt compressed stream is a defect that ends the file.

    Parameters
    ----------
    path : path-like
        The file.
    report : callable, optional
        Called with each `Defect`; by default the first raises `FileFormatError`.
    max_line_bytes : int
        Longest accepted line.

    Attributes
    ----------
    path : str
        The file's name.
    compression : "gzip", "bzip2" or None
        What was found.
    ended : bool
        Whether the line read last had its line end; False only at the end of a file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.svm.gz")
    ...     with gzip.open(name, "wb") as file:
    ...         _ = file.write(b"+1 1:0.5\\r\\n-1 2:3")
    ...     with Lines(name) as lines:
    ...         lines.compression, list(lines)
    ('gzip', [(1, '+1 1:0.5'), (2, '-1 2:3')])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        report: Report | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self.path = os.fspath(path)
        self.report = raise_first(path) if report is None else report
        self._max = max_line_bytes
        self._number = 0
        self.ended = True
        self._ahead: list[tuple[int, str]] = []
        self._unread: IO[bytes] | None = None
        self._broken: Exception | None = None  # an error of the stream, to be told
        self._over = False  # it was told
        self._raw = open_binary(path)
        try:
            self.compression = _compression(self._raw, self.path)
        except BaseException:
            self._raw.close()
            raise
        self._stream = _decompressed(self._raw, self.compression)

    def __next__(self) -> tuple[int, str]:
        if self._ahead:
            return self._ahead.pop()
        while raw := self._readline(self._max + 2):  # two more for the line's end
            self._number += 1
            self.ended = raw.endswith(b"\n")
            text = self._text(raw)
            if text is not None:
                return self._number, text
        raise StopIteration

    def push_back(self, line: tuple[int, str]) -> None:
        """Make `line` the next one again, for readers that must look at the start of a file."""
        self._ahead.append(line)

    def read_block(self, size: int) -> bytes:
        """Whole lines as they stand in the file, about `size` bytes; nothing at its end.

        The caller counts them with `skip`, or has them read one by one after `unread`. At a defect
        of the stream, and where several lines were pushed back, nothing comes either: reading on
        line by line finds them.
        """
        block = b""
        if len(self._ahead) == 1:
            number, text = self._ahead.pop()
            block, self._number = text.encode() + b"\n", number - 1
        elif self._ahead:
            return b""
        block += self._read(size)
        if self._broken is not None:
            return block[: block.rfind(b"\n") + 1]
        return block if block.endswith(b"\n") else block + self._readline(self._max + 2)

    def skip(self, n_lines: int) -> None:
        """Count lines of the last block as read."""
        self._number += n_lines

    def unread(self, block: bytes) -> Iterator[tuple[int, str]]:
        """Read the lines of the last block one by one."""
        self._unread = io.BytesIO(block)
        while self._unread is not None and self._unread.tell() < len(block):
            try:
                yield next(self)
            except StopIteration:
                return

    def close(self) -> None:
        """Close the file; further lines cannot be read."""
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _text(self, raw: bytes) -> str | None:
        """One line as text, or None after reporting why it is none."""
        if self._number == 1:
            raw = raw.removeprefix(_BOM)
        body = raw.removesuffix(b"\n").removesuffix(b"\r")
        if len(body) > self._max:
            while raw and not raw.endswith(b"\n"):
                raw = self._readline(2**20)
            limit = f"the limit of {self._max} bytes"
            self._defect(None, f"the line is longer than {limit}, so this is not a text table")
            return None
        if self._number == 1 and body.startswith((b"\xff\xfe", b"\xfe\xff")):
            self._defect(None, "the file seems to be UTF-16 text, save it as UTF-8")
            return None
        if b"\0" in body:
            self._defect("\0", "the line holds a NUL byte, so this is not a text file")
            return None
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError as error:
            token = ascii(body[max(error.start - 8, 0) : error.start + 8])[2:-1]
            self._defect(token, f"`{token}` is not UTF-8 text (byte {error.start + 1} of the line)")
            return None

    def _read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0 and self._broken is None:
            try:
                # Not `read`, which would lose all that it read before an error.
                parts.append(self._stream.read1(min(size, _BUFFER)))
            except (EOFError, OSError, zlib.error) as error:
                self._broken = error
                break
            if not parts[-1]:
                break
            size -= len(parts[-1])
        return b"".join(parts)

    def _readline(self, limit: int) -> bytes:
        if self._unread is not None:
            if line := self._unread.readline(limit):
                return line
            self._unread = None
        if self._over:
            return b""
        try:
            if self._broken is not None:
                raise self._broken
            return self._stream.readline(limit)
        except (EOFError, OSError, zlib.error) as error:
            if self.compression is None:
                problem = f"cannot be read on ({error})"
            else:
                problem = f"the {self.compression} stream is corrupt or cut off ({error})"
            self._number += 1
            self._over = True
            self._defect(None, problem.rstrip("."))
            return b""

    def _defect(self, token: str | None, problem: str) -> None:
        self.report(Defect(self._number, token, problem))


def _compression(raw: io.BufferedReader, path: str) -> Compression | None:
    try:
        start = raw.peek(10)[:10]
    except OSError as error:
        raise FileFormatError(path, f"cannot be read ({error.strerror or error})") from None
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if _BZ2_START.match(start):
        return "bzip2"
    for extension, kind in ((".gz", "gzip"), (".bz2", "bzip2")):
        if str(path).endswith(extension):
            raise FileFormatError(
                path, f"the name ends in `{extension}` but the content is not {kind} data"
            )
    return None


def _decompressed(raw: io.BufferedReader, compression: Compression | None) -> io.BufferedReader:
    if compression == "gzip":
        # GzipFile.readline is slow on its own; the buffer above it does the line splitting.
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
    if compression == "bzip2":
        return io.BufferedReader(bz2.BZ2File(raw), _BUFFER)
    return raw


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """Write a file so that it appears whole or not at all.

    The body writes to a temporary file in the same folder, which is flushed to disk and renamed
    to `path` at the end; on any exception, an interrupt included, it is removed and a file that
    was there before stays as it was. Symbolic links are followed, an existing file's permissions
    are kept, and devices and pipes (/dev/stdout) are written directly.

    Parameters
    ----------
    path : path-like
        The file to write.
    mode : "w" or "wb"
        Text (UTF-8, LF) or bytes.

    Yields
    ------
    file object
        Open for writing.

    Raises
    ------
    InputError
        If no file can be written there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_write(os.path.join(folder, "out.txt")) as file:
    ...         _ = file.write("1\\n")
    ...     os.listdir(folder)
    ['out.txt']
    """
    target = os.path.realpath(path)
    text: dict[str, Any] = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    try:
        old = os.stat(target)
    except OSError:
        old = None
    # /dev/stdout may lead to a regular file that the shell holds open: renaming over it loses rows.
    if os.fspath(path).startswith("/dev/") or (old and not stat.S_ISREG(old.st_mode)):
        with _writable(path):
            direct = open(path, mode, **text)  # noqa: SIM115
        with direct:
            yield direct
        return
    temporary = os.path.join(
        os.path.dirname(target), f".{os.path.basename(target)[:200]}.{secrets.token_hex(6)}.tmp"
    )
    with _writable(path):
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(0, "the file is read-only")
        # os.open, unlike tempfile, lets the umask decide the permissions.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666)
    try:
        with open(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(handle)
        if old is not None:
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _writable(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        folder = os.path.dirname(os.fspath(path))
        raise InputError(f"cannot write `{path}`: there is no folder `{folder}`") from None
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror or error}") from None
