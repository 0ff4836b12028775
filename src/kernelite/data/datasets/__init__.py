"""The paper's data sets: their names, where their files lie on this machine, what they must hold.

A file is known by a digest of its numbers, not of its bytes: copies differ in compression, blanks
and trailing digits. `kernelite.data.datasets.download` brings files that are absent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.files import cache_folder

if TYPE_CHECKING:
    from kernelite.data.tables.dataset import DataSet

__all__ = ["BASE", "FILES", "SETS", "DataFile", "cache_folder", "check", "files_of", "find"]

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
