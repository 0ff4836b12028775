"""The paper's data sets: their names, where their files lie on this machine, what they must hold.

A file is known by a digest of its numbers, not of its bytes: copies differ in compression, blanks
and trailing digits. `download` brings files that are absent from LIBSVM's page: whole and checked,
or not at all, whether the network fails, the disk fills up or the user interrupts.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import Request, urlopen

from kernelite.support.errors import FileFormatError, InputError, KerneliteError
from kernelite.support.files import cache_folder

if TYPE_CHECKING:
    from kernelite.data.tables.dataset import DataSet

__all__ = [
    "BASE",
    "FILES",
    "SETS",
    "DataFile",
    "DownloadError",
    "cache_folder",
    "check",
    "download",
    "files_of",
    "find",
]

BASE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
"""Where LIBSVM's authors keep the data sets."""

DATASET_ENDINGS = ("", ".bz2", ".gz")


@dataclass(frozen=True)
class DataFile:
    """A data file in LIBSVM's format.

    Parameters
    ----------
    name : str
        Its name without a compression's ending.
    address : str
        Below `BASE`.
    rows, features : int
        What it holds; `features` is the largest index.
    digest : str, optional
        Of its numbers (see `check`); None where it is not known.
    """

    name: str
    address: str
    rows: int
    features: int
    digest: str | None = None

    @property
    def most_bytes(self) -> int:
        """What it may have at most, as text or compressed: twice what the widest numbers take."""
        return 4096 + self.rows * (64 + 32 * self.features)


_DIGESTS = {
    "a9a": "87345cd5888081ab3724c03be2caf80e44938be96ac0f0a034c89204a9b4d6ab",
    "a9a.t": "c62ed04daa36b4e12ad51ca17f4804a9c4cf52a1e3fb8bf78d60abec06045365",
    "ijcnn1": "b210094e461cad39d223c0e3e10c1e2373f8ac0196d755ec27f86453313d7080",
    "ijcnn1.t": "02d06bc72c94f6a7a3ca38019a74acf09a5681973386bbfa965841a574c00317",
    "mnist.scale": "1ca4bebcec74b884c0486556ac8e77e9d0cd7a514abca0f453cf252de89ffa5c",
    "mnist.scale.t": "b9ba53b39a74f47ece6ea0ab555b974f2e4febf2d6f9289498a670969ecb1853",
}

_KNOWN = (
    DataFile("a9a", "binary/a9a", 32_561, 123, _DIGESTS["a9a"]),
    DataFile("a9a.t", "binary/a9a.t", 16_281, 122, _DIGESTS["a9a.t"]),
    DataFile("ijcnn1", "binary/ijcnn1.bz2", 49_990, 22, _DIGESTS["ijcnn1"]),
    DataFile("ijcnn1.t", "binary/ijcnn1.t.bz2", 91_701, 22, _DIGESTS["ijcnn1.t"]),
    DataFile("mnist.scale", "multiclass/mnist.scale.bz2", 60_000, 780, _DIGESTS["mnist.scale"]),
    DataFile(
        "mnist.scale.t", "multiclass/mnist.scale.t.bz2", 10_000, 778, _DIGESTS["mnist.scale.t"]
    ),
    DataFile("combined_scale", "multiclass/vehicle/combined_scale.bz2", 78_823, 100),
    DataFile("combined_scale.t", "multiclass/vehicle/combined_scale.t.bz2", 19_705, 100),
    DataFile("epsilon_normalized", "binary/epsilon_normalized.bz2", 400_000, 2_000),
    DataFile("epsilon_normalized.t", "binary/epsilon_normalized.t.bz2", 100_000, 2_000),
)

FILES = {file.name: file for file in _KNOWN}
"""Every file, by its name."""

SETS = {
    "a9a": ("a9a", "a9a.t"),
    "ijcnn1": ("ijcnn1", "ijcnn1.t"),
    "mnist": ("mnist.scale", "mnist.scale.t"),
    "sensit": ("combined_scale", "combined_scale.t"),
    "epsilon": ("epsilon_normalized", "epsilon_normalized.t"),
}
"""Set -> its training and its test file."""


