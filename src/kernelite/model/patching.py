"""scikit-learn's fitted kernel machines answer through kernelite, without a change of code.

`patch()` replaces the predicting methods of `METHODS`. A fitted estimator is compiled, with
guarantee "exact", once it has been asked for enough rows; the compiled model is kept beside it, and
is made anew after any of its attributes has changed. Whatever kernelite does not serve is answered
by the method that was replaced.
"""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np

from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.machine import Machine, SumOfMachines
from kernelite.model.compiled import CompiledModel
from kernelite.model.compiler import compile
from kernelite.series.rounding import UNIT
from kernelite.sources import read
from kernelite.support.errors import KerneliteError, require_scikit_learn

__all__ = ["patch", "patched", "unpatch"]

METHODS: dict[str, tuple[str, ...]] = {
    "sklearn.svm:SVC": ("predict", "decision_function", "predict_proba"),
    "sklearn.svm:NuSVC": ("predict", "decision_function", "predict_proba"),
    "sklearn.svm:SVR": ("predict",),
    "sklearn.svm:NuSVR": ("predict",),
    "sklearn.svm:OneClassSVM": ("predict", "decision_function"),
    "sklearn.kernel_ridge:KernelRidge": ("predict",),
    "sklearn.gaussian_process:GaussianProcessRegressor": ("predict",),
    "sklearn.gaussian_process:GaussianProcessClassifier": ("predict", "predict_proba"),
    "sklearn.neighbors:KernelDensity": ("score_samples",),
    "sklearn.decomposition:KernelPCA": ("transform",),
}
"""Module and class -> methods that are replaced; others call these."""

FEWEST_ASKED_ROWS = 64  # asked of a fitted estimator before it is compiled
FEWEST_PAIRS = 50_000  # rows times centers, likewise: compiling takes about as long as these
COMPARED_BYTES = 2**16  # of an array whose numbers are compared, and not only its identity
CENTER_ATTRIBUTES = ("support_", "X_fit_", "X_train_")  # whose rows are the centers


class NotServedError(KerneliteError):
    """Why a call goes on as before."""


class TooFewError(NotServedError):
    """Not yet: a few rows are answered before a model would be compiled."""


@dataclass
class PatchedEstimator:
    """What is known of one fitted estimator."""

    attributes: dict[str, Any]
    digest: int
    rows: int = 0
    pairs: int = 0
    model: CompiledModel | None = None
    refused: str = ""
    told: set[str] = field(default_factory=set)


@dataclass
class State:
    """What was replaced, and the compiled models."""

    originals: dict[tuple[type, str], Any] = field(default_factory=dict)
    """Class and name -> the method that stood there itself, or None where it was inherited."""
    kept: dict[int, tuple[weakref.ref[Any], PatchedEstimator]] = field(default_factory=dict)
    verbose: bool = False


_STATE = State()
_INSIDE = threading.local()  # whether an estimator's own method is at work, which calls others


def patch(*, verbose: bool = False) -> None:
    """Let scikit-learn's fitted kernel machines answer through kernelite, from now on.

    SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge, GaussianProcessRegressor,
    GaussianProcessClassifier, KernelDensity and KernelPCA are served, those that are fitted already
    and those to come. Labels are the estimator's own; values differ by rounding. What is not served
    goes on as before.

    Parameters
    ----------
    verbose : bool
        Say on stderr what is compiled, and of each estimator that goes on as before, why.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> svc = SVC().fit(X, y)
    >>> before = svc.predict(X)
    >>> patch()
    >>> bool((svc.predict(X) == before).all())
    True
    >>> unpatch()
    """
    require_scikit_learn("`kernelite.patch` needs")
    _STATE.verbose = verbose
    if _STATE.originals:
        return
    for place, names in METHODS.items():
        module, _, class_name = place.partition(":")
        served = getattr(import_module(module), class_name)
        for name in names:
            _STATE.originals[served, name] = served.__dict__.get(name)
            old = next(base.__dict__[name] for base in served.__mro__ if name in base.__dict__)
            setattr(served, name, _replacement(old, name))


def unpatch() -> None:
    """Undo `patch`, and forget what was compiled.

    Examples
    --------
    >>> unpatch()
    """
    for (served, name), old in _STATE.originals.items():
        delattr(served, name) if old is None else setattr(served, name, old)
    _STATE.originals.clear()
    _STATE.kept.clear()


