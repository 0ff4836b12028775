"""The board's part "large": models of up to a million centers, compiled, verified and timed.

`python -m benchmarks board --large` writes results/large.json and the table at the end of
docs/board.md. The models are made up, of the sizes and value ranges of the named sets: training
them would take days. Answers of some rows are compared with plain NumPy's. Beside ours stands what
KARL's authors published for the real sets, on their machine: sizes agree, rows and processors do
not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks import machine
from benchmarks.report import markdown
from benchmarks.timing import race
from kernelite.cli.console import note
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, OutlierHead
from kernelite.machine.machine import Machine

__all__ = ["KARL_ALONE", "LARGE", "LargeCase", "large_part", "large_table", "measure_large"]

ROWS_TIMED, ROWS_CHECKED, TURNS = 1024, 16, 3
BUSY = 2.5  # processes that want to run, this one's two threads among them
KARL_ALONE = {"ijcnn1, 9,597 SVs": 1.21, "a9a, 11,958 SVs": 145.0}
"""Published microseconds per query for two models of the paper's sets, for orientation."""


@dataclass(frozen=True)
class LargeCase:
    """A made-up model and where its size comes from.

    Parameters
    ----------
    name : str
    n_centers, n_features : int
    build : callable
        From a generator and the two sizes to a model that `compile` takes, and rows like its own.
    karl : float, optional
        Microseconds per query that KARL's authors published for the set of that size.
    """

    name: str
    n_centers: int
    n_features: int
    build: Callable[[np.random.Generator, int, int], tuple[Any, np.ndarray]]
    karl: float | None = None


