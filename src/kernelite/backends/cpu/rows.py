"""Rows on their way through the stages: how many at a time, made dense, or wider than the model.

Memory is bounded by blocks, and all threads have work.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.threads import share_rows, thread_count
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse, row_blocks
from kernelite.machine.affine import AffineMap
from kernelite.program.bounded import Bounded, spelled_out
from kernelite.program.cascade import Asked, Cascade, Found, Room, Stage
from kernelite.program.criteria import Criterion
from kernelite.series.rounding import LOST_TERMS, SAFETY, UNIT
from kernelite.series.series import SeriesForm
from kernelite.support.records import dataclass

__all__ = [
    "BLOCK_ELEMENTS",
    "Damped",
    "MappedRows",
    "OutsideRows",
    "as_dense",
    "blocks_of",
    "damp_one",
    "damped",
    "keep_pages",
    "shared_out",
]

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
    shape: tuple[int, int], n_outputs: int, *, exact: bool, straight: bool, values: bool
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


# Sparse rows, and rows behind an affine map, made dense where an engine asks for them.
#
# The map is applied just as a form reads the rows: a mapped block would travel to memory and back,
# so a folded scaler costs little. The arithmetic is that of `AffineMap`, or rounds once less.


@dataclass(frozen=True, eq=False)
class MappedRows:
    """What `input_map` makes of dense rows of shape (m, d), when it is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> rows = MappedRows(np.array([[3.0, 5.0], [1.0, 2.0]]), AffineMap([2.0, 1.0], [1.0, 0.0]))
    >>> rows[[1]]
    array([[0., 2.]])
    """

    rows: FloatArray
    input_map: AffineMap

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self.rows), self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> FloatArray:
        """Some rows, mapped."""
        return self._mapped(self.rows[index])

    def _mapped(self, rows: FloatArray) -> FloatArray:
        if not jit_available():
            return self.input_map(rows)
        from kernelite.backends.cpu.kernels.densify import map_rows

        return map_rows(self.input_map, rows)


def as_dense(rows: Rows | MappedRows) -> FloatArray:
    """Rows as a dense array, on all threads where kernels can be had."""
    if isinstance(rows, MappedRows):
        return rows[:]
    if not is_sparse(rows):
        return rows
    if not jit_available():
        return np.asarray(rows.toarray())
    from kernelite.backends.cpu.kernels.densify import dense_rows

    return dense_rows(rows)


# Rows with features beyond a model's width, in which all centers are zero.
#
# With beta the squared norm of those features, an RBF kernel value is e^(-gamma beta) times the one
# without them, so that
#
#     f(z) = E (f(z_in) - b) + b,    E = e^(-gamma beta)
#
# one damping of scores and bounds. E errs by (eta + 2u) gamma beta + 2u relatively where beta errs
# by eta, and what follows rounds four times. `Damped` takes rows through the stages; `damp_one` is
# the same for one score, without arrays.


@dataclass(frozen=True, eq=False)
class OutsideRows:
    """Rows at the model's width, and what lies beyond it.

    Parameters
    ----------
    rows : ndarray or csr_array of shape (m, d)
    sq_norms : ndarray of shape (m,)
        beta, possibly infinite.
    error : float
        eta, relative.
    """

    rows: Any
    sq_norms: FloatArray
    error: float

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return self.rows.shape[0], self.rows.shape[1]

    def __getitem__(self, index: Any) -> OutsideRows:
        return OutsideRows(self.rows[index], self.sq_norms[index], self.error)


def damp_one(
    score: float, bound: float, gamma: float, intercept: float, outside: OutsideRows
) -> tuple[float, float]:
    """One row's score and bound, damped; as `Damped.defined`.

    Examples
    --------
    >>> row = OutsideRows(np.zeros((1, 2)), np.array([2.0]), 1e-15)
    >>> damp_one(3.0, 0.5, 0.5 * math.log(2.0), 1.0, row)[0]
    2.0
    """
    exponent = min(gamma * outside.sq_norms.item(), 1e300)
    E, above = math.exp(-exponent), score - intercept
    out = E * above + intercept if E > 0.0 else intercept
    relative = (outside.error + 4.0 * UNIT) * min(exponent, 800.0) + 8.0 * UNIT
    rounding = E * abs(above) * relative + 4.0 * UNIT * (abs(intercept) + abs(out))
    own = E * bound * (1.0 + 1e-12)
    return out, own + SAFETY * rounding + LOST_TERMS * (1.0 + abs(above) + bound)


def damped(cascade: Cascade, gamma: float, intercept: FloatArray, form: Any) -> Cascade:
    """The same stages for `OutsideRows`; `form` is the first one, where there is one."""
    stages = tuple(Damped(stage, gamma, intercept, form) for stage in cascade.stages)
    return Cascade(stages, cascade.answers_all)


@dataclass(frozen=True, eq=False)
class Damped:
    """A stage of an RBF machine, for rows with features beyond its width."""

    stage: Stage
    gamma: float
    intercept: FloatArray
    form: SeriesForm | None

    @property
    def name(self) -> str:
        """What statistics call it."""
        return self.stage.name

    @property
    def accepts_all(self) -> bool:
        """As the stage does."""
        return self.stage.accepts_all

    def run(
        self, rows: OutsideRows, criterion: Asked, previous: Found = None, into: Room = None
    ) -> Found:
        """Scores and bounds of the stage, damped.

        Criteria are for damped scores. Where one asks for a label alone it shows, nevertheless,
        that few digits are enough.
        """
        few_digits = criterion is not None and criterion.labels_alone and len(self.intercept) == 1
        found = self.stage.run(rows.rows, criterion if few_digits else None, None)
        if found is None:
            return None
        bounds = None if found.bounds is None else spelled_out(found.bounds)
        scores, bounds = self._damp(rows, found.scores, bounds)
        valid = found.valid
        if self.form is not None and found.sq_norms is not None:
            valid = self.form.valid(found.sq_norms + rows.sq_norms)
        return Bounded(scores, bounds, found.sq_norms, valid=valid)

    def bound(self, rows: OutsideRows, criterion: Criterion | None) -> FloatArray | None:
        """The stage's own bound, damped, and the rounding of that."""
        bounds = self.stage.bound(rows.rows, None)
        found = None if bounds is None else self.stage.run(rows.rows, None, None)
        return None if found is None else self._damp(rows, found.scores, bounds)[1]

    def _damp(
        self, rows: OutsideRows, scores: FloatArray, bounds: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        if not jit_available():
            return self.defined(rows, scores, bounds)
        from kernelite.backends.cpu.kernels.judging import damp_rows, rows_per_thread

        damped, own = scores.copy(), None if bounds is None else bounds.copy()
        share_rows(
            *(damp_rows, len(damped), rows_per_thread(damped.shape[1])),
            *(rows.sq_norms, self.intercept),
            *(self.gamma, rows.error, damped, np.empty((0, 0)) if own is None else own),
        )
        return damped, own

    def defined(
        self, rows: OutsideRows, scores: FloatArray, bounds: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Scores and bounds, damped."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            exponent = np.minimum(self.gamma * rows.sq_norms, 1e300)[:, None]
            E = np.exp(-exponent)
            above = scores - self.intercept
            out = np.where(E == 0.0, 0.0, E * above) + self.intercept
            if bounds is None:
                return out, None
            relative = (rows.error + 4.0 * UNIT) * np.minimum(exponent, 800.0) + 8.0 * UNIT
            own = np.where(E == 0.0, 0.0, E * bounds) * (1.0 + 1e-12)
            rounding = np.where(E == 0.0, 0.0, E * np.abs(above) * relative)
            rounding += 4.0 * UNIT * (np.abs(self.intercept) + np.abs(out))
            total = own + SAFETY * rounding + LOST_TERMS * (1.0 + np.abs(above) + bounds)
        return out, np.where(np.isnan(total), np.inf, total)
