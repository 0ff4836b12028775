"""LIBSVM data text: lines `[label] index:value index:value ...` in, labels and CSR arrays out.

Indices start at 1 and rise along a row. `read_block` reads a block of whole lines by compiled code
on all cores; it gives None where any line is not right, or compiled code cannot be had. Then
`parse_block` gives the same rows by NumPy: it decides for a whole block at once whether its lines
are right, and takes the others apart token by token to say why.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.data.rows.inputs import FloatArray
from kernelite.data.tables.parsing import (
    DECIMAL,
    BadNumber,
    Line,
    Report,
    parse_float,
    parse_int,
    quote,
    right_lines,
)

__all__ = [
    "MAX_INDEX",
    "SparseBlock",
    "cut",
    "data_lines",
    "has_label",
    "joined",
    "pair_problems",
    "parse_block",
    "parse_rows",
    "read_block",
    "tokens_of",
]

MAX_INDEX = 2**31 - 2
"""Largest accepted index: LIBSVM's tools keep `largest index + 1` in a C int."""

FILLED = 1 / 3
"""Share of places that hold an entry from which on rows are given as a dense table."""

_ROW = rf"(?:[ \t]++[0-9]++:{DECIMAL})*+[ \t]*+"
_UNLABELLED = re.compile(rf"[ \t]*+[0-9]++:{DECIMAL}{_ROW}")
_TOKEN = re.compile(r"[^ \t]++")


@dataclass(frozen=True, slots=True)
class SparseBlock:
    """Consecutive rows of a LIBSVM file.

    Parameters
    ----------
    labels : ndarray of shape (n,) or None
        None when the file has no labels.
    indptr : ndarray of shape (n + 1,)
        Row i holds entries indptr[i] to indptr[i + 1].
    indices : ndarray of shape (nnz,), int32
        Columns, 0-based, rising within a row.
    values : ndarray of shape (nnz,)
        Finite doubles.

    Examples
    --------
    >>> block = parse_block([(1, "+1 2:0.5"), (2, "-1")], True, print)
    >>> block.labels, block.indptr, block.indices
    (array([ 1., -1.]), array([0, 1, 1]), array([1], dtype=int32))
    """

    labels: NDArray[np.float64] | None
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.indptr) - 1

    @property
    def width(self) -> int:
        """The largest index of any row, counted from 1."""
        return int(self.indices.max(initial=-1)) + 1

    def fills(self, width: int) -> bool:
        """Whether a dense table of that width has a place for every entry and few without one."""
        return self.width <= width and len(self.values) >= FILLED * self.n_rows * width

    def dense(self, width: int) -> NDArray[np.float64]:
        """The rows as a table; `width` is at least that of the block.

        Examples
        --------
        >>> parse_block([(1, "+1 2:0.5"), (2, "-1")], True, print).dense(3)
        array([[0. , 0.5, 0. ],
               [0. , 0. , 0. ]])
        """
        if jit_available():
            from kernelite.backends.cpu.kernels.densify import scattered

            return scattered(self.indptr, self.indices, self.values, width)
        table = np.zeros((self.n_rows, width))
        table[np.repeat(np.arange(self.n_rows), np.diff(self.indptr)), self.indices] = self.values
        return table


def cut(block: SparseBlock, most_rows: int) -> Iterator[SparseBlock]:
    """The block in parts of at most `most_rows` rows, which share its memory.

    Examples
    --------
    >>> block = parse_block([(1, "1 1:5"), (2, "1"), (3, "1 2:7")], True, print)
    >>> [part.values.tolist() for part in cut(block, 2)]
    [[5.0], [7.0]]
    """
    for start in range(0, block.n_rows, most_rows):
        indptr = block.indptr[start : start + most_rows + 1]
        entries = slice(indptr[0], indptr[-1])
        labels = None if block.labels is None else block.labels[start : start + most_rows]
        yield SparseBlock(labels, indptr - indptr[0], block.indices[entries], block.values[entries])