def _cover_types(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    """Ten measured features between 0 and 1, then indicators: one of 4 and one of the rest."""
    rows = np.zeros((count, d))
    rows[:, :10] = rng.beta(2.0, 3.0, size=(count, 10))
    everyone = np.arange(count)
    rows[everyone, 10 + rng.integers(0, 4, count)] = 1.0
    rows[everyone, 14 + rng.geometric(0.12, count) % (d - 14)] = 1.0
    return rows


def _two_classes(rng: np.random.Generator, n: int, d: int) -> tuple[Machine, np.ndarray]:
    centers, rows = (_cover_types(rng, count, d) for count in (n, 8000))
    side = centers[:, 0] + centers[:, 1] * centers[:, 2] - 0.5 * centers[:, 11] - 0.45
    labels = np.where(side + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    sizes = rng.choice([1.0, 0.5, 0.2], size=n, p=[0.8, 0.1, 0.1])  # most are bounded by C
    coefficients = labels * sizes
    coefficients -= coefficients.mean()
    expansion = KernelExpansion(centers, coefficients, 0.0, gamma=1.0 / d)
    middle = np.median(expansion.scores(rows[:200]))
    expansion = KernelExpansion(centers, coefficients, -middle, gamma=1.0 / d)
    return _machine(expansion, ClassifierHead(np.array([1, -1]))), rows


def _one_class(rng: np.random.Generator, n: int, d: int) -> tuple[Machine, np.ndarray]:
    groups = rng.random((8, d)) * (rng.random((8, d)) < 0.3)  # connections: most features are 0

    def connections(count: int) -> np.ndarray:
        near = groups[rng.integers(0, 8, count)]
        return np.clip(near + 0.05 * rng.normal(size=near.shape) * (near > 0), 0.0, 1.0)

    centers, rows = connections(n), connections(8000)
    coefficients = rng.choice([1.0, 0.4], size=n, p=[0.9, 0.1]) / n
    expansion = KernelExpansion(centers, coefficients, 0.0, gamma=1.0 / d)
    border = np.quantile(expansion.scores(rows[:200]), 0.1)
    expansion = KernelExpansion(centers, coefficients, -border, gamma=1.0 / d)
    return _machine(expansion, OutlierHead()), rows


def _density(rng: np.random.Generator, n: int, d: int) -> tuple[Any, np.ndarray]:
    from sklearn.neighbors import KernelDensity

    bandwidth = n ** (-1.0 / (d + 4))  # Scott's rule; features have deviations near 1
    turn = rng.normal(size=(d, d)) / np.sqrt(d)
    train, rows = (rng.standard_t(8, size=(count, d)) @ turn for count in (n, 8000))
    return KernelDensity(bandwidth=bandwidth, rtol=1e-2).fit(train), rows


def _machine(expansion: KernelExpansion, head: Any) -> Machine:
    return Machine(expansion, head, "made up", "arrays", "KernelExpansion")


LARGE = (
    LargeCase("two classes, a third of covtype", 100_000, 54, _two_classes),
    LargeCase("two classes, as covtype", 310_184, 54, _two_classes, 3650.0),
    LargeCase("one class, as nsl-kdd", 17_510, 41, _one_class, 48.0),
    LargeCase("density, as home", 919_000, 10, _density, 3880.0),
    LargeCase("density of points in space", 1_000_000, 3, _density),
)


def measure_large(case: LargeCase, shrink: int = 1) -> dict[str, Any]:
    """Compile, compare some answers with NumPy's, and time batches; sizes divided by `shrink`."""
    rng = np.random.default_rng(0)
    n = case.n_centers // shrink
    model, rows = case.build(rng, n, case.n_features)
    before, cpu, started = _memory(), process_time(), perf_counter()
    fast = kl.compile(model, rows[ROWS_TIMED:])
    seconds, cpu = perf_counter() - started, process_time() - cpu
    grown = _memory(peak=True) - before
    timed = rows[:ROWS_TIMED]
    density = not isinstance(model, Machine)
    call = fast.score_samples if density else fast.predict
    differ = _differences(fast, model, timed[:ROWS_CHECKED], density=density)
    spent, of_cpu = (
        race({case.name: lambda: call(timed)}, rounds=TURNS, clock=clock)[case.name].best
        for clock in (perf_counter, process_time)
    )
    return {
        "name": case.name,
        "centers": n,
        "features": case.n_features,
        "plan": fast.plan.chosen.name,
        "falls_back": fast.plan.chosen.open_share,
        "compile_seconds": seconds,
        "compile_cpu_seconds": cpu,
        "grown_models": grown / (8.0 * n * (case.n_features + 1)),
        "microseconds": 1e6 * spent / len(timed),
        "cpu_microseconds": 1e6 * of_cpu / len(timed),
        "load": machine.load(),
        "checked": ROWS_CHECKED,
        "differ": differ,
        "karl": case.karl,
    }


def _memory(*, peak: bool = False) -> float:
    """Bytes that this process holds, or held at most since they were last asked for (Linux)."""
    status, forget = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not status.is_file():
        return float("nan")
    found = re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status.read_text())
    if not peak:
        forget.write_text("5")  # the peak begins anew
    return 1024.0 * float(found[1]) if found else float("nan")


def _differences(fast: Any, model: Any, rows: np.ndarray, *, density: bool) -> int:
    """How many answers differ from plain NumPy's; densities by more than their tolerance."""
    if density:
        train = np.asarray(model.tree_.data)
        scale = 0.5 / model.bandwidth_**2
        n, d = train.shape
        found = fast.score_samples(rows)
        constant = 0.5 * d * np.log(2.0 * np.pi * model.bandwidth_**2) + np.log(n)
        sums = [np.exp(-scale * np.square(train - row).sum(axis=1)).sum() for row in rows]
        return int((np.abs(found - np.log(sums) + constant) > 2e-2).sum())
    scores = model.expansion.scores(rows)
    return int((fast.predict(rows) != model.head.predict(scores)).sum())


def large_table(cases: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A line per case."""
    columns = ["model", "centers x features", "plan", "falls back", "compile s", "of CPU", "grows"]
    columns += ["us per row", "of CPU", "KARL's, published", "answers that differ"]
    rows = []
    for case in cases:
        karl = "-" if case["karl"] is None else f"{case['karl']:,.0f}"
        rows.append(
            [
                case["name"],
                f"{case['centers']:,} x {case['features']}",
                case["plan"],
                f"{100 * case['falls_back']:.1f}%",
                f"{case['compile_seconds']:.1f}",
                f"{case['compile_cpu_seconds']:.1f}",
                "-" if case["grown_models"] is None else f"{case['grown_models']:.1f}x",
                _figures(case["microseconds"]),
                _figures(case["cpu_microseconds"]),
                karl,
                f"{case['differ']} of {case['checked']}",
            ]
        )
    return columns, rows


def _figures(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def large_part(document: dict[str, Any]) -> list[str]:
    """The part as Markdown."""
    load = max((case["load"] or 0.0 for case in document["content"]), default=0.0)
    busy = f"The machine was busy (load {load:.1f}): CPU times say more than the clock's. "
    alone = "; ".join(f"{name}: {micros:g}" for name, micros in KARL_ALONE.items())
    return [
        "## Large models",
        "Made up, of the sizes and value ranges of the named sets; certified, in batches of "
        f'{ROWS_TIMED:,} rows, best of {TURNS}. "Grows" is how far memory grew while compiling, '
        "in sizes of centers and coefficients. KARL's microseconds per query are its authors', for "
        f"the real sets on another machine (also {alone}): they say what is usual, not who is "
        "faster.",
        markdown(*large_table(document["content"])),
        f"{busy if load > BUSY else ''}Measured on {machine.in_words(document['machine'])}. "
        "Reproduce with `python -m benchmarks board --large`.",
    ]


def measure_all(shrink: int) -> list[dict[str, Any]]:
    """All cases, one after the other."""
    found = []
    for case in LARGE:
        note(f"measuring {case.name}")
        found.append(measure_large(case, shrink))
    return found
