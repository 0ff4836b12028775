"""Figures of docs/project/reliability.md and of the guide's advice to servers, as recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import results
from tests.reliability.runs import runs

__all__ = ["PAGES", "advice_with", "page_with"]

DOCS = Path(__file__).parents[2] / "docs"
START, END = "<!-- runs: python -m tests.reliability -->\n", "<!-- end of runs -->\n"
NOT_YET = "not recorded yet"
ADVISED = {"exact": "two classes", "exact, six classes": "six classes"}


def page_with(text: str, kept: dict[str, list[dict[str, Any]]], load: Any = None) -> str:
    """The page with its figures made anew."""
    latest = {kind: records[-1] for kind, records in kept.items()}
    lines = ["", "| run | date, version | what was done | what came out |", "|---|---|---|---|"]
    for kind, (title, words) in ROWS.items():
        one = latest.get(kind)
        stamp = NOT_YET if one is None else f"{one['date']}, {one['version']}"
        done, found = ("", "") if one is None else words(one)
        lines.append(f"| {title} | {stamp} | {done} | {found} |")
    return _between_marks(text, [*lines, "", *_latencies(load)])


def advice_with(text: str, load: Any) -> str:
    """The guide with its reason for processes made anew."""
    lines = [
        "",
        f"One row a call, eight callers on {load['machine']['cores']} cores, all support vectors "
        "summed (`python -m benchmarks load`):",
        "",
        "| model | callers | half of the calls within | 99% | 99.9% | all |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name, said in ADVISED.items():
        plan = load["content"]["plans"][name]
        for callers in ("8", "8 processes"):
            one = plan["threads"][callers]
            model = f"{said}, {plan['support_vectors']:,} support vectors"
            cells = [_time_of(one[figure]) for figure in ("p50", "p99", "p99.9", "worst")]
            threads = callers if callers.endswith("processes") else f"{callers} threads"
            lines.append(f"| {model} | {threads} | {' | '.join(cells)} |")
    return _between_marks(text, [*lines, ""])


def _between_marks(text: str, lines: list[str]) -> str:
    before, rest = text.split(START)
    return before + START + "\n".join([*lines, ""]) + END + rest.split(END)[1]


def _fuzz(one: dict[str, Any]) -> tuple[str, str]:
    # Earlier records have one number for each format.
    each = [n if isinstance(n, int) else sum(n.values()) for n in one["formats"].values()]
    done = (
        f"{one['inputs']:,} files, {min(each):,} or more of each of {len(each)} kinds, "
        f"seed {one['seed']}, {_time(one['seconds'])}"
    )
    found = (
        f"{one['answered']:,} answered, {one['refused']:,} refused, {one['failed']:,} other; "
        f"at most {one['most_memory_mb']} MB and {one['longest_seconds']:.1f} s for one file"
    )
    return done, found


def _flips(one: dict[str, Any]) -> tuple[str, str]:
    found = f"{one['refused']:,} refused, {one['same']:,} without effect, {len(one['wrong'])} wrong"
    return f"{one['flips']:,} single bits", found


def _soak(one: dict[str, Any]) -> tuple[str, str]:
    memory = " MB, ".join(str(megabytes) for megabytes in one["memory_mb"])
    grew = "; ".join(one["grew"]) or "nothing grew"
    return f"{one['chores']:,} chores, {_time(one['seconds'])}", f"{grew}; memory {memory} MB"


def _attack(one: dict[str, Any]) -> tuple[str, str]:
    last = one["next"] - 1
    done = (
        f"{one['models']:,} models (seed {one['seed']}, {one['first']:,} to {last:,}), "
        f"{len(one['subjects'])} kinds of answers"
    )
    worst = max((subject["worst"] for subject in one["subjects"].values()), default=0.0)
    # Some bounds are attained; so the digits that show that none is passed.
    near = f"1 - {1.0 - worst:.0e}" if worst > 0.999 else f"{worst:.3f}"
    found = f"{len(one['violations'])} violated; {one['values']:,} values, worst error/bound {near}"
    return done, found


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.0f} minutes"


ROWS = {
    "fuzz": ("mutated files", _fuzz),
    "flips": ("damaged model files", _flips),
    "soak": ("the same process for long", _soak),
    "attack": ("bounds under attack", _attack),
}


def _latencies(load: Any) -> list[str]:
    """Microseconds of one row from several threads, and what that says."""
    if load is None:
        return []
    machine = load["machine"]
    lines = [
        f"One row at a time, in microseconds ({load['date']}, {machine['cores']} cores with a load "
        f"of {machine['load']}); undisturbed are calls during which the thread kept its core:",
        "",
        "| plan | threads | p50 | p99 | p99.9 | undisturbed p99 | slow ones preempted, waiting |",
        "|---|---|---|---|---|---|---|",
    ]
    plans = load["content"]["plans"]
    for name, plan in plans.items():
        for threads, one in plan["threads"].items():
            figures = ("p50", "p99", "p99.9", "undisturbed_p99")
            cells = [f"{one[figure] or 0:,.0f}" for figure in figures]
            shares = f"{one['slow_preempted']:.0%}, {one['slow_waited']:.0%}"
            lines.append(f"| {name} | {threads} | {' | '.join(cells)} | {shares} |")
    return [*lines, "", *_reasons(plans["exact"]["threads"], load["content"], machine["cores"])]


def _reasons(exact: dict[str, Any], content: dict[str, Any], cores: int) -> list[str]:
    """Why slow calls are slow: a sentence for one thread, one for eight."""
    one, eight = exact["1"], exact["8"]
    times, alone = one["p99"] / one["p50"], one["undisturbed_p99"] / one["p50"]
    lines = [
        f"An exact plan's p99 from one thread is {times:.1f} times its p50 (the goal is at most "
        f"5), {alone:.1f} times among calls that kept their core."
    ]
    if "8 processes" not in exact:
        return lines
    short, usual = content["short_interval"], content["switch_interval"]
    shorter, apart = exact["8, short interval"], exact["8 processes"]
    helps = shorter["p99"] < eight["p99"] / 2
    shared = apart["p99"] < eight["p99"] / 2
    reason = (
        "Most of that is the wait for the interpreter, which threads share: one that holds it and "
        "loses its core keeps the others waiting."
        if shared
        else "Most of that is the wait for a core, since there are more callers than cores."
    )
    return [
        *lines,
        f"From 8 threads on {cores} cores p99 and p99.9 are {_slow(eight)}; "
        f"{eight['slow_waited']:.0%} of the slow calls waited. {reason}",
        f"From 8 processes, which share no interpreter, they are {_slow(apart)}; from 8 "
        f"threads with a switch interval of {1e3 * short:g} ms instead of {1e3 * usual:g} ms, "
        f"{_slow(shorter)}, so that interval {'is' if helps else 'is not'} the reason.",
    ]


def _slow(one: dict[str, Any]) -> str:
    return f"{_time_of(one['p99'])} and {_time_of(one['p99.9'])}"


def _time_of(microseconds: float) -> str:
    if microseconds < 1e3:
        return f"{microseconds:.0f} µs"
    return f"{microseconds / 1e3:.{0 if microseconds >= 1e4 else 1}f} ms"


PAGES = {
    DOCS / "project" / "reliability.md": lambda text: page_with(text, runs(), results.load("load")),
    DOCS / "guide" / "serving.md": lambda text: advice_with(text, results.load("load")),
}
"""Page -> what makes it as it should be now."""
