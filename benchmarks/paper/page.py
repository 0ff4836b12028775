"""The page: one HTML file with everything in it, for phones and desktops, light and dark."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.paper.draw import PALETTE, Figure, variables
from benchmarks.paper.summary import in_short
from benchmarks.paper.tables import Table

__all__ = ["INTRODUCTION", "TITLE", "page", "where"]

TITLE = "Fast prediction with RBF models: the paper, regenerated"
INTRODUCTION = (
    "Claesen, De Smet, Suykens and De Moor (“Fast Prediction with SVM Models Containing RBF "
    "Kernels”, 2014, arXiv:1403.0736) replace an RBF support vector machine by a quadratic form "
    "times an exponential: f(z) ≈ exp(-γ|z|²) (c + v·z + z'Mz) + b. These are their three tables "
    "and their figure, measured again beside what they printed, next to what kernelite adds: "
    "other expansion points, labels that are proven, calibration, truncation. `make paper` writes "
    "this page; its numbers are in paper.json beside it."
)


def where(document: dict[str, Any]) -> str:
    """What was measured where."""
    minutes = document.get("minutes")
    spent = "" if minutes is None else f" The run took {minutes:.0f} minutes."
    load, cores = document["machine"].get("load") or 0.0, document["machine"]["cores"]
    if load > cores:
        spent += f" The machine was busy (load {load:g}): times are not final."
    return (
        f"Measured on {document['date']} on {machine.in_words(document['machine'])}.{spent} Sets "
        "marked “generated” are stand-ins of the same shape for data that were absent: they serve "
        "for times and sizes, and never for accuracy. A dash is a number that is not known or has "
        "no meaning there."
    )


def page(document: dict[str, Any], tables: list[Table], figures: list[Figure]) -> str:
    """The HTML."""
    css = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    for scheme in ("light", "dark"):
        css = css.replace(f"{scheme.upper()} }}", f"{variables(PALETTE[scheme])} }}")
    body = [f"<h1>{escape(TITLE)}</h1>", f"<p>{_code(INTRODUCTION)}</p>"]
    body.append(f'<p class="dim">{escape(where(document))}</p>')
    said = in_short(document)
    titles = (["In short"] if said else []) + (["Figures"] if figures else [])
    body.append(_contents(titles + [table.title for table in tables]))
    if said:
        points = "".join(f"<li>{_code(sentence)}</li>" for sentence in said)
        body += [_heading("In short"), f"<ul>{points}</ul>"]
    if figures:
        body += [_heading("Figures"), '<div class="figures">']
        body += [_figure(figure, number) for number, figure in enumerate(figures, 1)]
        body.append("</div>")
    body += [_table(table) for table in tables]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(TITLE)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{css}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _contents(titles: list[str]) -> str:
    links = "".join(f'<li><a href="#{_anchor(title)}">{escape(title)}</a></li>' for title in titles)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _heading(title: str) -> str:
    return f'<h2 id="{_anchor(title)}">{escape(title)}</h2>'


def _anchor(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_code(cell)}</th>' for cell in table.columns)
    rows = []
    for i, row in enumerate(table.rows):
        if len(row) == 1:
            wide = f'scope="rowgroup" colspan="{len(table.columns)}"'
            rows.append(f'<tr class="group"><th {wide}><span>{_code(row[0])}</span></th></tr>')
            continue
        cells = "".join(_cell(cell) for cell in row[1:])
        mark = ' class="marked"' if i in table.marked else ""
        rows.append(f'<tr{mark}><th scope="row">{_code(row[0])}</th>{cells}</tr>')
    notes = "".join(f"<li>{_code(note)}</li>" for note in table.notes)
    return "\n".join(
        [
            _heading(table.title),
            f"<p>{_code(table.caption)}</p>",
            f'<p class="dim where">{_code(table.where)}</p>' if table.where else "",
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">',
            f"<table><thead><tr>{head}</tr></thead><tbody>",
            *rows,
            "</tbody></table></div>",
            f'<ul class="notes">{notes}</ul>' if notes else "",
        ]
    )


def _cell(text: str) -> str:
    mark = ' class="no"' if text == "NO" else ""
    return f"<td{mark}>{_code(text)}</td>"


def _figure(figure: Figure, number: int) -> str:
    drawing = figure.svg.replace(
        "<svg", f'<svg role="img" aria-label="{escape(figure.caption)}"', 1
    )
    caption = f"<strong>Figure {number}.</strong> {escape(figure.caption)}"
    return f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>"


def _code(text: str) -> str:
    """Escaped, and what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
