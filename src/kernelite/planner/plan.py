"""What a compilation chose, what that costs, and why the others lost; as text, and in notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from textwrap import fill, wrap
from typing import Any

from kernelite.support.records import dataclass
from kernelite.support.terminal import escaped, printable

__all__ = [
    "MEASURED",
    "PRINTED_COLUMNS",
    "Candidate",
    "Plan",
    "candidates_html",
    "exact_name",
    "table_html",
]

MEASURED = "Costs were measured here"  # how a note about them begins
FEWEST_NAME_COLUMNS = 30  # of a table of candidates, beside the other columns
PRINTED_COLUMNS = 100  # of a plan's text, where nothing says how wide a terminal is
TABLE_HEADER = ("candidate", "ns per row", "falls back", "bytes", "verdict")
SUMMING_ALL = "summing all"  # how the name of the exact sum begins; "exact" in earlier files


def exact_name(centers: int) -> str:
    """What a plan calls the exact sum.

    Examples
    --------
    >>> exact_name(1559)
    'summing all 1,559 support vectors'
    """
    return f"{SUMMING_ALL} {centers:,} support vector{'s' if centers != 1 else ''}"


@dataclass(frozen=True)
class Candidate:
    """One way to predict.

    Parameters
    ----------
    name : str
        In plain words, e.g. "quadratic form about the mean".
    nanoseconds : float
        Cost per row in a large batch, on all threads: expected, or measured where the plan says so.
    open_share : float
        Expected share of rows that the exact model has to finish.
    nbytes : int
        Bytes of the arrays it needs.
    verdict : str
        Why it was chosen or lost.
    """

    name: str
    nanoseconds: float
    open_share: float
    nbytes: int
    verdict: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it sums all support vectors, so that nothing falls back."""
        return self.name == "exact" or SUMMING_ALL in self.name


@dataclass(frozen=True)
class Plan:
    """The chosen candidate first, the others after it, cheapest first.

    `exact_nanoseconds` is NaN where nothing is known of the exact model. `late` finds notes that
    take a while, when they are first asked for; files and pickles have them among `notes`.

    Examples
    --------
    >>> exact = Candidate(exact_name(559), 900.0, 1.0, 80_000, "no form is cheaper here")
    >>> form = Candidate("quadratic form", 9.0, 0.01, 800, "cheapest")
    >>> print(Plan("certified", form, (exact,), exact.nanoseconds, ("Sampled 100 rows.",)))
    certified: quadratic form
      expected cost 9 ns per row, 100x less than the exact sum; 1.00% of rows fall back; 800 bytes
      Sampled 100 rows.
      candidate                        ns per row  falls back  bytes    verdict
      quadratic form                   9           1.00%       800      cheapest
      summing all 559 support vectors  900         -           80,000   no form is cheaper here
    >>> print(Plan("certified", exact, (), 900.0))
    certified: summing all 559 support vectors; no form is cheaper here
      expected cost 900 ns per row; 80,000 bytes
      ...
    """

    guarantee: str
    chosen: Candidate
    others: tuple[Candidate, ...]
    exact_nanoseconds: float
    notes: tuple[str, ...] = ()
    late: Callable[[], tuple[str, ...]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def said(self) -> tuple[str, ...]:
        """All notes."""
        return self.notes if self.late is None else (*self.notes, *self.late())

    def __pack__(self) -> dict[str, Any]:
        stored = {one.name: getattr(self, one.name) for one in fields(self)}
        del stored["late"]
        return stored | {"notes": self.said}

    @staticmethod
    def __stored__(stored: dict[str, Any]) -> dict[str, Any]:
        return {"late": None} | stored

    def __getstate__(self) -> dict[str, Any]:
        return self.__pack__() | {"late": None}

    @property
    def summary(self) -> str:
        """Guarantee and choice in a few words."""
        return f"{self.guarantee}: {self.chosen.name}"

    @property
    def speed_up(self) -> float:
        """Expected times faster than the exact engine."""
        return self.exact_nanoseconds / max(self.chosen.nanoseconds, 1e-9)

    @property
    def measured(self) -> bool:
        """Whether the cheapest candidates were timed, so that the costs are measured ones."""
        return any(note.startswith(MEASURED) for note in self.notes)

    @property
    def is_exact(self) -> bool:
        """Whether the exact engine itself was chosen, which no row can fall back from."""
        return self.chosen.nanoseconds == self.exact_nanoseconds

    def choosing(self, candidate: Candidate) -> Plan:
        """The same plan with a cheaper candidate chosen."""
        others = (replace(self.chosen, verdict=_times(self.chosen, candidate)), *self.others)
        return replace(self, chosen=replace(candidate, verdict="cheapest"), others=others)

    def noting(self, *notes: str) -> Plan:
        """The same plan with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The table's cells, without its header."""
        return [
            (
                candidate.name,
                f"{candidate.nanoseconds:,.0f}",
                "-" if candidate.is_exact else f"{100 * candidate.open_share:.2f}%",
                f"{candidate.nbytes:,}",
                candidate.verdict,
            )
            for candidate in (self.chosen, *self.others)
        ]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = PRINTED_COLUMNS, most: int | None = None) -> str:
        """The plan in lines of at most `width` columns.

        Candidates stand in a table; where there is no room for one, they take two lines each. Of
        those that lost, at most `most` are listed.
        """
        chosen = self.chosen
        gain = f", {self.speed_up:,.3g}x less than the exact sum"
        gain = "" if math.isnan(self.speed_up) else gain
        shares = f"{gain}; {100 * chosen.open_share:.2f}% of rows fall back"
        kind = "measured" if self.measured else "expected"
        why = f"; {chosen.verdict}" if self.is_exact and chosen.verdict else ""
        lines = [
            self.summary + why,
            f"  {kind} cost {chosen.nanoseconds:,.0f} ns per row"
            f"{'' if self.is_exact else shares}; {chosen.nbytes:,} bytes",
        ]
        lines += [f"  {note}" for note in self.said]
        lines = [_folded(printable(line, one_line=True), width) for line in lines]
        shown = [
            [printable(cell, one_line=True) for cell in row]
            for row in self.rows()[: None if most is None else most + 1]
        ]
        table = _table([TABLE_HEADER, *shown], width)
        return "\n".join(lines + (table or [_in_two_lines(row, width) for row in shown]))

    def _repr_html_(self) -> str:
        return plan_html(self)


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows of text in columns, long names on several lines; none where there is no room."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    most = width - sum(2 + w for w in widths[1:]) - 2
    if most < min(widths[0], FEWEST_NAME_COLUMNS):
        return []
    widths[0] = min(widths[0], most)
    lines = []
    for name, *cells in rows:
        first, *more = wrap(name, widths[0], subsequent_indent="  ") or [""]
        line = "  ".join(c.ljust(w) for c, w in zip([first, *cells], widths))
        lines += ["  " + part.rstrip() for part in (line, *more)]
    return lines


