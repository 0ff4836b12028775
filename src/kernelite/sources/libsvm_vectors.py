"""The support vectors of a LIBSVM model: a line each, coefficients first, then index:value pairs.

In: the lines after `SV`, which are those of data files with K - 1 numbers in the label's place.
Out: these numbers, and the vectors as sparse rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.data.tables.dataset import make_csr
from kernelite.data.tables.libsvm_data import (
    SparseBlock,
    joined,
    pair_problems,
    parse_rows,
    tokens_of,
)
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import (
    C_INT,
    BadNumber,
    Defect,
    Report,
    chunked,
    parse_float,
    quote,
)

__all__ = ["read_vectors", "rows_of"]

BATCH_CHARACTERS = 2**20  # of text converted at once
DENSE_NUMBERS = 2**25  # 256 MB
DENSE_RATIO = 64
ALWAYS_DENSE_NUMBERS = 2**17  # 1 MB
SIGN = re.compile(r"\+(?<=[ \t]\+)(?=[0-9]++:)")  # of an index, which LIBSVM takes in its models


def read_vectors(
    lines: Lines, n_coefficients: int | None, total: int | None
) -> tuple[FloatArray, SparseBlock]:
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
    (ndarray of shape (n, n_coefficients), SparseBlock)
        Of the lines without defects.
    """
    problems = partial(_first_problem, n_coefficients=n_coefficients)
    parts = [parse_rows([], n_coefficients or 0, C_INT, problems, lines.report)]
    late: list[Defect] = []  # those of the whole, told after those of earlier lines
    for batch in chunked(_counted(lines, total, late.append), BATCH_CHARACTERS):
        if n_coefficients is not None:
            parts.append(parse_rows(batch, n_coefficients, C_INT, problems, lines.report))
            continue
        for number, text in batch:  # nothing can be built; the lines are only checked
            for token, problem in problems(text):
                lines.report(Defect(number, token, problem))
    for defect in late:
        lines.report(defect)
    return np.concatenate([first for first, _ in parts]), joined([block for _, block in parts])


def rows_of(block: SparseBlock) -> Rows:
    """The vectors, dense if that takes little memory for what the file holds, else sparse.

    Dense means at most 256 MB, and at most 64 numbers for each one in the file (a megabyte
    is always granted): a short line with a large index must not ask for gigabytes.
    """
    granted = max(DENSE_RATIO * block.values.size, ALWAYS_DENSE_NUMBERS)
    if block.n_rows * block.width <= min(DENSE_NUMBERS, granted):
        return block.dense(block.width)
    return make_csr(block.values, block.indices, block.indptr, block.width)


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
        yield number, SIGN.sub("", text)
    if count and not lines.ended:
        token = tokens_of(last)[-1]
        problem = f"the file ends at {quote(token)} within a line, so it was cut short"
        report(Defect(number, token, f"{problem}; if it is complete, end it with a newline"))
    if total is not None and count < total:
        problem = f"the file ends after {count} support vectors, but `total_sv` promises {total}"
        report(Defect(number, None, problem))


def _first_problem(row: str, n_coefficients: int | None) -> Iterator[tuple[str, str]]:
    return islice(_problems(tokens_of(row), n_coefficients), 1)


def _problems(tokens: list[str], n_coefficients: int | None) -> Iterator[tuple[str, str]]:
    if n_coefficients is None:
        n_coefficients = next((i for i, t in enumerate(tokens) if ":" in t), len(tokens)) or 1
    for place, token in enumerate(tokens[:n_coefficients]):
        if ":" in token:
            yield (
                token,
                f"{quote(token)} where coefficient {place + 1} of {n_coefficients} should be",
            )
        try:
            parse_float(token, "coefficient")
        except BadNumber as error:
            yield token, str(error)
    if len(tokens) < n_coefficients:
        yield tokens[-1], f"the line has {len(tokens)} coefficients of {n_coefficients}"
    yield from pair_problems(tokens[n_coefficients:], C_INT)