def joined(blocks: Sequence[SparseBlock]) -> SparseBlock:
    """One block of several, at least one: with labels, if they have any."""
    counts = np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)])
    labels = [block.labels for block in blocks if block.labels is not None]
    return SparseBlock(
        np.concatenate(labels) if labels else None,
        np.cumsum(counts, dtype=np.int64),
        np.concatenate([block.indices for block in blocks]),
        np.concatenate([block.values for block in blocks]),
    )


def data_lines(lines: Iterator[Line]) -> Iterator[Line]:
    """The lines that hold a row: comments (from `#`) cut off, blank lines left out.

    Parameters
    ----------
    lines : iterator of (int, str)
        Numbered lines of a file.

    Yields
    ------
    (int, str)
        Those with a row.

    Examples
    --------
    >>> list(data_lines(iter([(1, "# made by hand"), (2, " "), (3, "1 1:2 # three")])))
    [(3, '1 1:2 ')]
    """
    for number, text in lines:
        row = text.partition("#")[0]
        if row.strip(" \t"):
            yield number, row


def has_label(row: str) -> bool:
    """Whether a row starts with a label, that is, not with an `index:value` pair.

    Parameters
    ----------
    row : str
        A line of `data_lines`.

    Returns
    -------
    bool
        False for rows such as `3:0.5`.

    Examples
    --------
    >>> has_label("+1 3:0.5"), has_label("3:0.5")
    (True, False)
    """
    first = _TOKEN.search(row)
    return first is None or ":" not in first.group()


def parse_block(
    lines: Sequence[Line], labelled: bool, report: Report, n_features: int | None = None
) -> SparseBlock:
    """Parse rows; those with a defect are reported, in order, and left out.

    Parameters
    ----------
    lines : sequence of (int, str)
        Numbered lines as `data_lines` gives them.
    labelled : bool
        Whether every row must start with a label, or none may.
    report : callable
        Called with each `Defect`.
    n_features : int, optional
        Largest accepted index, when the width is known.

    Returns
    -------
    SparseBlock
        The rows without defects; values are correctly rounded, as by `float`.

    Examples
    --------
    >>> parse_block([(7, "1 1:0.5 2:nan")], True, lambda defect: print(defect.problem)).values
    feature `2`: value `nan` is not finite
    array([], dtype=float64)
    """
    largest = MAX_INDEX if n_features is None else min(n_features, MAX_INDEX)
    problems = partial(_problems, labelled=labelled, largest=largest)
    first, block = parse_rows(lines, int(labelled), largest, problems, report)
    return replace(block, labels=first[:, 0]) if labelled else block


def parse_rows(
    lines: Sequence[Line],
    n_first: int,
    largest: int,
    problems: Callable[[str], Iterable[tuple[str, str]]],
    report: Report,
) -> tuple[FloatArray, SparseBlock]:
    """Parse rows of `n_first` numbers, then pairs: a label of data, coefficients of a model.

    Parameters
    ----------
    lines : sequence of (int, str)
    n_first : int
    largest : int
        Largest accepted index.
    problems : callable
        Of a row that is not right: token and problem of each defect.
    report : callable
        Called with each `Defect`; rows that have one are left out.

    Returns
    -------
    (ndarray of shape (n, n_first), SparseBlock)
        The first numbers; the pairs.
    """
    first, block, good = _accept([row for _, row in lines], n_first, largest)
    if not good.all():
        kept = right_lines(lines, good.tolist(), problems, report)
        first, block, _ = _accept([row for _, row in kept], n_first, largest)
    return first, block


@cache
def _pattern(n_first: int) -> re.Pattern[str]:
    """A row that is right; possessive throughout, so that matching is linear."""
    if not n_first:
        return _UNLABELLED
    return re.compile(rf"[ \t]*+{DECIMAL}(?:[ \t]++{DECIMAL}){{{n_first - 1}}}+{_ROW}")


