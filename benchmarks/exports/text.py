"""Results of the exports as Markdown: docs/exports.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.report import markdown, micros, times

__all__ = ["document_text"]

HEAD = """\
# Exports, measured

What `kernelite export` writes, against the usual tools' export of the same model. Written by
`python -m benchmarks.exports`."""

MEANING = Path(__file__).with_name("meaning.md").read_text(encoding="utf-8").rstrip()


def document_text(document: dict[str, Any]) -> str:
    """The page."""
    content = document["content"]
    where = f"Measured on {document['date']} on {machine.in_words(document['machine'])}."
    parts = [HEAD, where, MEANING]
    if content.get("onnx"):
        parts += ["## ONNX", _ABOUT_ONNX]
        for name, table in content["onnx"].items():
            parts += [f"### {name}", _onnx(table)]
    if content.get("c"):
        parts += ["## C99", _ABOUT_C]
        for name, table in content["c"].items():
            parts += [f"### {name}", _c(table)]
            parts += [_CUT] if any(line["nanoseconds"] is None for line in table) else []
    return "\n\n".join(parts) + "\n"


_ABOUT_ONNX = (
    "onnxruntime on the CPU, one thread, 4,096 rows a call, processor time, best of the repeats, "
    "all graphs in one run. skl2onnx's graph is its SVMClassifier operator with every support "
    "vector, in single precision; ours are standard operators in double precision. Labels are "
    "compared with the exact model's on the rows timed: the form alone may differ, the graph with "
    "`decided` differs only where it says that nothing is proven, and the default export never."
)
_ABOUT_C = (
    "One header each, compiled by `gcc -O2` and called a row at a time in one thread. Constants "
    "are the bytes of the static arrays; code is the whole program as `size` counts it. The header "
    "with the exact model inside goes through all support vectors, in a plain loop, for the rows "
    "that both the form and the third order leave open. Labels are compared with the "
    "exact model's; those of the form may differ where it does not say `decided`."
)
_CUT = (
    "gcc did not finish m2cgen's code of the whole model in the time given, so its speed is that "
    "of a model of a few hundred of the support vectors; its time grows with their number, so "
    "“faster” is a lower bound. “Smaller” compares with its text of the whole model."
)


def _onnx(table: list[dict[str, Any]]) -> str:
    columns = [
        "graph",
        "µs per row",
        "times faster than skl2onnx",
        "labels differ",
        "rows",
        "bytes",
    ]
    rows = [
        [
            line["graph"],
            micros(line["microseconds"]),
            times(line["ratio"]),
            f"{line['labels_differ']:,}",
            f"{line['rows']:,}",
            f"{line['bytes']:,}",
        ]
        for line in table
    ]
    return markdown(columns, rows)


def _c(table: list[dict[str, Any]]) -> str:
    columns = ["program", "text, bytes", "constants", "code", "times smaller", "ns per row"]
    rows = [
        [
            line["program"],
            _whole(line["text"]),
            _whole(line["constants"]),
            _whole(line["code"]),
            times(line["times_smaller"]),
            "–" if line["nanoseconds"] is None else f"{line['nanoseconds']:,.0f}",
            "–" if line["times_faster"] is None else times(line["times_faster"]),
            "–" if line["labels_differ"] is None else f"{line['labels_differ']} of {line['rows']}",
        ]
        for line in table
    ]
    return markdown([*columns, "times faster", "labels differ"], rows)


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
