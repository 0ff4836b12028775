"""The lines of a plain or compressed file with their numbers, in bounded memory."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Self

from kernelite.data.tables.parsing import Defect, Report, raise_first
from kernelite.support.compression import BUFFER, TooLargeError, decompressed, find_compression
from kernelite.support.files import open_binary

__all__ = ["Lines"]

MAX_LINE_BYTES = 16 * 2**20
"""Longest accepted line of a text file: a row of about a million `index:value` pairs."""

MOST_BLANK = 10**6
"""Blank lines in a row after which a file is given up: a short compressed one may hold billions."""

_BOM = b"\xef\xbb\xbf"


class Lines(Iterator[tuple[int, str]]):
    """The lines of a text file with their 1-based numbers, without their ends.

    Plain, gzip, bzip2, xz and zstd files are told apart by their first bytes. A byte order mark is
    dropped; lines end in LF or CRLF and the last one may lack its end. Memory stays bounded: a line
    longer than `max_line_bytes` is a defect and is skipped, as are lines that are not UTF-8 or hold
    a NUL.
    A corrupt compressed stream is a defect that ends the file, and so are more than `MOST_BLANK`
    blank lines in a row.

    Parameters
    ----------
    path : path-like
        The file.
    report : callable, optional
        Called with each `Defect`; by default the first raises `FileFormatError`.
    max_line_bytes : int
        Longest accepted line.
    content : bytes, optional
        The start of the file, where somebody has it already; the file is then not opened.

    Attributes
    ----------
    path : str
        The file's name.
    compression : "gzip", "bzip2", "xz", "zstd" or None
        What was found.
    ended : bool
        Whether the line read last had its line end; False only at the end of a file.
    too_long : bool
        Whether the last line of the last block exceeds the limit, and may go on after the block;
        then only `unread` reads it right.

    Examples
    --------
    >>> import gzip
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
        content: bytes | None = None,
    ) -> None:
        self.path = os.fsdecode(path)
        self.report = raise_first(path) if report is None else report
        self._max = max_line_bytes
        self._number = 0
        self.ended = True
        self.too_long = False
        self._ahead: list[tuple[int, str]] = []
        self._unread: IO[bytes] | None = None
        self._broken: Exception | None = None  # an error of the stream, to be told
        self._over = False  # it was told
        self._blank = 0  # lines in a row
        if content is not None:
            self._raw: IO[bytes] = io.BytesIO(content)
            self._stream: Any = self._raw
            self.compression = None
            return
        self._raw = raw = open_binary(path)
        try:
            self.compression = find_compression(raw, self.path)
        except BaseException:
            self._raw.close()
            raise
        self._stream = decompressed(raw, self.compression)

    def __next__(self) -> tuple[int, str]:
        if self._ahead:
            return self._ahead.pop()
        while raw := self._readline(self._max + 2):  # two more for the line's end
            self._number += 1
            self.ended = raw.endswith(b"\n")
            self._blank = self._blank + 1 if raw in (b"\n", b"\r\n") else 0
            if self._blank > MOST_BLANK:
                self._unread, self._over = None, True
                self._defect(None, f"there are over {MOST_BLANK} blank lines in a row")
                break
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
        self.too_long = False
        if not block.endswith(b"\n"):
            start = block.rfind(b"\n") + 1
            block += self._readline(self._max + 2)
            self.too_long = len(block) - start > self._max + 2
        return block

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
        # Of a compressed stream a little at a time: an error loses what the call has read so far.
        most = 4 * BUFFER if self.compression is None else BUFFER
        while size > 0 and self._broken is None:
            try:
                parts.append(self._stream.read1(min(size, most)))
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
            if isinstance(error, TooLargeError):
                problem = str(error)
            elif self.compression is None:
                problem = f"cannot be read on ({error})"
            else:
                problem = f"the {self.compression} stream is corrupt or cut off ({error})"
            self._number += 1
            self._over = True
            self._defect(None, problem.rstrip("."))
            return b""

    def _defect(self, token: str | None, problem: str) -> None:
        self.report(Defect(self._number, token, problem))