def _accept(
    rows: Sequence[str], n_first: int, largest: int
) -> tuple[FloatArray, SparseBlock, NDArray[np.bool_]]:
    """The rows that are right, and which these are; meaningful as a block when all are."""
    pattern = _pattern(n_first)
    good = np.array([pattern.fullmatch(row) is not None for row in rows], dtype=bool)
    kept = [row for row, fine in zip(rows, good) if fine]
    counts = np.array([row.count(":") for row in kept], dtype=np.int64)
    # NumPy converts each number by Python's own correctly rounded, locale-free routine.
    numbers = np.fromstring(" ".join(kept).replace(":", " "), dtype=np.float64, sep=" ")
    indptr = np.concatenate([[0], np.cumsum(counts)])
    starts = 2 * indptr[:-1] + n_first * np.arange(len(kept))
    where = starts[:, None] + np.arange(n_first)
    first, numbers = numbers[where], np.delete(numbers, where.ravel())
    indices, values = numbers[0::2], numbers[1::2]
    good[good] = _rows_in_range(first, indptr, indices, values, largest)
    with np.errstate(invalid="ignore"):  # indices out of range never leave this module
        zero_based = indices.astype(np.int32) - np.int32(1)
    return first, SparseBlock(None, indptr, zero_based, values.copy()), good


def _rows_in_range(
    first: FloatArray,
    indptr: NDArray[np.int64],
    indices: NDArray[np.float64],
    values: NDArray[np.float64],
    largest: int,
) -> NDArray[np.bool_]:
    """Which rows have finite numbers, and indices within range that rise."""
    bad = ~np.isfinite(values) | (indices < 1) | (indices > largest)
    with np.errstate(invalid="ignore"):  # inf - inf, for indices of 400 digits
        stuck = np.diff(indices) <= 0
    starts = indptr[1:-1]
    stuck[starts[(starts > 0) & (starts < len(indices))] - 1] = False  # from one row to the next
    bad[1:] |= stuck
    good = np.asarray(np.isfinite(first).all(axis=1))
    good[np.repeat(np.arange(len(good)), np.diff(indptr))[bad]] = False
    return good


def _problems(row: str, labelled: bool, largest: int) -> Iterator[tuple[str, str]]:
    tokens = tokens_of(row)
    if labelled:
        problem = _label_problem(tokens[0])
        if problem is not None:
            yield tokens[0], problem
        if ":" not in tokens[0]:
            del tokens[0]
    yield from pair_problems(tokens, largest)


def tokens_of(row: str) -> list[str]:
    """What stands between blanks and tabs."""
    return _TOKEN.findall(row)


def pair_problems(tokens: Iterable[str], largest: int) -> Iterator[tuple[str, str]]:
    """Token and problem of each that is no pair, or not in its place."""
    previous = 0
    for token in tokens:
        index_text, colon, value_text = token.partition(":")
        if not colon:
            yield token, f"{quote(token)} is not an `index:value` pair"
            continue
        try:
            previous = _index(index_text, previous, largest)
        except BadNumber as error:
            yield token, str(error)
        try:
            parse_float(value_text, f"feature {quote(index_text)}: value")
        except BadNumber as error:
            yield token, str(error)


def _label_problem(token: str) -> str | None:
    if ":" in token:
        return f"the label before {quote(token)} is missing"
    try:
        parse_float(token, "label")
    except BadNumber as error:
        if re.fullmatch(r"[^,]+(,[^,]+)+", token):
            return f"label {quote(token)} has a comma; rows of several labels are not accepted"
        return str(error)
    return None


def _index(text: str, previous: int, largest: int) -> int:
    if re.fullmatch(r"0+", text):
        raise BadNumber(f"index {quote(text)} is out of range, the first feature has index 1")
    if text.startswith("+"):
        raise BadNumber(f"index {quote(text)} has a sign")
    index = parse_int(text, "index", low=1, high=largest)
    if index <= previous:
        how = "appears twice" if index == previous else f"comes after `{previous}`"
        raise BadNumber(f"index {quote(text)} {how}, indices must rise along a row")
    return index


PIECE_BYTES = 1 << 18  # bytes a thread takes at a time
MOST_HARD = 1 << 14  # numbers of a piece that are left to `float`


@dataclass(frozen=True, slots=True)
class FastBlock:
    """Rows, whether they have labels, and the lines they came from."""

    rows: SparseBlock
    labelled: bool
    n_lines: int


