"""Sources: a fitted model of any known kind comes in, a `Machine` goes out.

One file per family. Readers are found by the names of a model's classes, so no library is imported
before one of its models arrives.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head, RegressorHead
from kernelite.machine.machine import Machine, describe
from kernelite.support.errors import InputError, UnsupportedModelError, require_scikit_learn

__all__ = ["READERS", "Machine", "read"]

READERS: dict[str, str] = {
    "sklearn.SVC": "kernelite.sources.sklearn_machines:read_svm",
    "sklearn.NuSVC": "kernelite.sources.sklearn_machines:read_svm",
    "sklearn.SVR": "kernelite.sources.sklearn_machines:read_svm",
    "sklearn.NuSVR": "kernelite.sources.sklearn_machines:read_svm",
    "sklearn.OneClassSVM": "kernelite.sources.sklearn_machines:read_svm",
    "sklearn.KernelRidge": "kernelite.sources.sklearn_machines:read_kernel_ridge",
    "sklearn.GaussianProcessRegressor": "kernelite.sources.gaussian_processes:read_regressor",
    "sklearn.GaussianProcessClassifier": ("kernelite.sources.gaussian_processes:read_classifier"),
    "sklearn.KernelDensity": "kernelite.sources.sklearn_machines:read_kernel_density",
    "sklearn.KernelPCA": "kernelite.sources.sklearn_machines:read_kernel_pca",
    "sklearn.Nystroem": "kernelite.sources.sklearn_machines:read_nystroem",
    "sklearn.LabelPropagation": ("kernelite.sources.sklearn_machines:read_label_propagation"),
    "scipy.RBFInterpolator": "kernelite.sources.scipy:read_rbf_interpolator",
    "scipy.gaussian_kde": "kernelite.sources.scipy:read_gaussian_kde",
    "gpytorch.ExactGP": "kernelite.sources.gaussian_processes:read_exact_gp",
    "tslearn.KernelKMeans": "kernelite.sources.nearest_means:read_tslearn_kmeans",
    "sklearn.LabelSpreading": "kernelite.sources.sklearn_machines:read_label_propagation",
    "sklearn.Pipeline": "kernelite.sources.pipeline:read_pipeline",
    "sklearn.GridSearchCV": "kernelite.sources.pipeline:read_search",
    "sklearn.RandomizedSearchCV": "kernelite.sources.pipeline:read_search",
    "sklearn.HalvingGridSearchCV": "kernelite.sources.pipeline:read_search",
    "sklearn.HalvingRandomSearchCV": "kernelite.sources.pipeline:read_search",
    "sklearn.CalibratedClassifierCV": "kernelite.sources.ensembles:read_calibrated",
    "sklearn.OneVsRestClassifier": "kernelite.sources.ensembles:read_one_vs_rest",
    "sklearn.OneVsOneClassifier": "kernelite.sources.ensembles:read_one_vs_one",
    "sklearn.OutputCodeClassifier": "kernelite.sources.ensembles:read_output_code",
    "sklearn.MultiOutputClassifier": "kernelite.sources.ensembles:read_multi_output",
    "sklearn.MultiOutputRegressor": "kernelite.sources.ensembles:read_multi_output",
    "sklearn.BaggingClassifier": "kernelite.sources.ensembles:read_bagging",
    "sklearn.BaggingRegressor": "kernelite.sources.ensembles:read_bagging",
    "sklearn.VotingClassifier": "kernelite.sources.ensembles:read_voting",
    "sklearn.VotingRegressor": "kernelite.sources.ensembles:read_voting",
    "sklearn.TransformedTargetRegressor": "kernelite.sources.pipeline:read_transformed_target",
    "sklearn.FrozenEstimator": "kernelite.sources.pipeline:read_shell",
    "kernelite.CompiledClassifier": "kernelite.sources.pipeline:read_shell",
    "kernelite.CompiledRegressor": "kernelite.sources.pipeline:read_shell",
    "kernelite.CompiledOutlierDetector": "kernelite.sources.pipeline:read_shell",
}
"""Top-level package and class name -> "module:function" of the reader.

