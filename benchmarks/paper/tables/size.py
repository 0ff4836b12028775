"""Table 3: size."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.printed import PRINTED, Printed
from benchmarks.paper.tables.table import NOTHING, Table, count, name_of, notes_of, ratio, size

__all__ = ["size_table"]


def size_table(document: dict[str, Any]) -> Table:
    """A row a model; in each cell how many times smaller, and the size."""
    columns = ["set", "d", "SVs", "exact text, paper", "exact text", "form's text, paper"]
    columns.append("approxsvm's text")
    columns += ["the same, 17 digits", ".kernelite", ".kernelite, truncated", "with SVs, certified"]
    rows = []
    for one in document["sizes"]:
        cells = [name_of(one), f"{one['features']:,}", count(one["support_vectors"])]
        printed = PRINTED.get(one["name"])
        cells += [NOTHING if printed is None else printed.exact_size or NOTHING]
        cells += [size(one["exact_text"]), _printed(printed), _tool(one)]
        cells += [_cell(one, name) for name in ("approxsvm", "full", "truncated", "certified")]
        rows.append(cells)
    solved = {one["solved_rows"] for one in document["sizes"] if one.get("solved_rows")}
    squares = [
        f"Least squares: coefficients are solved for the first {n:,} rows and extended to the "
        "others by their residuals, which is enough for sizes and for nothing else."
        for n in sorted(solved)
    ]
    return Table(
        "Table 3: size",
        "How many times smaller than LIBSVM's text of the exact model, and the size. approxsvm's "
        "text: what the authors' program writes, six digits per number; kernelite writes the same "
        "format with 17, which lose nothing. `.kernelite`: the compiled form, in binary doubles. "
        "Truncated: only the leading directions of its matrix, where the scores then change by "
        "less than 0.1% of their spread. With SVs: a certified model also keeps the support "
        "vectors for the rows that need them, by their entries where these are few, else as dense "
        "doubles. Least squares: every training "
        "row is a support vector, and the gain grows with their number, as the paper predicts.",
        columns,
        rows,
        [*squares, *notes_of(document["sizes"])],
        where="Sizes of files written here; the “paper” columns are printed in the paper, for its "
        "own models. approxsvm's text was written by its program from ours.",
    )


def _printed(printed: Printed | None) -> str:
    if printed is None or printed.size_ratio is None:
        return NOTHING
    return f"{ratio(printed.size_ratio)}, {printed.form_size}"


def _tool(one: dict[str, Any]) -> str:
    if one["tool_bytes"] is None:
        return NOTHING
    return f"{ratio(one['exact_text'] / one['tool_bytes'])}, {size(one['tool_bytes'])}"


def _cell(one: dict[str, Any], name: str) -> str:
    if name not in one["bytes"]:
        return NOTHING
    return f"{ratio(one['ratios'][name])}, {size(one['bytes'][name])}"
