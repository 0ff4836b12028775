"""Heads as ONNX nodes: scores (m, k) in; labels, decision values, probabilities, `decided` out.

The rules are those of `kernelite.machine.heads` and `kernelite.program.criteria`.
"""

from __future__ import annotations

import numpy as np

from kernelite.export.onnx_graph import Value
from kernelite.export.onnx_votes import (
    count_votes,
    ovr_scores,
    winner_decided,
    winner_decided_by_sums,
    winner_margin,
)
from kernelite.machine.heads import ArgmaxHead, ClassifierHead, Head, OutlierHead
from kernelite.machine.heads.probability import SMALLEST
from kernelite.program.criteria import PROBABILITY_TOLERANCE
from kernelite.rows.inputs import FloatArray

__all__ = ["decided", "decision", "label", "margin", "probabilities", "settled_for_all_outputs"]

LARGEST = 1e300
ROUNDING = 16 * 2.0**-53  # two shares that differ by less may round to the same number


def label(head: ClassifierHead | ArgmaxHead | OutlierHead, scores: Value) -> Value:
    """Labels: shape (m,) of a classifier, (m, 1) of a one-class model, as skl2onnx has them."""
    graph = scores.graph
    if isinstance(head, ArgmaxHead):
        compared = probabilities(head, scores) if head.shares else scores
        return graph.labels(head.classes).rows(compared.argmax())
    if isinstance(head, OutlierHead):
        inside = scores >= 0.0 if head.zero_is_inlier else scores > 0.0
        return graph.where(inside, graph.index(1), graph.index(-1))
    return graph.labels(head.classes).rows(_winners(head, scores))


def decision(head: Head, scores: Value) -> Value:
    """Decision values or values, always with two axes."""
    if isinstance(head, ClassifierHead) and head.n_classes > 2 and head.shape == "ovr":
        return ovr_scores(_towards_first(head, scores), head.n_classes)
    return scores


def probabilities(head: ClassifierHead | ArgmaxHead | OutlierHead, scores: Value) -> Value:
    """Class probabilities of shape (m, K), where no iteration is needed for them."""
    if isinstance(head, ArgmaxHead):
        return scores / scores.total()
    if isinstance(head, OutlierHead):
        assert head.density_marks is not None
        return _density(scores, head.density_marks)
    assert head.platt_a is not None
    assert head.platt_b is not None
    t = _towards_first(head, scores) * head.platt_a + head.platt_b
    small = (-t.abs()).exp()
    graph = scores.graph
    falling, rising = small / (small + 1.0), graph.number(1.0) / (small + 1.0)
    first = graph.where(t >= 0.0, falling, rising).clip(SMALLEST, 1.0 - SMALLEST)
    return graph.stack(first, -first + 1.0, axis=1)


def decided(head: Head, scores: Value, bounds: Value) -> Value:
    """Rows whose label is the same for all true scores within the bounds: shape (m, 1)."""
    if isinstance(head, OutlierHead):
        return scores.abs() > bounds
    if isinstance(head, ArgmaxHead):
        return _leads(head, scores, bounds) > 0.0
    assert isinstance(head, ClassifierHead)
    if head.labels_by_probability:
        low, high = _ends(scores, bounds)
        winners = (probabilities(head, end).argmax(keep=True) for end in (low, high))
        return next(winners).equals(next(winners))
    if head.n_classes == 2:
        return (scores - head.threshold).abs() > bounds
    towards_first = _towards_first(head, scores)
    if head.break_ties:
        return winner_decided_by_sums(towards_first, bounds, head.n_classes)
    return winner_decided(towards_first, bounds, head.n_classes)


