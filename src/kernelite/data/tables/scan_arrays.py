"""Array files walked in parts; entries that are not finite go to a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from kernelite.data.rows.inputs import Rows, is_sparse
from kernelite.data.tables.arrays import NpyRows, open_npy, read_npz
from kernelite.data.tables.dataset import DataSet
from kernelite.data.tables.parsing import Defect, Report
from kernelite.support.errors import FileFormatError

__all__ = ["scan_arrays"]

_MOST_DEFECTS = 100  # listed for one part


def scan_arrays(
    path: str,
    kind: Literal["npy", "npz"],
    report: Report,
    chunk_rows: int | None = None,
    n_features: int | None = None,
) -> Iterator[DataSet]:
    """Walk a .npy or .npz file in parts.

    Parameters
    ----------
    path : str
        The file.
    kind : "npy" or "npz"
        What it is.
    report : callable
        Called with a `Defect` for each entry that is not finite; a part with one is left out.
    chunk_rows : int, optional
        Most rows of a part; by default there is one part.
    n_features : int, optional
        The width that dense rows must have; the least that sparse ones have.

    Yields
    ------
    DataSet
        Consecutive rows, float64.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(folder + "/a.npy", np.arange(6).reshape(3, 2))
    ...     [part.first_row for part in scan_arrays(folder + "/a.npy", "npy", print, 2)]
    [0, 2]
    """
    with open_npy(path) if kind == "npy" else nullcontext(read_npz(path)) as rows:
        yield from _parts(rows, path, kind, report, chunk_rows, n_features)


def _parts(
    rows: NpyRows | Any,
    path: str,
    kind: Literal["npy", "npz"],
    report: Report,
    chunk_rows: int | None,
    n_features: int | None,
) -> Iterator[DataSet]:
    n, d = rows.shape
    if n_features is not None and (d > n_features or (d < n_features and kind == "npy")):
        raise FileFormatError(path, f"the rows have {d} features, expected {n_features}")
    step = chunk_rows or max(n, 1)
    for start in range(0, max(n, 1), step):
        part = _part(rows, start, start + step)
        if _all_finite(part, start, report):
            data = DataSet(part, None, path, kind, first_row=start)
            if kind == "npz" and n_features is not None:
                data = DataSet(data.fit_width(n_features)[0], None, path, kind, first_row=start)
            yield data


def _part(rows: NpyRows | Any, start: int, stop: int) -> Rows:
    if isinstance(rows, NpyRows):
        return rows.part(start, stop)
    whole: Rows = rows if start == 0 and stop >= rows.shape[0] else rows[start:stop]
    return whole


def _all_finite(part: Rows, first_row: int, report: Report) -> bool:
    values = part.data if is_sparse(part) else part
    bad = ~np.isfinite(values)
    if not bad.any():
        return True
    if is_sparse(part):
        entries = np.flatnonzero(bad)
        row_of = np.searchsorted(part.indptr, entries, side="right") - 1
        column_of = part.indices[entries]
    else:
        row_of, column_of = np.nonzero(bad)
    for row, column, value in zip(row_of, column_of, values[bad][:_MOST_DEFECTS]):
        place = f"row {row + first_row}, column {column} (both from 0)"
        report(Defect(None, str(value), f"{place} holds `{value}`, expected finite numbers"))
    if len(row_of) > _MOST_DEFECTS:
        more = f"{len(row_of) - _MOST_DEFECTS} more entries that are not finite"
        report(Defect(None, None, f"there are {more} from row {first_row} on"))
    return False
