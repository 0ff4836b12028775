"""All that a compiled model answers, as values of a graph; targets write it.

In: a `CompiledModel`. Out: a graph with one input, `X` of shape (m, d), and the outputs

    classifier   label (m,), probabilities (m, K) where they are a formula, scores, decision
    one-class    label (m, 1), probabilities (m, 2) where LIBSVM stored marks, scores, decision
    others       variable (m, k): values, coordinates, log-densities; on request std (m, k)

As in Python, `scores` (m, k) are the raw sums, of pairs for one-vs-one, and `decision` is what
`decision_function` gives, on two axes. With several outputs, label is (m, outputs), and the
probabilities of each stand side by side. On request, `decided` (m,), `score_bound` of `scores`, and
`error_bound` of `decision` or `variable`, in their shapes. A head needs no table here: its formulas
run on the graph's values (`kernelite.machine.ops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.heads import Head
from kernelite.machine.ops import Arithmetic
from kernelite.model import CompiledModel
from kernelite.model.export.exact import (
    deviations,
    exact_scores,
    has_logarithms,
    kernel_values,
    latent_variances,
    log_sums,
    prepared,
)
from kernelite.model.export.graph import Graph, Table
from kernelite.model.export.nodes import Formula, Value
from kernelite.model.export.selection import (
    Dtype,
    ExportSelection,
    Part,
    Piece,
    check_size,
    needs_variances,
    require_deviations,
    require_kernels,
    require_label_variances,
    select,
    text_columns,
    with_probabilities,
)
from kernelite.program.criteria import (
    PROBABILITY_TOLERANCE,
    And,
    Margin,
    decision_criterion,
    label_criterion,
    probability_criterion,
)
from kernelite.series.approximation import Approximation
from kernelite.series.rounding import sum_error
from kernelite.support.errors import KerneliteError, UnsupportedModelError

__all__ = ["Answers", "answers_of", "check", "label_lists", "label_type"]


class Column(NamedTuple):
    """A column of a table that goes into a graph as a value of its own, of shape (m, 1)."""

    place: int
    name: str
    value: Value


@dataclass(frozen=True, eq=False)
class Answers:
    """A model as a graph: what is exported, the graph, its outputs by name.

    `columns` has what goes in where texts are among it; else that is X alone.
    """

    selection: ExportSelection
    graph: Graph
    outputs: dict[str, Value]
    columns: tuple[Column, ...] = ()


def answers_of(
    model: CompiledModel,
    arithmetic: Arithmetic,
    *,
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    std: bool = False,
    inputs: Dtype | None = None,
) -> Answers:
    """The graph of a compiled model, before it is written.

    Parameters
    ----------
    model : CompiledModel
    arithmetic : Arithmetic
        How the target rounds.
    part, decided, dtype, probabilities, std, inputs
        As for `kernelite.backends.onnx.to_onnx`.
    """
    selection = select(model, part, decided=decided, dtype=dtype)
    if part == "all" and (
        needs_variances(selection.head)
        or (probabilities and "predict_proba" in selection.head.needs_posterior)
    ):
        selection = select(model, "exact", dtype=dtype)  # whose kernel values variances need
    check(selection, arithmetic.name)
    likely = with_probabilities(
        selection, probabilities, lambda: _problem(selection.head, "predict_proba")
    )
    if std:
        require_deviations(selection)
    methods = {"predict", "predict_proba"} if likely else {"predict"}
    spreads = std or bool(methods & selection.head.needs_posterior)
    check_size(selection, arithmetic.name, spreads=spreads)
    graph = Graph(dtype, arithmetic)
    X, columns = _inputs(model, graph, inputs or dtype)
    criterion = _criterion(selection, likely)
    bounded = decided or (selection.falls_back and model.guarantee == "certified")
    scores, bounds = evaluate(selection, X, criterion, bounded=bounded)
    outputs = _answers(selection, X, scores, likely)
    if std:
        assert model.posterior is not None
        outputs["std"] = deviations(model.posterior, latent_variances(selection, X))
    if decided:
        assert criterion is not None
        assert bounds is not None
        outputs |= {
            "decided": criterion(scores, bounds),
            "error_bound": _bound_of_answers(selection.head, scores, bounds),
        }
        outputs |= {"score_bound": bounds} if "scores" in outputs else {}
    return Answers(selection, graph, outputs, columns)


def _inputs(model: CompiledModel, graph: Graph, dtype: Dtype) -> tuple[Any, tuple[Column, ...]]:
    """Rows as the graph sees them: X of shape (m, d), or a table whose columns come one by one."""
    texts = text_columns(model)

    def real(value: Value) -> Value:
        return value if dtype == graph.dtype else graph.op("Cast", value, to=graph.dtype.name)

    if not any(texts.values()):
        return real(graph.input("X")), ()
    names, columns, table = model.origin.feature_names, [], {}
    for place, text in sorted(texts.items()):
        value = graph.input(f"X_{place}", kind="O" if text else "f")
        columns.append(Column(place, f"X{place}" if names is None else names[place], value))
        table[place] = (value if text else real(value)).reshape(-1)
    return Table(table), tuple(columns)


def _criterion(selection: ExportSelection, with_probabilities: bool) -> Formula | None:
    """When a row needs no further tier: good enough for all that the graph answers."""
    model, head = selection.model, selection.head
    if not (selection.falls_back or selection.decided):
        return None
    if selection.falls_back and model.guarantee == "calibrated":
        return Margin(head, model.threshold or 0.0)
    criterion: Formula = label_criterion(head, model.tolerance)
    if selection.decided or not head.proves_labels:
        return criterion
    if "decision_function" in head.offers:
        criterion = And(criterion, decision_criterion(head, model.tolerance))
    if with_probabilities:
        criterion = And(criterion, probability_criterion(head, PROBABILITY_TOLERANCE))
    return criterion


def _answers(
    selection: ExportSelection, X: Value, scores: Value, with_probabilities: bool
) -> dict[str, Value]:
    head: Formula = selection.head
    if not head.proves_labels:
        return {"variable": _values(selection, X, head.predict(scores)).on_two_axes()}

    def answer(method: str) -> Value:
        if method in head.needs_posterior:
            return head.from_moments(method, scores, latent_variances(selection, X))
        return head.answer(method, scores)

    label = answer("predict")
    found = {"label": label.on_two_axes() if head.kind == "outlier" else label}
    if with_probabilities:
        found["probabilities"] = answer("predict_proba")
    found["scores"] = scores
    if "decision_function" in head.offers:
        found["decision"] = head.decision(scores).on_two_axes()
    return found


def _bound_of_answers(head: Formula, scores: Value, bounds: Value) -> Value:
    """How far `scores` or `variable` may be off, in their shape: decision values may be votes."""
    if head.proves_labels:
        if head.decides_by_scores or "decision_function" not in head.offers:
            return bounds
        return head.answer_bound("decision_function", scores, bounds).on_two_axes()
    return head.answer_bound("predict", scores, bounds).on_two_axes()


def _values(selection: ExportSelection, X: Value, values: Value) -> Value:
    """Values; densities whose sum underflows from the logarithms of its terms, as here."""
    head: Formula = selection.head
    expansion = selection.expansion
    if head.kind != "density" or expansion is None or not has_logarithms(expansion):
        return values
    low = head.underflows(values).places()
    rows = prepared(selection.model, X).rows(low)
    return values.updated(low, head.from_logarithms(log_sums(expansion, rows)))


def label_lists(head: Head) -> list[NDArray[Any]]:
    """Labels of each output; none where they are not the head's own."""
    if head.classes is None:
        return []
    return head.classes if isinstance(head.classes, list) else [head.classes]