def settled_for_all_outputs(
    head: Head,
    tolerance: FloatArray | None,
    with_probabilities: bool,
    scores: Value,
    bounds: Value,
) -> Value:
    """Rows good enough for the label, the decision values and the probabilities together."""
    if head.kind not in ("classifier", "outlier"):
        assert tolerance is not None
        return (bounds <= tolerance).all()
    rows = decided(head, scores, bounds)
    if isinstance(head, ClassifierHead) and head.n_classes > 2 and head.shape == "ovr":
        rows = rows & (scores.abs() > bounds).all()
    if tolerance is not None:
        rows = rows & (bounds <= tolerance).all()
    if not with_probabilities:
        return rows
    if isinstance(head, ClassifierHead):
        assert head.platt_a is not None
        slope = np.maximum(np.abs(head.platt_a), 1e-300)
        rows = rows & (bounds <= 4.0 * PROBABILITY_TOLERANCE / slope).all()
    elif isinstance(head, ArgmaxHead):
        rows = rows & (_share_errors(scores, bounds) <= PROBABILITY_TOLERANCE)
    else:
        assert isinstance(head, OutlierHead)
        low, high = (probabilities(head, end) for end in _ends(scores, bounds))
        rows = rows & low.equals(high).all()
    return rows


def margin(head: Head, scores: Value) -> Value:
    """How far a row is from another label, shape (m, 1)."""
    if isinstance(head, ClassifierHead) and head.n_classes > 2:
        return winner_margin(_towards_first(head, scores), head.n_classes)
    if isinstance(head, ArgmaxHead):
        return _leads(head, scores, scores * 0.0)
    threshold = head.threshold if isinstance(head, ClassifierHead) else 0.0
    return (scores - threshold).abs()


def _winners(head: ClassifierHead, scores: Value) -> Value:
    """Index into `classes` of each row's label, shape (m,)."""
    graph = scores.graph
    if head.labels_by_probability:
        return probabilities(head, scores).argmax()
    if head.n_classes == 2:
        limit = head.threshold
        if head.zero_is_first:
            first = scores >= limit if head.first_positive else scores <= limit
        else:
            first = scores > limit if head.first_positive else scores < limit
        return graph.where(first.reshape(-1), graph.index(0), graph.index(1))
    towards_first = _towards_first(head, scores)
    if head.break_ties:
        return ovr_scores(towards_first, head.n_classes).argmax()
    return count_votes(towards_first > 0.0, head.n_classes).argmax()


def _leads(head: ArgmaxHead, scores: Value, bounds: Value) -> Value:
    """By how much the winner's lower end is above every rival's upper end, shape (m, 1)."""
    graph = scores.graph
    winner = scores.argmax(keep=True)
    own = winner.equals(graph.index(np.arange(head.n_classes)[None, :]))
    low = graph.op("GatherElements", scores - bounds, winner, axis=1)
    rival = graph.where(own, graph.number(-np.inf), scores + bounds).largest()
    # The ends themselves round, and shares once more.
    return low - rival - (low.abs() + rival.abs()) * ROUNDING


def _share_errors(scores: Value, bounds: Value) -> Value:
    """How far shares of the sum may be off, shape (m, 1); see `ArgmaxHead.probability_errors`."""
    total, slack = scores.total(), bounds.total()
    worst = (bounds + scores.abs() / total * slack).largest() / (total - slack)
    infinite = scores.graph.number(np.inf)
    return scores.graph.where(total > slack, worst * (1.0 + 1e-9) + 1e-15, infinite)


def _towards_first(head: ClassifierHead, scores: Value) -> Value:
    return scores if head.first_positive else -scores


def _density(scores: Value, marks: FloatArray) -> Value:
    """LIBSVM's ten steps of a one-class probability."""
    graph = scores.graph
    under = scores < marks[None, 1:]
    inlier = (under.real().argmax(keep=True).real() + 1.0) / float(len(marks))
    inlier = graph.where(under.real().largest() > 0.5, inlier, graph.number(0.0))
    inlier = graph.where(scores < marks[0], graph.number(0.001), inlier)
    inlier = graph.where(scores > marks[-1], graph.number(0.999), inlier)
    return graph.stack(inlier, -inlier + 1.0, axis=1)


def _ends(scores: Value, bounds: Value) -> tuple[Value, Value]:
    """Both ends of the interval, rounded outwards and kept finite."""
    reach = bounds + (scores.abs() + bounds) * 2.0**-50 + 1e-300
    return (scores - reach).clip(-LARGEST, LARGEST), (scores + reach).clip(-LARGEST, LARGEST)
