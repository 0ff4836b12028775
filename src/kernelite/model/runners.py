"""The engines of a compiled model, laid out to run: prepare once, predict many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelite.cpu.runner import Runner
from kernelite.program.criteria import label_criterion

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["runner_of"]


def runner_of(model: ModelFields) -> Runner:
    """For rows of the model's width."""
    if model.parts:
        parts = [
            (
                part.model._runner,
                part.outputs,
                label_criterion(part.model.head, part.model.tolerance),
            )
            for part in model.parts
        ]
        return Runner.of_parts(parts, model.head.n_scores)
    front = model.front if model.front is not None and model.front.rowwise else None
    return Runner.prepare(
        model.approximation, model.expansion, model.input_map, front, model.local, model.tail
    )
