"""One-vs-one votes as ONNX nodes; the rules are those of `kernelite.machine.heads.votes`.

Scores have shape (m, K (K - 1) / 2) and favour the first class of their pair when positive. Votes
are products with a matrix that says which class a pair concerns.
"""

from __future__ import annotations

import numpy as np

from kernelite.export.onnx_graph import Value
from kernelite.machine.heads.votes import pairs
from kernelite.rows.inputs import FloatArray

__all__ = ["count_votes", "ovr_scores", "winner_decided", "winner_decided_by_sums", "winner_margin"]


def count_votes(for_first: Value, n_classes: int) -> Value:
    """Votes of shape (m, K), as reals."""
    return _tally(for_first, ~for_first, n_classes)


def ovr_scores(scores: Value, n_classes: int) -> Value:
    """scikit-learn's "ovr" shape: votes plus a squashed sum of scores."""
    sums = _sums(scores, n_classes)
    return count_votes(scores >= 0.0, n_classes) + sums / ((sums.abs() + 1.0) * 3.0)


def winner_decided(scores: Value, bounds: Value, n_classes: int) -> Value:
    """Rows whose most-voted class is the same whatever the open pairs say: shape (m, 1)."""
    low, high = _vote_range(scores, bounds, n_classes)
    mine, winner = low.largest(), low.argmax(keep=True)
    others = scores.graph.index(np.arange(n_classes)[None, :])
    ties = mine.equals(high) & (others > winner)
    return ((mine > high) | ties | others.equals(winner)).all()


def winner_decided_by_sums(scores: Value, bounds: Value, n_classes: int) -> Value:
    """As `winner_decided`, with ties broken by the larger sum of scores."""
    low, high = _vote_range(scores, bounds, n_classes)
    first, second = _incidence(n_classes)
    sums = _sums(scores, n_classes)
    slack = bounds @ (first + second)
    size = (sums.abs() + 1.0) * (sums.abs() + 1.0) * float(n_classes)
    magnitude = scores.abs().total() + slack + size
    slack = slack + magnitude * (4.0 * 2.0**-52 * (n_classes + 8))
    winner = (low + sums / ((sums.abs() + 1.0) * 3.0)).argmax(keep=True)
    graph = scores.graph
    at_winner = graph.op("GatherElements", sums - slack, winner, axis=1)
    mine = graph.op("GatherElements", low, winner, axis=1)
    others = graph.index(np.arange(n_classes)[None, :])
    ties = mine.equals(high) & (at_winner > sums + slack)
    return ((mine > high) | ties | others.equals(winner)).all()


def winner_margin(scores: Value, n_classes: int) -> Value:
    """The smallest lead of the most-voted class over a rival, shape (m, 1)."""
    graph = scores.graph
    winner = count_votes(scores > 0.0, n_classes).argmax(keep=True)
    first, second = np.array(list(pairs(n_classes))).T
    none = graph.number(np.inf)
    lead = graph.where(winner.equals(graph.index(first[None, :])), scores, none)
    lead = graph.where(winner.equals(graph.index(second[None, :])), -scores, lead)
    return graph.op("ReduceMin", lead, graph.index([1]), keepdims=1)


def _vote_range(scores: Value, bounds: Value, n_classes: int) -> tuple[Value, Value]:
    # A NaN is no sure pair: both classes may have it.
    sure, for_first = scores.abs() > bounds, scores > 0.0
    low = _tally(sure & for_first, sure & ~for_first, n_classes)
    return low, _tally(~sure | for_first, ~sure | ~for_first, n_classes)


def _tally(to_first: Value, to_second: Value, n_classes: int) -> Value:
    first, second = _incidence(n_classes)
    return to_first.real() @ first + to_second.real() @ second


def _sums(scores: Value, n_classes: int) -> Value:
    first, second = _incidence(n_classes)
    return scores @ (first - second)


def _incidence(n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Which class is the first, and which the second, of each pair: two (k, K) matrices."""
    members = np.array(list(pairs(n_classes)))
    unit = np.eye(n_classes)
    return unit[members[:, 0]], unit[members[:, 1]]
