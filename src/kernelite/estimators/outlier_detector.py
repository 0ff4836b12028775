"""CompiledOutlierDetector: a one-class SVM, fitted and compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import OutlierMixin
from sklearn.svm import OneClassSVM
from sklearn.utils.validation import check_is_fitted

from kernelite.estimators.base import CompiledEstimator, if_inner_has
from kernelite.machine.heads import OutlierHead

if TYPE_CHECKING:
    from kernelite.rows.inputs import FloatArray

__all__ = ["CompiledOutlierDetector"]


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
        head = self.compiled_.head
        assert isinstance(head, OutlierHead)
        return head.offset

    @if_inner_has("decision_function")
    def decision_function(self, X: Any) -> FloatArray:
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
    def score_samples(self, X: Any) -> FloatArray:
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
