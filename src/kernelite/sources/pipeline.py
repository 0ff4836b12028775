"""scikit-learn's Pipeline: scalers folded into the model, other transformers kept in front.

    (z - mean) / scale, then f      becomes      f after an AffineMap: no step of its own is left

Steps before a transformer that is kept are kept with it, in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.machine.affine import AffineMap, Operation
from kernelite.machine.front import Front, Kept, Selection, Step
from kernelite.rows.inputs import FloatArray
from kernelite.sources.linear import FEATURES, is_linear, linear_on
from kernelite.sources.parts import CompositeExpansion
from kernelite.sources.sklearn_common import feature_names
from kernelite.sources.source import Source

__all__ = ["read_pipeline", "scaler_map", "with_step"]

SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


def read_pipeline(model: Any, type_name: str = "Pipeline", /) -> Source:
    """Read a fitted Pipeline whose last step is a model that can be read.

    Parameters
    ----------
    model : Pipeline
    type_name : str

    Returns
    -------
    Source
        With the scalers directly before the model as its `input_map`, and what stands before them
        as its `front`.

    Raises
    ------
    UnsupportedModelError
        If a step has no `transform`, or the last one cannot be read.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVR
    >>> pipeline = make_pipeline(StandardScaler(), SVR(gamma=0.5)).fit([[0.0], [4.0]], [0, 1])
    >>> read_pipeline(pipeline).input_map.shift
    array([2.])
    """
    from kernelite.sources import read

    *before, last = [step for _, step in model.steps]
    if _does_nothing(last):
        raise UnsupportedModelError("this Pipeline ends in a step that does nothing, not a model.")
    transformers = _flat(before)
    if is_linear(last) and any(type(step).__name__ in FEATURES for step in transformers):
        source, transformers = _on_features(transformers, last)
    else:
        source = read(last)
    for transformer in reversed(transformers):
        source = _behind(transformer, source)
    if transformers:
        source = replace(source, feature_names=feature_names(transformers[0]))
    return replace(source, description=f"Pipeline of {source.description}")


def scaler_map(scaler: Any, /) -> AffineMap | None:
    """The affine map of a fitted StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler.

    Parameters
    ----------
    scaler : object

    Returns
    -------
    AffineMap, or None if it is something else (or clips).

    Raises
    ------
    InputError
        If its scales are beyond what a map can hold.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> scaler_map(MinMaxScaler().fit([[1.0], [3.0]]))
    AffineMap(scale=array([0.5]), shift=array([1.]), low=None)
    """
    kind = type(scaler).__name__
    if kind not in SCALERS or not _of_sklearn(scaler) or getattr(scaler, "clip", False):
        return None
    d = int(getattr(scaler, "n_features_in_", 0))
    if not d:
        raise UnsupportedModelError(f"this {kind} is not fitted; call `fit` first.")
    operations: list[Operation] = []
    if kind == "MinMaxScaler":
        return AffineMap.of(("*", _numbers(scaler.scale_)), ("+", _numbers(scaler.min_)))
    shift = getattr(scaler, "mean_" if kind == "StandardScaler" else "center_", None)
    divisor = getattr(scaler, "scale_", None)
    # Partial fits keep the mean without using it.
    if shift is not None and (kind != "StandardScaler" or scaler.with_mean):
        operations.append(("-", _numbers(shift)))
    operations.append(("/", np.ones(d) if divisor is None else _numbers(divisor)))
    return AffineMap.of(*operations)


def _numbers(array: Any) -> FloatArray:
    return np.asarray(array, dtype=np.float64)


def _on_features(transformers: list[Any], last: Any) -> tuple[Source, list[Any]]:
    """A linear model merged with the kernel features before it, and the steps before those."""
    from kernelite.sources import read

    place = max(i for i, step in enumerate(transformers) if type(step).__name__ in FEATURES)
    maps = []
    for step in transformers[place + 1 :]:
        folded = scaler_map(step)
        if folded is None:
            raise UnsupportedModelError(
                f"this Pipeline has a {type(step).__name__} between its "
                f"{type(transformers[place]).__name__} and its {type(last).__name__}; only scalers "
                "may stand there."
            )
        maps.append(folded)
    return linear_on(read(transformers[place]), maps, last), transformers[:place]


def _flat(steps: list[Any]) -> list[Any]:
    """Steps that do something, those of nested pipelines among them."""
    found = []
    for step in steps:
        if type(step).__name__ == "Pipeline":
            found += _flat([inner for _, inner in step.steps])
        elif not _does_nothing(step):
            found.append(step)
    return found


def _behind(transformer: Any, source: Source) -> Source:
    """The same model, with one more step before all others."""
    kept = source.front is not None and not source.front.rowwise
    try:
        step = _step(transformer)
        if not (isinstance(step, AffineMap) and kept):
            return with_step(step, source)
    except InputError:  # no map can hold its scales, or a feature is dropped and moved
        pass
    # The scaler's own arithmetic: before a kept transformer, its result goes through unknown
    # functions, so that no bound could hold the difference. The exact model begins behind it.
    return with_step(_kept(transformer), source)


def with_step(step: Step, source: Source) -> Source:
    """The same model, with `step` before all else; affine maps join its `input_map`.

    Raises
    ------
    InputError
        If the maps cannot be joined.
    """
    if isinstance(source.expansion, CompositeExpansion):
        if isinstance(step, Kept) or source.front is not None:
            return _in_front(step, source)
        parts = tuple(
            replace(part, source=with_step(step, part.source)) for part in source.expansion.parts
        )
        whole = replace(source.expansion, parts=parts, n_features=step.n_features)
        return replace(source, expansion=whole)
    if not isinstance(step, AffineMap):
        return _in_front(step, source)
    # A map before a selection is one after it, of the features that are selected: whatever the
    # order of scalers and selections, one map is left, and so one rounding.
    for later in () if source.front is None else source.front.steps:
        if not isinstance(later, Selection):
            raise InputError("an affine map cannot stand before a transformer that is kept.")
        step = step.selected(later.columns)
    if source.width_is_open:
        raise InputError("an affine map cannot stand before a model that takes rows of any width.")
    joined = step if source.input_map is None else step.then(source.input_map)
    return replace(source, input_map=joined)


def _in_front(step: Step, source: Source) -> Source:
    rest = () if source.front is None else source.front.steps
    return replace(source, front=Front((step, *rest), step.n_features))


def _step(transformer: Any) -> Step:
    folded = scaler_map(transformer)
    if folded is not None:
        return folded
    if not hasattr(transformer, "transform"):
        raise UnsupportedModelError(
            f"this Pipeline has a {type(transformer).__name__} before its model, which cannot "
            "transform new rows."
        )
    if hasattr(transformer, "get_support") and hasattr(transformer, "n_features_in_"):
        # A feature selector: what it keeps is known.
        return Selection(transformer.get_support(indices=True), int(transformer.n_features_in_))
    return _kept(transformer)


def _kept(transformer: Any) -> Kept:
    width = getattr(transformer, "n_features_in_", None)  # text has none
    return Kept(transformer, type(transformer).__name__, None if width is None else int(width))


def _does_nothing(step: Any) -> bool:
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return True
    identity = type(step).__name__ == "FunctionTransformer" and _of_sklearn(step)
    return identity and step.func is None


def _of_sklearn(instance: Any) -> bool:
    return type(instance).__module__.partition(".")[0] == "sklearn"
