"""From an ensemble's machines to one machine: read, then merged.

In: the machines, and which outputs each has. Out: a `Machine` whose expansion is merged as far as
kernels and ways of the rows agree, under the ensemble's own head.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head, Member, MultiOutputHead, RegressorHead
from kernelite.machine.machine import Machine, MachinePart, SumOfMachines, merge_expansions
from kernelite.machine.preparation import Selection, Step
from kernelite.sources.common import feature_names, scaled_machine
from kernelite.sources.pipeline import with_step
from kernelite.support.errors import UnsupportedModelError

__all__ = [
    "assembled",
    "members_of",
    "offered_methods",
    "places_of",
    "read_members",
    "side_by_side",
    "weighted",
]


def side_by_side(machines: Sequence[Machine]) -> list[NDArray[np.int64]]:
    """Columns for the outputs of each machine, one after the other.

    Examples
    --------
    >>> from kernelite.sources import read
    >>> bump = read(KernelExpansion([[0.0]], [[2.0, 1.0]], [0.0, 0.0], gamma=1.0))
    >>> side_by_side([bump, bump])
    [array([0, 1]), array([2, 3])]
    """
    ends = np.cumsum([0, *(machine.expansion.n_outputs for machine in machines)])
    return [np.arange(start, stop) for start, stop in pairwise(ends)]


def weighted(machine: Machine, weight: Fraction) -> Machine:
    """The same machine with its outputs multiplied; its head must take them as they are."""
    k = machine.expansion.n_outputs
    return replace(
        machine, expansion=scaled_machine(machine.expansion, [weight] * k, [Fraction(0)] * k)
    )


def _flattened(
    machines: Sequence[Machine], outputs: Sequence[NDArray[np.int64]]
) -> Iterator[MachinePart]:
    """Machines without composites among them."""
    for machine, columns in zip(machines, outputs):
        if isinstance(machine.expansion, SumOfMachines):
            inner = machine.expansion.parts
            behind = [_behind(machine, part.machine) for part in inner]
            yield from _flattened(behind, [columns[part.outputs] for part in inner])
        else:
            # The variance of a Gaussian process is not what an ensemble answers.
            yield MachinePart(replace(machine, posterior=None), columns)


def _behind(outer: Machine, inner: Machine) -> Machine:
    """The inner machine, reached by the outer one's way first."""
    for step in reversed(outer.preparation.steps):
        inner = with_step(step, inner)
    return inner


def _groups(parts: Iterable[MachinePart]) -> list[list[MachinePart]]:
    """Parts that can be merged, together; in the order of their first."""
    groups: dict[Hashable, list[MachinePart]] = {}
    for part in parts:
        groups.setdefault(_way(part.machine), []).append(part)
    return list(groups.values())


def _way(machine: Machine) -> Hashable:
    """How rows reach a machine and what its kernel is: equal where machines can be merged."""
    e = machine.single
    return (*map(_key, machine.preparation.steps), e.kernel, e.n_features)


def _key(step: Step) -> Hashable:
    if isinstance(step, AffineMap):
        return "affine", *((how, by.tobytes()) for how, by in step.operations)
    if isinstance(step, Selection):
        return "selection", step.columns.tobytes(), step.n_features
    return "kept", id(getattr(step, "transformer", step))


def _merged(group: list[MachinePart]) -> MachinePart:
    if len(group) == 1:
        return group[0]
    reached = np.unique(np.concatenate([part.outputs for part in group]))
    local = [np.searchsorted(reached, part.outputs) for part in group]
    expansion = merge_expansions([part.machine.single for part in group], local, len(reached))
    heads = [part.machine.head for part in group]
    if all(head.scores_are_values for head in heads):
        head: Head = RegressorHead(len(reached))
    else:
        members = tuple(Member(head, columns) for head, columns in zip(heads, local))
        kind = "regressor" if heads[0].kind == "regressor" else "classifier"
        head = MultiOutputHead(members, kind, ("predict",))  # type: ignore[arg-type]
    return MachinePart(replace(group[0].machine, expansion=expansion, head=head), reached)


def _in_order(part: MachinePart) -> KernelExpansion:
    """The expansion of the only part, its outputs in the order of the scores."""
    expansion, order = part.machine.single, np.argsort(part.outputs)
    known = expansion.uncertainty
    return replace(
        expansion,
        coefficients=expansion.coefficients[:, order],
        intercept=expansion.intercept[order],
        uncertainty=None if known is None else known.of_outputs(order),
    )


