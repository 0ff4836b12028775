"""The tables of docs/gpu.md, from benchmarks/results/gpu.json.

    python -m benchmarks.gpu.page [FILE ...]

Sections of FILEs, which `python -m benchmarks gpu --out FILE` wrote elsewhere, are taken first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import FOLDER
from kernelite.support.files import atomic_write

__all__ = ["draw", "main", "tables"]

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
START, END = "<!-- gpu:start -->", "<!-- gpu:end -->"


def main(files: Sequence[str] = ()) -> int:
    """Write the tables into the page."""
    document = json.loads((FOLDER / "gpu.json").read_text(encoding="utf-8"))
    for file in files:
        document = with_sections_of(json.loads(Path(file).read_text(encoding="utf-8")), document)
    if files:
        with atomic_write(FOLDER / "gpu.json") as kept:
            kept.write(json.dumps(document, indent=1) + "\n")
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    with atomic_write(PAGE) as file:
        file.write(f"{before}{START}\n{tables(document)}\n{END}{after}")
    draw(document["content"]["fused"], PAGE.parent / "img" / "gpu.svg")
    return 0


def with_sections_of(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """A document with the sections of another, each with its day and commit."""
    when = dict.fromkeys(new["content"], f"{new['date']}, commit {new['commit']}")
    return old | {
        "content": old["content"] | new["content"],
        "again": old.get("again", {}) | when,
    }


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Nanoseconds per row of each contestant, by size (matplotlib, extra `docs`)."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "kernelite", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    contestants = {
        "torch eager float64": "ns per row, eager float64",
        "torch eager float32": "ns per row, eager float32",
        "kernelite, proven labels": "ns per row, certified",
    }
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for index, (name, key) in enumerate(contestants.items()):
        places = [place + 0.27 * (index - 1) for place in range(len(found))]
        bars = axes.bar(places, [line[key] for line in found], 0.25, label=name)
        axes.bar_label(bars, fmt="%.3g", fontsize=8)
    labels = [f"{line['centers']:,} x {line['features']}" for line in found]
    axes.set_xticks(range(len(found)), labels)
    axes.set(yscale="log", ylabel="nanoseconds per row", xlabel="support vectors x features")
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def tables(document: dict[str, Any]) -> str:
    """What was measured, in Markdown."""
    content, versions = document["content"], document["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    code = f", commit {document['commit']}" if "commit" in document else ""
    device = document["device"].removeprefix("one ")
    again = "".join(f" {name}: {when}." for name, when in document.get("again", {}).items())
    again = again and f" Measured again since:{again}"
    parts = [f"## Measured\n\n{document['date']}, one {device}{code}; {named}.{again}"]
    parts.append("![Nanoseconds per row](img/gpu.svg)")
    makers = {
        "fused": _fused,
        "several": _several,
        "verify": _verify,
        "forms": _forms,
        "streaming": _streaming,
        "attack": _attack,
        "judged": _judged,
        "assumed": _assumed,
    }
    parts += [make(content[name]) for name, make in makers.items() if name in content]
    return "\n\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fused(found: list[dict[str, Any]]) -> str:
    head = ["SVs x features, random", "rows", "certified labels", "four times the rows"]
    head += ["in doubles alone", "torch eager float32", "torch eager float64", "by stage 1"]
    rows = [
        [
            f"{line['centers']:,} x {line['features']}",
            f"{line['rows']:,}",
            f"{line['ns per row, certified']:.3g} ({line['times eager float32']:.3g}x)",
            f"{line['ns per row, certified, more rows']:.3g}",
            f"{line['ns per row, doubles alone']:.3g}",
            f"{line['ns per row, eager float32']:.3g}",
            f"{line['ns per row, eager float64']:.3g}",
            f"{100 * line['share settled by the fused sums']:.4g}%",
        ]
        for line in found
    ]
    said = "Nanoseconds per row, rows resident, best of 5, all stages and what the host does "
    said += "between them included; in brackets, times eager float32."
    return f"{said}\n\n{_table(head, rows)}"


def _several(found: dict[str, Any]) -> str:
    share = 100 * found["share settled by the fused sums"]
    return (
        f"26 classes, all 325 pairs, 7,737 SVs of 16 features, {found['rows']:,} rows: "
        f"{found['ns per row, certified']:.3g} ns per proven winner, {share:.4g}% by stage 1."
    )


def _verify(found: list[dict[str, Any]]) -> str:
    head = ["real model", "rows", "labels that differ", "values, largest error / tolerance"]
    head += ["form / fused / doubles", "ns per row"]
    differ = "labels that differ from the CPU's"
    rows = [
        [
            line["model"],
            f"{line['rows']:,}",
            str(line.get(differ, "")),
            _judged_values(line),
            " / ".join(f"{100 * s:.3g}%" for s in line["share by form, fused sums, doubles"]),
            f"{line['ns per row']:.3g}" if "ns per row" in line else "",
        ]
        for line in found
    ]
    said = "Models of real data: the shared ones on all test rows, all of the board's on the rows "
    said += "that it predicts. Labels are compared with the CPU's, values with the CPU's exact "
    said += "ones: those of regressors and densities, and decision values of the first 1,000 rows. "
    said += (
        "Nanoseconds per row with rows repeated up to about a million (16 times where they have "
    )
    said += "over 200 features)."
    labels = sum(line["rows"] for line in found if differ in line)
    total = f"In all {len(found)} models and {labels:,} labels, of which "
    total += f"{sum(line.get(differ, 0) for line in found)} differ."
    return f"{said}\n\n{_table(head, rows)}\n\n{total}"


def _judged_values(line: dict[str, Any]) -> str:
    worst = line.get("largest error of a value, of its tolerance")
    return "" if worst is None else f"{line['values']:,}, {worst:.2g}"


def _forms(found: dict[str, Any]) -> str:
    head = ["form", "rows per second, 10^9", "TB/s", "share of a copy's bandwidth"]
    rows = [
        [
            f"{name}, {line['features']} features, {line['type']}",
            f"{line['Grow/s']:.3g}",
            f"{line['TB/s']:.3g}",
            f"{100 * line['share of the copy bandwidth']:.3g}%",
        ]
        for name in ("full", "truncated to 15")
        for line in found[name]
    ]
    return f"A copy on the device moves {found['copy, TB/s']:.3g} TB/s.\n\n{_table(head, rows)}"


def _streaming(found: list[dict[str, Any]]) -> str:
    head = ["rows in host memory", "plain copy, GB/s", "predict, GB/s", "share"]
    rows = [
        [
            line["memory"],
            f"{line['copy, GB/s']:.3g}",
            f"{line['predict, GB/s']:.3g}",
            f"{100 * line['share']:.3g}%",
        ]
        for line in found
    ]
    return _table(head, rows)


def _attack(found: dict[str, Any]) -> str:
    head = ["evaluator", "models", "largest error / bound"]
    rows = [
        [name, f"{found['tried'][name]:,}", f"{worst:.3g}"]
        for name, worst in found["worst"].items()
    ]
    said = f"Bounds under attack: {found['models']:,} random and adversarial models, 16 rows each, "
    said += f"extended precision as judge, {found['violated']} violated."
    return f"{said}\n\n{_table(head, rows)}"


def _judged(found: dict[str, Any]) -> str:
    worst = ", ".join(f"{name} {ratio:.3g}" for name, ratio in found["worst"].items())
    return (
        f"Judged by ball arithmetic at home: {found['values']:,} values of {found['models']} "
        "models, two rows of the real ones, and of the attack the first ones and those nearest to "
        f"their bounds; {found['violated']} violated. Largest error / bound: {worst}."
    )


def _assumed(found: dict[str, Any]) -> str:
    sums, exp2 = found["sums, of l 2^-22"], found["exp2"]
    return (
        f"Assumed of the hardware: sums erred by at most {max(sums.values()):.2g} of what the "
        f"model allows; {found['integer sums that were not exact']} integer sums were not exact; "
        f"exp2 erred by at most {exp2['largest relative error, in 2^-22']:.2g} 2^-22 over "
        f"{exp2['inputs']:,} inputs."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
