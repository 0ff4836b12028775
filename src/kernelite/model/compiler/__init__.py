"""From a fitted model to a compiled one: `compile` is the only place that orders the passes.

    machine -> KernelExpansion -> sample, expansion points -> plan -> CompiledModel

`passes` has one a guarantee, and what they share; `composite` compiles models of several parts,
each by itself. `open_model` gives the command line a model from a file of any kind.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelite.data.rows.frames import is_frame
from kernelite.data.rows.inputs import RowsLike, is_sparse
from kernelite.machine.machine import SumOfMachines
from kernelite.model import CompiledModel, Guarantee, Origin
from kernelite.model.compiler.composite import compile_composite, part_plans
from kernelite.model.compiler.passes import (
    Task,
    calibrated_fields,
    certified_fields,
    exact_fields,
    none_fields,
    pointwise_fields,
    sample_rows,
)
from kernelite.model.serving import OnInvalid, check_on_invalid
from kernelite.sources import Machine, read
from kernelite.sources.svm_scale import SvmRange, with_range
from kernelite.store.files import load, model_kind
from kernelite.store.packing import unstorable
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = ["GUARANTEES", "compile", "open_model"]

GUARANTEES = ("certified", "calibrated", "none", "exact")
MAX_BYTES = 256 * 2**20


def compile(
    model: object,
    /,
    X: RowsLike | None = None,
    *,
    guarantee: Guarantee = "certified",
    expansion_point: Literal["auto", "mean", "origin"] | ArrayLike = "auto",
    tolerance: float | ArrayLike | None = None,
    max_disagreement: float = 1e-3,
    confidence: float = 0.99,
    rank: int | Literal["auto", "full"] = "auto",
    certificate: bool = False,
    plan: str = "auto",
    max_bytes: int = MAX_BYTES,
    random_state: int = 0,
    on_invalid: OnInvalid = "warn",
    input_range: SvmRange | str | os.PathLike[str] | None = None,
) -> CompiledModel:
    """Compile a fitted kernel machine into a fast predictor.

    Parameters
    ----------
    model : scikit-learn estimator, path of a LIBSVM model, KernelExpansion or Machine
    X : array-like of shape (m, d), optional
        A sample of rows like those to come; no labels needed. Without it the support vectors
        serve, which are harder rows than most. "calibrated" requires it.
    guarantee : {"certified", "calibrated", "none", "exact"}
        "certified": labels proven equal to the exact model's, values within `tolerance`; rows that
        the proof leaves open are evaluated exactly. "calibrated": labels differ on at most
        `max_disagreement` of the rows like `X`, with `confidence`. "none": the paper's form alone,
        without support vectors. "exact": the exact model on kernelite's engine.
    expansion_point : {"auto", "mean", "origin"} or array of shape (d,)
        Where the series is taken: the mean of `X` (of the support vectors without `X`), the
        origin as in the paper, or a point. "auto" is "mean", but of fewer than 20 rows in `X` it
        takes the mean of the support vectors.
    tolerance : float or array of shape (k,), optional
        For "certified" values (regression, transforms) and, if given, decision values: the largest
        absolute error. Values default to 1e-3 of the standard deviation of the exact outputs on
        the sample. Of densities it is the error of the logarithm, hence the relative error of the
        density; by default the estimator's own `rtol`, or 1e-3.
    max_disagreement, confidence : float
        For "calibrated".
    rank : int, "auto" or "full"
        With "none": directions that the quadratic part is cut to. "auto" cuts where that is
        cheaper and leaves out, on 95% of `X`, less than 0.1% of the standard deviation of the
        scores, or than the form itself is off by, up to 1%.
    certificate : bool
        With "none": compute the certificate too, so that `error_bound` works.
    plan : {"auto", "estimate", "measure", "form", "exact"} or str
        How candidates are compared: by counting operations, which gives the same plan on every
        machine ("estimate"), by timing the best of them on the sample ("measure"), or by timing
        only those whose estimates are close, a few tenths of a second in all ("auto"). "form" takes
        the cheapest form even where the exact engine is cheaper, "exact" looks for none, which
        compiles soonest; the name of a candidate, as
        `print(model.plan)` shows it, takes that one.
    max_bytes : int
        The most that the compiled forms may take.
    random_state : int
        Seed of sampling.
    on_invalid : {"warn", "raise", "ignore"}
        What "none" does about rows outside the validity bound.
    input_range : path or SvmRange, optional
        The `svm-scale` range file that the training data were scaled by: the compiled model then
        takes rows, `X` among them, as they were before.

    Returns
    -------
    CompiledModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> svc = SVC(gamma=0.01).fit(X, y)
    >>> fast = compile(svc, X)
    >>> bool((fast.predict(X) == svc.predict(X)).all())
    True
    """
    _check_options(guarantee, plan, max_bytes, random_state)
    _check_rank(rank)
    for name, value in (("max_disagreement", max_disagreement), ("confidence", confidence)):
        if not (isinstance(value, Real) and 0.0 < value < 1.0):
            raise InputError(f"`{name}` must lie between 0 and 1, got {value!r}.")
    check_on_invalid(on_invalid)
    if X is not None and (
        isinstance(model, np.ndarray | list) or is_sparse(model) or is_frame(model)
    ):
        raise InputError("the model comes first, then rows: `kl.compile(model, X)`.")
    if tolerance is not None and guarantee != "certified":
        warnings.warn(
            f"`tolerance` is for guarantee='certified' and does nothing with {guarantee!r}.",
            stacklevel=2,
        )
    with np.errstate(under="ignore"):  # what underflows is counted
        machine = read(model)
        if input_range is not None:
            machine = with_range(machine, input_range)
        _check_served(machine, guarantee)
        # The variance is computed from the support vectors, which "none" does not keep.
        posterior = None if guarantee == "none" else machine.posterior
        if isinstance(machine.expansion, SumOfMachines):
            compile_part = partial(
                compile,
                guarantee=guarantee,
                expansion_point=expansion_point,
                rank=rank,
                certificate=certificate,
                max_bytes=max_bytes // len(machine.expansion.parts),
                random_state=random_state,
                on_invalid="ignore",
            )
            kept: dict[str, Any] = {"guarantee": guarantee, "posterior": posterior}
            kept |= {"origin": _origin(machine), "on_invalid": on_invalid}
            if plan == "auto" and guarantee == "certified":
                plans = part_plans(machine.expansion)
            else:
                plans = [plan] * len(machine.expansion.parts)
            composite = compile_composite(machine, X, tolerance, compile_part, plans, **kept)
            return _contained_as(model, _noted(machine, composite))
        given = None if X is None else sample_rows(machine, X)
        task = Task(machine, given, expansion_point, max_bytes, random_state)
        match guarantee:
            case _ if not task.expansion.has_series:
                decided = pointwise_fields(task, guarantee, tolerance, plan)
            case "certified":
                decided = certified_fields(task, tolerance, plan)
            case "calibrated":
                decided = calibrated_fields(task, max_disagreement, confidence)
            case "none":
                decided = none_fields(task, rank, certificate)
            case _:
                decided = exact_fields(task)
        compiled = CompiledModel(
            head=machine.head,
            guarantee=guarantee,
            origin=_origin(machine),
            on_invalid=on_invalid,
            preparation=machine.preparation,
            posterior=posterior,
            tail=machine.tail,
            **decided,
        )
        return _contained_as(model, _noted(machine, compiled))


def _noted(machine: Machine, compiled: CompiledModel) -> CompiledModel:
    """With what its plan should say about the steps before it, and where it cannot go."""
    plan = compiled.plan.noting(*machine.notes)
    return replace(compiled, plan=replace(plan, late=partial(_where_not, compiled)))


def _where_not(compiled: CompiledModel) -> tuple[str, ...]:
    """What cannot be done with a model: found by trying, so only when its plan is read."""
    if compiled.preparation.keeps:
        names = ", ".join(compiled.preparation.keeps)
        return (f"Kept as it is: {names}; so this model cannot be saved or exported.",)
    why = unstorable(compiled)
    notes = () if why is None else (f"Cannot be saved: {why}",)
    refused = compiled.export_refusals()
    by_reason: dict[str, list[str]] = {}
    for target, reason in refused.items():
        by_reason.setdefault(reason, []).append(target)
    said = "; ".join(f"{_listed(targets)} no ({why})" for why, targets in by_reason.items())
    return (*notes, f"Exports: {said}.") if said else notes


def _listed(names: list[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _contained_as(model: Any, compiled: CompiledModel) -> CompiledModel:
    """With the container that `set_output` asked of the model, whose `transform` this one's is."""
    inner = getattr(model, "best_estimator_", model)
    while steps := getattr(inner, "steps", None):
        inner = steps[-1][1]
    asked = getattr(inner, "_sklearn_output_config", {}).get("transform")
    if asked is not None and "set_output" in compiled.offers:
        compiled.set_output(transform=asked)
    return compiled


