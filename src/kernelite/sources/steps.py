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
from numpy.typing import NDArray

from kernelite.data.rows.columns import is_nan
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap, Operation
from kernelite.machine.preparation import Step
from kernelite.machine.preparation.columns import Branch, Columns, Selection
from kernelite.machine.preparation.encoding import Bins, Categories, OneHot, Ordinal
from kernelite.machine.preparation.missing import Impute, Missing
from kernelite.machine.preparation.numeric import (
    Normalize,
    OwnScaling,
    Polynomial,
    PowerMap,
    QuantileMap,
    Threshold,
)
from kernelite.machine.preparation.projection import Projection
from kernelite.sources.common import numbers
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
MOST_POWERS = 10**6  # numbers in the table of a polynomial's powers
FAR_DEVIATIONS = 8.0  # standard deviations of all features together, that few rows are beyond


def steps_of(transformer: Any) -> list[Step]:
    """The steps of a fitted transformer, in order.

    Examples
    --------
    >>> from sklearn.preprocessing import Binarizer
    >>> steps_of(Binarizer(threshold=2.0).fit([[1.0]]))
    [Threshold(threshold=2.0, n_features=1)]
    """
    kind = type(transformer).__name__
    if not _of_sklearn(transformer) or "transform" in vars(transformer):
        raise NotFolded
    try:
        if kind in STEP_READERS:
            return STEP_READERS[kind](transformer)
        folded = scaler_map(transformer)
        if folded is not None:
            return [folded]
        if hasattr(transformer, "get_support") and hasattr(transformer, "n_features_in_"):
            return [Selection(transformer.get_support(indices=True), transformer.n_features_in_)]
    except (InputError, AttributeError):  # what no step can hold, or is named otherwise elsewhere
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
        return [("*", numbers(scaler.scale_)), ("+", numbers(scaler.min_))]
    # Scalers look at what is asked of them when they transform, not when they were fitted.
    standard, operations = kind == "StandardScaler", list[Operation]()
    shift = getattr(scaler, "mean_" if standard else "center_", None)
    divisor = getattr(scaler, "scale_", None)
    if shift is not None and getattr(scaler, "with_mean" if standard else "with_centering", True):
        operations.append(("-", numbers(shift)))
    divides = getattr(scaler, "with_std" if standard else "with_scaling", True)
    operations.append(("/", np.ones(d) if divisor is None or not divides else numbers(divisor)))
    return operations


def _of_sklearn(instance: Any) -> bool:
    return type(instance).__module__.partition(".")[0] == "sklearn"


def _pca(pca: Any) -> list[Step]:
    matrix = numbers(pca.components_)
    mean = getattr(pca, "mean_", None)
    shift = np.zeros(matrix.shape[1]) if mean is None else numbers(mean)
    found: list[Step] = [_projection(pca, matrix, shift)]
    if getattr(pca, "whiten", False):
        scale = np.sqrt(numbers(pca.explained_variance_))
        found.append(AffineMap.of(("/", np.maximum(scale, np.finfo(np.float64).eps))))
    return found


def _projection(pca: Any, matrix: FloatArray, shift: FloatArray) -> Projection:
    """The projection, with a slack that plain arithmetic keeps for rows like those of the fit."""
    shares = numbers(pca.explained_variance_ratio_)
    largest = int(np.argmax(shares))
    variance = numbers(pca.explained_variance_)[largest] / max(float(shares[largest]), 1e-9)
    step = Projection(matrix, shift, np.ones(len(matrix)))
    reach = FAR_DEVIATIONS * math.sqrt(max(float(variance), 1e-100))
    return replace(step, slack=step.plain_slack(reach))


def _polynomial(features: Any) -> list[Step]:
    if features.n_output_features_ * features.n_features_in_ > MOST_POWERS:
        raise NotFolded
    return [Polynomial(features.powers_)]


def _power(transformer: Any) -> list[Step]:
    found: list[Step] = [PowerMap(transformer.method, numbers(transformer.lambdas_))]
    if transformer.standardize:
        folded = scaler_map(transformer._scaler)
        assert folded is not None
        found.append(folded)
    return found


def _quantile(transformer: Any) -> list[Step]:
    normal = transformer.output_distribution == "normal"
    quantiles, references = numbers(transformer.quantiles_), numbers(transformer.references_)
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
    """Steps as a branch holds them: steps on all its columns without their `Columns`."""
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


class NotFolded(Exception):
    """A transformer that is kept as it is."""


def on_columns(step: Any) -> list[Step]:
    """A step that works on columns, for all columns of a table."""
    return [Columns((Branch(np.arange(step.n_features), (step,)),), step.n_features, by_name=False)]


