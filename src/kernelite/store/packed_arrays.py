"""Arrays of texts, sparse arrays and special floats as the parts that a file can hold, and back.

The functions that build trust nothing: sizes are checked before anything is allocated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError

__all__ = ["check_no_nan", "csr_of", "float_of", "text_array", "texts_of"]

MAX_TEXT_BYTES = 2**24  # of one array: NumPy pads every text to the width of the dtype
MOST_COLUMNS = 2**31 - 1  # as in LIBSVM
SPECIAL_FLOATS = ("inf", "-inf", "nan")


def check_no_nan(array: NDArray[Any], path: str) -> None:
    """Refuse NaN; infinities are the owner's matter, since a bound may be infinite."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"`{path}` contains NaN.")


def float_of(tree: dict[str, Any], path: str) -> float:
    """The float that JSON has no number for."""
    if set(tree) != {"float"} or tree["float"] not in SPECIAL_FLOATS:
        raise InputError(f"`{path}` must be one of {', '.join(SPECIAL_FLOATS)}.")
    return float(tree["float"])


def texts_of(array: NDArray[Any], path: str) -> dict[str, Any]:
    """An array of texts, of dtype str or object, as a list and its width.

    Examples
    --------
    >>> texts_of(np.array(["no", "yes"]), "classes")
    {'texts': ['no', 'yes'], 'width': 3}
    """
    texts = array.tolist()
    if array.ndim != 1 or not all(isinstance(text, str) for text in texts):
        raise InputError(f"`{path}` must be a list of texts or an array of numbers to be stored.")
    width = None if array.dtype.kind == "O" else array.dtype.itemsize // 4
    _check_letters(texts, path)
    if width is not None and _too_wide(len(texts), width):
        raise InputError(f"the texts of `{path}` are too long to be stored.")
    return {"texts": [str(text) for text in texts], "width": width}


def text_array(tree: dict[str, Any], path: str) -> NDArray[Any]:
    """Back from `texts_of`.

    Examples
    --------
    >>> text_array({"texts": ["no", "yes"], "width": 3}, "classes")
    array(['no', 'yes'], dtype='<U3')
    """
    texts, width = tree["texts"], tree.get("width")
    sound = (
        set(tree) == {"texts", "width"}
        and isinstance(texts, list)
        and all(isinstance(text, str) for text in texts)
    )
    if not sound or not (width is None or (type(width) is int and width >= 0)):
        raise InputError(f"`{path}` must be a list of texts and their width.")
    _check_letters(texts, path)
    if width is None:
        return np.array(texts, dtype=object)
    if _too_wide(len(texts), width) or any(len(text) > width for text in texts):
        raise InputError(f"the texts of `{path}` do not fit the width {width}.")
    return np.array(texts, dtype=f"U{width}")


def csr_of(parts: tuple[NDArray[Any], ...], shape: Any, path: str) -> Any:
    """A canonical csr_array of data, indices and indptr, or an error that says what is wrong.

    Examples
    --------
    >>> parts = np.array([5.0]), np.array([2]), np.array([0, 1])
    >>> csr_of(parts, [1, 3], "centers").toarray()
    array([[0., 0., 5.]])
    """
    from scipy.sparse import csr_array

    data, indices, indptr = parts
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)):
        raise InputError(f"`{path}` must give its rows and columns.")
    rows, columns = shape
    if columns > MOST_COLUMNS:
        raise InputError(f"`{path}` has {columns} columns, expected at most {MOST_COLUMNS}.")
    if any(part.ndim != 1 for part in parts) or len(data) != len(indices):
        raise InputError(f"`{path}` must have as many indices as values.")
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or data.dtype.kind != "f":
        raise InputError(f"`{path}` must have floats as values and integers as indices.")
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(data):
        raise InputError(f"`indptr` of `{path}` does not describe {rows} rows.")
    if (np.diff(indptr) < 0).any():
        raise InputError(f"`indptr` of `{path}` decreases.")
    if len(indices) and not (indices.min() >= 0 and indices.max() < columns):
        raise InputError(f"`{path}` has an index outside its {columns} columns.")
    built = csr_array((data, indices, indptr), shape=(rows, columns))
    if not built.has_canonical_format:
        raise InputError(f"`{path}` has unsorted or duplicate indices.")
    return built


def _too_wide(count: int, width: int) -> bool:
    return 4 * count * width > MAX_TEXT_BYTES


def _check_letters(texts: list[str], path: str) -> None:
    """Refuse half of a surrogate pair: no file and no terminal can be written with it."""
    for text in texts:
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"`{path}` holds {text[:50]!a}, which is not Unicode text.")
