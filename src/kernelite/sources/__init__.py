"""Sources: a fitted model of any known kind comes in, a `Machine` goes out.

One file a family. Readers are found by the names of a model's classes, so no library is imported
before one of its models arrives.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head, RegressorHead
from kernelite.machine.machine import Machine, describe
from kernelite.sources.refused import REFUSED

__all__ = ["READERS", "Machine", "read"]

READERS: dict[str, str] = {
    "sklearn.SVC": "kernelite.sources.sklearn_svm:read_svm",
    "sklearn.NuSVC": "kernelite.sources.sklearn_svm:read_svm",
    "sklearn.SVR": "kernelite.sources.sklearn_svm:read_svm",
    "sklearn.NuSVR": "kernelite.sources.sklearn_svm:read_svm",
    "sklearn.OneClassSVM": "kernelite.sources.sklearn_svm:read_svm",
    "sklearn.KernelRidge": "kernelite.sources.sklearn_kernel_ridge:read_kernel_ridge",
    "sklearn.GaussianProcessRegressor": "kernelite.sources.sklearn_gaussian_process:read_regressor",
    "sklearn.GaussianProcessClassifier": (
        "kernelite.sources.sklearn_gaussian_process:read_classifier"
    ),
    "sklearn.KernelDensity": "kernelite.sources.sklearn_density:read_kernel_density",
    "sklearn.KernelPCA": "kernelite.sources.sklearn_kernel_pca:read_kernel_pca",
    "sklearn.Nystroem": "kernelite.sources.sklearn_nystroem:read_nystroem",
    "sklearn.LabelPropagation": (
        "kernelite.sources.sklearn_label_propagation:read_label_propagation"
    ),
    "scipy.RBFInterpolator": "kernelite.sources.scipy_rbf:read_rbf_interpolator",
    "scipy.gaussian_kde": "kernelite.sources.scipy_kde:read_gaussian_kde",
    "gpytorch.ExactGP": "kernelite.sources.gpytorch:read_exact_gp",
    "tslearn.KernelKMeans": "kernelite.sources.kernel_kmeans:read_tslearn_kmeans",
    "sklearn.LabelSpreading": "kernelite.sources.sklearn_label_propagation:read_label_propagation",
    "sklearn.Pipeline": "kernelite.sources.pipeline:read_pipeline",
    "sklearn.GridSearchCV": "kernelite.sources.search:read_search",
    "sklearn.RandomizedSearchCV": "kernelite.sources.search:read_search",
    "sklearn.HalvingGridSearchCV": "kernelite.sources.search:read_search",
    "sklearn.HalvingRandomSearchCV": "kernelite.sources.search:read_search",
    "sklearn.CalibratedClassifierCV": "kernelite.sources.calibrated_cv:read_calibrated",
    "sklearn.OneVsRestClassifier": "kernelite.sources.multiclass:read_one_vs_rest",
    "sklearn.OneVsOneClassifier": "kernelite.sources.multiclass:read_one_vs_one",
    "sklearn.OutputCodeClassifier": "kernelite.sources.multiclass:read_output_code",
    "sklearn.MultiOutputClassifier": "kernelite.sources.multi_output:read_multi_output",
    "sklearn.MultiOutputRegressor": "kernelite.sources.multi_output:read_multi_output",
    "sklearn.BaggingClassifier": "kernelite.sources.ensemble:read_bagging",
    "sklearn.BaggingRegressor": "kernelite.sources.ensemble:read_bagging",
    "sklearn.VotingClassifier": "kernelite.sources.ensemble:read_voting",
    "sklearn.VotingRegressor": "kernelite.sources.ensemble:read_voting",
    "sklearn.TransformedTargetRegressor": "kernelite.sources.target:read_transformed_target",
    "sklearn.FrozenEstimator": "kernelite.sources.search:read_shell",
    "kernelite.CompiledClassifier": "kernelite.sources.search:read_shell",
    "kernelite.CompiledRegressor": "kernelite.sources.search:read_shell",
    "kernelite.CompiledOutlierDetector": "kernelite.sources.search:read_shell",
}
"""Top-level package and class name -> "module:function" of the reader.

A reader takes the model and the class name that matched, and returns a `Machine`.
"""


def read(model: Any, /) -> Machine:
    """Read a fitted model of any known kind.

    Parameters
    ----------
    model : path, estimator, KernelExpansion, (KernelExpansion, Head) or Machine
        The path of a LIBSVM model file; a fitted scikit-learn SVC, NuSVC, SVR, NuSVR or
        OneClassSVM (or an instance of a subclass); or arrays as a `KernelExpansion`, whose scores
        are taken as values unless a head comes with it.

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
            reason = REFUSED[name]
            raise UnsupportedModelError(f"a {ancestor.__name__} cannot be compiled: {reason}.")
        if name in READERS:
            module, _, function = READERS[name].partition(":")
            source: Machine = getattr(import_module(module), function)(model, ancestor.__name__)
            return source
    raise UnsupportedModelError(f"{_found(model)} is not a model that can be read; {_accepted()}.")


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
