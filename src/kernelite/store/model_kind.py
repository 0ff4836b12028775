"""Which kind of model a file holds, told by its first bytes: `.kernelite`, approxsvm or LIBSVM."""

from __future__ import annotations

import os
import re
import stat
from itertools import islice
from typing import Literal

from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import Defect, quote
from kernelite.support.errors import FileFormatError
from kernelite.support.files import STANDARD_INPUT, open_binary

__all__ = ["ModelKind", "model_kind"]

ModelKind = Literal["kernelite", "approxsvm", "libsvm"]

MOST_BLANK = 1000  # lines before the first word of a model
LIBSVM_KEYS = (
    *("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv"),
    *("rho", "label", "probA", "probB", "prob_density_marks", "nr_sv", "SV"),
)


def model_kind(path: str | os.PathLike[str], /) -> ModelKind:
    """Tell a model file's kind by its content, whatever its name.

    Parameters
    ----------
    path : path-like
        Text models may be plain, gzip or bzip2.

    Returns
    -------
    "kernelite", "approxsvm" or "libsvm"

    Raises
    ------
    FileFormatError
        If it is none of them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.model")
    ...     with open(name, "w") as file:
    ...         _ = file.write("svm_type c_svc\\n")
    ...     model_kind(name)
    'libsvm'
    """
    _check_regular(path)
    with open_binary(path) as file:
        start = file.read(9)
    # A safetensors file: the header's length as eight bytes, little-endian, then JSON.
    if start[5:] == b"\0\0\0{":
        return "kernelite"
    line = _first_line(path)
    if line.startswith("approximated SVM "):
        return "approxsvm"
    word = line.split(maxsplit=1)[0]
    if word in LIBSVM_KEYS:
        return "libsvm"
    problem = f"{quote(word)} begins no kind of model; {_EXPECTED}"
    if _LIBSVM_ROW.match(line):
        problem = f"this looks like LIBSVM data, not like a model; {_EXPECTED}"
    raise FileFormatError(path, problem, line=1)


def _check_regular(path: str | os.PathLike[str]) -> None:
    """Before it is opened: opening a pipe that nobody writes to waits for ever."""
    if os.fspath(path) == STANDARD_INPUT:
        raise FileFormatError(path, "a model is read from a regular file, not from standard input")
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # `open_binary` says what is wrong
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise FileFormatError(path, "a model is read from a regular file, not from a pipe")


_LIBSVM_ROW = re.compile(r"\S+(?:\s+[0-9]+:\S+)+\s*$")
_EXPECTED = "expected a .kernelite file, an approxsvm model or a LIBSVM model"


def _first_line(path: str | os.PathLike[str]) -> str:
    """The first line that is not blank."""
    defects: list[Defect] = []
    with Lines(path, report=defects.append) as lines:
        for _, text in islice(lines, MOST_BLANK):
            if defects:
                break
            if text.strip():
                return text
        compressed = lines.compression is not None
    if not defects:  # no lines, or only blank ones at its start
        raise FileFormatError(path, f"the file is empty; {_EXPECTED}")
    if compressed:
        raise FileFormatError(path, defects[0].problem, line=defects[0].line)
    raise FileFormatError(path, f"this is no model; {_EXPECTED}")
