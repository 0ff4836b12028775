"""Files opened safely, and outputs moved into place whole.

`open_binary` gives bytes, plain or (`decompressed`) of gzip and bzip2 files; `atomic_write` gives a
temporary file that becomes the named one only when all went well.
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
from collections.abc import Iterator
from typing import IO, Any, Literal

from kernelite.errors import FileFormatError, InputError

__all__ = ["BUFFER", "atomic_write", "decompressed", "find_compression", "open_binary"]

BUFFER = 2**17  # bytes that are asked for at once; what an error cuts off is lost

Compression = Literal["gzip", "bzip2"]

_BZ2_START = re.compile(rb"BZh[1-9](?:\x31\x41\x59\x26\x53\x59|\x17\x72\x45\x38\x50\x90)")


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
        cure = "; standard input is read from /dev/stdin" if os.fspath(path) == "-" else ""
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
    if compression == "gzip":
        # GzipFile.readline is slow on its own; the buffer above it does the line splitting.
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), BUFFER)
    if compression == "bzip2":
        return io.BufferedReader(bz2.BZ2File(raw), BUFFER)
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
        old = os.stat(target).st_mode
    except OSError:
        old = None
    # /dev/stdout may lead to a regular file that the shell holds open: renaming over it loses rows.
    if os.fspath(path).startswith("/dev/") or (old is not None and not stat.S_ISREG(old)):
        with _writable(path):
            direct = open(path, mode, **text)  # noqa: SIM115
        with direct:
            yield direct
        return
    with _writable(path):
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(0, "the file is read-only")
        handle, temporary = _temporary_beside(target)
    try:
        with open(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(handle)
        if old is not None:
            os.chmod(temporary, stat.S_IMODE(old))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _temporary_beside(target: str) -> tuple[int, str]:
    """A new file in the folder of `target`, open for writing, and its name."""
    folder, base = os.path.split(target)
    name = os.path.join(folder, f".{base[:200]}.{secrets.token_hex(6)}.tmp")
    # os.open, unlike tempfile, lets the umask decide the permissions.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(name, flags, 0o666), name


@contextlib.contextmanager
def _writable(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        folder = os.path.dirname(os.fspath(path))
        raise InputError(f"cannot write `{path}`: there is no folder `{folder}`") from None
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror or error}") from None