def _description(type_name: str, machines: Sequence[Machine], parts: Sequence[MachinePart]) -> str:
    vectors = sum(part.machine.expansion.n_centers for part in parts)
    count = "1 machine" if len(machines) == 1 else f"{len(machines)} machines"
    kernels = {part.machine.single.kernel_name for part in parts}
    gammas = sorted({part.machine.single.gamma for part in parts})
    shown = f"gamma {gammas[0]:.6g}"
    if not all(part.machine.single.has_series for part in parts):
        shown = kernels.pop() if len(kernels) == 1 else "several kernels"
    elif len(gammas) > 1:
        shown += f" to {gammas[-1]:.6g}"
    return f"scikit-learn {type_name} of {count}, {vectors} support vectors, {shown}"


# Reading an ensemble's machines, which are refused in the ensemble's name.

COMBINED_METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
)


def read_members(models: Sequence[Any], type_name: str) -> list[Machine]:
    """Read each machine of an ensemble.

    Parameters
    ----------
    models : sequence of fitted estimators
    type_name : str
        The ensemble's class, for messages.
    """
    from kernelite.sources import read

    machines = []
    for model in models:
        try:
            machine = read(model)
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                f"this {type_name} holds a {type(model).__name__} that cannot be served: {error}"
            ) from None
        if machine.head.kind not in ("classifier", "regressor") or machine.tail is not None:
            raise UnsupportedModelError(
                f"this {type_name} holds a {type(model).__name__}, which is neither a classifier "
                "nor a regressor."
            )
        machines.append(machine)
    return machines


def member_of(
    model: Any,
    machine: Machine,
    columns: NDArray[np.int64],
    places: NDArray[np.int64] | None = None,
) -> Member:
    """A machine's place in its ensemble, responding as scikit-learn would ask it."""
    response: Literal["decision", "probability", "value"] = "probability"
    if machine.head.kind == "regressor":
        response = "value"
    elif hasattr(model, "decision_function"):
        response = "decision"
    if response == "probability" and "predict_proba" in machine.head.needs_posterior:
        raise UnsupportedModelError(
            f"a {type(model).__name__} inside another model is asked for probabilities, which need "
            "its variance; compile it by itself."
        )
    return Member(machine.head, columns, response, places)


def members_of(
    models: Sequence[Any],
    machines: Sequence[Machine],
    places: Sequence[NDArray[np.int64] | None] | None = None,
) -> tuple[Member, ...]:
    """The machines of an ensemble, whose scores stand side by side."""
    columns = side_by_side(machines)
    return tuple(map(member_of, models, machines, columns, places or [None] * len(machines)))


def places_of(model: Any, classes: NDArray[Any]) -> NDArray[np.int64] | None:
    """Where a machine's classes stand among the ensemble's sorted ones; None if they are these.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> places_of(SimpleNamespace(classes_=np.array([0, 2])), np.arange(3))
    array([0, 2])
    """
    own = np.asarray(model.classes_)
    if len(own) == len(classes) and (own == classes).all():
        return None
    places = np.searchsorted(classes, own)
    if (places >= len(classes)).any() or not (classes[places] == own).all():
        raise UnsupportedModelError(
            f"a {type(model).__name__} of this ensemble knows classes that the ensemble does not."
        )
    return places.astype(np.int64)


def offered_methods(model: Any, *without: str) -> tuple[str, ...]:
    """Which of the predicting methods an estimator has."""
    return tuple(name for name in COMBINED_METHODS if name not in without and hasattr(model, name))


def assembled(
    model: Any,
    type_name: str,
    machines: Sequence[Machine],
    head: Head,
    outputs: Sequence[NDArray[np.int64]] | None = None,
) -> Machine:
    """An ensemble as one machine.

    Parameters
    ----------
    model : estimator
    type_name : str
    machines : sequence of Machine
    head : Head
        Turns all scores into the ensemble's answers.
    outputs : sequence of int arrays, optional
        The columns of the scores that the outputs of each are added to; by default machines stand
        side by side.
    """
    if not machines:
        raise UnsupportedModelError(f"this {type_name} holds no fitted machines.")
    groups = _groups(_flattened(machines, side_by_side(machines) if outputs is None else outputs))
    parts = [_merged(group) for group in groups]
    widths = [getattr(one, "n_features", None) for one in machines]
    width = next(
        (w for w in (getattr(model, "n_features_in_", None), *widths) if w is not None), None
    )
    names = feature_names(model)
    machine = Machine(
        SumOfMachines(tuple(parts), None if width is None else int(width), head.n_scores),
        head,
        _description(type_name, machines, parts),
        "scikit-learn",
        type_name,
        machines[0].feature_names if names is None else names,
    )
    if len(parts) > 1:
        return machine
    (part,) = parts
    return replace(machine, expansion=_in_order(part), preparation=part.machine.preparation)