def _scalar(value: Any) -> Any:
    """A category as a file can hold it."""
    if isinstance(value, np.datetime64 | np.timedelta64):  # rows may have another unit
        raise NotFolded
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotFolded from None
    elif isinstance(value, int):
        if abs(value) >= 2**63:
            raise NotFolded
    elif not (value is None or isinstance(value, float)):
        raise NotFolded
    return value


def one_hot(encoder: Any) -> list[Step]:
    infrequent = getattr(encoder, "infrequent_categories_", None)
    dropped = getattr(encoder, "drop_idx_", None)
    columns = []
    for i, categories in enumerate(encoder.categories_):
        values = tuple(_scalar(value) for value in categories)
        rare = None if infrequent is None else infrequent[i]
        places, width = _grouped(values, rare)
        unknown = -2 if encoder.handle_unknown == "error" else -1
        group = width - 1 if rare is not None else -1
        if encoder.handle_unknown in ("infrequent_if_exist", "warn"):
            unknown = group
        drop = None if dropped is None else dropped[i]
        if drop is not None:
            gone = places[drop]
            unknown = -1 if unknown == gone else unknown - (unknown > gone)
            places = np.where(places == gone, -1, places - (places > gone))
            width -= 1
        columns.append(Categories(values, places, width, int(unknown)))
    warns = encoder.handle_unknown == "warn"
    warns |= encoder.drop is not None and encoder.handle_unknown != "error"
    return on_columns(OneHot(tuple(columns), bool(warns)))


def _grouped(values: tuple[Any, ...], rare: Any) -> tuple[NDArray[np.int64], int]:
    """The place of each category, those that are rare together in the last one."""
    if rare is None:
        return np.arange(len(values)), len(values)
    group = {_scalar(value) for value in rare if not is_nan(value)}
    has_nan = any(is_nan(value) for value in rare)
    is_rare = np.array([has_nan if is_nan(value) else value in group for value in values])
    places = np.cumsum(~is_rare) - 1
    width = int(np.count_nonzero(~is_rare)) + 1
    return np.where(is_rare, width - 1, places), width


def ordinal(encoder: Any) -> list[Step]:
    infrequent = getattr(encoder, "infrequent_categories_", None)
    columns, numbers = [], []
    for i, categories in enumerate(encoder.categories_):
        values = tuple(_scalar(value) for value in categories)
        rare = None if infrequent is None else infrequent[i]
        has_nan = bool(values) and is_nan(values[-1])  # None is a category like others
        places, width = _grouped(values[:-1] if has_nan else values, rare)
        given = [float(number) for number in range(width)]
        if has_nan:
            places, width = np.append(places, width), width + 1
            given.append(float(encoder.encoded_missing_value))
        unknown = -2
        if encoder.handle_unknown == "use_encoded_value":
            unknown, width = width, width + 1
            given.append(float(encoder.unknown_value))
        dtype = np.dtype(encoder.dtype)
        if dtype.kind not in "fiu":
            raise NotFolded
        if dtype.kind == "f":
            given = [float(number) for number in np.array(given, dtype=dtype)]
        columns.append(Categories(values, places, width, unknown))
        numbers.append(tuple(given))
    return on_columns(Ordinal(tuple(columns), tuple(numbers)))


def bins(binner: Any) -> list[Step]:
    if np.dtype(binner.dtype or np.float64) != np.float64:
        raise NotFolded
    edges = tuple(np.asarray(edges, dtype=np.float64)[1:-1] for edges in binner.bin_edges_)
    return on_columns(Bins(edges, onehot=binner.encode != "ordinal"))


def _missing(values: Any, shown: Any, n_features: int, refuses_new: bool) -> Missing:
    if type(values).__name__ == "NAType":
        return Missing(math.nan, True, places_of(shown), n_features, refuses_new)
    return Missing(_scalar(values), False, places_of(shown), n_features, refuses_new)


def places_of(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64).reshape(-1)


def imputer_steps(imputer: Any) -> list[Step]:
    statistics, d = imputer.statistics_, int(imputer.n_features_in_)
    kept = np.arange(d)
    if not getattr(imputer, "keep_empty_features", False):
        kept = np.array([j for j in range(d) if not is_nan(statistics[j])], dtype=np.int64)
    numeric = imputer._fit_dtype.kind != "O"
    cast = statistics[kept].astype(imputer._fill_dtype)
    fills = tuple(_scalar(value) for value in cast)
    indicator = imputer.indicator_ if imputer.add_indicator else None
    shown = [] if indicator is None else indicator.features_
    missing = _missing(imputer.missing_values, shown, d, False)
    return on_columns(Impute(missing, kept, fills, bool(numeric)))


def indicator_steps(indicator: Any) -> list[Step]:
    refuses = indicator.features == "missing-only" and bool(indicator.error_on_new)
    found = _missing(
        indicator.missing_values, indicator.features_, int(indicator.n_features_in_), refuses
    )
    return on_columns(found)


STEP_READERS: dict[str, Callable[[Any], list[Step]]] = {
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
