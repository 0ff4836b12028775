"""What scikit-learn's own functions ask of a fitted model, beyond predicting.

A compiled model is frozen, in the sense of scikit-learn's FrozenEstimator: `fit` fits nothing and
`clone` gives it back. So scorers, inspection tools, displays and other meta-estimators take it.
`CompiledClassifier` and its kin are the estimators that fit. Here are also `offered`, for methods
that exist only where the source had them, and how a model looks in a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import MethodType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelite.data.rows.frames import is_frame
from kernelite.data.rows.inputs import RowsLike
from kernelite.model.fields import ModelFields
from kernelite.planner.plan import candidates_html, table_html
from kernelite.support.errors import InputError
from kernelite.support.terminal import escaped, printable

__all__ = ["ScikitLearnContract", "names_can_be_set", "offered"]

# Methods that exist only where the source had them.
#
# In: a method of a class whose instances say, in `offers`, which of their methods exist. Out: the
# same method, absent (`hasattr` is False) on instances that do not name it.

Method = TypeVar("Method", bound=Callable[..., Any])


class _Offered:
    """A descriptor: binds the method, or raises AttributeError."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        if instance is None:  # on the class, for documentation
            return self.method
        name = self.method.__name__
        if name not in instance.offers:
            known = ", ".join(sorted(instance.offers))
            raise AttributeError(
                f"this model has no `{name}`, since what it was compiled from has none; "
                f"it has: {known}."
            )
        return MethodType(self.method, instance)


def offered(method: Method) -> Method:
    """Offer a method only on instances whose `offers` contains its name.

    Examples
    --------
    >>> class Model:
    ...     offers = frozenset({"predict"})
    ...
    ...     @offered
    ...     def predict(self):
    ...         return 1
    ...
    ...     @offered
    ...     def transform(self):
    ...         return 2
    >>> hasattr(Model(), "predict"), hasattr(Model(), "transform")
    (True, False)
    """
    return _Offered(method)  # type: ignore[return-value]


# A model in a notebook: the facts, and its plan below them.


def model_html(model: ModelFields, /) -> str:
    """The model's representation in notebooks.

    Parameters
    ----------
    model : CompiledModel

    Returns
    -------
    str

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> page = model_html(kernelite.compile(bump, guarantee="exact"))
    >>> page.startswith("<div") and "gamma 1" in page
    True
    """
    facts = table_html([(name, str(value)) for name, value in _facts(model)])
    title = escaped(f"{type(model).__name__}: {model.origin.description}")
    return (
        f"<div><b>{title}</b>{facts}"
        f"<details><summary>plan: {escaped(model.plan.chosen.name)}</summary>"
        f"{candidates_html(model.plan)}</details></div>"
    )


def _facts(model: ModelFields) -> list[tuple[str, Any]]:
    chosen = model.plan.chosen
    facts: list[tuple[str, Any]] = [
        ("guarantee", model.guarantee),
        ("answers", ", ".join(sorted(model.offers))),
        ("features", getattr(model, "n_features_in_", "text")),
        ("bytes", f"{model.nbytes:,}"),
    ]
    if not math.isnan(model.plan.speed_up):
        gain = f", {model.plan.speed_up:,.3g} times less than the exact sum"
        cost = f"{chosen.nanoseconds:,.0f} ns per row{'' if model.plan.is_exact else gain}"
        facts.insert(3, ("expected", cost))
    if not model.plan.is_exact:
        facts.insert(-1, ("falls back", f"{100 * chosen.open_share:.2f}% of rows"))
    if model.tolerance is not None:
        shown = ", ".join(f"{value:.3g}" for value in model.tolerance[:4])
        facts.append(("tolerance", shown + (", ..." if len(model.tolerance) > 4 else "")))
    return facts


# What scikit-learn asks: parameters, tags, cloning, containers.

CONTAINERS = ("default", "pandas", "polars")
ESTIMATOR_TYPES = {
    "classifier": "classifier",
    "regressor": "regressor",
    "outlier": "outlier_detector",
    "density": "DensityEstimator",
}


Model = TypeVar("Model", bound=ModelFields)


def names_can_be_set(model_class: type[Model]) -> type[Model]:
    """Let `feature_names_in_` of a frozen model be set, as that of scikit-learn's estimators can.

    shap's explainers set it to None on a copy of the model, because they pass bare arrays.
    """
    frozen = model_class.__setattr__

    def assign(self: Model, name: str, value: Any) -> None:
        if name != "feature_names_in_":
            frozen(self, name, value)
            return
        names = None if value is None else tuple(map(str, value))
        if names is not None and len(names) != self.n_features_in_:
            raise InputError(f"{len(names)} feature names for {self.n_features_in_} features.")
        object.__setattr__(self, "origin", replace(self.origin, feature_names=names))

    model_class.__setattr__ = assign  # type: ignore[method-assign,assignment]
    return model_class


class ScikitLearnContract(ModelFields):
    """Parameters, tags, cloning and containers of a compiled model."""

    def fit(self, X: RowsLike, y: object = None, *args: object, **kwargs: object) -> Self:
        """Fit nothing and return the model: it is frozen; compile again after fitting its source.

        Parameters
        ----------
        X, y, *args, **kwargs
            Not looked at.
        """
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return no parameters, since a compiled model is finished."""
        return {}

    def set_params(self, **params: object) -> Self:
        """Refuse any parameter: compile again with other options instead."""
        if params:
            raise InputError(
                f"a compiled model has no parameters to set, got {', '.join(sorted(params))}; "
                "compile the source again with other options."
            )
        return self

    @offered
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the coordinates that `transform` gives, as scikit-learn makes them."""
        prefix = self.origin.type_name.lower()
        return np.array([f"{prefix}{i}" for i in range(self.head.n_scores)], dtype=object)

    @offered
    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: an array ("default"), or a pandas or polars frame.

        The one thing about a compiled model that can change; numbers do not.
        """
        if transform is not None:
            if transform not in CONTAINERS:
                known = ", ".join(CONTAINERS)
                raise InputError(f"`transform` must be one of {known}, got {transform!r}.")
            object.__setattr__(self, "_container", transform)
        return self

    def _contained(self, answers: NDArray[Any], X: Any) -> Any:
        """What `transform` answers, in the container that was asked for."""
        container = getattr(self, "_container", "default")
        if container == "default" or "get_feature_names_out" not in self.offers:
            return answers
        names = list(self.get_feature_names_out())
        if container == "polars":
            return import_module("polars").DataFrame(answers, schema=names, orient="row")
        index = X.index if is_frame(X) and hasattr(X, "index") else None
        return import_module("pandas").DataFrame(answers, index=index, columns=names)

    @property
    def _estimator_type(self) -> str | None:  # read by scikit-learn before 1.6
        return ESTIMATOR_TYPES.get(self.head.kind)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind = self.head.kind
        labelled = kind in ("classifier", "regressor")
        return Tags(
            estimator_type=ESTIMATOR_TYPES.get(kind),
            target_tags=TargetTags(required=labelled),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(sparse=True),
        )

    def __sklearn_clone__(self) -> Self:
        return self  # immutable, and nothing could be fitted again

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __repr__(self) -> str:
        said = f"<CompiledModel of {self.origin.description}; {self.plan.summary}>"
        return printable(said, one_line=True)

    def _repr_html_(self) -> str:
        return model_html(self)