def _check_options(guarantee: str, plan: str, max_bytes: int, random_state: int) -> None:
    if not isinstance(guarantee, str) or guarantee not in GUARANTEES:
        raise InputError(f"`guarantee` must be one of {', '.join(GUARANTEES)}, got {guarantee!r}.")
    if not isinstance(plan, str):
        raise InputError(f"`plan` must be a word or a candidate's name, got {plan!r}.")
    if plan not in ("auto", "estimate", "measure") and guarantee != "certified":
        raise InputError(
            f"`plan` must be 'auto', 'estimate' or 'measure' with guarantee={guarantee!r}, got "
            f"{plan!r}."
        )
    if not (isinstance(max_bytes, Real) and max_bytes >= 0):
        raise InputError(f"`max_bytes` must be a number of bytes, got {max_bytes!r}.")
    if not (isinstance(random_state, Integral) and random_state >= 0):
        raise InputError(f"`random_state` must be a whole number, 0 or more, got {random_state!r}.")


def _check_rank(rank: Any) -> None:
    """Whatever the guarantee: a wrong `rank` must not pass because it is not used."""
    whole = isinstance(rank, Integral) and not isinstance(rank, bool)
    if not (rank >= 1 if whole else isinstance(rank, str) and rank in ("auto", "full")):
        raise InputError(
            f"`rank` must be a whole number, at least 1, 'auto' or 'full', got {rank!r}."
        )


