"""Compiling a model of several parts: each by itself, then what they cost together.

In: a machine whose expansion is a `SumOfMachines`. Out: a CompiledModel with `parts`. A part is
planned as if it had to answer alone, which is all that can be known of it; whether the whole is
settled is decided over all scores, at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from kernelite.data.rows.inputs import FloatArray, some_rows
from kernelite.machine.machine import Machine, SumOfMachines
from kernelite.machine.preparation import NO_STEPS
from kernelite.model import CompiledModel, ModelPart
from kernelite.model.compiler.passes import default_tolerance, given_tolerance, score_tolerance
from kernelite.model.serving import rows_and_runner
from kernelite.planner.costs import exact_cost, nanoseconds
from kernelite.planner.plan import Candidate, Plan, exact_name
from kernelite.program.criteria import label_criterion
from kernelite.series.work import Work
from kernelite.support.errors import InputError

__all__ = ["compile_composite", "part_plans"]

COMPOSITE_SAMPLE_ROWS = 1000
FEW_PARTS = 4  # whose plans may be timed
LITTLE_GAIN = 4.0  # times a form's cost that all of a machine's centers may take without a search
LARGEST_EXACT_SHARE = 0.5
APART = 0.75  # of the exact cost, that parts with forms must stay below: exact ones take one call
CompilePart: TypeAlias = Callable[..., CompiledModel]


def compile_composite(
    machine: Machine,
    X: Any,
    tolerance: Any,
    compile_part: CompilePart,
    plans: Sequence[str],
    **fields: Any,
) -> CompiledModel:
    """Compile each part, and plan the whole.

    Parameters
    ----------
    machine : Machine
        Of several parts.
    X : rows, optional
        A sample, as it came.
    tolerance : float or array of shape (values,), optional
        Of the whole, as for `compile`.
    compile_part : callable
        Compiles one part: (its machine, X, tolerance=..., plan=...).
    plans : sequence of str
        How candidates of each part are compared, as for `compile`.
    fields
        Of the CompiledModel: guarantee, origin, on_invalid, posterior.

    Returns
    -------
    CompiledModel
    """
    expansion = machine.expansion
    assert isinstance(expansion, SumOfMachines)
    if fields["guarantee"] == "calibrated":
        raise InputError(
            f"this {machine.type_name} is made of {len(expansion.parts)} machines whose kernels or "
            "inputs differ; guarantee='calibrated' serves one machine, use 'certified'."
        )
    if X is not None and machine.preparation.steps:
        X = machine.preparation(X, machine.feature_names)
    limits = _tolerance(machine, X, tolerance) if fields["guarantee"] == "certified" else None
    parts = tuple(
        ModelPart(compile_part(part.machine, X, tolerance=limit, plan=plan), part.outputs)
        for part, limit, plan in zip(expansion.parts, _shared(machine, expansion, limits), plans)
    )
    if limits is None and machine.head.scores_are_values:
        limits = _added_up(parts, machine.head.n_scores)
    spread = None
    if limits is None and fields["guarantee"] == "certified" and X is not None:
        spread = score_tolerance(
            machine.head, machine.expansion.scores(some_rows(X, COMPOSITE_SAMPLE_ROWS))
        )
    model = CompiledModel(
        head=machine.head,
        approximation=None,
        expansion=None,
        plan=parts[0].model.plan,
        tolerance=limits,
        score_tolerance=spread,
        preparation=machine.preparation,
        parts=parts,
        **fields,
    )
    return _planned(model, X)


def part_plans(expansion: SumOfMachines) -> list[str]:
    """How to plan each part where the user did not say: many machines are not timed one by one.

    No form is looked for where a machine's centers cost little more than its form would.
    """
    parts = expansion.parts
    if len(parts) <= FEW_PARTS:
        return ["auto"] * len(parts)
    plans = []
    for part in parts:
        e = part.machine.single
        form = nanoseconds(Work(rows=1, products=e.n_features * (e.n_features + 3) / 2))
        exact = exact_cost(e, labels=part.machine.head.proves_labels)
        plans.append("exact" if exact <= LITTLE_GAIN * form else "estimate")
    # Together they take one call; forms of some would take the others apart.
    return (
        ["exact"] * len(parts) if plans.count("exact") > LARGEST_EXACT_SHARE * len(parts) else plans
    )


def _tolerance(machine: Machine, X: Any, tolerance: Any) -> FloatArray | None:
    if tolerance is not None:
        return given_tolerance(machine.head, tolerance)
    if machine.head.proves_labels:
        return None
    if X is None and machine.head.scores_are_values:
        return None  # what the parts choose, added up
    if X is None:
        raise InputError(
            f"this {machine.type_name} is made of machines whose kernels or inputs differ; give "
            "`X`, rows like those to come, to choose a tolerance from, or `tolerance` itself."
        )
    return default_tolerance(
        machine.head, machine.expansion.scores(some_rows(X, COMPOSITE_SAMPLE_ROWS))
    )


def _added_up(parts: tuple[ModelPart, ...], n_outputs: int) -> FloatArray | None:
    total = np.zeros(n_outputs)
    for part in parts:
        if part.model.tolerance is None:  # not certified
            return None
        total[part.outputs] += part.model.tolerance
    return total


def _shared(
    machine: Machine, expansion: SumOfMachines, tolerance: FloatArray | None
) -> list[FloatArray | None]:
    """What each part may err: an equal share, where parts are added up and taken as they are."""
    if tolerance is None or not machine.head.scores_are_values:
        return [None] * len(expansion.parts)
    count = np.zeros(expansion.n_outputs)
    for part in expansion.parts:
        count[part.outputs] += 1
    return [tolerance[part.outputs] / count[part.outputs] for part in expansion.parts]


def _planned(model: CompiledModel, X: Any) -> CompiledModel:
    """The model with a plan of the whole; exact in all parts where that is cheaper."""
    plans = [part.model.plan for part in model.parts]
    exact = float(sum(plan.exact_nanoseconds for plan in plans))
    left = _open_share(model, X)
    forms = sum(_without_exact(plan) for plan in plans)
    cost = forms + left * exact
    chosen = Candidate(_name(plans), cost, left, model.nbytes, "cheapest")
    notes = tuple(f"Part {i + 1}: {plan.chosen.name}." for i, plan in enumerate(plans))
    if not any(part.model.approximation or part.model.local for part in model.parts):
        alone = replace(chosen, name=_name(plans), nanoseconds=exact, open_share=1.0)
        reason = replace(alone, verdict="no form is cheaper here")
        return replace(model, plan=Plan(model.guarantee, reason, (), exact, notes))
    name = exact_name(model.origin.n_centers)
    line = Candidate(name, exact, 1.0, model.nbytes, "looks at every support vector")
    if model.guarantee != "certified" or cost < APART * exact:
        return replace(model, plan=Plan(model.guarantee, chosen, (line,), exact, notes))
    lost = replace(chosen, verdict=f"{100 * left:.0f}% of rows stay open")
    parts = tuple(
        replace(part, model=replace(part.model, approximation=None, local=None))
        for part in model.parts
    )
    plan = Plan(
        model.guarantee, replace(line, verdict="no form is cheaper here"), (lost,), exact, notes
    )
    return replace(model, parts=parts, plan=plan)


def _open_share(model: CompiledModel, X: Any) -> float:
    """The share of rows that some part has to evaluate exactly, on the sample if there is one."""
    if model.guarantee != "certified":
        return 0.0
    if X is None:
        return float(max(part.model.plan.chosen.open_share for part in model.parts))
    probe = replace(model, preparation=NO_STEPS)  # `X` went through it already
    rows, runner = rows_and_runner(probe, some_rows(X, COMPOSITE_SAMPLE_ROWS))
    criterion = label_criterion(model.head, model.tolerance)
    return runner.run(rows, lambda scores: scores, criterion)[1].open_share


def _without_exact(plan: Plan) -> float:
    """What the forms of a part cost, its exact tier taken off."""
    own = plan.chosen.nanoseconds - plan.chosen.open_share * plan.exact_nanoseconds
    return plan.chosen.nanoseconds if plan.chosen.is_exact else max(own, 0.0)


def _name(plans: list[Plan]) -> str:
    names = {"exact" if plan.chosen.is_exact else plan.chosen.name for plan in plans}
    kind = names.pop() if len(names) == 1 else "each its own plan"
    kind = "each summing all its support vectors" if kind == "exact" else kind
    return f"{len(plans)} parts, {kind}"
