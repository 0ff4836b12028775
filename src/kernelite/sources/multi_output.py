"""scikit-learn's MultiOutputClassifier and MultiOutputRegressor: a machine an output."""

from __future__ import annotations

from typing import Any

from kernelite.machine.heads import Head, MultiOutputHead, RegressorHead
from kernelite.machine.machine import Machine
from kernelite.sources.combine import assembled, members_of, offered_methods, read_members
from kernelite.sources.sklearn_common import require_fitted

__all__ = ["read_multi_output"]


def read_multi_output(model: Any, type_name: str, /) -> Machine:
    """Read a fitted MultiOutputClassifier or MultiOutputRegressor.

    Parameters
    ----------
    model : estimator
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.multioutput import MultiOutputRegressor
    >>> from sklearn.svm import SVR
    >>> fitted = MultiOutputRegressor(SVR(gamma=0.5)).fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    >>> read_multi_output(fitted, "MultiOutputRegressor").expansion.n_outputs
    2
    """
    require_fitted(model, "estimators_", type_name)
    sources = read_members(model.estimators_, type_name)
    if len(sources) > 1 and all(_is_plain(source) for source in sources):
        return assembled(model, type_name, sources, RegressorHead(len(sources)))
    members = members_of(model.estimators_, sources)
    kind = sources[0].head.kind
    head: Head = MultiOutputHead(members, kind, offered_methods(model))  # type: ignore[arg-type]
    return assembled(model, type_name, sources, head)


def _is_plain(source: Machine) -> bool:
    """Whether a regressor's value is its one score."""
    head = source.head
    return head.scores_are_values and head.n_scores == 1 and head.value_shape is None
