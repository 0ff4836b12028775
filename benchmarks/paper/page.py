"""The page: one HTML file with everything in it, for phones and desktops, light and dark."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.paper.draw import PALETTE, Figure, variables
from benchmarks.paper.tables import Table

__all__ = ["INTRODUCTION", "TITLE", "page", "where"]

TITLE = "Fast prediction with RBF models: the paper, regenerated"
INTRODUCTION = (
    "Claesen, De Smet, Suykens and De Moor (2014, arXiv:1403.0736) replace an RBF support vector "
    "machine by a quadratic form times an exponential. These are their tables and their figure, "
    "measured again with kernelite, next to what kernelite adds: other expansion points, proofs, "
    "calibration, truncation. `make paper` writes this page."
)


def where(document: dict[str, Any]) -> str:
    """What was measured where."""
    return (
        f"Measured on {document['date']} on {machine.in_words(document['machine'])}. Sets marked "
        "“generated” are stand-ins of the same size for data that were absent: their times and "
        "sizes count, accuracy they have none. An empty cell (–) is a number that is not known."
    )


def page(document: dict[str, Any], tables: list[Table], figures: list[Figure]) -> str:
    """The HTML."""
    css = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    for scheme in ("light", "dark"):
        css = css.replace(f"{scheme.upper()} }}", f"{variables(PALETTE[scheme])} }}")
    body = [f"<h1>{escape(TITLE)}</h1>", f"<p>{_code(INTRODUCTION)}</p>"]
    body.append(f'<p class="dim">{escape(where(document))}</p>')
    body += [_table(table) for table in tables]
    if figures:
        body += ["<h2>Figures</h2>", '<div class="figures">']
        body += [_figure(figure) for figure in figures]
        body.append("</div>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(TITLE)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{css}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_code(cell)}</th>' for cell in table.columns)
    rows = []
    for i, row in enumerate(table.rows):
        if len(row) == 1:
            wide = f'scope="rowgroup" colspan="{len(table.columns)}"'
            rows.append(f'<tr class="group"><th {wide}><span>{_code(row[0])}</span></th></tr>')
            continue
        cells = "".join(f"<td>{_code(cell)}</td>" for cell in row[1:])
        mark = ' class="marked"' if i in table.marked else ""
        rows.append(f'<tr{mark}><th scope="row">{_code(row[0])}</th>{cells}</tr>')
    notes = "".join(f"<li>{_code(note)}</li>" for note in table.notes)
    return "\n".join(
        [
            f"<h2>{escape(table.title)}</h2>",
            f'<p class="dim">{_code(table.caption)}</p>',
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">',
            f"<table><thead><tr>{head}</tr></thead><tbody>",
            *rows,
            "</tbody></table></div>",
            f'<ul class="notes">{notes}</ul>' if notes else "",
        ]
    )


def _figure(figure: Figure) -> str:
    drawing = figure.svg.replace(
        "<svg", f'<svg role="img" aria-label="{escape(figure.caption)}"', 1
    )
    return f"<figure>{drawing}<figcaption>{escape(figure.caption)}</figcaption></figure>"


def _code(text: str) -> str:
    """Escaped, and what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
