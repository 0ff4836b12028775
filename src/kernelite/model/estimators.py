"""scikit-learn meta-estimators: fit an SVM, compile it, predict with the compiled model.

In: an unfitted scikit-learn SVM and training rows. Out: an estimator whose `predict`,
`decision_function`, ... are the compiled model's, for pipelines, cross-validation and grids. First
comes what the three share; then they, with the methods that scikit-learn's own have, for rows `X`
as in `predict`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from kernelite.model.compiler import compile
from kernelite.support.errors import InputError, require_scikit_learn

try:
    import sklearn
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        MetaEstimatorMixin,
        OutlierMixin,
        RegressorMixin,
        clone,
        is_classifier,
        is_outlier_detector,
        is_regressor,
    )
    from sklearn.svm import SVC, SVR, OneClassSVM
    from sklearn.utils.metadata_routing import (
        UNUSED,
        MetadataRouter,
        MethodMapping,
        process_routing,
    )
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    require_scikit_learn("scikit-learn's estimators with compiled models need")
    raise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from kernelite.data.rows.inputs import FloatArray, RowsLike

__all__ = ["CompiledClassifier", "CompiledOutlierDetector", "CompiledRegressor"]

Method = TypeVar("Method", bound=Callable[..., Any])

_WRAPPERS = "`CompiledClassifier`, `CompiledRegressor` and `CompiledOutlierDetector`"
_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(compile).parameters.items()
    if parameter.default is not parameter.empty
}


def if_inner_has(name: str) -> Callable[[Method], Method]:
    """Offer a method only when the wrapped SVM (fitted if there is one) has `name`."""

    def check(self: CompiledEstimator) -> bool:
        inner = getattr(self, "estimator_", None)
        if inner is None:
            inner = self._inner()
        getattr(inner, name)  # raises the AttributeError that says why not
        return True

    offer: Callable[[Method], Method] = available_if(check)
    return offer


class CompiledEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """What the three share: parameters, fitting and compiling, input checks."""

    _required_parameters: tuple[str, ...] = ()  # `estimator` has a default
    # Weights are for the wrapped estimator, whose requests are asked: `set_fit_request` is its own.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"sample_weight": UNUSED}
    _inner_class: type
    _kind: str
    _serves: Callable[[object], bool]

    def __init__(
        self,
        estimator: object = None,
        *,
        guarantee: str = _DEFAULTS["guarantee"],
        expansion_point: str | ArrayLike = _DEFAULTS["expansion_point"],
        tolerance: float | None = None,
        max_disagreement: float | None = None,
        confidence: float | None = None,
        max_bytes: int | None = None,
        on_invalid: str = _DEFAULTS["on_invalid"],
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.guarantee = guarantee
        self.expansion_point = expansion_point
        self.tolerance = tolerance
        self.max_disagreement = max_disagreement
        self.confidence = confidence
        self.max_bytes = max_bytes
        self.on_invalid = on_invalid
        self.random_state = random_state

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit a clone of the SVM, then compile it with `X` as the sample.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
        y : array-like of shape (n,)
            Labels or values; ignored by an outlier detector.
        sample_weight : array-like of shape (n,), optional
            Passed to the SVM.
        **fit_params
            Passed to `fit` of the SVM, or of the pipeline that it is in. Where scikit-learn's
            metadata routing is enabled, these and the weights go to whatever requests them.

        Returns
        -------
        self
        """
        inner = clone(self._inner())
        if not self._serves(inner):
            raise InputError(
                f"`{type(self).__name__}` takes {self._kind}, got {type(inner).__name__}; "
                f"{_WRAPPERS} take the other kinds."
            )
        # Not a keyword when absent: precomputed wrappers and subclasses may not take weights.
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        if sklearn.get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        self.estimator_ = inner.fit(X, y, **fit_params)
        self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.compiled_ = compile(self.estimator_, X, **self._compile_options())
        return self

    def get_metadata_routing(self) -> Any:
        """Where metadata go, as scikit-learn asks: `fit`'s to the wrapped estimator's `fit`.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self._inner(), method_mapping=mapping)

    def predict(self, X: RowsLike) -> NDArray[Any]:
        """Labels or values of the compiled model, shape (m,).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)

        Returns
        -------
        ndarray of shape (m,)
        """
        return self._answer("predict", X)

    def _answer(self, method: str, X: RowsLike) -> Any:
        """What a method of the compiled model answers; unfitted estimators are refused before."""
        rows = self._rows(X)
        return getattr(self.compiled_, method)(rows)

    def _inner(self) -> Any:
        return self._inner_class() if self.estimator is None else self.estimator

    def _compile_options(self) -> dict[str, Any]:
        """Parameters of `compile`, whose own defaults stand where ours are None."""
        options: dict[str, Any] = self.get_params(deep=False)
        del options["estimator"]
        always = ("guarantee", "expansion_point", "on_invalid")  # None is refused
        return {k: value for k, value in options.items() if value is not None or k in always}

    def _rows(self, X: Any) -> Any:
        """`X` checked against what was fitted, in scikit-learn's own words."""
        check_is_fitted(self)
        wanted = {"reset": False, "accept_sparse": "csr", "dtype": np.float64}
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:  # before scikit-learn 1.6
            return self._validate_data(X, **wanted)
        return validate_data(self, X, **wanted)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        inner = self._inner()
        if hasattr(inner, "__sklearn_tags__"):
            tags.target_tags.multi_output = inner.__sklearn_tags__().target_tags.multi_output
        return tags

    def _more_tags(self) -> dict[str, Any]:  # before scikit-learn 1.6
        reason = "LIBSVM's weights are not equivalent to removing or repeating rows"
        inner: dict[str, Any] = getattr(self._inner(), "_get_tags", dict)()
        return {
            "_xfail_checks": {"check_sample_weights_invariance": reason},
            "multioutput": inner.get("multioutput", False),
        }