def read_block(
    block: bytes, labelled: bool | None = None, n_features: int | None = None
) -> FastBlock | None:
    """Read whole lines, if all of them are right.

    Parameters
    ----------
    block : bytes
        The last line may lack its end.
    labelled : bool, optional
        Whether every row must start with a label, or none may; by default as the first row.
    n_features : int, optional
        Largest accepted index.

    Examples
    --------
    >>> read = read_block(b"+1 2:0.5\\n\\n-1 # empty\\n")
    >>> read.rows.labels, read.rows.indices, read.rows.values, read.n_lines
    (array([ 1., -1.]), array([1], dtype=int32), array([0.5]), 3)
    >>> read_block(b"+1 0:1\\n") is None
    True
    """
    if not jit_available():
        return None
    if labelled is None:
        labelled = _first_has_label(block)
    if not block.endswith(b"\n"):
        block += b"\n"
    ends = _piece_ends(block)
    pieces: list[tuple[SparseBlock, int] | None] = [None] * (len(ends) - 1)
    text = np.frombuffer(block, dtype=np.uint8)
    largest = MAX_INDEX if n_features is None else min(n_features, MAX_INDEX)

    def read(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            part = text[ends[number] : ends[number + 1]]
            pieces[number] = _read_piece(part, bool(labelled), largest)

    for_each_chunk(read, len(pieces), 1)
    good = [piece for piece in pieces if piece is not None]
    if len(good) < len(pieces):
        return None
    rows = joined([block for block, _ in good])
    return FastBlock(rows, labelled, sum(n_lines for _, n_lines in good))


def _first_has_label(block: bytes) -> bool:
    start = 0
    while start < len(block):
        end = block.find(b"\n", start) + 1 or len(block)
        row = block[start:end].partition(b"#")[0].strip()
        if row:
            # Only ASCII can be right, and only what is right matters here.
            return has_label(row.split()[0].decode("ascii", "replace"))
        start = end
    return True


def _piece_ends(block: bytes) -> list[int]:
    """Where pieces of about `PIECE_BYTES` bytes start and end, between lines."""
    ends = [0]
    while ends[-1] < len(block):
        end = block.find(b"\n", min(ends[-1] + PIECE_BYTES, len(block) - 1)) + 1
        ends.append(end)
    return ends


class _Room(threading.local):
    """Arrays that a thread uses again and again."""

    def __init__(self) -> None:
        self.size = 0

    def arrays(
        self, size: int
    ) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int32], FloatArray]:
        if self.size < size:
            self.labels, self.indptr = np.empty(size // 2 + 1), np.empty(size // 2 + 2, np.int64)
            self.indices, self.values = np.empty(size // 4 + 1, np.int32), np.empty(size // 4 + 1)
            self.size = size  # last: any of these may have failed for want of memory
        return self.labels, self.indptr, self.indices, self.values


_room = _Room()


def _read_piece(
    text: NDArray[np.uint8], labelled: bool, largest: int
) -> tuple[SparseBlock, int] | None:
    """The rows of whole lines, and how many lines these are; None if one is not right."""
    from kernelite.data.tables.libsvm_kernel import read_lines

    # Pieces of very long lines are not kept room for.
    arrays = (_room if len(text) <= 2 * PIECE_BYTES else _Room()).arrays(len(text))
    labels, indptr, indices, values = arrays
    hard, counts = np.empty((MOST_HARD, 3), np.int64), np.empty(4, np.int64)
    if not read_lines(text, labelled, largest, *arrays, hard, counts):
        return None
    n_rows, n_entries, n_hard, n_lines = counts.tolist()
    for start, end, entry in hard[:n_hard].tolist():
        number = float(text[start:end].tobytes())
        if not math.isfinite(number):
            return None
        if entry < 0:
            labels[-1 - entry] = number
        else:
            values[entry] = number
    rows = SparseBlock(
        labels[:n_rows].copy() if labelled else None,
        indptr[: n_rows + 1].copy(),
        indices[:n_entries].copy(),
        values[:n_entries].copy(),
    )
    return rows, n_lines
