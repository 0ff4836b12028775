"""`python -m benchmarks.sweep`: which way to predict is fastest, for models of every size.

In: generated models (gamma from 0.01 to 10 times gamma_max, 2 to 800 features, 100 to 20,000
centers, labels and values), the board's and the paper's. Each model is laid out in every way that
a plan knows, and all ways answer the same rows in turns. Out: processor time per row of each way
on one thread, kept model by model in `results/sweep.json`, and the page `docs/measured/sweep.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.results import FOLDER, plain
from benchmarks.sweep_models import SAMPLE, Subject, subjects
from kernelite.backends.cpu.approximation import form_stages
from kernelite.backends.cpu.forms import certify
from kernelite.backends.cpu.local import LocalEngine, NearCenters
from kernelite.backends.cpu.one_pass import labels_of
from kernelite.backends.cpu.staging import stage_engine
from kernelite.backends.cpu.threads import limit_threads
from kernelite.cli.console import note
from kernelite.model.compiler import MAX_BYTES
from kernelite.model.compiler.passes import Task, _tolerances
from kernelite.planner.costs import exact_cost
from kernelite.planner.planner import local_candidate
from kernelite.planner.proof_probe import OPTIMISM
from kernelite.planner.search import CUBIC_RANKS, Search, _tensors, ranks, third_order_fits
from kernelite.program.criteria import label_criterion, predict_criterion
from kernelite.series.approximation import Approximation
from kernelite.series.cubic import cubic_form
from kernelite.series.directional import cubic_gram, directional_bound, gram_slack
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.sources import Machine
from kernelite.support.errors import KerneliteError
from kernelite.support.files import atomic_write

CALL_NS = 2e7  # nanoseconds that a call should take
FEWEST_ROWS = 384
ROUNDS = 3
KEPT = 2  # of each kind, that are timed
MOST_OPEN = 0.8  # beyond, a way cannot be 1.25 times as fast as the exact sum
FEW_CENTERS = 4_096  # up to which certificates are computed in full, else estimated
GRAM_BUDGET = 3e10  # multiply-adds of Gram matrices, where tensors are too large to hold
TENSOR_NUMBERS = 8e6  # of third orders, that are held while a model is laid out
WON_BY = 1.25
RESULTS = FOLDER / "sweep.json"
PAGE = Path(__file__).parents[1] / "docs" / "measured" / "sweep.md"


# Ways -----------------------------------------------------------------------------------------


class Ways:
    """The ways to answer one model's rows: by kind, a few of each."""

    def __init__(self, source: Machine, rows: np.ndarray) -> None:
        self.source = source
        prepared = source.preparation(rows) if source.preparation.steps else rows
        self.given, self.rows = prepared[:SAMPLE], np.ascontiguousarray(prepared[SAMPLE:])
        self.task = Task(source, self.given, "auto", MAX_BYTES, 0)
        self.sample, self.head = self.task.sample(), source.head
        self.tolerance = _tolerances(self.task, None, self.sample)
        self.criterion = label_criterion(self.head, self.tolerance)
        self.expansion = self.task.expansion
        self.search = Search(
            *(self.expansion, self.sample, self.criterion, MAX_BYTES, False, self.task.engine),
            labels=self.head.proves_labels,
            forced=True,
        )
        self.found: dict[str, list[tuple[float, str, Any]]] = {}
        self.said: dict[str, str] = {}

    def all(self) -> None:
        """Build them."""
        self.found["exact"] = [(0.0, "exact", stage_engine(self.task.engine))]
        self._near()
        if self.expansion.kernel.damps:
            try:
                self._about(self.task.point()[1])
            except KerneliteError as error:
                self.said["form"] = str(error)

    def _certificate(self, point: np.ndarray) -> Any:
        if self.expansion.n_centers <= FEW_CENTERS:
            return certify(self.expansion, point)
        estimate = self.search.probe.estimate(point)
        return replace(estimate, rho=estimate.rho / OPTIMISM)

    def _keep(self, kind: str, name: str, forms: Approximation) -> None:
        option = self.search._try(name, forms)
        self.found.setdefault(kind, []).append((option.nanoseconds, name, forms))

    def _about(self, point: np.ndarray) -> None:
        d, k = self.expansion.n_features, self.expansion.n_outputs
        certificate, form = self._certificate(point), quadratic_form(self.expansion, point)
        whole = Approximation(form, certificate)
        left = self.search._open(whole, 3)
        self.said["open"] = f"{self.search._open(whole, 2):.3f}, third {left:.3f}"
        if left > MOST_OPEN:
            self.said["form"] = f"leaves {100 * left:.0f}% open even with a third order"
            return
        self._keep("form", form.name, whole)
        cuts = []
        if tried := ranks(d, k):
            eigenpairs = spectrum(form)
            for rank in tried:
                cut = Approximation(truncate(eigenpairs, rank), certificate)
                self._keep("truncated", cut.form.name, cut)
                cuts.append(replace(cut, full=form))
                self._keep("truncated, then full", f"{cut.form.name}, then full", cuts[-1])
        cuts = sorted(cuts, key=lambda cell: self._expected(cell))[:KEPT]
        if third_order_fits(certificate):
            self._third(form, certificate, [whole, *cuts])

    def _expected(self, cell: Approximation) -> float:
        name = f"{cell.form.name}, then full"
        return min(cost for cost, said, _ in self.found["truncated, then full"] if said == name)

    def _third(self, form: Any, certificate: Any, firsts: list[Approximation]) -> None:
        d, k = form.n_features, form.n_outputs
        grams = []
        if d**3 * k <= TENSOR_NUMBERS:
            tensors = _tensors(self.expansion, form.point)
            for rank in (*(r for r in CUBIC_RANKS if r < d), d):
                if rank**3 / 6 * k > 1e7:
                    continue
                cubic = cubic_form(tensors, rank)
                for first in firsts:
                    cell = replace(first, cubic=cubic)
                    kind = "third order" if first.full is None else "truncated, third order"
                    self._keep(kind, f"{first.form.name}, {cubic.name}", cell)
                    if kind == "third order" and rank == d and not self.head.proves_labels:
                        self._keep("product for the third order", "product", cell)
            grams = [t.reshape(d, -1) @ t.reshape(d, -1).T for t in tensors]
        elif self.expansion.n_centers**2 * d * k < GRAM_BUDGET:
            grams = [cubic_gram(self.expansion, form.point, output) for output in range(k)]
        if grams:
            slack = gram_slack(self.expansion, certificate.rounding)
            bound = directional_bound(grams, min(d, CUBIC_RANKS[1]), slack)
            for first in firsts:
                name = f"{first.form.name}, {bound.name}"
                self._keep("directional bound", name, replace(first, cubic=bound))

    def _near(self) -> None:
        found = local_candidate(
            *(self.expansion, self.head, self.sample, self.criterion, self.tolerance),
            exact=lambda rows: self.task.engine.run(rows).scores,
            exact_nanoseconds=exact_cost(self.expansion),
            mapped=False,
        )
        if found is not None:
            near = NearCenters(LocalEngine.prepare(self.expansion, found[0]))
            runner = stage_engine(self.task.engine, (), near)
            self.found["near centers"] = [(found[1].nanoseconds, "near centers", runner)]

    def timed(self) -> dict[str, dict[str, Any]]:
        """Processor nanoseconds per row of the best way of each kind."""
        criterion = predict_criterion(self.head, self.tolerance)
        finish = labels_of(self.head) if self.head.proves_labels else lambda scores: scores
        calls, kinds = [], []
        for kind, ways in self.found.items():
            for _, name, way in sorted(ways, key=lambda way: way[0])[:KEPT]:
                runner = way
                if isinstance(way, Approximation):
                    forms = form_stages(way)
                    if kind == "third order":  # without a product in its place
                        forms[0].engine.__dict__["paired"] = None
                    runner = stage_engine(self.task.engine, forms)
                calls.append(partial(runner.run, finish=finish, criterion=criterion))
                kinds.append((kind, name))
        best: dict[str, dict[str, Any]] = {}
        for (kind, name), cost in zip(kinds, raced(calls, self.rows), strict=True):
            if kind not in best or cost < best[kind]["ns"]:
                best[kind] = {"ns": cost, "name": name}
        return best