def label_type(head: Head) -> str:
    zeros = np.zeros((1, head.n_scores))
    if not needs_variances(head) and head.predict(zeros).dtype.kind == "i":  # indicators, too
        return "int64"
    found = {_one_label_type(classes) for classes in label_lists(head)}
    if len(found) > 1:
        raise UnsupportedModelError("labels must be numbers or strings, all of one type.")
    return found.pop()


def _one_label_type(classes: NDArray[Any]) -> str:
    kind = classes.dtype.kind
    if kind == "O" and not all(isinstance(label, str) for label in classes):
        raise UnsupportedModelError("labels must be numbers or strings, all of one type.")
    if kind in "UO" and any(label.encode("utf-8", "ignore").decode() != label for label in classes):
        raise UnsupportedModelError("labels must be text, without halves of letters (surrogates).")
    known = {"U": "object", "O": "object", "b": "bool", "i": "int64", "u": "int64", "f": "float64"}
    if kind == "u" and classes.max() >= 2**63:
        raise UnsupportedModelError("labels of 2^63 and more have no place in a graph's int64.")
    if kind not in known:
        raise UnsupportedModelError(f"labels of type {classes.dtype} cannot be in a graph.")
    return known[kind]


def _problem(head: Formula, method: str) -> str | None:
    """Why a method's answers are no formula of the scores; None where they are."""
    graph = Graph()
    scores = graph.input("scores").of_width(head.n_scores)
    try:
        if method in head.needs_posterior:
            head.from_moments(method, scores, graph.input("variances").of_width(head.n_scores))
        else:
            head.answer(method, scores)
    except KerneliteError as error:
        return str(error).rstrip(".")
    except TypeError as error:  # of NumPy, which was asked to work on a graph's values
        return f"it is not written in the operations of graphs ({error})"
    return None


