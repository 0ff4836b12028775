"""Heads as the targets know them: what can be expressed, and what is refused with the reason."""

from __future__ import annotations

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.machine.heads import (
    ArgmaxHead,
    ClassifierHead,
    Head,
    LatentHead,
    OutlierHead,
    RegressorHead,
    TransformHead,
)

__all__ = ["LABELLED", "exportable", "one_score_decides", "probability_problem"]

LABELLED = (ClassifierHead, ArgmaxHead, OutlierHead)


def exportable(head: Head) -> Head:
    """The head itself, or one of the same answers that the targets know.

    Examples
    --------
    >>> exportable(LatentHead(np.array(["no", "yes"]))).zero_is_first
    True
    """
    if isinstance(head, LatentHead):
        return ClassifierHead(head.classes, first_positive=False, zero_is_first=True)
    if isinstance(head, LABELLED):
        _check_classes(head)
        return head
    if not isinstance(head, RegressorHead | TransformHead) or not _is_plain(head):
        raise UnsupportedModelError(
            f"the answers of a {head.kind} of this kind ({type(head).__name__}) are no plain "
            "scores; classifiers, one-class models, regressors and transforms are exported."
        )
    return head


def _is_plain(head: RegressorHead | TransformHead) -> bool:
    """Whether values are the scores; a subclass may answer otherwise."""
    probe = np.linspace(-1.0, 2.0, 3 * head.n_scores).reshape(3, head.n_scores)
    return np.array_equal(np.asarray(head.predict(probe)).reshape(3, -1), probe)


def one_score_decides(head: Head) -> bool:
    """Whether the label is told by one score and a boundary."""
    two = isinstance(head, ClassifierHead) and head.n_classes == 2
    return two or isinstance(head, OutlierHead)


def probability_problem(head: Head) -> str | None:
    """Why probabilities cannot be exported; None where they can."""
    if isinstance(head, ClassifierHead):
        if head.platt_a is None:
            return "it was trained without them, or they need more than its scores"
        if head.n_classes > 2 or head.couple_two_classes:
            return "they are coupled by an iteration over the classes"
        return None
    shares = isinstance(head, ArgmaxHead) and head.shares
    marks = isinstance(head, OutlierHead) and head.density_marks is not None
    return None if shares or marks else "it has none"


def _check_classes(head: ClassifierHead | ArgmaxHead | OutlierHead) -> None:
    if isinstance(head, OutlierHead):
        return
    if head.n_classes < 2:
        raise UnsupportedModelError("a model with one class has no score to export.")
    by_probability = isinstance(head, ClassifierHead) and head.labels_by_probability
    if by_probability and probability_problem(head) is not None:
        raise UnsupportedModelError(
            "this model's labels come from coupled probabilities, which need an iteration; compile "
            "it with labels by votes."
        )
