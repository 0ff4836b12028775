"""scikit-learn's OneVsRestClassifier, OneVsOneClassifier and OutputCodeClassifier."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads import (
    ConstantHead,
    Member,
    OneVsOneHead,
    OneVsRestHead,
    OutputCodeHead,
)
from kernelite.machine.machine import Machine
from kernelite.sources.combine import assembled, members_of, offered_methods, read_members
from kernelite.sources.sklearn_common import require_fitted

__all__ = ["first_wins", "read_one_vs_one", "read_one_vs_rest", "read_output_code"]

FIRST_WINS_SINCE = (1, 8)
"""scikit-learn's version from which a tie of OneVsRestClassifier goes to the first class."""


def read_one_vs_rest(model: Any, type_name: str = "OneVsRestClassifier", /) -> Machine:
    """Read a fitted OneVsRestClassifier, multilabel or not.

    Parameters
    ----------
    model : OneVsRestClassifier
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> read_one_vs_rest(OneVsRestClassifier(SVC(gamma=0.1)).fit(X, y)).expansion.n_outputs
    3
    """
    sources, members = _machines(model, type_name)
    multilabel = bool(model.multilabel_)
    if multilabel and model.label_binarizer_.sparse_input_:
        raise UnsupportedModelError(
            f"this {type_name} was fitted on a sparse matrix of labels and answers with one; "
            "fit it on a dense one."
        )
    methods = offered_methods(model)
    classes = np.asarray(model.classes_)
    if len(classes) < 2:
        raise UnsupportedModelError(f"this {type_name} knows one class only.")
    head = OneVsRestHead(classes, members, methods, multilabel, not first_wins())
    return assembled(model, type_name, sources, head)


def read_one_vs_one(model: Any, type_name: str = "OneVsOneClassifier", /) -> Machine:
    """Read a fitted OneVsOneClassifier of binary classifiers.

    Parameters
    ----------
    model : OneVsOneClassifier
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.multiclass import OneVsOneClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> read_one_vs_one(OneVsOneClassifier(SVC(gamma=0.1)).fit(X, y)).type_name
    'OneVsOneClassifier'
    """
    sources, members = _machines(model, type_name)
    if any(member.response == "value" for member in members):
        raise UnsupportedModelError(
            f"this {type_name} holds regressors, whose values are no votes; use classifiers."
        )
    return assembled(model, type_name, sources, OneVsOneHead(np.asarray(model.classes_), members))


def read_output_code(model: Any, type_name: str = "OutputCodeClassifier", /) -> Machine:
    """Read a fitted OutputCodeClassifier.

    Parameters
    ----------
    model : OutputCodeClassifier
    type_name : str

    Returns
    -------
    Machine

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.multiclass import OutputCodeClassifier
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = OutputCodeClassifier(SVC(gamma=0.1), code_size=2, random_state=0).fit(X, y)
    >>> source = read_output_code(fitted)
    >>> source.head.code_book.shape, source.expansion.n_outputs  # two columns are constant
    ((3, 6), 4)
    """
    sources, members = _machines(model, type_name)
    head = OutputCodeHead(np.asarray(model.classes_), model.code_book_, members)
    return assembled(model, type_name, sources, head)


def _machines(model: Any, type_name: str) -> tuple[list[Machine], tuple[Member, ...]]:
    """Sources of the machines that are not constant, and all of them as members."""
    require_fitted(model, "estimators_", type_name)
    real = [e for e in model.estimators_ if not _is_constant(e)]
    sources = read_members(real, type_name)
    found = iter(members_of(real, sources))
    members = [_constant(e) if _is_constant(e) else next(found) for e in model.estimators_]
    return sources, tuple(members)


def _is_constant(estimator: Any) -> bool:
    """Whether it stands for a class that all rows had, or none."""
    return type(estimator).__name__ == "_ConstantPredictor"


def _constant(estimator: Any) -> Member:
    none: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    return Member(ConstantHead(int(np.ravel(estimator.y_)[0])), none)


def first_wins() -> bool:
    """Whether the installed scikit-learn gives a tie of OneVsRestClassifier to the first class."""
    import sklearn

    numbers = re.findall(r"\d+", sklearn.__version__)[:2]
    return tuple(map(int, numbers)) >= FIRST_WINS_SINCE
