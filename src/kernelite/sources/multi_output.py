"""scikit-learn's MultiOutputClassifier and MultiOutputRegressor: a machine an output."""

from __future__ import annotations

from typing import Any

from kernelite.errors import UnsupportedModelError
from kernelite.head import Head, RegressorHead
from kernelite.heads.several import SeveralHead
from kernelite.sources.combine import side_by_side
from kernelite.sources.members import assembled, member_of, offered_methods, read_members
from kernelite.sources.source import Source

__all__ = ["read_multi_output"]


def read_multi_output(model: Any, type_name: str, /) -> Source:
    """Read a fitted MultiOutputClassifier or MultiOutputRegressor.

    Parameters
    ----------
    model : estimator
    type_name : str

    Returns
    -------
    Source

    Examples
    --------
    >>> from sklearn.multioutput import MultiOutputRegressor
    >>> from sklearn.svm import SVR
    >>> fitted = MultiOutputRegressor(SVR(gamma=0.5)).fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    >>> read_multi_output(fitted, "MultiOutputRegressor").expansion.n_outputs
    2
    """
    if not hasattr(model, "estimators_"):
        raise UnsupportedModelError(f"this {type_name} is not fitted; call `fit` first.")
    sources = read_members(model.estimators_, type_name)
    if len(sources) > 1 and all(_is_plain(source) for source in sources):
        return assembled(model, type_name, sources, RegressorHead(len(sources)))
    members = tuple(
        member_of(estimator, source, columns)
        for estimator, source, columns in zip(model.estimators_, sources, side_by_side(sources))
    )
    kind = sources[0].head.kind
    head: Head = SeveralHead(members, kind, offered_methods(model))  # type: ignore[arg-type]
    return assembled(model, type_name, sources, head)


def _is_plain(source: Source) -> bool:
    """Whether a regressor's value is its one score."""
    head = source.head
    return type(head) is RegressorHead and head.n_scores == 1 and head.value_shape is None
