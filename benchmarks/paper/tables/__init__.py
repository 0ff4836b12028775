"""From the document of results to tables of text, which the page and the Markdown both show."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.tables.accuracy import accuracy_tables
from benchmarks.paper.tables.claims import claims_table
from benchmarks.paper.tables.polynomial import polynomial_tables
from benchmarks.paper.tables.size import size_table
from benchmarks.paper.tables.speed import speed_table
from benchmarks.paper.tables.table import Table

__all__ = ["Table", "tables"]


def tables(document: dict[str, Any]) -> list[Table]:
    """All tables that there are results for."""
    made: list[Table] = []
    if document.get("accuracy"):
        made += [claims_table(document), *accuracy_tables(document)]
    if document.get("speed"):
        made.append(speed_table(document))
    if document.get("sizes"):
        made.append(size_table(document))
    if document.get("polynomial"):
        made += polynomial_tables(document)
    return made
