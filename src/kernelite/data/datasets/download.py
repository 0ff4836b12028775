"""Downloads the paper's data sets from LIBSVM's page: whole and checked, or not at all.

An address comes in, a file in the cache folder goes out. Nothing else is left behind, whether the
network fails, the disk fills up, the content is damaged or the user interrupts.

Not through pooch, which checks the digest of a file's bytes: LIBSVM's page and its mirrors pack the
same numbers differently, so what is known and checked here is the digest of the numbers, while rows
and features are counted. It would be one more dependency, and a limit on the length of what comes,
redirects that stay with https and a full disk would still have to be looked after.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import Request, urlopen

from kernelite.data.datasets import BASE, DataFile, cache_folder, check
from kernelite.support.errors import FileFormatError, InputError, KerneliteError

__all__ = ["DownloadError", "download"]

DOWNLOADED_BYTES = 2**18
TIMEOUT = 30.0  # seconds without a byte
SPARE_BYTES = 2**24  # bytes of the disk to leave free
STALE = 24 * 3600.0  # seconds after which a download's temporary file belongs to nobody

OnProgress = Callable[[int, int | None], None]


class DownloadError(KerneliteError):
    """A file could not be had: the message says why and what to do instead."""


def download(
    file: DataFile,
    /,
    folder: str | os.PathLike[str] | None = None,
    *,
    base: str = BASE,
    unchecked: bool = False,
    insecure: bool = False,
    tell: OnProgress = lambda done, total: None,
    tell_check: Callable[[int], None] = lambda rows: None,
) -> Path:
    """Bring a data file into a folder, unless it is there; one that is there is checked.

    Parameters
    ----------
    file : DataFile
    folder : path-like, optional
        The cache folder by default; made if absent.
    base : str
        Address of a mirror with the same layout, https.
    unchecked : bool
        Accept a file whose digest is not the known one.
    insecure : bool
        Accept http, where anybody on the way can change what comes.
    tell : callable
        Told the bytes done and the bytes in all (None if the server does not say).
    tell_check : callable
        Told the rows verified.

    Returns
    -------
    Path
        The file, as the server has it (plain or bz2).

    Raises
    ------
    DownloadError, FileFormatError
        With nothing left in the folder.
    """
    address = urljoin(base if base.endswith("/") else f"{base}/", file.address)
    if urlsplit(address).scheme not in ("http", "https"):
        raise InputError(f"`{base}` is not an address that starts with https:// (or http://).")
    _refuse_if_insecure(address, insecure)
    into = cache_folder() if folder is None else Path(folder)
    target = into / Path(file.address).name
    if target.is_file():
        _check_kept(target, file, unchecked, tell_check)
        return target
    _make(into, target.name)
    # In a folder of its own, so that the name, by which the format is known, can be the final one.
    temporary = into / f".{target.name}.{os.getpid()}.tmp"
    try:
        temporary.mkdir(exist_ok=True)
        part = temporary / target.name
        _receive(address, part, file.most_bytes, insecure, tell)
        try:
            check(part, file, unchecked=unchecked, tell=tell_check)
        except FileFormatError as error:
            raise FileFormatError(
                address, f"{error.problem}; nothing was kept, try again", line=error.line
            ) from None
        os.replace(part, target)
    except OSError as error:
        raise DownloadError(_of_the_disk(error, into)) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _check_kept(target: Path, file: DataFile, unchecked: bool, tell: Callable[[int], None]) -> None:
    try:
        check(target, file, unchecked=unchecked, tell=tell)
    except FileFormatError as error:
        raise FileFormatError(
            target, f"{error.problem}; delete this file, and fetch it again", line=error.line
        ) from None


def _refuse_if_insecure(address: str, insecure: bool) -> None:
    if urlsplit(address).scheme != "https" and not insecure:
        raise InputError(
            f"{address} is not https, so anybody on the way could change what comes; name an "
            "https mirror, or allow this one with --insecure."
        )


def _make(folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"the folder `{folder}` cannot be made ({error.strerror}); name another with --folder "
            "or KERNELITE_CACHE."
        ) from None
    # Of a run that was killed: folders named as ours are, with nothing in them but the file.
    ours = re.compile(rf"\.{re.escape(name)}\.\d+\.tmp")
    for stale in folder.iterdir():
        with contextlib.suppress(OSError):
            if not ours.fullmatch(stale.name) or stale.is_symlink() or not stale.is_dir():
                continue
            if not {file.name for file in stale.iterdir()} <= {name}:
                continue
            if time.time() - stale.stat().st_mtime > STALE:
                shutil.rmtree(stale)


def _receive(address: str, path: Path, most: int, insecure: bool, tell: OnProgress) -> None:
    request = Request(address, headers={"User-Agent": "kernelite", "Accept-Encoding": "identity"})
    with open(path, "xb") as out:
        with _in_words(address), urlopen(request, timeout=TIMEOUT) as answer:
            said = answer.headers.get("Content-Length", "")
            total = int(said) if said.isdigit() else None
            _refuse_if_insecure(answer.geturl(), insecure)  # where it was sent on to
            _refuse_if_too_large(address, total, most, path.parent)
            done = _copy(_Capped(answer, address, most), out, total, tell)
        out.flush()
        os.fsync(out.fileno())
    if total is not None and done != total:
        raise DownloadError(
            f"{address} was cut off after {done:,} of {total:,} bytes; nothing was kept, try again."
        )


class _Capped:
    """An answer that must not be longer than its file can be."""

    def __init__(self, answer: Any, address: str, most: int) -> None:
        self.answer, self.address, self.left = answer, address, most

    def read(self, size: int) -> bytes:
        """The next bytes."""
        piece: bytes = self.answer.read(size)
        self.left -= len(piece)
        if self.left < 0:
            raise DownloadError(_LONGER.format(self.address))
        return piece


_LONGER = "{} has more bytes than this data set can have; nothing was kept, try another mirror."


def _refuse_if_too_large(address: str, total: int | None, most: int, folder: Path) -> None:
    if total is not None and total > most:
        raise DownloadError(_LONGER.format(address))
    free = shutil.disk_usage(folder).free
    if total is not None and total + SPARE_BYTES > free:
        raise DownloadError(
            f"{address} has {total / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB are free in "
            f"`{folder.parent}`; free some, or name another folder with --folder."
        )


def _copy(answer: Any, out: IO[bytes], total: int | None, tell: OnProgress) -> int:
    done = 0
    while piece := answer.read(DOWNLOADED_BYTES):
        try:
            out.write(piece)
        except OSError as error:
            # Told apart from an error of the network, which is an OSError too.
            raise _DiskError(error.errno, error.strerror) from None
        done += len(piece)
        tell(done, total)
    return done


class _DiskError(Exception):
    """An OSError of the disk, on its way past the network's."""

    def __init__(self, number: int | None, reason: str | None) -> None:
        super().__init__(number, reason)
        self.error = OSError(number or 0, reason or "cannot be written")


class _in_words(contextlib.AbstractContextManager[None]):
    """Turn whatever goes wrong in a network into one sentence."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, KerneliteError):
            return
        if isinstance(error, _DiskError):
            raise error.error from None
        if isinstance(error, HTTPError):
            raise DownloadError(
                f"{self.address}: the server answered {error.code} {error.reason}; look for the "
                "file's new place, and give its folder with --from."
            ) from None
        if isinstance(error, URLError | OSError | HTTPException):
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise DownloadError(
                f"{self.address} cannot be had ({reason}). Without network: download it elsewhere, "
                "put it into a folder and set KERNELITE_DATA to that folder."
            ) from None


def _of_the_disk(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = "the disk is full"
    else:
        reason = error.strerror or str(error)
    return f"cannot write into `{folder}`: {reason}; nothing was kept."
