"""How many rows go through the stages at a time: memory is bounded, and all threads have work."""

from __future__ import annotations

from functools import cache

import numpy as np

from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import row_blocks

__all__ = ["BLOCK_ELEMENTS", "blocks_of", "keep_pages", "shared_out"]

BLOCK_ELEMENTS = 1 << 21  # numbers of one block of rows: 16 MB
# The exact engine is slow enough for small blocks, whose scores need no fresh pages.
EXACT_ELEMENTS, FEWEST_ROWS = 1 << 17, 512
# Of few outputs, larger ones: what is done once for each keeps the interpreter's lock.
LEAST_BLOCKS, SHARED_ELEMENTS, FEWEST_SHARED_ROWS, MOST_SHARED_ROWS = 8, 1 << 19, 1024, 2048
MOST_ROWS_PER_BLOCK = 1 << 16  # of a block: so that scores and bounds stay in cache too
FORM_ROWS = 1 << 18  # of one output's form: each block costs time in which all threads but one wait
# A thread takes so many rows or more through the whole cascade, since each block costs some time
# that other threads wait for.
SHARED_ROWS = 4096


@cache
def keep_pages() -> None:
    """Have the memory of a block kept for the next one.

    glibc gives arrays of 128 KB and more back to the system, and takes new pages for the next ones,
    which may take as long as a form does: until one so large as a block's has been freed. So one
    is, of which no page is touched.
    """
    np.empty(BLOCK_ELEMENTS)


def blocks_of(
    shape: tuple[int, int],
    n_outputs: int,
    *,
    exact: bool,
    straight: bool,
    values: bool,
) -> list[slice]:
    """Blocks of rows of a shape.

    Parameters
    ----------
    shape : (rows, features)
    n_outputs : int
        1 where engines share rows out themselves.
    exact : bool
        Whether no stage comes before the exact ones.
    straight : bool
        Whether the exact engine's scores need no room.
    values : bool
        Whether nothing else is made of the scores: votes take longer to start than a block of few
        rows lasts.

    Examples
    --------
    >>> blocks_of((100_000, 20), 1, exact=True, straight=False, values=False)
    [slice(0, 65536, None), slice(65536, 100000, None)]
    >>> [len(blocks_of((m, 20), 190, exact=True, straight=False, values=False))
    ...  for m in (1_000, 4_000, 20_000, 200_000)]
    [1, 4, 10, 98]
    """
    m, d = shape[0], max(shape[1], 1)
    if n_outputs == 1 and m * max(d, 4) <= BLOCK_ELEMENTS and m <= MOST_ROWS_PER_BLOCK:
        return [slice(0, m)]
    if exact:
        # Not too few: those that single precision leaves open are summed again, together.
        small = EXACT_ELEMENTS // (4 * n_outputs)
        # Not a matter of threads: which stage a block takes for values hangs on its rows.
        large = straight or n_outputs == 1
        count = max(FEWEST_ROWS, min(BLOCK_ELEMENTS // d, MOST_ROWS_PER_BLOCK if large else small))
        if not large:
            room = min(MOST_SHARED_ROWS, SHARED_ELEMENTS // n_outputs)
            count = max(count, min(room, max(FEWEST_SHARED_ROWS, m // (8 * LEAST_BLOCKS) * 8)))
    elif n_outputs == 1:
        # Rows are read where they are: only those that a form leaves open are copied.
        count = min(FORM_ROWS, max(64, 2 * BLOCK_ELEMENTS // max(d, 4)))
    else:
        # Of scores and bounds there are several copies at a time.
        count = min(MOST_ROWS_PER_BLOCK, max(64, BLOCK_ELEMENTS // max(d, 4 * n_outputs)))
        if values:
            count = min(count, max(FEWEST_ROWS, MOST_ROWS_PER_BLOCK // n_outputs))
    if n_outputs == 1:
        return list(row_blocks(m, count)) or [slice(0, 0)]
    return shared_out(m, count)


def shared_out(n_rows: int, most: int) -> list[slice]:
    """Blocks of at most so many rows; of many rows, as many blocks for each thread.

    Examples
    --------
    >>> from kernelite.backends.cpu.threads import limit_threads
    >>> with limit_threads(2):
    ...     [len(shared_out(n, 1 << 16)) for n in (0, 100, 2000, 8192, 100_000)]
    [1, 1, 1, 2, 4]
    """
    threads, least = thread_count(), min(SHARED_ROWS, most)
    if threads > 1 and n_rows >= threads * least:
        room = max(least, most // threads)  # all threads together need no more than one would
        turns = max(2, -(-n_rows // (threads * room)))
        most = max(least, -(-n_rows // (8 * threads * turns)) * 8)
    return list(row_blocks(n_rows, most)) or [slice(0, 0)]
