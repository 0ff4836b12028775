"""The board "values" as a table, a page of the documentation and a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks import machine

__all__ = ["draw", "page", "summary", "table"]

PEERS = ("scikit-learn-intelex", "GPyTorch")
COUNTED = """\
## What was counted

Where batches stay under what was asked, one core does about what it can. It begins two
instructions on vectors of 64 bytes per cycle, at 4.4 GHz; times are the processor's, of one
thread.

- KernelRidge and means with RBF, 8 features: a pair of a row and a center takes 0.2 ns, which is
  14 cycles for 16 pairs in single precision. Ten of these are 8 multiply-adds, the exponential
  and sums.
- KernelRidge and means with RBF, 60 features: 0.62 ns, or 44 cycles for 16 pairs. One
  multiply-add for each feature and pair, with exponentials, is 36. Ten times scikit-learn on one
  thread would be 32, so that is out of reach without fewer products.
- Means with Matern, 8 features: 0.57 ns, or 20 cycles for 8 pairs in doubles. 36 instructions are
  18 of them: two for each feature, and 20 for scale, root, exponential, polynomial and sum.
  Single precision has twice as many pairs in a vector, but the tolerance leaves 22 of its
  roundings of a sum of |a| k (30 with 60 features), and the proven bound counts 24 for the
  profile alone, besides those of the distance.
- Standard deviations of one row wait for their triangle: 4.5 megabytes in single precision for
  1,500 training rows, which one core reads in about 45 of the 70 to 85 us that a row takes. 16
  bits would halve that, but lose 1.5 to 6 times what the tolerance allows at noise 0.1, and a
  thousand times at 1e-4.
"""
HEAD = (
    *("answer", "scikit-learn", "kernelite", "times", "asked"),
    *("one row: scikit-learn", "kernelite", "times", "asked"),
)


def times(entry: dict[str, Any], which: str, peer: str = "scikit-learn") -> float | None:
    """How many times faster than a peer; None where it does not take part."""
    found = entry[which]
    return float(found[peer] / found["kernelite"]) if peer in found else None


def table(entries: list[dict[str, Any]]) -> list[list[str]]:
    """A line per case, as HEAD says; peers' times follow in brackets."""
    lines = []
    for entry in entries:
        line = [entry["name"] + _method(entry)]
        for which in ("batch", "one_row"):
            found = entry[which]
            others = [f"{peer} {found[peer]:.3g}" for peer in PEERS if peer in found]
            brackets = f" ({', '.join(others)})" if others else ""
            line += [f"{found['scikit-learn']:.3g}{brackets}", f"{found['kernelite']:.3g}"]
            ratio = times(entry, which) or math.nan
            line += [f"{ratio:.3g}", _asked(entry, which)]
        lines.append(line)
    return lines


def summary(entries: list[dict[str, Any]]) -> str:
    """Geometric means and worst cases, a sentence for what is asked, one for other models."""
    asked = [entry for entry in entries if not entry.get("others")]
    others = [entry for entry in entries if entry.get("others")]
    sentences = [_summary("answers", asked)] if asked else []
    if others:
        sentences.append(_summary("models that nothing was asked of", others))
    return " ".join(sentences)


def _summary(what: str, entries: list[dict[str, Any]]) -> str:
    parts = []
    for which, word in (("batch", "in batches"), ("one_row", "for one row")):
        ratios = [ratio for entry in entries if (ratio := times(entry, which))]
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        parts.append(f"{mean:.3g} times {word} (worst {min(ratios):.2g})")
    return f"Geometric mean of {len(entries)} {what}: {' and '.join(parts)}."


def page(document: dict[str, Any]) -> str:
    """The page of the documentation."""
    entries = document["content"]
    absent = {f"{name} ({why})" for e in entries for name, why in e["absent"].items()}
    lines = [
        "# Values",
        "",
        "Everything but labels of SVCs: decision values, probabilities, regressors, Gaussian "
        "processes, on generated data. Microseconds per row, in batches and one row at a time; "
        "scikit-learn runs in the same process, scikit-learn-intelex where it has the estimator; "
        "GPyTorch, on the CPU with its fast predictive variance, in a process of its own. Answers "
        "are compared with scikit-learn's before anything is timed, and kernelite has answered "
        "40,000 rows before. "
        "`python -m benchmarks.values` measures it again.",
        "",
        summary(entries),
        "",
        "![Times faster than scikit-learn](../img/values.svg)",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---|" + "--:|" * (len(HEAD) - 1),
        *("| " + " | ".join(line) + " |" for line in table(entries)),
        "",
    ]
    lines += [COUNTED]
    if absent:
        lines += [f"Not here: {', '.join(sorted(absent))}.", ""]
    lines += [f"Measured on {machine.in_words(document['machine'])}.", ""]
    return "\n".join(lines)


def draw(entries: list[dict[str, Any]], path: Path) -> None:
    """Times faster than scikit-learn: a bar each in batches and for one row, asked ones marked."""
    from benchmarks.plots import ratios

    shown = [(e["name"], {w: times(e, w) for w in ("batch", "one_row")}) for e in entries]
    asked = [{w: e["asked"][w] for w in ("batch", "one_row")} for e in entries]
    ratios(shown, asked, path)


def _asked(entry: dict[str, Any], which: str) -> str:
    asked = entry["asked"]
    if asked[which] is not None:
        return f"{asked[which]:g}"
    if which == "one_row" and asked["one_row_us"] is not None:
        return f"at most {asked['one_row_us']:g} us"
    return ""


def _method(entry: dict[str, Any]) -> str:
    shown = {"decision_function", "predict_proba"}
    return f", `{entry['method']}`" if entry["method"] in shown else ""
