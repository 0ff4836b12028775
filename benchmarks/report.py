"""Results as text: numbers for people, Markdown tables, and the tables that a run prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["batch_table", "file_table", "markdown", "micros", "single_table", "times"]


def micros(value: float | None) -> str:
    """Microseconds with three digits.

    Examples
    --------
    >>> micros(0.01234), micros(1234.5), micros(None)
    ('0.0123', '1,230', '-')
    """
    if value is None:
        return "-"
    return f"{float(f'{value:.3g}'):,.10g}"


def times(value: float | None) -> str:
    """A ratio.

    Examples
    --------
    >>> times(1234.5), times(12.345), times(0.5)
    ('1,230x', '12.3x', '0.5x')
    """
    return "-" if value is None else f"{float(f'{value:.3g}'):,.10g}x"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first to the right.

    Examples
    --------
    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    lines = [columns, ["---", *("--:" for _ in columns[1:])], *rows]
    cells = [f"| {' | '.join(line)} |" for line in lines]
    cells[1] = f"|---|{'--:|' * (len(columns) - 1)}"
    return "\n".join(cells)


def batch_table(workload: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for one workload of `batch`."""
    columns = [
        "contestant",
        "us per row",
        "scikit-learn",
        "best exact peer",
        "labels differ",
        "falls back",
        "bytes",
        "of roofline",
        "rows checked",
        "rows timed",
    ]
    rows = [
        [
            one["name"],
            micros(one["microseconds"]),
            times(one["times_sklearn"]),
            times(one["times_best_exact_peer"]),
            f"{one['rows_differ']:,}",
            _percent(one.get("fallback_share")),
            f"{one['bytes']:,}",
            _percent(one.get("roofline_share")),
            f"{one['rows_checked']:,}",
            f"{one['rows_timed']:,}",
        ]
        for one in sorted(workload["contestants"], key=lambda one: -one["microseconds"])
    ]
    return columns, rows


def single_table(workload: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for one workload of `single`."""
    rows = [
        [one["name"], micros(one["microseconds"]), f"{one['calls']:,}"]
        for one in workload["contestants"]
    ]
    return ["contestant", "us a call", "calls"], rows


def file_table(workload: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for one workload of `files`."""
    columns = ["command", "us per row", "MB/s", "rows", "seconds", "peak MB", "labels differ"]
    rows = [
        [
            one["name"],
            micros(one["microseconds"]),
            f"{one['megabytes_a_second']:.3g}",
            f"{one['rows']:,}",
            f"{one['seconds']:.2f}",
            f"{one['peak_megabytes']:.0f}",
            f"{one['rows_differ']:,}",
        ]
        for one in workload["contestants"]
    ]
    return columns, rows


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2g}%"
