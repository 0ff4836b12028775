"""One pass a guarantee: from a task to the fields of the compiled model that it decides."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from kernelite.backends.cpu.forms import certify
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.model.compiler.task import (
    DEFAULT_TOLERANCE,
    Task,
    default_tolerance,
    given_tolerance,
    score_tolerance,
)
from kernelite.planner.calibrated import calibrated_plan
from kernelite.planner.costs import Option, tiers_cost
from kernelite.planner.measure import Finals
from kernelite.planner.plan import Plan
from kernelite.planner.planner import (
    exact_candidate,
    local_candidate,
    plan_certified,
    truncated_form,
)
from kernelite.planner.search import PREFERRED
from kernelite.program.criteria import label_criterion
from kernelite.series.approximation import Approximation
from kernelite.series.packed import collapsed, packed_degree
from kernelite.series.series import SeriesForm, quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.terminal import progress_bar

__all__ = [
    "calibrated_fields",
    "certified_fields",
    "exact_fields",
    "none_fields",
    "pointwise_fields",
]

SPREAD_ROWS = 256  # of the sample, that show how decision values vary, or how far a form is off
SPREAD_PAIRS = 400_000_000  # of rows and centers, for all of them
AS_CHEAP = 1.1  # times a form's cost: estimates are no closer than that
Fields: TypeAlias = dict[str, Any]


def exact_fields(task: Task, guarantee: str = "exact") -> Fields:
    """The exact model, on kernelite's engine."""
    chosen = exact_candidate(task.expansion, "asked for", labels=task.machine.head.proves_labels)
    plan = Plan(guarantee, chosen, (), chosen.nanoseconds)
    return {"approximation": None, "expansion": task.expansion, "plan": plan}


def pointwise_fields(task: Task, guarantee: str, tolerance: Any, plan: str) -> Fields:
    """A kernel without a series: exact under every guarantee, by whatever layout is cheapest."""
    kernel = task.expansion.kernel
    if not kernel.proven and guarantee != "exact":
        raise UnsupportedModelError(
            f"the kernel of this {task.machine.type_name} ({kernel.label}) {kernel.unproven}; use "
            "guarantee='exact'."
        )
    if plan not in ("auto", "estimate", "measure", "exact"):
        raise InputError(
            f"`plan` asks for {plan!r}, but there is no form of this kernel "
            f"({task.expansion.kernel_name}); leave `plan` out."
        )
    collapses = packed_degree(task.expansion) is not None
    verdict = "exact, no support vector is looked at" if collapses else "this kernel has no form"
    chosen = exact_candidate(task.expansion, verdict, labels=task.machine.head.proves_labels)
    no_form = "This kernel has no form: every row is summed exactly, under each guarantee."
    if not kernel.proven:
        no_form = f"Nothing is proven: this kernel {kernel.unproven}."
    # A variance is computed from the training rows; nothing else needs those of a linear kernel.
    posterior = task.machine.posterior if guarantee != "none" else None
    fields: Fields = {
        "approximation": None,
        "expansion": collapsed(task.expansion) if posterior is None else task.expansion,
        "plan": Plan(*(guarantee, chosen, (), chosen.nanoseconds), () if collapses else (no_form,)),
    }
    if guarantee == "certified":
        fields["tolerance"] = _tolerances(task, tolerance, task.sample())
    return fields


def none_fields(task: Task, rank: int | str, certificate: bool) -> Fields:
    """The paper's form about one point, cut to `rank` directions."""
    _warn_about_few_centers(task.expansion)
    task.refuse_large_form()
    _, point = task.point()
    form = quadratic_form(task.expansion, point)
    cut = _cut(task, form, rank)
    proof = certify(task.expansion, point, mapped=task.mapped) if certificate else None
    approximation = Approximation(cut, proof)
    cost = tiers_cost(approximation, task.expansion, 0.0, 0.0)
    chosen = Option(cut.name, approximation, cost, 0.0).on_all_threads().candidate("asked for")
    exact = exact_candidate(task.expansion, "", labels=task.machine.head.proves_labels).nanoseconds
    cheaper = "The exact engine is estimated to cost no more than this form: try guarantee='exact'."
    notes = (cheaper,) if exact < AS_CHEAP * chosen.nanoseconds else ()
    plan = Plan("none", chosen, (), exact, notes)
    return {"approximation": approximation, "expansion": None, "plan": plan}


