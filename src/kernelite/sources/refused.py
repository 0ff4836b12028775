"""Models that are known and cannot be served, each with the reason."""

from __future__ import annotations

__all__ = ["REFUSED"]

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
