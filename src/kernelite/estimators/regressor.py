"""CompiledRegressor: an SVR or NuSVR, fitted and compiled."""

from __future__ import annotations

from sklearn.base import RegressorMixin
from sklearn.svm import SVR

from kernelite.estimators.base import CompiledEstimator

__all__ = ["CompiledRegressor"]


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