def check(selection: ExportSelection, target: str = "ONNX") -> None:
    """Refuse, by one sentence and before anything is built, what a graph cannot hold."""
    head = selection.head
    if [len(labels) for labels in label_lists(head)] == [1]:
        raise UnsupportedModelError("a model with one class has no score to export.")
    problem = _problem(head, "predict")
    if problem is not None:
        raise UnsupportedModelError(
            f"the answers of this {head.kind} ({type(head).__name__}) are not exported: {problem}."
        )
    require_label_variances(selection)
    if head.proves_labels:
        label_type(head)
    model, graph = selection.model, Graph()
    X = prepared(model, _inputs(model, graph, "float64")[0])
    for piece in selection.pieces if model.parts else ():
        prepared(piece.model, X)
    check_size(selection, target, spreads=needs_variances(head))
    require_kernels(selection, target, lambda one: kernel_values(one, Graph().input("X")))


# Scores as nodes: rows are prepared, and those that a form leaves open go on.
#
# In: what is exported, X of shape (m, d), and what settles a row. Out: scores and bounds (m, k).
# Rows are picked with NonZero and Gather and put back with ScatterND, so that a tier costs only the
# rows that reach it. Several machines are added up; open rows are taken exactly by all of them.


def evaluate(
    selection: ExportSelection, X: Value, criterion: Formula | None, *, bounded: bool
) -> tuple[Value, Value | None]:
    """Scores as good as the selection promises, and bounds where they are asked for.

    Parameters
    ----------
    selection : ExportSelection
    X : Value
        Rows as they come.
    criterion : criterion, optional
        Rows that need no further tier.
    bounded : bool
        Whether bounds are computed; a calibrated rule looks at scores alone.
    """
    model, pieces = selection.model, selection.pieces
    far: list[Value] = []
    if model.parts:
        X = prepared(model, X, far)
    rows = [prepared(piece.model, X, far) for piece in pieces]
    each = []
    for piece, own in zip(pieces, rows):
        inner = criterion
        if model.parts and criterion is not None:
            inner = label_criterion(piece.model.head, piece.model.tolerance)
        each.append(_first(piece, own, inner if bounded else None))
    k = selection.head.n_scores
    scores, bounds = _total(pieces, each, k)
    if model.tail is not None:
        tail: Formula = model.tail
        values, rounding = tail.values(X, X.graph.arithmetic)
        scores, bounds = scores + values, None if bounds is None else bounds + rounding
    for beyond in far if bounds is not None else []:
        bounds = X.graph.where(beyond, np.inf, bounds)
    scores, bounds = scores.of_width(k), None if bounds is None else bounds.of_width(k)
    if not selection.falls_back:
        return scores, bounds
    assert criterion is not None
    still_open = (~criterion(scores, scores if bounds is None else bounds)).places()
    exact = _total(
        pieces, [_exactly(piece, own.rows(still_open)) for piece, own in zip(pieces, rows)], k
    )[0]
    if model.tail is not None:
        exact = exact + values.rows(still_open)
    return scores.updated(still_open, exact).of_width(k), None