def raced(calls: list[Callable[[np.ndarray], Any]], rows: np.ndarray) -> list[float]:
    """Processor nanoseconds per row of each call: the best of several, in turns."""
    batches, best = [], [np.inf] * len(calls)
    for call in calls:
        call(rows[:FEWEST_ROWS])
        started = time.process_time()
        call(rows[:FEWEST_ROWS])
        cost = 1e9 * max(time.process_time() - started, 1e-9) / FEWEST_ROWS
        batches.append(rows[: int(np.clip(CALL_NS / cost, FEWEST_ROWS, len(rows)))])
    for _ in range(ROUNDS):
        for i, (call, batch) in enumerate(zip(calls, batches, strict=True)):
            started, turns = time.process_time(), 0
            while turns == 0 or (time.process_time() - started < 1e-3 and turns < 64):
                call(batch)
                turns += 1
            taken = (time.process_time() - started) / turns
            best[i] = min(best[i], 1e9 * taken / len(batch))
    return best


# The command ----------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is not in the results yet; write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--anew", action="store_true", help="measure all models again")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", default="", help="models whose name contains this")
    args = parser.parse_args(argv)
    document: dict[str, Any] = {"machine": describe(), "models": {}}
    if RESULTS.is_file() and not args.anew:
        document = json.loads(RESULTS.read_text(encoding="utf-8"))
    with limit_threads(1):
        for subject in () if args.page else subjects():
            if subject.name in document["models"] or args.only not in subject.name:
                continue
            document["models"][subject.name] = plain(measured(subject))
            note(f"{subject.name}: {summary(document['models'][subject.name])}")
            with atomic_write(RESULTS) as file:
                file.write(json.dumps(document, indent=1) + "\n")
    with atomic_write(PAGE) as file:
        file.write(page(document))
    return 0


