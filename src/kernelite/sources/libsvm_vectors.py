"""The support vectors of a LIBSVM model: a line each, coefficients first, then index:value pairs.

In: the lines after `SV`. Out: coefficients (n, K - 1) and the vectors as the three arrays of a CSR
matrix. Lines that match one regular expression are converted many at a time; only what is left is
read token by token, to say what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import (
    C_INT,
    DECIMAL,
    BadNumber,
    Defect,
    Report,
    parse_float,
    parse_int,
    quote,
)

if TYPE_CHECKING:
    from kernelite.data.rows.inputs import Rows

__all__ = ["Vectors", "read_vectors"]

BATCH_CHARACTERS = 2**20  # of text converted at once: its tokens take about 30 MB
DENSE_NUMBERS = 2**25  # 256 MB
DENSE_RATIO = 64
ALWAYS_DENSE_NUMBERS = 2**17  # 1 MB


@dataclass(frozen=True, eq=False)
class Vectors:
    """Support vectors as read, in compressed rows.

    Parameters
    ----------
    coefficients : ndarray of shape (n, K - 1)
    values : ndarray of shape (nnz,)
    columns : ndarray of shape (nnz,)
        Zero-based, increasing within a row.
    starts : ndarray of shape (n + 1,), int64
        Where each row begins in `values` and `columns`.
    """

    coefficients: FloatArray
    values: FloatArray
    columns: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def n_features(self) -> int:
        """The largest index that occurs."""
        return int(self.columns.max()) + 1 if self.columns.size else 0

    def rows(self) -> Rows:
        """The vectors, dense if that takes little memory for what the file holds, else sparse.

        Dense means at most 256 MB, and at most 64 numbers for each one in the file (a megabyte
        is always granted): a short line with a large index must not ask for gigabytes.
        """
        n, d = len(self.starts) - 1, self.n_features
        granted = max(DENSE_RATIO * self.values.size, ALWAYS_DENSE_NUMBERS)
        if n * d <= min(DENSE_NUMBERS, granted):
            dense = np.zeros((n, d))
            dense[np.repeat(np.arange(n), np.diff(self.starts)), self.columns] = self.values
            return dense
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=(n, d))


def read_vectors(lines: Lines, n_coefficients: int | None, total: int | None) -> Vectors:
    """Read the lines after `SV` to the end of the file.

    Parameters
    ----------
    lines : Lines
        After the header; its `report` receives the defects, at most one a line.
    n_coefficients : int or None
        Numbers before the first pair of each line; None (when the header is broken) for any.
    total : int or None
        How many vectors the header promises.

    Returns
    -------
    Vectors
        Of the lines without defects.
    """
    shape = _line_shape(n_coefficients)
    parts = [_convert([], n_coefficients or 0)]
    late: list[Defect] = []  # those of the whole, told after those of earlier lines
    for batch in _batches(_counted(lines, total, late.append)):
        texts = [
            text if shape.fullmatch(text) else _careful(lines, number, text, n_coefficients)
            for number, text in batch
        ]
        if n_coefficients is None:
            continue  # nothing can be built; the lines were only checked
        part = _convert(texts, n_coefficients)
        if not _sound(part):
            # Rare, so the batch may be read once more, line by line.
            texts = [
                _careful(lines, number, text, n_coefficients) if text else ""
                for (number, _), text in zip(batch, texts)
            ]
            part = _convert(texts, n_coefficients)
        parts.append(part)
    for defect in late:
        lines.report(defect)
    return _joined(parts)


def _line_shape(n_coefficients: int | None) -> re.Pattern[str]:
    """What a well-formed line looks like; possessive throughout, so matching is linear."""
    if n_coefficients is None:
        coefficients = rf"{DECIMAL}(?:[ \t]++{DECIMAL}(?![:0-9.eE]))*+"
    else:
        coefficients = rf"{DECIMAL}(?:[ \t]++{DECIMAL}){{{n_coefficients - 1}}}+"
    return re.compile(rf"[ \t]*+{coefficients}(?:[ \t]++[0-9]{{1,10}}+:{DECIMAL})*+[ \t]*+")


def _counted(lines: Lines, total: int | None, report: Report) -> Iterator[tuple[int, str]]:
    """The lines of vectors: as many as promised, the last one whole, none empty among them."""
    count, number, blank, last = 0, None, None, ""
    for number, text in lines:
        if not text.strip(" \t"):
            blank = blank or number
            continue
        if blank is not None:
            report(Defect(blank, None, "an empty line, expected a support vector"))
            blank = None
        if count == total:
            report(Defect(number, None, f"more support vectors than `total_sv` promises ({total})"))
            return
        count += 1
        last = text
        yield number, text
    if count and not lines.ended:
        token = re.split(r"[ \t]+", last.strip(" \t"))[-1]
        problem = f"the file ends at {quote(token)} within a line, so it was cut short"
        report(Defect(number, token, f"{problem}; if it is complete, end it with a newline"))
    if total is not None and count < total:
        problem = f"the file ends after {count} support vectors, but `total_sv` promises {total}"
        report(Defect(number, None, problem))


def _batches(lines: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    batch: list[tuple[int, str]] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line[1])
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _convert(texts: list[str], n_coefficients: int) -> Vectors:
    """Vectors of well-formed lines; columns may still be unsorted, or values infinite."""
    texts = [text for text in texts if text]
    pairs = np.array([text.count(":") for text in texts], dtype=np.int64)
    tokens = " ".join(texts).replace(":", " ").split()
    numbers = np.fromiter(map(float, tokens), np.float64, len(tokens))
    ends = np.cumsum(n_coefficients + 2 * pairs)
    first = (ends - n_coefficients - 2 * pairs)[:, None] + np.arange(n_coefficients)
    coefficients = numbers[first]
    rest = np.delete(numbers, first.reshape(-1))  # index, value, index, value, ...
    columns = np.clip(rest[0::2], 0, C_INT + 1).astype(np.int64) - 1
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(pairs)])
    return Vectors(coefficients, rest[1::2].copy(), columns, starts)


def _sound(part: Vectors) -> bool:
    """Whether indices are in range and increase along each row, and all numbers are finite."""
    if not (np.isfinite(part.coefficients).all() and np.isfinite(part.values).all()):
        return False
    if part.columns.size == 0:
        return True
    rising = np.ones(part.columns.size + 1, dtype=np.bool_)
    np.greater(part.columns[1:], part.columns[:-1], out=rising[1:-1])
    rising[part.starts] = True  # the first pair of a row follows nothing
    return bool(rising.all() and part.columns.min() >= 0 and part.columns.max() < C_INT)


def _joined(parts: list[Vectors]) -> Vectors:
    offsets = np.cumsum([0, *(part.values.size for part in parts)])
    starts = [part.starts[1:] + offset for part, offset in zip(parts, offsets)]
    return Vectors(
        np.concatenate([part.coefficients for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([np.zeros(1, np.int64), *starts]),
    )


def _careful(lines: Lines, number: int, text: str, n_coefficients: int | None) -> str:
    """The line in plain form, or an empty one after reporting its first defect."""
    try:
        coefficients, pairs = _parse_line(text, n_coefficients)
    except BadNumber as error:
        lines.report(Defect(number, None, str(error)))
        return ""
    return " ".join([*map(repr, coefficients), *(f"{i}:{x!r}" for i, x in pairs.items())])


def _parse_line(text: str, n_coefficients: int | None) -> tuple[list[float], dict[int, float]]:
    """One line read token by token, slowly; `BadNumber` says what is wrong with it."""
    tokens = text.replace("\t", " ").split(" ")
    tokens = [token for token in tokens if token]
    if n_coefficients is None:
        n_coefficients = next((i for i, t in enumerate(tokens) if ":" in t), len(tokens)) or 1
    coefficients = []
    for place, token in enumerate(tokens[:n_coefficients]):
        if ":" in token:
            found = f"{quote(token)} where coefficient {place + 1} of {n_coefficients} should be"
            raise BadNumber(found)
        coefficients.append(parse_float(token, "coefficient"))
    if len(coefficients) < n_coefficients:
        raise BadNumber(f"the line has {len(coefficients)} coefficients of {n_coefficients}")
    pairs: dict[int, float] = {}
    last = 0
    for token in tokens[n_coefficients:]:
        index, colon, value = token.partition(":")
        if not (index and colon and value):
            raise BadNumber(f"{quote(token)} is not an `index:value` pair")
        at = parse_int(index, "index", low=1, high=C_INT)
        if at <= last:
            why = "is there twice" if at in pairs else f"comes after {last}"
            raise BadNumber(f"index {quote(index)} {why}, expected increasing indices")
        pairs[at] = parse_float(value, "value")
        last = at
    return coefficients, pairs
