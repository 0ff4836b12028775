"""What a command shows: tables and JSON on stdout, notes on stderr.

A table is drawn by rich on a terminal and is plain aligned text in a pipe or a file.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from kernelite.support.printable import printable, unwrapped

__all__ = ["ShortParser", "note", "print_json", "print_table"]


class ShortParser(argparse.ArgumentParser):
    """A parser whose mistakes take two lines: what is wrong, and where help is."""

    def error(self, message: str) -> NoReturn:
        """Say it, and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")


def note(message: str, *, quiet: bool = False) -> None:
    """One line for people, on stderr."""
    if not quiet:
        print(printable(message, one_line=True), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """`value` as JSON on stdout; NaN and infinities become null, NumPy's scalars numbers."""
    # All but ASCII is escaped in JSON; DEL is ASCII.
    print(json.dumps(_plain(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, marked: int | None = None
) -> None:
    """A table on stdout.

    Parameters
    ----------
    columns : sequence of str
        Headings; a column is aligned to the right unless it is the first.
    rows : sequence of sequence of str
        Cells.
    marked : int, optional
        Row shown in bold, on a terminal.

    Examples
    --------
    >>> print_table(["name", "rows"], [["a", "10"], ["bb", "9"]])
    name  rows
    a       10
    bb       9
    """
    columns, *rows = ([printable(cell, one_line=True) for cell in row] for row in [columns, *rows])
    if sys.stdout.isatty():
        _rich_table(columns, rows, marked)
        return
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], marked: int | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if i else "left")
    for i, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if i == marked else None)
    Console(file=unwrapped(sys.stdout)).print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
