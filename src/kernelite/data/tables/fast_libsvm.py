"""LIBSVM text read by compiled code on all cores: a block of whole lines in, a `SparseBlock` out.

None comes out where any line is not right, or compiled code cannot be had; `libsvm_data` then
reads the block and says what is wrong. Where a block comes out, it is what `libsvm_data` gives.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.data.rows.inputs import FloatArray
from kernelite.data.tables.libsvm_data import MAX_INDEX, SparseBlock, has_label

__all__ = ["FastBlock", "read_block"]

PIECE = 1 << 18  # bytes a thread takes at a time
MOST_HARD = 1 << 14  # numbers of a piece that are left to `float`


@dataclass(frozen=True, slots=True)
class FastBlock:
    """Rows, whether they have labels, and the lines they came from."""

    rows: SparseBlock
    labelled: bool
    n_lines: int


@dataclass(frozen=True, slots=True)
class _Piece:
    labels: FloatArray
    counts: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: FloatArray
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
    pieces: list[_Piece | None] = [None] * (len(ends) - 1)
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
    return FastBlock(_joined(good, labelled), labelled, sum(piece.n_lines for piece in good))


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
    """Where pieces of about `PIECE` bytes start and end, between lines."""
    ends = [0]
    while ends[-1] < len(block):
        end = block.find(b"\n", min(ends[-1] + PIECE, len(block) - 1)) + 1
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


def _read_piece(text: NDArray[np.uint8], labelled: bool, largest: int) -> _Piece | None:
    from kernelite.data.tables.libsvm_kernel import read_lines

    # Pieces of very long lines are not kept room for.
    arrays = (_room if len(text) <= 2 * PIECE else _Room()).arrays(len(text))
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
    return _Piece(
        labels[: n_rows if labelled else 0].copy(),
        np.diff(indptr[: n_rows + 1]),
        indices[:n_entries].copy(),
        values[:n_entries].copy(),
        n_lines,
    )


def _joined(pieces: list[_Piece], labelled: bool) -> SparseBlock:
    counts = np.concatenate([[0], *(piece.counts for piece in pieces)])
    return SparseBlock(
        np.concatenate([piece.labels for piece in pieces]) if labelled else None,
        np.cumsum(counts, dtype=np.int64),
        np.concatenate([piece.indices for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
    )
