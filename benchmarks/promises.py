"""What the guarantees promise, on the shared models: `python -m benchmarks.promises`.

certified   labels that differ on all test rows, rows undecided before the exact tier, compiling
calibrated  labels that differ and rows that fall back on a9a 0.1; the rate over random splits
files       bytes without support vectors against the LIBSVM model
rho         memory of certifying 50,000 support vectors with 45 outputs
"""

from __future__ import annotations

import argparse
import bz2
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import kernelite as kl
from benchmarks.workloads import SHARED, Workload, available, load
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import Bounded
from kernelite.series.remainder import remainder_norms

__all__ = ["main"]

SAMPLE, SPLITS, RATE = 4_000, 50, 1e-3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections asked for."""
    sections: dict[str, Callable[[], None]] = {
        "certified": certified,
        "calibrated": calibrated,
        "splits": splits,
        "files": files,
        "rho": rho,
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises")
    parser.add_argument("sections", nargs="*", help=", ".join(sections))
    for name in parser.parse_args(argv).sections or sections:
        sections[name]()
    return 0


def shared_workloads(**options: Any) -> list[Workload]:
    """The shared models that are here."""
    return [load(name, **options) for name in available() if name in SHARED]


def certified() -> None:
    """All test rows of all models, with 4,000 training rows as the sample."""
    for work in shared_workloads(sample_rows=SAMPLE):
        started, busy = time.perf_counter(), time.process_time()
        fast = kl.compile(work.source, work.sample)
        took = time.perf_counter() - started, time.process_time() - busy
        labels, stats = fast.predict(work.rows, return_stats=True)
        differ = np.count_nonzero(labels != work.labels)
        bound = fast.error_bound(work.rows)[:, None]
        room = ExactEngine.prepare(work.expansion).bound(work.rows)
        broken = np.abs(fast.decision_function(work.rows)[:, None] - work.scores) > bound + room
        print(
            f"{work.name}: {fast.plan.chosen.name}\n"
            f"  {differ} of {stats.rows:,} labels differ, {broken.sum()} bounds broken; undecided "
            f"before the exact tier {100 * stats.open_share:.3f}%, undecidable "
            f"{stats.undecidable}; compiled in {took[0]:.1f} s ({took[1]:.1f} s of processors)"
        )


def calibrated() -> None:
    """a9a 0.1 with all training rows."""
    work = load("a9a 0.1", sample_rows=10**9)
    fast = kl.compile(work.source, work.sample, guarantee="calibrated")
    labels, stats = fast.predict(work.rows, return_stats=True)
    differ = np.mean(labels != work.labels)
    print(
        f"a9a 0.1 calibrated: {100 * differ:.3f}% of test labels differ, "
        f"{100 * stats.open_share:.2f}% fall back"
    )


class _Remembered:
    """The exact engine, with all scores computed beforehand: splits then cost little."""

    def __init__(self, table: dict[bytes, np.ndarray]) -> None:
        self.table = table

    def prepare(self, expansion: KernelExpansion) -> _Remembered:
        return self

    def run(self, rows: np.ndarray) -> Bounded:
        scores = np.array([self.table[row.tobytes()] for row in rows])
        return Bounded(scores, np.zeros_like(scores))


def splits() -> None:
    """How often the promised rate is broken on held-out rows, over random splits of all rows."""
    work = load("a9a 0.1", sample_rows=10**9)
    rows = np.concatenate([work.sample, work.rows])
    scores = ExactEngine.prepare(work.expansion).run(rows).scores
    labels = work.source.head.predict(scores)
    known = _Remembered({row.tobytes(): score for row, score in zip(rows, scores)})
    rates, shares = [], []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(rows))
        chosen, held = order[: len(work.sample)], order[len(work.sample) :]
        with patch("kernelite.planner.calibrated.ExactEngine", known):
            fast = kl.compile(
                work.source,
                rows[chosen],
                guarantee="calibrated",
                max_disagreement=RATE,
                random_state=seed,
            )
        got, stats = fast.predict(rows[held], return_stats=True)
        rates.append(np.mean(got != labels[held]))
        shares.append(stats.open_share)
    broken = np.count_nonzero(np.array(rates) > RATE)
    print(
        f"a9a 0.1, {SPLITS} splits: rate above {RATE:g} in {broken}; mean "
        f"{np.mean(rates):.2g}, largest {max(rates):.2g}; "
        f"{100 * np.mean(shares):.1f}% fall back"
    )


def files() -> None:
    """Bytes of a form without support vectors against LIBSVM's uncompressed text."""
    with tempfile.TemporaryDirectory() as folder:
        for work in shared_workloads(sample_rows=SAMPLE):
            assert work.path is not None
            text = len(bz2.decompress(work.path.read_bytes()))
            for rank in ("full", "auto"):
                bare = kl.compile(work.source, work.sample, guarantee="none", rank=rank)
                path = Path(folder) / "m.kernelite"
                bare.save(path)
                size = path.stat().st_size
                assert bare.form is not None
                width = getattr(bare.form, "rank", "full")
                print(
                    f"{work.name}, rank={rank} ({width}): {size:,} bytes, LIBSVM {text:,}, "
                    f"{text / size:.1f} times smaller"
                )


def rho() -> None:
    """Time and memory of the certificate of a large one-vs-one model."""
    n, d, k = 50_000, 100, 45
    rng = np.random.default_rng(0)
    expansion = KernelExpansion(rng.normal(size=(n, d)), rng.normal(size=(n, k)), np.zeros(k), 1e-3)
    before = _peak()
    started, busy = time.perf_counter(), time.process_time()
    remainder_norms(expansion, np.zeros(d))
    took = time.perf_counter() - started, time.process_time() - busy
    print(
        f"rho of {n:,} support vectors, {d} features, {k} outputs: peak {_peak():.0f} MB (model "
        f"loaded: {before:.0f} MB), {took[0]:.0f} s ({took[1]:.0f} s of processors)"
    )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    raise SystemExit(main())
