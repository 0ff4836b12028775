"""`python -m benchmarks.rates`: how long the planner's operations take on this machine.

In: generated models that are answered by one form, or by summing all centers, on one thread. Out:
the ten rates (`kernelite.planner.costs.RATES`) that explain the measured times best, beside those
that are kept, and for each way the time that either expects. Rates that these ways hardly need stay
near the kept ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.machine import describe
from benchmarks.sweep import raced
from kernelite.backends.cpu.approximation import form_stages
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.forms import certify
from kernelite.backends.cpu.one_pass import labels_of
from kernelite.backends.cpu.staging import stage_engine
from kernelite.backends.cpu.threads import limit_threads
from kernelite.cli.console import print_table
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ArgmaxHead, ClassifierHead, Head, RegressorHead
from kernelite.planner.costs import RATES, VOTES_PER_ROW, exact_work, nanoseconds, voting_work
from kernelite.planner.search import reached_stages
from kernelite.program.criteria import label_criterion, predict_criterion
from kernelite.series.approximation import Approximation
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.series.work import Work

SHAPES = (
    (300, 4),
    (1000, 16),
    (3000, 16),
    (1000, 64),
    (3000, 122),
    (500, 400),
)  # centers, features
OUTPUTS = (1, 4)
CLASSES = 6
ROWS = 20_000
GAMMA = 0.002  # times the number of features: so small that forms answer all rows
TOLERANCE = 1e-3  # of the values' standard deviation
KEPT_WEIGHT = 0.05  # of a kept rate, against one measured time


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    parser.parse_args(argv)
    with limit_threads(1):
        ways = [(name, work, cost) for n, d in SHAPES for name, work, cost in timed(n, d)]
    found = fitted([work for _, work, _ in ways], [cost for *_, cost in ways])
    machine = describe()
    print(f"Nanoseconds of one core: {machine['processor']}, {machine['simd']}")
    rows = [
        (name, f"{kept:.4g}", f"{rate:.4g}", f"{rate / kept:.2f}")
        for name, kept, rate in zip(Work._fields, RATES, found, strict=True)
    ]
    print_table(("operation", "kept", "measured", "ratio"), rows)
    rows = []
    for name, work, cost in ways:
        anew = sum(count * rate for count, rate in zip(work, found, strict=True))
        rows.append((name, f"{cost:,.0f}", f"{nanoseconds(work):,.0f}", f"{anew:,.0f}"))
    print_table(("way", "ns per row", "by kept rates", "by measured rates"), rows)
    return 0


def timed(n: int, d: int) -> Iterator[tuple[str, Work, float]]:
    """Ways to answer rows of one shape: their names, their work, and nanoseconds per row."""
    rng = np.random.default_rng(n + d)
    rows, centers = rng.normal(size=(ROWS, d)), rng.normal(size=(n, d))
    subjects: list[tuple[str, KernelExpansion, Head]] = []
    for k in OUTPUTS:
        weights = rng.choice([-1.0, 1.0], size=(n, k))
        values = KernelExpansion(centers, weights, np.zeros(k), gamma=GAMMA / d)
        subjects.append((f"{k} values", values, RegressorHead(k)))
        if k == 1:
            subjects.append(("labels", values, ClassifierHead(np.arange(2))))
        else:
            subjects.append((f"largest of {k}", values, ArgmaxHead(np.arange(k))))
    pairs = CLASSES * (CLASSES - 1) // 2
    voting = KernelExpansion(centers, one_vs_one(rng, n), np.zeros(pairs), gamma=GAMMA / d)
    subjects.append((f"{CLASSES} classes", voting, ClassifierHead(np.arange(CLASSES))))
    for name, expansion, head in subjects:
        labels = head.proves_labels
        engine, point = ExactEngine.prepare(expansion), rows[:1000].mean(axis=0)
        spread = engine.run(rows[:1000]).scores.std(axis=0)
        criterion = predict_criterion(head, None if labels else TOLERANCE * spread)
        finish = labels_of(head) if labels else _same
        certificate, form = certify(expansion, point), quadratic_form(expansion, point)
        judged = voting_work(expansion, VOTES_PER_ROW) if labels else Work()
        bounds = Work(bounds=expansion.n_outputs)
        asked = label_criterion(head, None if labels else TOLERANCE * spread)
        reached = reached_stages(engine, rows[:1000], asked, labels=labels)
        exact = exact_work(expansion, labels=labels, reached=reached)
        works = [exact, form.work + bounds + judged]
        runners = [
            stage_engine(engine),
            stage_engine(engine, form_stages(Approximation(form, certificate))),
        ]
        names = ["exact", form.name]
        if labels and d > 16:
            cut = truncate(spectrum(form), 8)
            works.append(cut.work + bounds + judged)
            runners.append(stage_engine(engine, form_stages(Approximation(cut, certificate))))
            names.append(cut.name)
        calls = [partial(one.run, finish=finish, criterion=criterion) for one in runners]
        for way, work, cost in zip(names, works, raced(calls, rows), strict=True):
            yield f"{name}, {n} centers, {d} features, {way}", work, cost


def one_vs_one(rng: np.random.Generator, n: int) -> np.ndarray:
    """Coefficients of pairs: a center takes part in those of its class."""
    classes = np.sort(rng.integers(CLASSES, size=n))
    pairs = [(i, j) for i in range(CLASSES) for j in range(i + 1, CLASSES)]
    found = np.zeros((n, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        found[classes == i, column], found[classes == j, column] = 1.0, -1.0
    return found


def fitted(works: list[Work], costs: list[float]) -> list[float]:
    """The rates that explain the costs best, relative to each cost; none is negative."""
    kept = np.array(RATES)
    shares = np.array(works) * kept / np.array(costs)[:, None]  # of each cost, by kept rates
    pulled = KEPT_WEIGHT * np.eye(len(kept))
    left = np.vstack([shares, pulled])
    right = np.concatenate([np.ones(len(costs)), np.full(len(kept), KEPT_WEIGHT)])
    return list(nnls(left, right)[0] * kept)


def _same(scores: Any) -> Any:
    return scores


if __name__ == "__main__":
    raise SystemExit(main())