def certified_fields(task: Task, tolerance: Any, plan: str) -> Fields:
    """The cheapest tiers whose answers are proven, or local sums where they are cheaper."""
    head, sample = task.machine.head, task.sample()
    if plan == "exact":
        tolerances = _tolerances(task, tolerance, sample)
        return exact_fields(task, "certified") | _kept_within(task, sample, tolerances)
    wanted = None if plan in ("auto", "estimate", "measure") else plan
    with progress_bar("certifying") as on_progress:
        tolerances, judges = _tolerances(task, tolerance, sample), task.judges(sample)
        criterion, timed = label_criterion(head, tolerances), plan in ("auto", "measure")
        finals = Finals(head, tolerances, task.engine, always=plan == "measure") if timed else None
        approximation, explained = plan_certified(
            task.expansion,
            *task.point(),
            judges,
            criterion,
            max_bytes=task.max_bytes,
            mapped=task.mapped,
            choose=finals,
            values=not head.proves_labels,
            wanted=wanted,
            engine=task.engine,
            on_progress=on_progress,
        )
    local, kept = None, _kept_within(task, sample, tolerances)
    if wanted is None:
        # The engine takes more than the centers do, and so will boxes of them.
        finals = None
        if head.sum_budget(tolerances) is not None:
            task.forget_engine()
        found = local_candidate(
            *(task.expansion, head, judges, criterion, tolerances),
            exact=task.last_scores,
            exact_nanoseconds=explained.exact_nanoseconds,
            mapped=task.mapped,
            measure=plan == "measure",
        )
        cheapest = PREFERRED * explained.chosen.nanoseconds
        if found is not None and found[1].nanoseconds < cheapest:
            approximation, (local, candidate) = None, found
            explained = explained.choosing(candidate)
    return {
        "approximation": approximation,
        "expansion": task.expansion,
        "plan": explained.noting(task.sample_note(sample)),
        "local": local,
        **kept,
    }


def calibrated_fields(task: Task, max_disagreement: float, confidence: float) -> Fields:
    """The cheapest form, with a margin that was tested on rows it was not chosen by."""
    if task.given is None:
        raise InputError("guarantee='calibrated' needs `X`, rows like those to come, to test on.")
    task.refuse_large_form()
    name, point = task.point()
    approximation, threshold, plan = calibrated_plan(
        task.expansion,
        task.machine.head,
        task.given,
        None if name == "mean of X" else point,
        max_disagreement=max_disagreement,
        confidence=confidence,
        random_state=task.random_state,
    )
    return {
        "approximation": approximation,
        "expansion": task.expansion,
        "plan": plan,
        "threshold": threshold,
    }


def _cut(task: Task, form: SeriesForm, rank: int | str) -> SeriesForm:
    if isinstance(rank, Integral):
        if rank > form.n_features:
            raise InputError(f"`rank` must lie between 1 and {form.n_features}, got {rank}.")
        return truncate(spectrum(form), int(rank))
    sample = task.sample()
    if rank == "full" or not len(sample):
        return form

    def off() -> float:
        some = sample[:: -(-len(sample) // SPREAD_ROWS)]
        errors = np.abs(form.evaluate(some)[0] - task.engine.run(some).scores)
        return float(np.quantile(errors, 0.95, axis=0).max(initial=0.0))

    return truncated_form(form, sample, off)


def _tolerances(task: Task, tolerance: Any, sample: FloatArray) -> FloatArray | None:
    head = task.machine.head
    if tolerance is not None:
        return given_tolerance(head, tolerance)
    if head.proves_labels:
        return None
    if (own := head.own_tolerance(DEFAULT_TOLERANCE)) is not None:
        return own
    # Fewer rows show the spread as well where each of them takes long.
    most = max(SPREAD_ROWS, SPREAD_PAIRS // max(task.expansion.n_centers, 1))
    sample = sample[:: -(-len(sample) // most) or 1]
    scores = task.engine.run(sample).scores
    tail = task.machine.tail
    return default_tolerance(head, scores if tail is None else scores + tail.values(sample)[0])


def _kept_within(task: Task, sample: FloatArray, tolerances: FloatArray | None) -> Fields:
    """Tolerances of values; where there are none, of decision values, from some rows."""
    if tolerances is not None:
        return {"tolerance": tolerances, "score_tolerance": None}
    some = sample[:: -(-len(sample) // SPREAD_ROWS) or 1]
    spread = score_tolerance(task.machine.head, task.engine.run(some).scores)
    return {"tolerance": None, "score_tolerance": spread}


def _warn_about_few_centers(expansion: KernelExpansion) -> None:
    n, d = expansion.n_centers, expansion.n_features
    if 0 < n <= d:
        warnings.warn(
            f"the model has only {n} support vectors in {d} features: the compiled matrix gives "
            "away the space they span (with one, the vector itself). It is not a way to hide them.",
            stacklevel=4,
        )
