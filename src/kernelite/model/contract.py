"""What scikit-learn's own functions ask of a fitted model, beyond predicting.

A compiled model is frozen, in the sense of scikit-learn's FrozenEstimator: `fit` fits nothing and
`clone` gives it back. So scorers, inspection tools, displays and other meta-estimators take it.
`CompiledClassifier` and its kin are the estimators that fit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelite.errors import InputError
from kernelite.model.html import model_html
from kernelite.model.offering import offered
from kernelite.model.transforming import Transforming
from kernelite.rows.inputs import RowsLike
from kernelite.support.printable import printable

__all__ = ["ScikitLearnContract"]

ESTIMATOR_TYPES = {
    "classifier": "classifier",
    "regressor": "regressor",
    "outlier": "outlier_detector",
    "density": "DensityEstimator",
}


class ScikitLearnContract(Transforming):
    """Scores, parameters, tags and cloning of a compiled model."""

    def fit(self, X: RowsLike, y: object = None, *args: object, **kwargs: object) -> Self:
        """Fit nothing and return the model: it is frozen; compile again after fitting its source.

        Parameters
        ----------
        X, y, *args, **kwargs
            Not looked at.
        """
        return self

    @offered
    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """How well `y` is predicted, by the source's own default measure.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
        y : array-like of shape (m,) or (m, outputs)
            Not used by a density.
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
            The accuracy of labels (of all outputs at once, if several), the R^2 of values, the
            summed log density.
        """
        kind = self.head.kind
        if kind == "density":
            return float(np.sum(self.score_samples(X)))
        from sklearn import metrics

        if kind == "regressor":
            return float(metrics.r2_score(y, self.predict(X), sample_weight=sample_weight))
        predicted = self.predict(X)
        if isinstance(self.head.classes, list):
            return float(np.mean(np.all(np.asarray(y) == predicted, axis=1)))
        return float(metrics.accuracy_score(y, predicted, sample_weight=sample_weight))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No parameters: a compiled model is finished."""
        return {}

    def set_params(self, **params: object) -> Self:
        """Refuses all but none: compile again with other options instead."""
        if params:
            raise InputError(
                f"a compiled model has no parameters to set, got {', '.join(sorted(params))}; "
                "compile the source again with other options."
            )
        return self

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
