"""The same as Markdown, for the repository; figures are files beside it."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.draw import Figure
from benchmarks.paper.page import INTRODUCTION, TITLE, where
from benchmarks.paper.summary import in_short
from benchmarks.paper.tables import Table
from benchmarks.report import markdown

__all__ = ["text"]


def text(document: dict[str, Any], tables: list[Table], figures: list[Figure], folder: str) -> str:
    """The Markdown; figures are linked as `folder`/name.svg."""
    parts = [f"# {TITLE}", INTRODUCTION, where(document)]
    if said := in_short(document):
        parts += ["## In short", "\n".join(f"- {sentence}" for sentence in said)]
    if figures:
        parts.append("## Figures")
        parts += [
            f"![Figure {number}]({folder}/{figure.name}.svg)\n\n"
            f"**Figure {number}.** {figure.caption}"
            for number, figure in enumerate(figures, 1)
        ]
    for table in tables:
        rows = [_row(table, i) for i in range(len(table.rows))]
        parts += [f"## {table.title}", table.caption]
        parts += [f"*{table.where}*"] if table.where else []
        parts.append(markdown(table.columns, rows))
        if table.notes:
            parts.append("\n".join(f"- {note}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def _row(table: Table, i: int) -> list[str]:
    row = [cell.replace("|", "\\|") for cell in table.rows[i]]
    if len(row) == 1:
        return [f"**{row[0]}**", *("" for _ in table.columns[1:])]
    return [f"**{cell}**" for cell in row] if i in table.marked else row