def _first(piece: Piece, rows: Value, criterion: Formula | None) -> tuple[Value, Value | None]:
    if piece.approximation is None:
        return _exactly(piece, rows)
    return _formed(piece.approximation, rows, criterion)


def _exactly(piece: Piece, rows: Value) -> tuple[Value, None]:
    expansion = piece.expansion
    assert expansion is not None
    r, k = expansion.n_features + 1, expansion.n_outputs
    # A tensor of degree 3 takes three times its packed numbers here.
    fold = k * r * r * (r + 1) / 2 <= expansion.n_centers * (r + 15 + k)
    return exact_scores(expansion, rows, fold=fold), None


def _total(
    pieces: tuple[Piece, ...], each: Sequence[tuple[Value, Value | None]], n_scores: int
) -> tuple[Value, Value | None]:
    """Scores and bounds of all machines, added up; adding rounds, and the bounds hold that."""
    if len(pieces) == 1 and np.array_equal(pieces[0].outputs, np.arange(n_scores)):
        return each[0]
    xp = each[0][0].graph
    spread = [_spread(piece, own, n_scores) for piece, (own, _) in zip(pieces, each)]
    scores = sum(spread[1:], start=spread[0])
    if any(bounds is None for _, bounds in each):
        return scores, None
    wide = [_spread(p, own, n_scores) for p, (_, own) in zip(pieces, each) if own is not None]
    sizes = [xp.abs(own) for own in spread]
    unit = xp.arithmetic.worse * sum_error(len(pieces))
    bounds = sum(wide[1:], start=wide[0]) * (1.0 + unit)
    return scores, bounds + sum(sizes[1:], start=sizes[0]) * unit


def _spread(piece: Piece, own: Value, n_scores: int) -> Value:
    """A machine's values at its outputs, zero elsewhere."""
    xp, places = own.graph, {int(c): i for i, c in enumerate(piece.outputs)}
    none = xp.full((own.shape[0], 1), 0.0)
    return xp.concat([own, none], axis=1)[:, [places.get(c, len(places)) for c in range(n_scores)]]


def _formed(
    forms: Approximation, rows: Value, criterion: Formula | None
) -> tuple[Value, Value | None]:
    """Scores by the first form; bounds, and a second form, with a criterion."""
    definition: Formula = forms
    found = definition.form.evaluate(rows)
    if criterion is None:
        return found.scores, None
    k = forms.form.n_outputs
    bounds = definition.form.bounds(
        forms.certificate, found, arithmetic=rows.graph.arithmetic
    ).of_width(k)
    scores = found.scores.of_width(k)
    if not forms.has_second_form:
        return scores, bounds
    still_open = (~criterion(scores, bounds)).places()
    first = None
    if forms.full is None:
        first = found._replace(
            scores=scores.rows(still_open), sq_norms=found.sq_norms.rows(still_open)
        )
    better, better_bounds = definition.second(rows.rows(still_open), first, rows.graph.arithmetic)
    return (scores.updated(still_open, better.scores), bounds.updated(still_open, better_bounds))
