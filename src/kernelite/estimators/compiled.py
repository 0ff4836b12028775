"""An SVM of each kind, fitted and compiled: classifier, regressor, outlier detector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.utils.validation import check_is_fitted

from kernelite.estimators.base import CompiledEstimator, if_inner_has

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernelite.rows.inputs import FloatArray, RowsLike

__all__ = ["CompiledClassifier", "CompiledOutlierDetector", "CompiledRegressor"]


class CompiledClassifier(ClassifierMixin, CompiledEstimator):  # type: ignore[misc]
    """An SVM classifier that predicts with its compiled form.

    Parameters
    ----------
    estimator : unfitted scikit-learn SVC or NuSVC, optional
        `SVC()` by default; `estimator__C` and so on reach its parameters.
    guarantee, expansion_point, on_invalid
        As in `kernelite.compile`; the training rows are the sample.
    tolerance, max_disagreement, confidence, cells, max_bytes, random_state : optional
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

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels, sorted."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.classes_

    @if_inner_has("decision_function")
    def decision_function(self, X: RowsLike) -> FloatArray:
        """Decision values in the SVM's own shape: (m,), (m, K) or (m, K (K - 1) / 2).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)

        Returns
        -------
        ndarray
        """
        rows = self._rows(X)
        return self.compiled_.decision_function(rows)

    @if_inner_has("predict_proba")
    def predict_proba(self, X: RowsLike) -> FloatArray:
        """Class probabilities of shape (m, K), where the SVM was told to learn them.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)

        Returns
        -------
        ndarray of shape (m, K)
        """
        rows = self._rows(X)
        return self.compiled_.predict_proba(rows)

    @if_inner_has("predict_log_proba")
    def predict_log_proba(self, X: RowsLike) -> FloatArray:
        """Logarithms of the class probabilities, shape (m, K).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)

        Returns
        -------
        ndarray of shape (m, K)
        """
        rows = self._rows(X)
        return self.compiled_.predict_log_proba(rows)


class CompiledRegressor(RegressorMixin, CompiledEstimator):  # type: ignore[misc]
    """An SVM regressor that predicts with its compiled form.

    Parameters
    ----------
    estimator : unfitted scikit-learn SVR or NuSVR, optional
        `SVR()` by default.
    guarantee, expansion_point, on_invalid
        As in `kernelite.compile`; the training rows are the sample.
    tolerance, max_disagreement, confidence, cells, max_bytes, random_state : optional
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


class CompiledOutlierDetector(OutlierMixin, CompiledEstimator):  # type: ignore[misc]
    """A one-class SVM that predicts with its compiled form.

    Parameters
    ----------
    estimator : unfitted scikit-learn OneClassSVM, optional
        `OneClassSVM()` by default.
    guarantee, expansion_point, on_invalid
        As in `kernelite.compile`; the training rows are the sample.
    tolerance, max_disagreement, confidence, cells, max_bytes, random_state : optional
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

    @property
    def offset_(self) -> float:
        """What separates `score_samples` from `decision_function`."""
        check_is_fitted(self, "compiled_")
        return self.compiled_.head.offset

    @if_inner_has("decision_function")
    def decision_function(self, X: RowsLike) -> FloatArray:
        """Signed distance to the boundary, positive for inliers; shape (m,).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)

        Returns
        -------
        ndarray of shape (m,)
        """
        rows = self._rows(X)
        return self.compiled_.decision_function(rows)

    @if_inner_has("score_samples")
    def score_samples(self, X: RowsLike) -> FloatArray:
        """Scores without the offset, larger for inliers; shape (m,).

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)

        Returns
        -------
        ndarray of shape (m,)
        """
        rows = self._rows(X)
        return self.compiled_.score_samples(rows)