A reader takes a fitted model and the class name that matched, by which messages call it (the
model's own class may be a subclass), and returns a `Machine`, or raises an `UnsupportedModelError`.
"""

# Models that are known and cannot be served, each with the reason.

_CHAIN = "each of its machines takes the answers of those before it as features"
_STACK = "a second model is fitted on the answers of its machines"
_JOIN = "it joins transformers side by side and is no model; compile what stands behind it"
_NEW_ROWS = "it has no answer for rows that it was not fitted on"
_LINEAR = "it is linear and needs no support vectors: nothing is left to speed up"
_BOOST = "its machines are added up by rules of their own"

REFUSED: dict[str, str] = {
    "sklearn.AdaBoostClassifier": _BOOST,
    "sklearn.AdaBoostRegressor": _BOOST,
    "sklearn.ClassifierChain": _CHAIN,
    "sklearn.ColumnTransformer": _JOIN,
    "sklearn.FeatureUnion": _JOIN,
    "sklearn.LinearSVC": _LINEAR,
    "sklearn.LinearSVR": _LINEAR,
    "sklearn.RegressorChain": _CHAIN,
    "sklearn.SpectralBiclustering": _NEW_ROWS,
    "sklearn.SpectralClustering": _NEW_ROWS,
    "sklearn.SpectralCoclustering": _NEW_ROWS,
    "sklearn.SpectralEmbedding": _NEW_ROWS,
    "sklearn.StackingClassifier": _STACK,
    "sklearn.StackingRegressor": _STACK,
}
"""Top-level package and class name -> why."""

ANSWERING = (
    *("predict", "decision_function", "predict_proba", "predict_log_proba", "score_samples"),
    *("transform", "sample_y", "evaluate", "pdf", "logpdf", "__call__"),
)
"""Methods whose answers a compiled model gives."""

KNOWN_PACKAGES = frozenset(name.partition(".")[0] for name in READERS) | {
    *("sklearnex", "daal4py", "onedal", "imblearn"),
}
"""Packages whose subclasses answer as what they extend."""


def read(model: Any, /) -> Machine:
    """Read a fitted model of any known kind.

    Parameters
    ----------
    model : path, estimator, KernelExpansion, (KernelExpansion, Head) or Machine
        The path of a LIBSVM model file; a fitted scikit-learn SVC, NuSVC, SVR, NuSVR or
        OneClassSVM (or an instance of a subclass that answers as they do); or arrays as a
        `KernelExpansion`, whose scores are taken as values unless a head comes with it.

    Returns
    -------
    Machine

    Raises
    ------
    UnsupportedModelError
        If the model is of no known kind, unfitted, or has another kernel.
    FileFormatError
        If the file does not parse.

    Examples
    --------
    >>> read(KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)).description
    'KernelExpansion, 1 support vector, gamma 1'
    """
    if isinstance(model, Machine):
        return model
    if isinstance(model, str | os.PathLike):
        from kernelite.sources.libsvm import read_libsvm

        return read_libsvm(model)
    if isinstance(model, KernelExpansion):
        return _from_arrays(model, RegressorHead(model.n_outputs))
    if isinstance(model, tuple):
        return _from_pair(model)
    if type(model).__name__ == "CompiledModel":
        raise UnsupportedModelError("this model is compiled already; compile what it came from.")
    for ancestor in type(model).__mro__:
        name = f"{ancestor.__module__.partition('.')[0]}.{ancestor.__name__}"
        if name in REFUSED:
            article = "an" if ancestor.__name__[0] in "AEIO" else "a"
            raise UnsupportedModelError(
                f"{article} {ancestor.__name__} cannot be compiled: {REFUSED[name]}."
            )
        if name in READERS:
            if name.startswith("sklearn."):
                require_scikit_learn(f"compiling a {ancestor.__name__} needs")
            _refuse_own_answers(model, ancestor)
            module, _, function = READERS[name].partition(":")
            machine: Machine = getattr(import_module(module), function)(model, ancestor.__name__)
            return machine
    raise UnsupportedModelError(f"{_found(model)} is not a model that can be read; {_accepted()}.")


def _refuse_own_answers(model: Any, ancestor: type) -> None:
    """Refuse what answers in a way of its own, which no reader knows.

    Of a subclass, private methods count where `ancestor` has them too, such as `_compute_kernel` of
    an SVC; those of fitting do not.
    """
    name = ancestor.__name__
    if set_here := [method for method in ANSWERING if method in getattr(model, "__dict__", {})]:
        raise UnsupportedModelError(
            f"this {name} has a `{set_here[0]}` among its attributes, which is not known; delete "
            "that, and it answers by its class."
        )
    above = type(model).__mro__[: type(model).__mro__.index(ancestor)]
    foreign = [kind for kind in above if kind.__module__.partition(".")[0] not in KNOWN_PACKAGES]
    replaced = {method for base in ancestor.__mro__ for method in vars(base)}
    for method in (method for kind in foreign for method in vars(kind)):
        if method in replaced and _answers(method):
            raise UnsupportedModelError(
                f"this {type(model).__name__} has a `{method}` of its own, which is not known; if "
                f"it answers as {name} does, compile a copy that is one: `twin = "
                f"copy.copy(model); twin.__class__ = {name}`."
            )


def _answers(method: str) -> bool:
    """Whether answers may depend on a method, by its name."""
    if method in ANSWERING or method == "_validate_for_predict":
        return True
    aside = ("_repr", "_more_tags", "_get_tags", "_check_", "_validate", "_parameter", "_abc")
    return method[0] == "_" != method[1] and "fit" not in method and not method.startswith(aside)


def _from_arrays(expansion: KernelExpansion, head: Head) -> Machine:
    return Machine(expansion, head, describe("KernelExpansion", expansion), "arrays", head.kind)


def _from_pair(pair: tuple[Any, ...]) -> Machine:
    if len(pair) == 2 and isinstance(pair[0], KernelExpansion) and isinstance(pair[1], Head):
        return _from_arrays(*pair)
    found = ", ".join(type(part).__name__ for part in pair)
    raise InputError(f"a tuple as model must be (KernelExpansion, Head), got ({found}).")


def _found(model: object) -> str:
    if isinstance(model, type):
        return f"the class `{model.__name__}` (not an instance)"
    return f"`{type(model).__module__}.{type(model).__qualname__}`"


def _accepted() -> str:
    return (
        "accepted are fitted kernel machines, such as scikit-learn's SVC, SVR, KernelRidge and "
        "GaussianProcessRegressor, pipelines and searches that hold one, SciPy's gaussian_kde, "
        "paths of LIBSVM models, and KernelExpansion; docs/guide/models.md lists all"
    )