# The estimators: each names the SVM it wraps and the methods that it adds.


class CompiledClassifier(ClassifierMixin, CompiledEstimator):  # type: ignore[misc]
    """An SVM classifier that predicts with its compiled form.

    Parameters
    ----------
    estimator : unfitted scikit-learn SVC or NuSVC, optional
        `SVC()` by default; `estimator__C` and so on reach its parameters.
    guarantee, expansion_point, on_invalid
        As in `kernelite.compile`; the training rows are the sample.
    tolerance, max_disagreement, confidence, max_bytes, random_state : optional
        As in `kernelite.compile`; its defaults where None.

    Attributes
    ----------
    estimator_ : the fitted SVM
    compiled_ : CompiledModel
    classes_ : ndarray of shape (K,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only when fitted on a data frame whose column names are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> fast = CompiledClassifier(SVC(gamma=0.01, C=10), guarantee="none", on_invalid="ignore")
    >>> grid = GridSearchCV(fast, {"estimator__C": [1, 100]}, cv=3).fit(X, y)
    >>> grid.best_params_
    {'estimator__C': 100}
    """

    _inner_class = SVC
    _kind, _serves = "a classifier", staticmethod(is_classifier)

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels, sorted."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.classes_

    @if_inner_has("decision_function")
    def decision_function(self, X: RowsLike) -> FloatArray:
        """Decision values in the SVM's own shape: (m,), (m, K) or (m, K (K - 1) / 2)."""
        return self._answer("decision_function", X)

    @if_inner_has("predict_proba")
    def predict_proba(self, X: RowsLike) -> FloatArray:
        """Class probabilities of shape (m, K), where the SVM was told to learn them."""
        return self._answer("predict_proba", X)

    @if_inner_has("predict_log_proba")
    def predict_log_proba(self, X: RowsLike) -> FloatArray:
        """Logarithms of the class probabilities, shape (m, K)."""
        return self._answer("predict_log_proba", X)


class CompiledRegressor(RegressorMixin, CompiledEstimator):  # type: ignore[misc]
    """An SVM regressor that predicts with its compiled form.

    Parameters
    ----------
    estimator : unfitted scikit-learn SVR or NuSVR, optional
        `SVR()` by default.
    guarantee, expansion_point, on_invalid
        As in `kernelite.compile`; the training rows are the sample.
    tolerance, max_disagreement, confidence, max_bytes, random_state : optional
        As in `kernelite.compile`; its defaults where None.

    Attributes
    ----------
    estimator_ : the fitted SVM
    compiled_ : CompiledModel
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only when fitted on a data frame whose column names are strings.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 40).reshape(-1, 1)
    >>> fast = CompiledRegressor(SVR(gamma=0.2, C=100, epsilon=0.01)).fit(X, X.ravel() ** 2)
    >>> fast.score(X, X.ravel() ** 2) > 0.99
    True
    """

    _inner_class = SVR
    _kind, _serves = "a regressor", staticmethod(is_regressor)


class CompiledOutlierDetector(OutlierMixin, CompiledEstimator):  # type: ignore[misc]
    """A one-class SVM that predicts with its compiled form.

    Parameters
    ----------
    estimator : unfitted scikit-learn OneClassSVM, optional
        `OneClassSVM()` by default.
    guarantee, expansion_point, on_invalid
        As in `kernelite.compile`; the training rows are the sample.
    tolerance, max_disagreement, confidence, max_bytes, random_state : optional
        As in `kernelite.compile`; its defaults where None.

    Attributes
    ----------
    estimator_ : the fitted SVM
    compiled_ : CompiledModel
    offset_ : float
        `decision_function` is `score_samples` minus this.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only when fitted on a data frame whose column names are strings.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> fast = CompiledOutlierDetector(OneClassSVM(gamma=0.01, nu=0.1)).fit(X)
    >>> fast.predict([[0.0, 0.0], [3.0, 3.0]])
    array([ 1, -1])
    """

    _inner_class = OneClassSVM
    _kind, _serves = "an outlier detector", staticmethod(is_outlier_detector)

    @property
    def offset_(self) -> float:
        """What separates `score_samples` from `decision_function`."""
        check_is_fitted(self, "compiled_")
        return self.compiled_.head.offset

    @if_inner_has("decision_function")
    def decision_function(self, X: RowsLike) -> FloatArray:
        """Signed distance to the boundary, positive for inliers; shape (m,)."""
        return self._answer("decision_function", X)

    @if_inner_has("score_samples")
    def score_samples(self, X: RowsLike) -> FloatArray:
        """Scores without the offset, larger for inliers; shape (m,)."""
        return self._answer("score_samples", X)
