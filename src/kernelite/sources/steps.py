"""scikit-learn's transformers as steps of a preparation: one reader per class, found by name.

In: a fitted transformer. Out: the steps that do the same, as data; `NotFolded` where that cannot
be, so that the transformer is kept as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap, Operation
from kernelite.machine.preparation import Step
from kernelite.machine.preparation.columns import Branch, Columns, Selection
from kernelite.machine.preparation.numeric import (
    Normalize,
    OwnScaling,
    Polynomial,
    PowerMap,
    QuantileMap,
    Threshold,
)
from kernelite.machine.preparation.projection import Projection
from kernelite.sources.encoders import (
    NotFolded,
    bins,
    imputer_steps,
    indicator_steps,
    one_hot,
    ordinal,
    places_of,
)
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "NotFolded",
    "check_sparsity",
    "does_nothing",
    "flat",
    "own_scaling",
    "scaler_map",
    "steps_of",
]

SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
MOST_TERMS = 10**6  # numbers in the table of a polynomial's powers
FAR = 8.0  # standard deviations of all features together, that few rows are beyond


def steps_of(transformer: Any) -> list[Step]:
    """The steps of a fitted transformer, in order.

    Examples
    --------
    >>> from sklearn.preprocessing import Binarizer
    >>> steps_of(Binarizer(threshold=2.0).fit([[1.0]]))
    [Threshold(threshold=2.0, n_features=1)]
    """
    kind = type(transformer).__name__
    if not _of_sklearn(transformer):
        raise NotFolded
    try:
        if kind in READERS:
            return READERS[kind](transformer)
        folded = scaler_map(transformer)
        if folded is not None:
            return [folded]
        if hasattr(transformer, "get_support") and hasattr(transformer, "n_features_in_"):
            return [Selection(transformer.get_support(indices=True), transformer.n_features_in_)]
    except (
        InputError,
        AttributeError,
    ):  # what no step can hold, or another version names otherwise
        raise NotFolded from None
    raise NotFolded


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
    operations = _operations(scaler)
    return None if operations is None else AffineMap.of(*operations)


def own_scaling(folded: AffineMap) -> OwnScaling:
    """The arithmetic that a scaler itself would do, for what stands before steps that jump."""
    marks = "".join(mark for mark, _ in folded.operations)
    return OwnScaling(marks, tuple(by for _, by in folded.operations))


def check_sparsity(steps: Sequence[Step]) -> None:
    """Refuse quantiles behind one-hot features: it matters there whether zeros are stored."""
    for i, step in enumerate(steps):
        before = [branch for s in steps[:i] for branch in getattr(s, "branches", ())]
        if isinstance(step, QuantileMap) and any(branch.steps for branch in before):
            raise InputError("quantiles of one-hot features depend on how they are stored.")


def flat(steps: Sequence[Any]) -> list[Any]:
    """Transformers that do something, those of nested pipelines among them."""
    found = []
    for step in steps:
        if type(step).__name__ == "Pipeline":
            found += flat([inner for _, inner in step.steps])
        elif not does_nothing(step):
            found.append(step)
    return found


def does_nothing(step: Any) -> bool:
    """Whether a transformer gives back what it gets."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return True
    identity = type(step).__name__ == "FunctionTransformer" and _of_sklearn(step)
    return identity and step.func is None and not getattr(step, "validate", False)


def _operations(scaler: Any) -> list[Operation] | None:
    kind = type(scaler).__name__
    if kind not in SCALERS or not _of_sklearn(scaler) or getattr(scaler, "clip", False):
        return None
    d = int(getattr(scaler, "n_features_in_", 0))
    if not d:
        raise UnsupportedModelError(f"this {kind} is not fitted; call `fit` first.")
    if kind == "MinMaxScaler":
        return [("*", _floats(scaler.scale_)), ("+", _floats(scaler.min_))]
    operations: list[Operation] = []
    shift = getattr(scaler, "mean_" if kind == "StandardScaler" else "center_", None)
    divisor = getattr(scaler, "scale_", None)
    # Partial fits keep the mean without using it.
    if shift is not None and (kind != "StandardScaler" or scaler.with_mean):
        operations.append(("-", _floats(shift)))
    operations.append(("/", np.ones(d) if divisor is None else _floats(divisor)))
    return operations


def _of_sklearn(instance: Any) -> bool:
    return type(instance).__module__.partition(".")[0] == "sklearn"


def _floats(array: Any) -> FloatArray:
    return np.asarray(array, dtype=np.float64)


def _pca(pca: Any) -> list[Step]:
    matrix = _floats(pca.components_)
    mean = getattr(pca, "mean_", None)
    shift = np.zeros(matrix.shape[1]) if mean is None else _floats(mean)
    found: list[Step] = [_projection(pca, matrix, shift)]
    if getattr(pca, "whiten", False):
        scale = np.sqrt(_floats(pca.explained_variance_))
        found.append(AffineMap.of(("/", np.maximum(scale, np.finfo(np.float64).eps))))
    return found


def _projection(pca: Any, matrix: FloatArray, shift: FloatArray) -> Projection:
    """With a slack that plain arithmetic keeps to for rows like those of the fit."""
    shares = _floats(pca.explained_variance_ratio_)
    largest = int(np.argmax(shares))
    variance = _floats(pca.explained_variance_)[largest] / max(float(shares[largest]), 1e-9)
    step = Projection(matrix, shift, np.ones(len(matrix)))
    reach = FAR * math.sqrt(max(float(variance), 1e-100))
    return replace(step, slack=step.plain_slack(reach))