@contextmanager
def patched(*, verbose: bool = False) -> Iterator[None]:
    """As `patch`, in a `with` block.

    Parameters
    ----------
    verbose : bool
        As in `patch`.

    Examples
    --------
    >>> with patched():
    ...     pass
    """
    before, said = bool(_STATE.originals), _STATE.verbose
    patch(verbose=verbose)
    try:
        yield
    finally:
        _STATE.verbose = said
        if not before:
            unpatch()


def _replacement(old: Any, name: str) -> Any:
    """A method that asks kernelite first; conditions on which it exists are kept."""
    original: Callable[..., Any] = getattr(old, "fn", old)  # behind `available_if`

    def own(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        _INSIDE.now = True
        try:
            return original(self, X, *args, **options)
        finally:
            _INSIDE.now = False

    @wraps(original)
    def method(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if getattr(_INSIDE, "now", False):
            return original(self, X, *args, **options)
        try:
            rows, model = _prepared(self, X)
            return _answer(self, model, name, rows, own, *args, **options)
        except NotServedError as error:
            _tell(self, error)
        return own(self, X, *args, **options)

    if original is old:
        return method
    conditional = copy.copy(old)
    conditional.fn = method
    return conditional


# When it pays: the compiled model of an estimator.


def _prepared(estimator: Any, X: Any) -> tuple[Any, CompiledModel]:
    """Rows that were checked by scikit-learn's rules, and the model that answers them."""
    kept = _kept(estimator)
    if kept.refused:
        raise NotServedError(kept.refused)
    if kept.model is None:
        shape = getattr(X, "shape", None)
        count = int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0
        kept.rows += count
        kept.pairs += count * _centers(estimator)
        if kept.rows < FEWEST_ASKED_ROWS or kept.pairs < FEWEST_PAIRS:
            raise TooFewError
        _compile(estimator, kept)
        assert kept.model is not None
    return _rows(estimator, X), kept.model


def _kept(estimator: Any) -> PatchedEstimator:
    """What is known of an estimator as it is now."""
    attributes, found = vars(estimator), _STATE.kept.get(id(estimator))
    if found is not None and found[0]() is estimator and _same(found[1], attributes):
        return found[1]
    key, kept = id(estimator), PatchedEstimator(dict(attributes), _digest(attributes))

    def forget(_: Any, states: dict[int, Any] = _STATE.kept) -> None:
        states.pop(key, None)

    _STATE.kept[key] = weakref.ref(estimator, forget), kept
    if type(estimator).__module__.partition(".")[0] != "sklearn":
        kept.refused = "it is of a class of its own"
    return kept


def _same(kept: PatchedEstimator, attributes: dict[str, Any]) -> bool:
    """Whether no attribute was set since, and no number of a small array changed in place."""
    old = kept.attributes
    if len(old) != len(attributes) or any(old.get(k, old) is not attributes[k] for k in attributes):
        return False
    return _digest(attributes) == kept.digest


def _digest(attributes: dict[str, Any]) -> int:
    """Of what may be written into: the numbers of small arrays, and a Gaussian process's kernel."""
    found = 0
    for attribute in attributes.values():
        value = attribute.data if is_sparse(attribute) else attribute
        if isinstance(value, np.ndarray):
            found = crc32(value.tobytes("A"), found) if value.nbytes <= COMPARED_BYTES else found
        elif type(value).__module__ == "sklearn.gaussian_process.kernels":
            found = crc32(pickle.dumps(value), found)
    return found


def _centers(estimator: Any) -> int:
    for name in CENTER_ATTRIBUTES:
        if hasattr(estimator, name):
            return int(getattr(estimator, name).shape[0])
    tree = getattr(estimator, "tree_", None)
    if tree is not None:
        return len(tree.data)
    inner = getattr(estimator, "base_estimator_", None)
    inner = getattr(inner, "estimators_", [inner])[0]
    return len(getattr(inner, "X_train_", ()))


def _compile(estimator: Any, kept: PatchedEstimator) -> None:
    try:
        kernel = getattr(estimator, "kernel", None)
        if callable(kernel) and not hasattr(kernel, "theta"):
            raise NotServedError("its kernel is a function")
        kept.model = compile(_as_rounded(read(estimator)), guarantee="exact")
    except KerneliteError as error:
        kept.refused = str(error)
        raise NotServedError(kept.refused) from error
    if _STATE.verbose:
        centers = f"{kept.model.origin.n_centers:,} centers"
        name = type(estimator).__name__
        print(f"kernelite: this {name} is compiled ({centers})", file=sys.stderr)


def _as_rounded(source: Machine) -> Machine:
    """The machine as the estimator computes it: its sums in doubles are not exact.

    n products are added up, each of a kernel value that d features and a few operations made. What
    these may round is part of every bound, so that rows whose labels depend on it stay open.
    """
    expansion = source.expansion
    if isinstance(expansion, SumOfMachines) or expansion.n_features is None:
        return source
    units = expansion.n_centers + expansion.n_features + 16.0
    return replace(source, expansion=expansion.rounded(units=units, gamma=units * UNIT))


def _tell(estimator: Any, error: NotServedError) -> None:
    """Say once of each estimator why it goes on as before, if that was asked for."""
    if not _STATE.verbose or isinstance(error, TooFewError):
        return
    why, told = str(error).rstrip("."), _kept(estimator).told
    if why not in told:
        told.add(why)
        name = type(estimator).__name__
        print(f"kernelite: this {name} goes on as before: {why}", file=sys.stderr)


# What is answered: rows by scikit-learn's rules, labels that are the estimator's own.


def _rows(estimator: Any, X: Any) -> Any:
    """Rows as the estimator's own method would check them."""
    if hasattr(estimator, "_validate_for_predict"):
        rows = estimator._validate_for_predict(X)
    else:
        from sklearn.utils.validation import check_array

        dense = not hasattr(estimator, "X_fit_")
        if getattr(X, "dtype", np.float64) != np.float64 or (dense and is_sparse(X)):
            raise NotServedError("rows that are not doubles")
        _check_names(estimator, X)
        try:
            rows = check_array(X, accept_sparse="csr", dtype=np.float64, order="C")
        except (TypeError, ValueError) as error:
            raise NotServedError(str(error)) from error
    if rows.ndim != 2 or rows.shape[1] != estimator.n_features_in_:
        raise NotServedError("rows of another width")
    return rows


def _check_names(estimator: Any, X: Any) -> None:
    """Leave frames to scikit-learn unless their columns are those that were fitted on."""
    columns = getattr(X, "columns", None)
    names = getattr(estimator, "feature_names_in_", None)
    known = None if names is None else list(names)
    if known != (None if columns is None else list(columns)):
        raise NotServedError("columns of other names")


def _answer(
    estimator: Any,
    model: CompiledModel,
    name: str,
    rows: Any,
    own: Callable[..., Any],
    *args: Any,
    **options: Any,
) -> Any:
    """What a method answers; `NotServedError` where scikit-learn has its own rules."""
    if name == "transform" and _output_is_configured(estimator):
        raise NotServedError("the container that `set_output` asks for")
    if rows.shape[0] == 0 or not hasattr(model, name):
        raise NotServedError(f"no rows, or no `{name}`")
    if name != "predict" or model.head.kind == "regressor":
        return _values(model, name, rows, *args, **options)
    if getattr(estimator, "break_ties", False):
        raise NotServedError("`break_ties`, whose labels come from decision values")
    labels, stats = model.predict(rows, return_stats=True)
    if stats.undecidable:
        open_rows = np.flatnonzero(~model.decided(rows))
        labels[open_rows] = own(estimator, rows[open_rows])
    return labels


def _values(model: CompiledModel, name: str, rows: Any, *args: Any, **options: Any) -> Any:
    if len(args) > 2 or not options.keys() <= {"return_std", "return_cov"}:
        raise NotServedError("arguments that are not known")
    asked = dict(zip(("return_std", "return_cov"), args)) | options
    if all(asked.values()) and len(asked) == 2:
        raise NotServedError("both standard deviations and covariances")
    try:
        return getattr(model, name)(rows, **asked)
    except KerneliteError as error:
        raise NotServedError(str(error)) from error


def _output_is_configured(estimator: Any) -> bool:
    import sklearn

    asked = getattr(estimator, "_sklearn_output_config", None)
    return bool(asked) or sklearn.get_config()["transform_output"] != "default"


def run_script(path: str, *, verbose: bool = False) -> None:
    """Run a Python script as `python path` would, with `patch`; `sys.argv` is the script's."""
    import os
    import runpy

    patch(verbose=verbose)
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")
