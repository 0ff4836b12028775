"""Files opened safely, outputs moved into place whole, and the folder for files of our own.

`open_binary` gives bytes; `atomic_write` gives a temporary file that becomes the named one only
when all went well; `read_ahead` parses what comes next meanwhile.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import io
import os
import pathlib
import queue
import re
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import IO, Any, Literal, TypeVar

from kernelite.support.errors import FileFormatError, InputError

__all__ = [
    "STANDARD_INPUT",
    "atomic_write",
    "cache_folder",
    "check_apart",
    "open_binary",
    "open_to_others",
    "read_ahead",
    "why_distrusted",
]

STANDARD_INPUT = "-"
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Names of streams that are open already. They may lead to a regular file that a shell holds open:
# renaming over it would lose rows.
_STREAM = re.compile(r"/dev/(?:std(?:in|out|err)|fd/[0-9]+)|/proc/(?:self|[0-9]+)/fd/[0-9]+")
# os.open, unlike tempfile, lets the umask decide the permissions.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_ABANDONED = 86_400  # seconds after which a temporary file belongs to a run that was killed
_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


def open_binary(path: Path) -> io.BufferedReader:
    """Open a file for reading bytes, with errors that name it in one sentence.

    Parameters
    ----------
    path : path-like
        A file or a pipe; "-" is standard input.

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
    kernelite.FileFormatError: no/such.svm: there is no such file
    """
    path = os.fsdecode(path)
    try:
        return _standard_input() if path == STANDARD_INPUT else open(path, "rb")
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file") from None
    except IsADirectoryError:
        raise FileFormatError(path, "this is a directory, expected a file") from None
    except OSError as error:
        raise FileFormatError(path, f"cannot be opened ({error.strerror or error})") from None
    except ValueError:  # a NUL byte in the name
        raise FileFormatError(repr(path), "this is not a file name") from None


@cache
def _standard_input() -> io.BufferedReader:
    """One reader for all who ask: what one of them has looked at is not lost to the next."""
    return _KeptOpen(open(0, "rb", closefd=False, buffering=0))


class _KeptOpen(io.BufferedReader):
    def close(self) -> None:
        """Leave it open."""


def check_apart(target: str, *sources: str) -> None:
    """Refuse to write over what is read."""
    for source in sources:
        both = os.path.exists(source) and os.path.exists(target)
        if both and os.path.samefile(source, target):
            raise InputError(f"`{target}` is read too, so it cannot be written; name another.")


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
        temporary = _temporary_beside(target)
    try:  # from here on: an interrupt may come as soon as the file is there
        with _writable(name):
            # What replaces a private file is private from the start.
            handle = os.open(temporary, _NEW, 0o666 if old is None else 0o600)
        # Opened by name, which libraries that write by name alone may ask for.
        opened = open(temporary, mode, opener=lambda _, flags: handle, **text)  # noqa: SIM115
        with _room_for(name), opened as file:
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


def _temporary_beside(target: str) -> str:
    """The name of a new file in the folder of `target`."""
    folder, base = os.path.split(target)
    start = f".{base[:200]}."
    _remove_abandoned(folder, re.compile(re.escape(start) + r"[0-9a-f]{12}\.tmp"))
    return os.path.join(folder, f"{start}{os.urandom(6).hex()}.tmp")


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
        why = f"there is no folder `{folder}`"
        if os.path.isdir(folder or os.curdir):  # such as /proc
            why = f"the system makes no files in `{folder}`"
        raise InputError(f"cannot write `{name}`: {why}") from None
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


# Where kernelite keeps files of its own, and whether a place is safe from other users.
#
# What is loaded from a folder as code must not be written by others. As sshd does with keys: the
# file, its folder and every folder above belong to the user or to root, and nobody else may write.


def cache_folder() -> pathlib.Path:
    """Where downloads and kernels are kept: $KERNELITE_CACHE, or the user's cache folder."""
    if own := os.environ.get("KERNELITE_CACHE"):
        return pathlib.Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or pathlib.Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = pathlib.Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "kernelite"


def why_distrusted(folder: pathlib.Path, /) -> str | None:
    """Why others could change what lies in a folder; None if they cannot.

    Parameters
    ----------
    folder : pathlib.Path
        One that need not exist: then what counts is where it would be made.

    Returns
    -------
    str or None
        A clause such as "`/tmp/x` can be written by everybody". Where there are no POSIX
        permissions (Windows), None: a user's cache folder is the user's there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.chmod(folder, 0o777)
    ...     bool(why_distrusted(pathlib.Path(folder))) or os.name == "nt"
    True
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        real = folder.resolve()
        while not real.exists():
            real = real.parent
            folder = real
        for part in (real, *real.parents):
            reason = open_to_others(part.stat(), above=part != folder.resolve())
            if reason is not None:
                return f"`{part}` {reason}"
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError
        return f"`{folder}` cannot be examined ({error})"
    return None


def open_to_others(state: os.stat_result, *, above: bool = False) -> str | None:
    """Why others could change a file or folder of this state; None if they cannot.

    `above`: it only leads to what is meant. Then a sticky folder such as /tmp will do, in which
    nobody can replace what belongs to somebody else.
    """
    if not hasattr(os, "geteuid"):
        return None
    if state.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if above and state.st_mode & stat.S_ISVTX:
        return None
    if state.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if state.st_mode & stat.S_IWGRP and not _own_group(state.st_gid):
        return "can be written by its group"
    return None


@cache
def _own_group(number: int) -> bool:
    """Whether a group is this user's alone: many systems give everybody one of the same name."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


# Reading ahead: the next part of a file is parsed while this one is answered and written.


Item = TypeVar("Item")


def read_ahead(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """Yield `items` in order, made by another thread that keeps `depth` of them ready.

    An error of the source is raised here, after the items before it. When the caller stops early,
    the thread ends with the item it is making. Where no thread can be started, that is a
    MemoryError, before anything is read.

    Examples
    --------
    >>> list(read_ahead(range(3)))
    [0, 1, 2]
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(message: tuple[str, Any]) -> None:
        while not stop.is_set():
            try:
                return ready.put(message, timeout=0.1)
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put(("item", item))
                if stop.is_set():
                    return
            put(("end", None))
        except BaseException as error:  # handed over, not swallowed
            put(("error", error))

    # In the caller's context, which holds the limit on threads.
    context = contextvars.copy_context()
    maker = threading.Thread(target=context.run, args=(make,), name="kernelite-reader", daemon=True)
    try:
        maker.start()
    except RuntimeError:  # going on without would leave Arrow to wait for threads of its own
        raise MemoryError(
            "no thread can be started; one thread alone, `--threads 1`, starts none"
        ) from None
    try:
        while True:
            try:
                # With a timeout: a signal that the other thread took is seen when this one wakes.
                kind, value = ready.get(timeout=0.1)
            except queue.Empty:
                continue
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        # Not for ever: it may be waiting on a pipe that nobody writes to any more.
        maker.join(timeout=1.0)