def _polynomial(features: Any) -> list[Step]:
    if features.n_output_features_ * features.n_features_in_ > MOST_TERMS:
        raise NotFolded
    return [Polynomial(features.powers_)]


def _power(transformer: Any) -> list[Step]:
    found: list[Step] = [PowerMap(transformer.method, _floats(transformer.lambdas_))]
    if transformer.standardize:
        folded = scaler_map(transformer._scaler)
        assert folded is not None
        found.append(folded)
    return found


def _quantile(transformer: Any) -> list[Step]:
    normal = transformer.output_distribution == "normal"
    quantiles, references = _floats(transformer.quantiles_), _floats(transformer.references_)
    if np.isnan(quantiles).any():
        raise NotFolded
    return [QuantileMap(quantiles, references, normal)]


def _columns(transformer: Any) -> list[Step]:
    """The branches of a ColumnTransformer, and the scalers that stand last in them as one map."""
    branches: list[Branch] = []
    maps: list[tuple[int, AffineMap | None]] = []
    places = transformer._transformer_to_input_indices
    by_name: Literal["only", True] = True
    for name, inner, asked in transformer.transformers_:
        chosen = places_of(list(places[name]))
        if not len(chosen) or (isinstance(inner, str) and inner == "drop"):
            continue
        if _are_names(asked):
            by_name = "only"
        steps, last = _branch_steps(inner)
        weight = (transformer.transformer_weights or {}).get(name)
        if len(steps) == 1 and isinstance(steps[0], Columns):
            made = [Branch(chosen[b.columns], b.steps) for b in steps[0].branches]
        else:
            made = [Branch(chosen, _inside(steps))]
        branches += made
        width = sum(branch.n_out for branch in made)
        if weight is not None:
            times = AffineMap.of(("*", np.full(width, float(weight))))
            last = times if last is None else last.then(times)
        maps.append((width, last))
    whole = Columns(tuple(branches), int(transformer.n_features_in_), by_name)
    joined = _side_by_side(maps)
    return [whole] if joined is None else [whole, joined]


def _are_names(asked: Any) -> bool:
    """Whether columns were chosen by names, which scikit-learn then takes of frames only."""
    if isinstance(asked, slice):
        return isinstance(asked.start, str) or isinstance(asked.stop, str)
    return isinstance(asked, str) or (
        hasattr(asked, "__iter__") and any(isinstance(column, str) for column in asked)
    )


def _branch_steps(inner: Any) -> tuple[list[Step], AffineMap | None]:
    """Steps of one transformer of several; the affine maps at its end by themselves."""
    steps: list[Step] = []
    for transformer in flat([inner]):
        steps += steps_of(transformer)
    check_sparsity(steps)
    last: AffineMap | None = None
    while steps and isinstance(step := steps[-1], AffineMap):
        steps.pop()
        last = step if last is None else step.then(last)
    return [own_scaling(s) if isinstance(s, AffineMap) else s for s in steps], last


def _inside(steps: list[Step]) -> Any:
    """Steps as a branch holds them: those on all columns bare."""
    found: list[Any] = []
    for step in steps:
        if isinstance(step, Columns):
            if len(step.branches) != 1 or step.by_name:
                raise NotFolded
            found += step.branches[0].steps
        else:
            found.append(step)
    return tuple(found)


def _side_by_side(maps: list[tuple[int, AffineMap | None]]) -> AffineMap | None:
    """One map of maps of neighbouring features; operations of the same kind are done together."""
    if all(found is None for _, found in maps):
        return None
    total = sum(width for width, _ in maps)
    rounds = max(len(found.operations) for _, found in maps if found is not None)
    operations: list[Operation] = []
    for turn in range(rounds):
        for mark in ("-", "/", "*", "+"):
            by, at, used = np.full(total, 0.0 if mark in "+-" else 1.0), 0, False
            for width, found in maps:
                if found is not None and turn < len(found.operations):
                    how, array = found.operations[turn]
                    if how == mark:
                        by[at : at + width], used = array, True
                at += width
            if used:
                operations.append((mark, by))
    return AffineMap.of(*operations)


def _normalizer(normalizer: Any) -> list[Step]:
    return [Normalize(normalizer.norm, int(normalizer.n_features_in_))]


def _binarizer(binarizer: Any) -> list[Step]:
    return [Threshold(float(binarizer.threshold), int(binarizer.n_features_in_))]


READERS: dict[str, Callable[[Any], list[Step]]] = {
    "Binarizer": _binarizer,
    "ColumnTransformer": _columns,
    "KBinsDiscretizer": bins,
    "MissingIndicator": indicator_steps,
    "Normalizer": _normalizer,
    "OneHotEncoder": one_hot,
    "OrdinalEncoder": ordinal,
    "PCA": _pca,
    "IncrementalPCA": _pca,
    "PolynomialFeatures": _polynomial,
    "PowerTransformer": _power,
    "QuantileTransformer": _quantile,
    "SimpleImputer": imputer_steps,
    "TruncatedSVD": _pca,
}
"""Class name -> the reader of a fitted transformer."""
