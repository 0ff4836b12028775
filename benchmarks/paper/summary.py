"""What the tables show, in a few plain sentences with their numbers."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.printed import PRINTED
from benchmarks.paper.tables.speed import optimal
from benchmarks.paper.tables.table import percent, ratio

__all__ = ["in_short"]


def in_short(document: dict[str, Any]) -> list[str]:
    """Sentences; only those that there are results for."""
    measured = [one for one in document.get("accuracy", []) if one["name"] in PRINTED]
    return [
        *_labels(measured),
        *_certified(measured),
        *_bounds(measured),
        *_speed(document.get("speed", [])),
        *_sizes(document.get("sizes", [])),
    ]


def _labels(measured: list[dict[str, Any]]) -> list[str]:
    def shares(inside: bool) -> list[float]:
        return [
            one["modes"]["origin"]["differ_share"]
            for one in measured
            if (one["gamma"] <= one["gamma_max"]) == inside
        ]

    said = []
    if inside := shares(True):
        said.append(
            "Where γ is at most γ max, the paper's form changes few labels: "
            f"{_range([percent(value) for value in sorted(inside)])}."
        )
    if outside := shares(False):
        said.append(f"Beyond γ max it changes up to {percent(max(outside))} of them.")
    return said


def _certified(measured: list[dict[str, Any]]) -> list[str]:
    found = [one for one in measured if "absent" not in one["modes"]["certified"]]
    if not found:
        return []
    changed = sum(one["modes"]["certified"]["differ"] for one in found)
    rows = sum(one["rows"] for one in found)
    return [f"kernelite's certified models change {changed or 'none'} of {rows:,} labels."]


def _bounds(measured: list[dict[str, Any]]) -> list[str]:
    if not measured:
        return []
    least = min(one["looseness"]["smallest_ratio"] for one in measured)
    return [f"No error comes nearer to its proven bound than a factor of {least:.3g}."]


def _speed(speed: list[dict[str, Any]]) -> list[str]:
    said = []
    best = sorted(found["ratio_1"] for one in speed if (found := optimal(one)))
    lines = [PRINTED[one["name"]].optimal for one in speed if one["name"] in PRINTED]
    printed = sorted(line.ratio_1 for line in lines if line is not None)
    if best and printed:
        said.append(
            f"The paper's form predicts {_range([ratio(value) for value in best])} faster than "
            "scikit-learn here, without reading files; the paper prints "
            f"{_range([ratio(value) for value in printed])}, reading them."
        )
    certified = sorted(
        way["ratio_1"]
        for one in speed
        for way in one["ways"]
        if way["name"] == "kernelite certified" and way["ratio_1"]
    )
    if certified:
        said.append(
            f"Certified models predict {_range([ratio(value) for value in certified])} faster: "
            "least where γ is far beyond γ max and the plan is the exact engine."
        )
    return said


def _sizes(sizes: list[dict[str, Any]]) -> list[str]:
    known = [one for one in sizes if one["name"] in PRINTED]
    found = sorted(
        max(one["ratios"].get(name, 0.0) for name in ("full", "truncated")) for one in known
    )
    ratios = (PRINTED[one["name"]].size_ratio for one in known)
    printed = sorted(value for value in ratios if value is not None)
    if not found or not printed:
        return []
    return [
        f"A form's file is {_range([ratio(value) for value in found])} smaller than LIBSVM's text; "
        f"the paper prints {_range([ratio(value) for value in printed])}."
    ]


def _range(texts: list[str]) -> str:
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
