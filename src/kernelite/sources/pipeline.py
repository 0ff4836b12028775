"""scikit-learn's Pipeline: steps folded into the model's preparation, others kept in front.

    (z - mean) / scale, then f      becomes      f after an AffineMap: no step of its own is left

Encoders, imputers and other transformers become steps of data (`sources.steps`). One that cannot is
kept as it is, and all steps before it with it, in their order. Also the shells around one fitted
model: searches (GridSearchCV and others), FrozenEstimator, transformed targets.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray, dense_block
from kernelite.machine.affine import AFFINE_UNITS, AffineMap
from kernelite.machine.exactly import UNIT
from kernelite.machine.heads.values import (
    DECREASING,
    INCREASING,
    KeptInverse,
    NamedInverse,
    TargetHead,
)
from kernelite.machine.machine import Machine, SumOfMachines
from kernelite.machine.preparation import Kept, Preparation, Selection, Step
from kernelite.machine.preparation.columns import Columns
from kernelite.machine.preparation.numeric import Polynomial
from kernelite.machine.preparation.projection import Projection
from kernelite.sources.common import feature_names, require_fitted, scaled_machine
from kernelite.sources.sklearn_machines import FEATURES, is_linear, linear_on
from kernelite.sources.steps import (
    NotFolded,
    check_sparsity,
    does_nothing,
    flat,
    own_scaling,
    scaler_map,
    steps_of,
)
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "read_pipeline",
    "read_search",
    "read_shell",
    "read_transformed_target",
    "scaler_map",
    "with_step",
]

UNFELT = 1e-11  # of a kernel value: what rows may move it by for the sake of speed


def read_pipeline(model: Any, type_name: str = "Pipeline", /) -> Machine:
    """Read a fitted Pipeline whose last step is a model that can be read.

    Parameters
    ----------
    model : Pipeline
    type_name : str

    Returns
    -------
    Machine
        With all steps as its `preparation`, of which the scalers directly before the model are the
        last; its notes name what is kept, or taken as computed.

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
    >>> read_pipeline(pipeline).preparation.input_map.shift
    array([2.])
    """
    from kernelite.sources import read

    *before, last = [step for _, step in model.steps]
    if does_nothing(last):
        raise UnsupportedModelError("this Pipeline ends in a step that does nothing, not a model.")
    transformers = flat(before)
    if is_linear(last) and any(type(step).__name__ in FEATURES for step in transformers):
        machine, transformers = _on_features(transformers, last)
    else:
        machine = read(last)
    machine = _behind(transformers, machine)
    if transformers:
        machine = replace(machine, feature_names=feature_names(transformers[0]))
    return replace(machine, description=f"Pipeline of {machine.description}")


def _on_features(transformers: list[Any], last: Any) -> tuple[Machine, list[Any]]:
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


def _behind(transformers: list[Any], machine: Machine) -> Machine:
    """The same model behind transformers; those up to the last that cannot be folded are kept."""
    folded: list[list[Step]] = []
    for transformer in reversed(transformers):
        try:
            folded.insert(0, steps_of(transformer))
        except NotFolded:
            break
    kept = transformers[: len(transformers) - len(folded)]
    try:
        machine = _placed([step for steps in folded for step in steps], machine)
    except InputError:  # what no step or map can hold: the scaler's own arithmetic then
        kept = transformers
    # What a scaler before a kept transformer computes goes through unknown functions, so that no
    # bound could hold a difference: it is kept too. The exact model begins behind them.
    for transformer in reversed(kept):
        machine = with_step(_kept(transformer), machine)
    return machine


def _placed(steps: list[Step], machine: Machine) -> Machine:
    """The same model behind steps of data, their rounding counted as far as it can be.

    Scalers and selections at the end become one map, the last step. Before them may stand one
    projection or one polynomial, with scalers of its own, whose rounding is counted. What rounds
    before that goes on through functions that jump, or grow: it is taken as computed.
    """
    check_sparsity(steps)
    steps = _maps_last([step if not i else _chosen(step) for i, step in enumerate(steps)])
    while steps and isinstance(steps[-1], AffineMap | Selection):
        machine = with_step(steps.pop(), machine)
    if steps and isinstance(core := steps[-1], Projection | Polynomial) and _counts_rows(machine):
        steps.pop()
        maps: list[AffineMap] = []
        while steps and isinstance(steps[-1], AffineMap):
            maps.append(steps.pop())  # type: ignore[arg-type]
        machine = _counted(core, maps[::-1], machine)
    computed = []
    for step in reversed(steps):
        found = own_scaling(step) if isinstance(step, AffineMap) else step
        computed += _rounding_steps(found)
        machine = with_step(found, machine)
    if computed:
        names = ", ".join(dict.fromkeys(reversed(computed)))
        note = f"Values of {names} are taken as computed: the exact model begins behind them."
        machine = replace(machine, notes=(*machine.notes, note))
    return machine


def _chosen(step: Step) -> Step:
    """Columns that are only chosen, among rows of numbers: a selection."""
    if not isinstance(step, Columns) or any(branch.steps for branch in step.branches):
        return step
    places = [branch.columns for branch in step.branches]
    return Selection(np.concatenate(places) if places else np.empty(0, int), step.n_features)


def _maps_last(steps: list[Step]) -> list[Step]:
    """A map before a selection is one after it, of the features that are selected."""
    steps = list(steps)
    for i in range(len(steps) - 1, 0, -1):
        for j in range(i, len(steps)):
            first, second = steps[j - 1], steps[j]
            if not (isinstance(first, AffineMap) and isinstance(second, Selection)):
                break
            steps[j - 1 : j + 1] = [second, first.selected(second.columns)]
    return steps


def _counts_rows(machine: Machine) -> bool:
    """Whether bounds have a term for rows that are off: one machine with an RBF kernel."""
    single = not isinstance(machine.expansion, SumOfMachines)
    before = machine.preparation.before_map
    plain = all(isinstance(step, Selection) for step in before.steps)
    return single and plain and machine.single.kernel.damps


def _counted(core: Projection | Polynomial, maps: list[AffineMap], machine: Machine) -> Machine:
    """The same model behind a projection or polynomial of scaled rows, what it rounds in its
    bounds.

    Entries z_j off by e u |z_j| + a_j are off by e u |z'_j| + |s_j| (a_j + e u |t_j|) behind the
    map z' = (z - t) s that follows.
    """
    chosen = np.arange(core.n_out)
    for selection in machine.preparation.before_map.steps:
        chosen = chosen[selection.columns]  # type: ignore[union-attr]
    scale, shift = np.ones(len(chosen)), np.zeros(len(chosen))
    if (input_map := machine.preparation.input_map) is not None:
        scale, shift = np.abs(input_map.scale), np.abs(input_map.shift)
    steps: list[Step]
    if isinstance(core, Projection):
        for first in reversed(maps):
            core = core.after(first)
        core = replace(core, slack=_slack(core, chosen, scale, machine))
        # The third is for square roots of variances, by which whitened rows are divided.
        units, slack, steps = 3.0, core.slack[chosen], [core]
    else:
        own = AFFINE_UNITS if maps else 0.0
        units, slack = (own + 1.0) * max(core.degree, 1), np.full(len(chosen), 1e-280)
        steps = [reduce(AffineMap.then, maps), core] if maps else [core]
    off = scale * (slack + units * UNIT * shift)
    expansion = machine.single.rounded(
        rows=1.001 * float(np.linalg.norm(off)), relative=units * UNIT
    )
    machine = replace(machine, expansion=expansion)
    for step in reversed(steps):
        machine = _in_front(step, machine)
    return machine


def _slack(core: Projection, chosen: Any, scale: FloatArray, machine: Machine) -> FloatArray:
    """What outputs may be off by: what plain arithmetic needs, unless that would be felt.

    Else it is an eighth of a rounding of the largest center's entry.
    """
    centers = np.abs(dense_block(machine.single.centers, slice(None)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        entries = centers / scale
        if (input_map := machine.preparation.input_map) is not None:
            entries = entries + np.abs(input_map.shift)
        entries[~np.isfinite(entries)] = 0.0
        norms = np.sqrt(np.square(entries).sum(axis=1))
    reach = max(core.plain_reach, 2.0 * float(norms.max(initial=0.0)))
    plain = core.plain_slack(min(reach, 1e100))
    felt = np.sqrt(machine.single.gamma) * np.linalg.norm(scale * plain[chosen])
    if felt > UNFELT:
        sizes = np.zeros(core.n_out)
        np.maximum.at(sizes, chosen, entries.max(axis=0, initial=0.0))
        floor = 1e-6 * float(sizes.max(initial=0.0)) + 1e-100
        plain = np.maximum(sizes, floor) * (UNIT / 8.0)
    return np.maximum(plain, 4.0 * core.fixed_error)


def _rounding_steps(step: Any) -> list[str]:
    """Names of what rounds in a step, last one first."""
    inner = [s for branch in getattr(step, "branches", ()) for s in branch.steps]
    return [type(s).__name__ for s in reversed(inner or [step]) if not s.exact]


def with_step(step: Step, machine: Machine) -> Machine:
    """The same model, with `step` before all else; affine maps join its last one.

    Raises
    ------
    InputError
        If the maps cannot be joined.
    """
    if isinstance(machine.expansion, SumOfMachines):
        if not isinstance(step, AffineMap | Selection) or machine.preparation.steps:
            return _in_front(step, machine)
        parts = tuple(
            replace(part, machine=with_step(step, part.machine)) for part in machine.expansion.parts
        )
        whole = replace(machine.expansion, parts=parts, n_features=step.n_features)
        return replace(machine, expansion=whole)
    if not isinstance(step, AffineMap):
        return _in_front(step, machine)
    # A map before a selection is one after it, of the features that are selected: whatever the
    # order of scalers and selections, one map is left, and so one rounding.
    before, input_map = machine.preparation.before_map, machine.preparation.input_map
    for later in before.steps:
        if not isinstance(later, Selection):
            raise InputError("an affine map cannot stand before a step that rounds or jumps.")
        step = step.selected(later.columns)
    if machine.width_is_open:
        raise InputError("an affine map cannot stand before a model that takes rows of any width.")
    joined = step if input_map is None else step.then(input_map)
    return replace(machine, preparation=Preparation.of(*before.steps, joined))


def _in_front(step: Step, machine: Machine) -> Machine:
    return replace(machine, preparation=Preparation.of(step, *machine.preparation.steps))


def _kept(transformer: Any) -> Kept:
    if not hasattr(transformer, "transform"):
        raise UnsupportedModelError(
            f"this Pipeline has a {type(transformer).__name__} before its model, which cannot "
            "transform new rows."
        )
    width = getattr(transformer, "n_features_in_", None)  # text has none
    return Kept(transformer, type(transformer).__name__, None if width is None else int(width))


# Shells around one fitted model: searches, frozen ones, transformed targets.


def read_search(model: Any, type_name: str, /) -> Machine:
    """Read the best model of a fitted search.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(SVC(gamma=0.1), {"C": [1, 10]}, cv=2).fit(X, y)
    >>> read_search(search, "GridSearchCV").type_name
    'SVC'
    """
    if hasattr(model, "cv_results_") and not hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"this {type_name} has refit={model.refit!r}, so it holds no fitted model; set "
            "refit=True, or fit the best parameters and compile that."
        )
    require_fitted(model, "best_estimator_", type_name)
    return _inside(model, model.best_estimator_, type_name)


def read_shell(model: Any, type_name: str, /) -> Machine:
    """Read the model inside a FrozenEstimator or one of kernelite's meta-estimators.

    Examples
    --------
    >>> from kernelite import CompiledRegressor
    >>> fitted = CompiledRegressor().fit([[0.0], [1.0], [2.0]], [0, 1, 4])
    >>> read_shell(fitted, "CompiledRegressor").type_name
    'SVR'
    """
    if type_name == "FrozenEstimator":
        return _inside(model, model.estimator, type_name)
    require_fitted(model, "estimator_", type_name)
    return _inside(model, model.estimator_, type_name)


def _inside(shell: Any, model: Any, type_name: str) -> Machine:
    from kernelite.sources import read

    machine = read(model)
    names = feature_names(shell)
    return replace(
        machine,
        feature_names=machine.feature_names if names is None else names,
        description=f"{type_name} of {machine.description}",
    )


# scikit-learn's TransformedTargetRegressor: the inverse transform of a regressor's values.
#
# Affine inverses (scalers) go into coefficients and intercept; monotone functions of NumPy are
# known by name; other transformers are kept as they are.


MONOTONE = ("PowerTransformer", "QuantileTransformer")


def read_transformed_target(
    model: Any, type_name: str = "TransformedTargetRegressor", /
) -> Machine:
    """Read a fitted TransformedTargetRegressor.

    Examples
    --------
    >>> from sklearn.compose import TransformedTargetRegressor
    >>> from sklearn.svm import SVR
    >>> logs = TransformedTargetRegressor(SVR(gamma=0.5), func=np.log, inverse_func=np.exp)
    >>> machine = read_transformed_target(logs.fit([[0.0], [1.0]], [1.0, 2.0]))
    >>> machine.head.inverse
    NamedInverse(name='exp')
    """
    from kernelite.sources import read

    require_fitted(model, "regressor_", type_name)
    machine = read(model.regressor_)
    if machine.head.kind != "regressor":
        raise UnsupportedModelError(f"this {type_name} holds a {machine.type_name}, no regressor.")
    described = replace(
        machine, description=f"{type_name} of {machine.description}", posterior=None
    )
    transformer = model.transformer_
    affine = _affine(transformer, machine)
    if affine is not None:
        scale, shift = affine
        return replace(described, expansion=scaled_machine(machine.expansion, scale, shift))
    flat = bool(model._training_dim == 1)
    return replace(described, head=TargetHead(machine.head, _inverse(transformer), flat))


def _affine(transformer: Any, machine: Machine) -> tuple[list[Fraction], list[Fraction]] | None:
    """(scale, shift) of y = score * scale + shift, where the values are the scores."""
    if not machine.head.scores_are_values:
        return None
    k = machine.head.n_scores
    if type(transformer).__name__ == "FunctionTransformer" and transformer.inverse_func is None:
        return [Fraction(1)] * k, [Fraction(0)] * k
    folded = scaler_map(transformer)
    if folded is None:
        return None
    real = list(folded.real())
    return [1 / s for s, _ in real], [-c / s for s, c in real]


def _inverse(transformer: Any) -> NamedInverse | KeptInverse:
    if type(transformer).__name__ == "FunctionTransformer":
        function = transformer.inverse_func
        name = getattr(function, "__name__", "")
        plain = not transformer.inv_kw_args
        if plain and name in INCREASING | DECREASING and getattr(np, name) is function:
            return NamedInverse(name)
    kind = type(transformer)
    known = kind.__name__ in MONOTONE and kind.__module__.startswith("sklearn.")
    return KeptInverse(transformer, increasing=known)