def measured(subject: Subject) -> dict[str, Any]:
    """One model's entry."""
    source, rows = subject.source()
    ways = Ways(source, rows)
    ways.all()
    n, d, k = (getattr(ways.expansion, name) for name in ("n_centers", "n_features", "n_outputs"))
    return {"n": n, "d": d, "k": k, "ways": ways.timed(), "said": ways.said}


def summary(entry: dict[str, Any]) -> str:
    """The fastest way, and its lead."""
    (best, kind), *others = sorted((way["ns"], kind) for kind, way in entry["ways"].items())
    lead = f", {others[0][0] / best:.2f} times before {others[0][1]}" if others else ""
    return f"{kind} {best:.0f} ns{lead}"


# The page -------------------------------------------------------------------------------------

KINDS = {
    "exact": ("exact sum of all centers", ("exact",)),
    "form": ("a form about one point, alone", ("form",)),
    "truncated": (
        "a truncated form, with or without what follows",
        ("truncated", "truncated, then full", "truncated, third order"),
    ),
    "third order": (
        "the third order behind a form",
        ("third order", "truncated, third order", "product for the third order"),
    ),
    "product": ("a product in the third order's place", ("product for the third order",)),
    "directional": ("a bound on directions in its place", ("directional bound",)),
    "near centers": ("sums over near centers", ("near centers",)),
}
"""Name -> what the page calls it, and the ways that it stands for."""


def leads(models: dict[str, Any], kinds: tuple[str, ...]) -> list[tuple[float, str]]:
    """How many times as fast as the best of the others, for all models that have both."""
    out = []
    for name, entry in models.items():
        own = [way["ns"] for kind, way in entry["ways"].items() if kind in kinds]
        others = [way["ns"] for kind, way in entry["ways"].items() if kind not in kinds]
        if own and others:
            out.append((min(others) / min(own), name))
    return sorted(out, reverse=True)


def page(document: dict[str, Any]) -> str:
    """`docs/measured/sweep.md`."""
    models = document["models"]
    lines = [TEXT.format(count=len(models), won=WON_BY).strip(), ""]
    lines += ["| way | models | first | first by 1.25 | largest lead | there |"]
    lines += ["|---|--:|--:|--:|--:|---|"]
    for title, kinds in KINDS.values():
        found = leads(models, kinds)
        if not found:
            continue
        first, clear = (sum(lead >= least for lead, _ in found) for least in (1.0, WON_BY))
        best, where = found[0]
        lines.append(f"| {title} | {len(found)} | {first} | {clear} | {best:.2f} | {where} |")
    lines += ["", "## All models", "", "| model | fastest | ns per row | lead | over |"]
    lines += ["|---|---|--:|--:|---|"]
    for name, entry in models.items():
        (best, kind), *others = sorted((way["ns"], kind) for kind, way in entry["ways"].items())
        lead, over = (f"{others[0][0] / best:.2f}", others[0][1]) if others else ("", "")
        lines.append(f"| {name} | {kind} | {best:,.0f} | {lead} | {over} |")
    return "\n".join(lines) + "\n"


TEXT = """
# Which way is fastest

Each of {count} models was laid out in every way that a plan knows, and all ways answered the same
rows in turns on one thread. Figures are processor time per row, so that other work on the machine
hardly counts. `python -m benchmarks.sweep` measures what is missing and writes this page; a way
that is never {won} times as fast as the best of the others has no place in a plan.

Rows are normal, in eight clusters far apart, or near eight directions. Up to 6,000 rows, and where
that takes seconds, models are fitted (SVC, SVR, kernel ridge); larger ones have a coefficient of +1
or -1 at each row, as support vectors at their bounds have. Of more than 4,096 centers, certificates
are estimated from some.

Bounds on directions lead from 300 features on, where the third order's tensor is too large to
hold: plans try them there alone. A product in the third order's place leads from 22 to 48
features, for values of rows that are spread evenly, where the third order in full costs as much as
all centers. Sums over near centers pay with 20,000 centers or more in two or three features and a
large gamma. Two kinds of ways are gone: forms about several points, and about the mean of the
support vectors beside that of the rows, which led by 1.18 at most on 220 models.
"""


if __name__ == "__main__":
    raise SystemExit(main())
