"""scikit-learn meta-estimators: fit an SVM, compile it, predict with the compiled model.

In: an unfitted scikit-learn SVM and training rows. Out: an estimator whose `predict`,
`decision_function`, ... are the compiled model's, for pipelines, cross-validation and grids.
"""

from __future__ import annotations

from kernelite.estimators.compiled import (
    CompiledClassifier,
    CompiledOutlierDetector,
    CompiledRegressor,
)

__all__ = ["CompiledClassifier", "CompiledOutlierDetector", "CompiledRegressor"]