def _in_two_lines(row: Sequence[str], width: int) -> str:
    """A candidate where a table is too wide: its name, and what is said of it."""
    name, nanoseconds, share, size, verdict = row
    open_rows = "" if share == "-" else f"{share} fall back, "
    costs = f"    {nanoseconds} ns per row, {open_rows}{size} bytes: {verdict or 'chosen'}"
    return f"{_folded(f'  {name}', width)}\n{_folded(costs, width)}"


def _folded(line: str, width: int) -> str:
    """A line as several, the others further in."""
    begin = line[: len(line) - len(line.lstrip())]
    return fill(line.strip(), max(20, width), initial_indent=begin, subsequent_indent=f"{begin}  ")


def _times(other: Candidate, chosen: Candidate) -> str:
    return f"{other.nanoseconds / max(chosen.nanoseconds, 1e-9):.2g}x the cost"


# A plan in a notebook: the choice, what it is expected to cost, and why the others lost.
#
# In: a plan. Out: a short piece of HTML without scripts, in the notebook's own colours. Every text
# in it is escaped, since notes may name features and labels that came from files.

MOST_LISTED_CANDIDATES = 6
TABLE_STYLE = "border-collapse:collapse;font-size:90%;margin:4px 0"
CELL = "padding:2px 14px 2px 0;text-align:left;vertical-align:top;border:none"
HEADER_STYLE = f"{CELL};border-bottom:1px solid currentColor"
CHOSEN = f"{CELL};font-weight:600"


def plan_html(plan: Plan, /) -> str:
    """The plan's representation in notebooks.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    str

    Examples
    --------
    >>> exact = Candidate(exact_name(559), 900.0, 1.0, 80_000, "no form is cheaper here")
    >>> "<b>certified: summing all 559" in plan_html(Plan("certified", exact, (), 900.0))
    True
    """
    head = f"<b>{escaped(plan.summary)}</b><p>{escaped(cost_sentence(plan))}</p>"
    return f"<div>{head}{candidates_html(plan)}</div>"


def cost_sentence(plan: Plan) -> str:
    """What the choice is expected to cost, in a sentence."""
    chosen = plan.chosen
    if plan.is_exact:
        why = f"; {chosen.verdict}" if chosen.verdict else ""
        return f"Expected: {chosen.nanoseconds:,.0f} ns per row{why}."
    gain = f", {plan.speed_up:,.3g} times less than the exact sum"
    gain = "" if math.isnan(plan.speed_up) else gain
    return (
        f"Expected: {chosen.nanoseconds:,.0f} ns per row{gain}; "
        f"{100 * chosen.open_share:.2f}% of rows fall back to the exact model."
    )


def candidates_html(plan: Plan) -> str:
    """The table of candidates, the chosen one first, and the notes."""
    rows = plan.rows()
    more = len(rows) - MOST_LISTED_CANDIDATES - 1
    left = f"<p>and {more} more</p>" if more > 0 else ""
    notes = "".join(f"<p>{escaped(note)}</p>" for note in plan.said)
    shown = [tuple(row) for row in rows[: MOST_LISTED_CANDIDATES + 1]]
    return table_html(shown, TABLE_HEADER, first=CHOSEN) + left + notes


def table_html(
    rows: list[tuple[str, ...]], header: tuple[str, ...] | None = None, first: str = CELL
) -> str:
    """Rows of text as a table; `first` is the style of the first row's cells."""
    lines = []
    if header is not None:
        cells = "".join(f'<th style="{HEADER_STYLE}">{escaped(name)}</th>' for name in header)
        lines.append(f"<tr>{cells}</tr>")
    for i, row in enumerate(rows):
        style = CELL if i else first
        cells = "".join(f'<td style="{style}">{escaped(cell)}</td>' for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return (
        f'<div style="overflow-x:auto"><table style="{TABLE_STYLE}">{"".join(lines)}</table></div>'
    )
