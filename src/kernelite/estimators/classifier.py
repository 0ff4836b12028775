"""CompiledClassifier: an SVC or NuSVC, fitted and compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from kernelite.estimators.base import CompiledEstimator, if_inner_has

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernelite.rows.inputs import FloatArray

__all__ = ["CompiledClassifier"]


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
    def decision_function(self, X: Any) -> FloatArray:
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
    def predict_proba(self, X: Any) -> FloatArray:
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
    def predict_log_proba(self, X: Any) -> FloatArray:
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