def _check_served(machine: Machine, guarantee: str) -> None:
    if guarantee == "none" and "predict" in machine.head.needs_posterior:
        raise UnsupportedModelError(
            f"the labels of this {machine.type_name} depend on its variance, which is computed "
            "from the training rows, and guarantee='none' keeps none; use 'certified' or 'exact'."
        )


def _origin(machine: Machine) -> Origin:
    return Origin(
        machine.description,
        machine.family,
        machine.type_name,
        machine.expansion.n_centers,
        machine.feature_names,
        machine.width_is_open,
        machine.ignores_beyond,
    )


# Model files for the command line: a path comes in, a model that predicts goes out.


def open_model(path: str | os.PathLike[str], /, *, exact: bool = False) -> CompiledModel:
    """Open a `.kernelite` file, an approxsvm model or a LIBSVM model, told apart by content.

    Parameters
    ----------
    path : path-like
        Text models may be plain, gzip or bzip2.
    exact : bool
        Evaluate a LIBSVM model exactly; without it, such a model has to be compiled first.

    Returns
    -------
    CompiledModel

    Raises
    ------
    FileFormatError
        If it is no model, or damaged.
    UnsupportedModelError
        If it has to be compiled first, or `exact` is asked of a model that is compiled already.

    Examples
    --------
    >>> open_model("no/such.model", exact=True)
    Traceback (most recent call last):
    kernelite.FileFormatError: no/such.model: there is no such file
    """
    name = os.fspath(path)
    if model_kind(path) == "libsvm":
        if exact:
            return compile(name, guarantee="exact")
        raise UnsupportedModelError(
            f"{name}: this is a LIBSVM model; compile it first (`kernelite compile`), or pass "
            "--exact to evaluate it as it is."
        )
    model = load(path)
    if exact and model.guarantee != "exact":
        raise InputError(
            f"--exact needs the LIBSVM model, but {name} is compiled (guarantee "
            f"'{model.guarantee}'); leave --exact out, or name the LIBSVM model."
        )
    return model
