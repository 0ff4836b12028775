"""The maps that rows come through before a machine: derivatives and distances behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.explain.terms import SeenBy
from kernelite.machine.affine import AffineMap
from kernelite.machine.preparation import Selection
from kernelite.machine.preparation.numeric import OwnScaling
from kernelite.machine.preparation.projection import Projection
from kernelite.model.fields import ModelFields
from kernelite.support.errors import UnsupportedModelError

__all__ = ["back", "check_maps", "has_maps", "scales"]


def check_maps(model: ModelFields) -> None:
    """Refuse what stands before a model and has no derivative, or none that is served."""
    machines: list[ModelFields] = [part.model for part in model.parts]
    for one in (model, *machines):
        for step in one.preparation.steps:
            if not isinstance(step, AffineMap | Selection | OwnScaling | Projection):
                raise UnsupportedModelError(
                    f"rows go through a {type(step).__name__} step before this model, through "
                    "which derivatives are not taken; compile the last step of the pipeline by "
                    "itself, and pass transformed rows."
                )


def _steps(model: ModelFields, own: SeenBy) -> list[Any]:
    """What rows go through before a machine: the steps of the whole, then its own."""
    several = () if own.model is model else own.model.preparation.steps
    return [*model.preparation.steps, *several]


def has_maps(model: ModelFields, own: SeenBy) -> bool:
    """Whether a machine sees other numbers than users pass."""
    return bool(_steps(model, own))


def _scale(step: AffineMap | OwnScaling) -> FloatArray:
    if isinstance(step, AffineMap):
        return step.scale
    pairs: Any = zip(step.marks, step.by, strict=True)
    return AffineMap.of(*pairs).scale


def back(model: ModelFields, own: SeenBy, found: FloatArray, *, sizes: bool = False) -> FloatArray:
    """Derivatives by users' columns, from those by a machine's features: (..., d) to (..., width).

    Parameters
    ----------
    model : CompiledModel
    own : SeenBy
    found : ndarray
    sizes : bool
        Whether these are bounds, which maps multiply by absolute values.
    """
    for step in reversed(_steps(model, own)):
        if isinstance(step, AffineMap | OwnScaling):
            found = found * (np.abs(_scale(step)) if sizes else _scale(step))
        elif isinstance(step, Selection):
            wide = np.zeros((*found.shape[:-1], step.n_features))
            for place, column in enumerate(step.columns):  # which may be named twice
                wide[..., column] += found[..., place]
            found = wide
        else:
            matrix = step._words[0]
            found = found @ (np.abs(matrix) if sizes else matrix)
    return found


def scales(model: ModelFields, own: SeenBy) -> FloatArray:
    """What each feature of a machine is multiplied with before: features move by that much."""
    scale: Any = 1.0
    for step in _steps(model, own):
        if isinstance(step, AffineMap | OwnScaling):
            scale = scale * np.abs(_scale(step))
        elif isinstance(step, Selection) and len(set(step.columns.tolist())) == step.n_out:
            scale = np.broadcast_to(scale, (step.n_features,))[step.columns]
        else:
            raise UnsupportedModelError(
                f"rows go through a {type(step).__name__} step before this model, which distances "
                "are not measured through; compile the last step of the pipeline by itself, and "
                "pass transformed rows."
            )
    return np.broadcast_to(np.asarray(scale, dtype=np.float64), (own.rows.shape[1],))