def files_of(name: str, /) -> tuple[DataFile, ...]:
    """The files of a set, or the one file of that name.

    Examples
    --------
    >>> [file.name for file in files_of("mnist")]
    ['mnist.scale', 'mnist.scale.t']
    >>> files_of("iris")
    Traceback (most recent call last):
    kernelite.InputError: `iris` is not a known data set; known are a9a, ijcnn1, mnist, ...
    """
    if name in SETS:
        return tuple(FILES[file] for file in SETS[name])
    if name in FILES:
        return (FILES[name],)
    raise InputError(f"`{name}` is not a known data set; known are {', '.join(SETS)}.")


def find(name: str, /, *, also: Sequence[str | os.PathLike[str]] = ()) -> Path:
    """The path of a data file on this machine.

    Parameters
    ----------
    name : str
        E.g. "a9a.t", without a compression's ending.
    also : sequence of path-like
        Folders to look into between $KERNELITE_DATA and the cache.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If it is in none of the folders: the message says how to get it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "toy.t.bz2").write_bytes(b"")
    ...     find("toy.t", also=[folder]).name
    'toy.t.bz2'
    """
    own = os.environ.get("KERNELITE_DATA")
    folders = [*([Path(own)] if own else []), *map(Path, also), cache_folder()]
    for folder in folders:
        for ending in DATASET_ENDINGS:
            if (path := folder / f"{name}{ending}").is_file():
                return path
    known = next((set_ for set_, files in SETS.items() if name in (*files, set_)), None)
    cure = "put it there" if known is None else f"`kernelite fetch {known}` downloads it"
    raise InputError(
        f"the data file `{name}` is not in {', '.join(map(str, folders))}; {cure}, or set "
        "KERNELITE_DATA to the folder that has it."
    )


def check(
    path: str | os.PathLike[str],
    file: DataFile,
    /,
    *,
    unchecked: bool = False,
    tell: Callable[[int], None] = lambda rows: None,
) -> str:
    """Read a data file whole and compare it with what it must hold.

    Parameters
    ----------
    path : path-like
    file : DataFile
    unchecked : bool
        Accept another digest (the publisher may have changed the file); rows and features must
        agree all the same.
    tell : callable
        Told the rows read so far.

    Returns
    -------
    str
        The digest found.

    Raises
    ------
    FileFormatError
        If the file does not parse or holds something else.
    """
    from kernelite.data.tables.data import iter_data

    rows = features = 0
    state = hashlib.sha256()
    for part in iter_data(path, format="libsvm", labels="required"):
        rows += part.rows.shape[0]
        features = max(features, part.n_features)
        if rows > file.rows:
            break  # however much more there is
        for piece in _numbers(part):
            state.update(piece)
        tell(rows)
    if (rows, features) != (file.rows, file.features):
        raise FileFormatError(
            path,
            f"has {rows:,} rows {'or more ' if rows > file.rows else ''}and {features:,} features, "
            f"but {file.name} has {file.rows:,} and {file.features:,}",
        )
    found = state.hexdigest()
    if file.digest not in (None, found) and not unchecked:
        raise FileFormatError(
            path,
            f"its numbers have the digest {found[:16]}..., but {file.name} has "
            f"{str(file.digest)[:16]}...: the file is damaged, or its publisher changed it",
        )
    return found


def _numbers(part: DataSet) -> Iterable[bytes]:
    """A row at a time: label, number of entries, indices and values, zeros left out.

    Copies print values with 6 to 17 digits; in single precision they are the same.
    """
    import numpy as np

    rows: Any = part.rows.copy()
    rows.eliminate_zeros()
    labels = np.asarray(part.labels, dtype="<f4")
    counts = np.diff(rows.indptr).astype("<i4")
    indices = rows.indices.astype("<i4")
    with np.errstate(over="ignore"):
        values = rows.data.astype("<f4")
    for i, (start, stop) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:])):
        yield labels[i : i + 1].tobytes() + counts[i : i + 1].tobytes()
        yield indices[start:stop].tobytes() + values[start:stop].tobytes()


# Not through pooch, which checks the digest of a file's bytes: LIBSVM's page and its mirrors pack
# the same numbers differently, so the digest that is known is that of the numbers. It would be one
# more dependency, and a limit on the length of what comes, redirects that stay with https and a
# full disk would still have to be looked after.


DOWNLOADED_BYTES = 2**18  # at once
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
