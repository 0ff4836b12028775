"""compile(): the only place that orders the passes.

source -> KernelExpansion -> expansion point -> form -> CompiledModel
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from kernelite.approximation.quadratic import QuadraticForm, quadratic_form
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray, check_rows
from kernelite.model import CompiledModel, Origin
from kernelite.plan import Candidate, Plan
from kernelite.sources import Source, read
from kernelite.validity import OnInvalid, check_on_invalid

__all__ = ["compile"]

GUARANTEES = ("none", "exact")
MAX_BYTES = 256 * 2**20


def compile(
    model: Any,
    X: Any = None,
    /,
    *,
    guarantee: str = "none",
    expansion_point: Any = "mean",
    max_bytes: int = MAX_BYTES,
    on_invalid: OnInvalid = "warn",
) -> CompiledModel:
    """Compile a fitted kernel machine into a fast predictor.

    Parameters
    ----------
    model : scikit-learn estimator, path of a LIBSVM model, KernelExpansion or Source
    X : array-like of shape (m, d), optional
        A sample of rows like those to come; no labels needed.
    guarantee : {"none", "exact"}
        "none": the paper's quadratic form alone, without support vectors. "exact": the exact
        model on kernelite's engine.
    expansion_point : {"mean", "origin"} or array of shape (d,)
        Where the series is taken: the mean of `X` (of the support vectors without `X`), the
        origin as in the paper, or a point.
    max_bytes : int
        The most that the compiled form may take.
    on_invalid : {"warn", "raise", "ignore"}
        What prediction does about rows outside the validity bound.

    Returns
    -------
    CompiledModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> fast = compile(SVC(gamma=0.01).fit(X, y), X, guarantee="none")
    >>> fast.predict(X[:3])
    array([0, 0, 0])
    """
    if guarantee not in GUARANTEES:
        raise InputError(f"`guarantee` must be one of {', '.join(GUARANTEES)}, got {guarantee!r}.")
    check_on_invalid(on_invalid)
    source = read(model)
    expansion = source.expansion
    origin = Origin(
        source.description,
        source.family,
        source.type_name,
        expansion.n_centers,
        source.feature_names,
        source.width_is_open,
    )
    if guarantee == "exact":
        form, kept = None, expansion
    else:
        point = choose_point(expansion, X, expansion_point, source)
        form, kept = _form_within(expansion, point, max_bytes), None
        _warn_about_few_centers(expansion)
    return CompiledModel(
        head=source.head,
        form=form,
        expansion=kept,
        guarantee=guarantee,  # type: ignore[arg-type]
        plan=_simple_plan(guarantee, expansion, form),
        origin=origin,
        on_invalid=on_invalid,
    )


def choose_point(expansion: KernelExpansion, X: Any, wanted: Any, source: Source) -> FloatArray:
    """The expansion point, as an array of shape (d,)."""
    d = expansion.n_features
    if isinstance(wanted, str):
        if wanted not in ("mean", "origin"):
            raise InputError(
                f"`expansion_point` must be 'mean', 'origin' or an array, got {wanted!r}."
            )
        if wanted == "origin" or expansion.kernel == "poly2":
            return np.zeros(d)
        if X is None:
            rows = expansion.centers
        else:
            rows = check_rows(X, n_features=d, feature_names=source.feature_names)
        if rows.shape[0] == 0:
            return np.zeros(d)
        return np.asarray(rows.mean(axis=0), dtype=np.float64).reshape(d)
    point = np.array(wanted, dtype=np.float64).reshape(-1)
    if point.shape != (d,) or not np.isfinite(point).all():
        raise InputError(
            f"`expansion_point` must hold {d} finite numbers, one a feature, got shape "
            f"{np.shape(wanted)}."
        )
    if expansion.kernel == "poly2" and point.any():
        raise InputError("a degree-2 polynomial kernel is compiled about the origin only.")
    return point


def _form_within(expansion: KernelExpansion, point: FloatArray, max_bytes: int) -> QuadraticForm:
    d, k = expansion.n_features, expansion.n_outputs
    needed = 8 * k * d * d
    if needed > max_bytes:
        raise InputError(
            f"the quadratic form of {k} outputs at {d} features needs {needed / 2**20:,.0f} MB, "
            f"more than `max_bytes` ({max_bytes / 2**20:,.0f} MB); raise `max_bytes` or use "
            "guarantee='exact'."
        )
    return quadratic_form(expansion, point)


def _warn_about_few_centers(expansion: KernelExpansion) -> None:
    n, d = expansion.n_centers, expansion.n_features
    if 0 < n <= d:
        warnings.warn(
            f"the model has only {n} support vectors in {d} features: the compiled matrix gives "
            "away the space they span (with one, the vector itself). It is not a way to hide them.",
            stacklevel=3,
        )


def _simple_plan(guarantee: str, expansion: KernelExpansion, form: QuadraticForm | None) -> Plan:
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    # Multiply-adds at 50 a nanosecond (two cores) and a nanosecond an exponential.
    exact = Candidate("exact", n * (d + k) / 50 + n, 1.0, expansion.nbytes, "asked for")
    if form is None:
        return Plan(guarantee, exact, (), exact.nanoseconds)
    chosen = Candidate(
        "quadratic form", k * d * d / 50 + 1, 0.0, form.quadratic.nbytes, "asked for"
    )
    return Plan(guarantee, chosen, (), exact.nanoseconds)
