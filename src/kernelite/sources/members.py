"""What the readers of ensembles share: their machines read, and refused in the ensemble's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads import Head, Member
from kernelite.machine.machine import Machine
from kernelite.sources.combine import combined, side_by_side
from kernelite.sources.sklearn_common import feature_names

__all__ = [
    "assembled",
    "member_of",
    "members_of",
    "offered_methods",
    "places_of",
    "read_members",
    "width_of",
]

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")


def read_members(models: Sequence[Any], type_name: str) -> list[Machine]:
    """Read each machine of an ensemble.

    Parameters
    ----------
    models : sequence of fitted estimators
    type_name : str
        The ensemble's class, for messages.
    """
    from kernelite.sources import read

    sources = []
    for model in models:
        try:
            source = read(model)
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                f"this {type_name} holds a {type(model).__name__} that cannot be served: {error}"
            ) from None
        if source.head.kind not in ("classifier", "regressor") or source.tail is not None:
            raise UnsupportedModelError(
                f"this {type_name} holds a {type(model).__name__}, which is neither a classifier "
                "nor a regressor."
            )
        sources.append(source)
    return sources


def member_of(
    model: Any,
    source: Machine,
    columns: NDArray[np.int64],
    places: NDArray[np.int64] | None = None,
) -> Member:
    """A machine's place in its ensemble, responding as scikit-learn would ask it."""
    response: Literal["decision", "probability", "value"] = "probability"
    if source.head.kind == "regressor":
        response = "value"
    elif hasattr(model, "decision_function"):
        response = "decision"
    if response == "probability" and "predict_proba" in source.head.needs_posterior:
        raise UnsupportedModelError(
            f"a {type(model).__name__} inside another model is asked for probabilities, which need "
            "its variance; compile it by itself."
        )
    return Member(source.head, columns, response, places)


def members_of(
    models: Sequence[Any],
    sources: Sequence[Machine],
    places: Sequence[NDArray[np.int64] | None] | None = None,
) -> tuple[Member, ...]:
    """The machines of an ensemble, whose scores stand side by side."""
    columns = side_by_side(sources)
    return tuple(map(member_of, models, sources, columns, places or [None] * len(sources)))


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
    return tuple(name for name in METHODS if name not in without and hasattr(model, name))


def width_of(model: Any, sources: Sequence[Machine]) -> int | None:
    """The width of the rows that an ensemble takes; None for text."""
    for width in (getattr(model, "n_features_in_", None), *(_width(s) for s in sources)):
        if width is not None:
            return int(width)
    return None


def assembled(
    model: Any,
    type_name: str,
    sources: Sequence[Machine],
    head: Head,
    outputs: Sequence[NDArray[np.int64]] | None = None,
) -> Machine:
    """The ensemble's source, its machines side by side unless `outputs` says where they go."""
    names = feature_names(model)
    if names is None and sources:
        names = sources[0].feature_names
    return combined(
        sources,
        side_by_side(sources) if outputs is None else outputs,
        head,
        type_name=type_name,
        n_features=width_of(model, sources),
        feature_names=names,
    )


def _width(source: Machine) -> int | None:
    return getattr(source, "n_features", None)
