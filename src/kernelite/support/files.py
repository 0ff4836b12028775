"""Files opened safely, and outputs moved into place whole.

`open_binary` gives bytes, plain or (`decompressed`) of gzip and bzip2 files; `atomic_write` gives a
temporary file that becomes the named one only when all went well.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from typing import IO, Any, Literal

from kernelite.errors import FileFormatError, InputError
from kernelite.support.limits import VARIABLE, granted, most_expansion

__all__ = [
    "BUFFER",
    "Path",
    "TooLargeError",
    "atomic_write",
    "decompressed",
    "find_compression",
    "open_binary",
]

BUFFER = 2**17  # bytes that are asked for at once; what an error cuts off is lost

Compression = Literal["gzip", "bzip2"]
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Names of streams that are open already. They may lead to a regular file that a shell holds open:
# renaming over it would lose rows.
_STREAM = re.compile(r"/dev/(?:std(?:in|out|err)|fd/[0-9]+)|/proc/(?:self|[0-9]+)/fd/[0-9]+")
_ABANDONED = 86_400  # seconds after which a temporary file belongs to a run that was killed
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_BZ2_START = re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)")


def open_binary(path: Path) -> io.BufferedReader:
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
    path = os.fsdecode(path)
    try:
        return open(path, "rb")
    except FileNotFoundError:
        cure = "; standard input is read from /dev/stdin" if path == "-" else ""
        raise FileFormatError(path, f"there is no such file{cure}") from None
    except IsADirectoryError:
        raise FileFormatError(path, "this is a directory, expected a file") from None
    except OSError as error:
        raise FileFormatError(path, f"cannot be opened ({error.strerror or error})") from None
    except ValueError:  # a NUL byte in the name
        raise FileFormatError(repr(path), "this is not a file name") from None


def find_compression(raw: io.BufferedReader, path: str) -> Compression | None:
    """How a file is compressed, by its first bytes; a name that says otherwise is refused."""
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


def decompressed(raw: io.BufferedReader, compression: Compression | None) -> io.BufferedReader:
    """A file's content as bytes, decompressed as it is read."""
    if compression is None:
        return raw
    content: Any = gzip.GzipFile(fileobj=raw) if compression == "gzip" else bz2.BZ2File(raw)
    info = os.fstat(raw.fileno())
    # The length of a pipe is not known; its reader decides when it is enough.
    most = granted(info.st_size) if stat.S_ISREG(info.st_mode) else sys.maxsize
    # GzipFile.readline is slow on its own; the buffer above it does the line splitting.
    return io.BufferedReader(_Bounded(content, most), BUFFER)


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
        except RuntimeError:  # libbzip2, when it is asked again after it found an error
            raise OSError("Invalid data stream") from None
        self._left -= count
        if self._left < 0:
            raise TooLargeError(
                f"the content is over {most_expansion()} times as long as the file; if you trust "
                f"it, set the environment variable {VARIABLE} to a larger number"
            )
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextlib.contextmanager
def atomic_write(path: Path, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """Write a file so that it appears whole or not at all.

    The body writes to a temporary file in the same folder, which is flushed to disk and renamed
    to `path` at the end; on any exception, an interrupt included, it is removed and a file that
    was there before stays as it was. Symbolic links are followed, an existing file's permissions
    are kept (but for setuid and setgid), and devices, pipes and standard streams (/dev/stdout) are
    written directly. What a killed run left for the same file is removed after a day.

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
        If no file can be written there, or the disk is full.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_write(os.path.join(folder, "out.txt")) as file:
    ...         _ = file.write("1\\n")
    ...     os.listdir(folder)
    ['out.txt']
    """
    name = os.fsdecode(path)
    text: dict[str, Any] = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    with _writable(name):
        target = os.path.realpath(name)
        old = _permissions(target)
    if _STREAM.fullmatch(os.path.abspath(name)) or (old is not None and not stat.S_ISREG(old)):
        with _writable(name):
            direct = open(name, mode, **text)  # noqa: SIM115
        with direct:
            yield direct
        return
    with _writable(name):
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(0, "the file is read-only")
        # What replaces a private file is private from the start.
        handle, temporary = _temporary_beside(target, 0o666 if old is None else 0o600)
    try:
        with _room_for(name), open(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(handle)
        with _writable(name):
            if old is not None:
                os.chmod(temporary, stat.S_IMODE(old) & 0o777)
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _keep_name(os.path.dirname(target))


def _permissions(target: str) -> int | None:
    """The mode of a file, None where there is none."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _temporary_beside(target: str, permissions: int) -> tuple[int, str]:
    """A new file in the folder of `target`, open for writing, and its name."""
    folder, base = os.path.split(target)
    start = f".{base[:200]}."
    _remove_abandoned(folder, re.compile(re.escape(start) + r"[0-9a-f]{12}\.tmp"))
    name = os.path.join(folder, f"{start}{secrets.token_hex(6)}.tmp")
    # os.open, unlike tempfile, lets the umask decide the permissions.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(name, flags, permissions), name


def _remove_abandoned(folder: str, names: re.Pattern[str]) -> None:
    """Remove old temporary files of that name; what cannot be removed stays."""
    before = time.time() - _ABANDONED
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not names.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode) and info.st_mtime < before:
                    os.unlink(entry.path)


def _keep_name(folder: str) -> None:
    """Have the disk remember a rename, where the system can be asked to."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _writable(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        folder = os.path.dirname(name)
        raise InputError(f"cannot write `{name}`: there is no folder `{folder}`") from None
    except OSError as error:
        raise InputError(f"cannot write `{name}`: {error.strerror or error}") from None
    except ValueError:  # a NUL byte in the name
        raise InputError(f"cannot write {name!r}: this is not a file name") from None


@contextlib.contextmanager
def _room_for(name: str) -> Iterator[None]:
    """A full or failing disk in words; other errors of the caller's are its own matter."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        raise InputError(f"cannot write `{name}`: {error.strerror}") from None
