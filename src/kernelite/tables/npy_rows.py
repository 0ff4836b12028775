"""Rows of a .npy file, read when they are asked for.

The file is not mapped: a mapping of a file that another program cuts short ends the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import FileFormatError
from kernelite.rows.inputs import FloatArray

__all__ = ["NpyRows"]


@dataclass(frozen=True, eq=False)
class NpyRows:
    """An open .npy file with two dimensions.

    Parameters
    ----------
    file : file object
        Open for reading bytes, seekable; to be closed by the owner.
    path : str
        For messages.
    offset : int
        Where the numbers begin.
    shape : (n, d)
    fortran : bool
        Whether columns, not rows, are contiguous.
    dtype : dtype
        Of real numbers.
    """

    file: IO[bytes]
    path: str
    offset: int
    shape: tuple[int, int]
    fortran: bool
    dtype: np.dtype[Any]

    def part(self, start: int, stop: int) -> FloatArray:
        """Rows `start` to `stop` (at most n), shape (stop - start, d)."""
        n, d = self.shape
        stop = min(stop, n)
        if not self.fortran:
            return self._numbers(start * d, (stop - start) * d).reshape(-1, d).astype(np.float64)
        rows = np.empty((stop - start, d))
        for column in range(d):
            rows[:, column] = self._numbers(column * n + start, stop - start)
        return rows

    def _numbers(self, first: int, count: int) -> NDArray[Any]:
        numbers = np.empty(count, self.dtype)
        try:
            self.file.seek(self.offset + first * self.dtype.itemsize)
            # The wire format of the buffer is bytes, whatever the dtype.
            done = self.file.readinto(numbers.view(np.uint8))  # type: ignore[attr-defined]
        except OSError as error:
            raise FileFormatError(
                self.path, f"cannot be read on ({error.strerror or error})"
            ) from None
        if done != numbers.nbytes:
            raise FileFormatError(self.path, "the file was cut short while it was read")
        return numbers
