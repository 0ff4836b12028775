"""A compiled model as an ONNX graph of standard operators.

In: a `CompiledModel`. Out: a `ModelProto` with one input, `X` of shape (m, d), and the outputs

    classifier   label (m,), probabilities (m, K) where they need no iteration, scores
    one-class    label (m, 1), probabilities (m, 2) where LIBSVM stored marks, scores (m, 1)
    others       variable (m, k)

and, on request, `decided` (m,) and `error_bound` (m, k). Names and shapes are skl2onnx's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite import __version__
from kernelite.errors import UnsupportedModelError
from kernelite.export import onnx_heads as heads
from kernelite.export.float32 import float32_error
from kernelite.export.heads import LABELLED, probability_problem
from kernelite.export.onnx_forms import evaluate_exact
from kernelite.export.onnx_graph import IR_VERSION, OPSET, Graph, Value, require_onnx
from kernelite.export.onnx_tiers import Settles, evaluate_approximation
from kernelite.export.selection import Dtype, Part, Selection, select
from kernelite.machine.heads import ArgmaxHead, ClassifierHead, OutlierHead
from kernelite.model import CompiledModel

__all__ = ["to_onnx"]

LARGEST_FILE = 2**31 - 2**20  # a protobuf message holds less than 2 GB


def to_onnx(
    model: CompiledModel,
    /,
    *,
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    sample: Any = None,
) -> Any:
    """Build the ONNX graph of a compiled model.

    Parameters
    ----------
    model : CompiledModel
    part : {"all", "approximation", "exact"}
        "all" keeps the model's guarantee: rows that the forms leave open are evaluated exactly,
        inside the graph. "approximation": the forms alone. "exact": the exact model.
    decided : bool
        With "approximation": add `decided`, true where the answer is proven, and `error_bound`.
    dtype : {"float64", "float32"}
        float32 proves nothing; its error is measured on `sample` and stored in the file.
    probabilities : bool, optional
        Whether to add class probabilities; by default where the source has them and they need no
        iteration. True refuses models whose probabilities cannot be expressed.
    sample : array-like of shape (m, d), optional
        Rows for the float32 error; by default the support vectors, or rows about the expansion
        point.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("onnx")
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> graph = to_onnx(kernelite.compile(bump, guarantee="exact"))
    >>> [output.name for output in graph.graph.output]
    ['variable']
    """
    onnx = require_onnx()
    selection = select(model, part, decided=decided, dtype=dtype)
    likely = _with_probabilities(selection, probabilities)
    graph = Graph(dtype)
    X = graph.input("X")
    if model.input_map is not None:
        X = X - model.input_map.shift
        if model.input_map.low is not None:
            X = X - model.input_map.low
        X = X * model.input_map.scale
    scores, bounds = _scores(selection, X, likely)
    _name_answers(selection, scores, bounds, likely)
    proto = onnx.helper.make_model(
        _finished(selection, graph, likely),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="kernelite",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(proto, _facts(selection, sample))
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _finished(selection: Selection, graph: Graph, with_probabilities: bool) -> Any:
    """The graph with its inputs and outputs described, if it fits into a file."""
    model = selection.model
    finished = graph.onnx.helper.make_graph(
        graph.nodes,
        "kernelite",
        [_described(graph, "X", selection.dtype, (None, model.n_features_in_))],
        _outputs(selection, graph, with_probabilities),
        graph.initializers,
        doc_string=f"{model.origin.description}. {selection.promise}",
    )
    size = finished.ByteSize()
    if size > LARGEST_FILE:
        raise UnsupportedModelError(
            f"the graph would take {size / 2**30:.1f} GB, more than an ONNX file can hold (2 GB); "
            "export the form alone (--with-decided or --form-only)."
        )
    return finished


def _scores(selection: Selection, X: Value, with_probabilities: bool) -> tuple[Value, Value | None]:
    """Scores as good as the selection promises, and bounds where `decided` wants them."""
    approximation, expansion = selection.approximation, selection.expansion
    if approximation is None:
        assert expansion is not None
        return evaluate_exact(expansion, X), None
    settles = _rule(selection, with_probabilities)
    calibrated = selection.model.guarantee == "calibrated"
    proven = None if calibrated and not selection.decided else settles
    scores, bounds = evaluate_approximation(approximation, X, proven)
    if expansion is None:
        return scores, bounds
    assert settles is not None
    # A calibrated rule looks at the scores alone.
    still_open = (~settles(scores, scores if bounds is None else bounds)).places()
    exact = evaluate_exact(expansion, X.rows(still_open))
    return scores.updated(still_open, exact), None


def _rule(selection: Selection, with_probabilities: bool) -> Settles | None:
    """When a row needs no further tier."""
    model, head = selection.model, selection.head
    if not (selection.falls_back or selection.decided):
        return None
    if selection.falls_back and model.guarantee == "calibrated":
        threshold = model.threshold or 0.0
        return lambda scores, bounds: heads.margin(head, scores) > threshold
    if selection.decided and head.kind in ("classifier", "outlier"):
        return lambda scores, bounds: heads.decided(head, scores, bounds)
    return lambda scores, bounds: heads.settled_for_all_outputs(
        head, model.tolerance, with_probabilities, scores, bounds
    )


def _name_answers(
    selection: Selection, scores: Value, bounds: Value | None, with_probabilities: bool
) -> None:
    head, graph = selection.head, scores.graph
    if isinstance(head, LABELLED):
        graph.named(heads.label(head, scores), "label")
        if with_probabilities:
            graph.named(heads.probabilities(head, scores), "probabilities")
        graph.named(heads.decision(head, scores), "scores")
    else:
        graph.named(scores, "variable")
    if selection.decided:
        assert bounds is not None
        rule = _rule(selection, with_probabilities)
        assert rule is not None
        graph.named(rule(scores, bounds).reshape(-1), "decided")
        graph.named(bounds, "error_bound")


def _outputs(selection: Selection, graph: Graph, with_probabilities: bool) -> list[Any]:
    head, dtype = selection.head, selection.dtype
    k = columns = head.n_scores
    names = []
    if isinstance(head, OutlierHead):
        names.append(_described(graph, "label", "int64", (None, 1)))
    elif isinstance(head, ClassifierHead | ArgmaxHead):
        names.append(_described(graph, "label", _label_type(head.classes), (None,)))
        if isinstance(head, ClassifierHead) and head.n_classes > 2 and head.shape == "ovr":
            columns = head.n_classes
    if with_probabilities:
        classes = head.n_classes if isinstance(head, ArgmaxHead) else 2
        names.append(_described(graph, "probabilities", dtype, (None, classes)))
    values = "scores" if isinstance(head, LABELLED) else "variable"
    names.append(_described(graph, values, dtype, (None, columns)))
    if selection.decided:
        names.append(_described(graph, "decided", "bool", (None,)))
        names.append(_described(graph, "error_bound", dtype, (None, k)))
    return names


def _label_type(classes: NDArray[Any]) -> str:
    kind = classes.dtype.kind
    if kind == "O" and not all(isinstance(label, str) for label in classes):
        raise UnsupportedModelError("labels must be numbers or strings, all of one type.")
    known = {"U": "object", "O": "object", "b": "bool", "i": "int64", "u": "int64", "f": "float64"}
    if kind not in known:
        raise UnsupportedModelError(f"labels of type {classes.dtype} cannot be in a graph.")
    return known[kind]


def _described(graph: Graph, name: str, dtype: str, shape: tuple[int | None, ...]) -> Any:
    helper = graph.onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, ["N", *shape[1:]])


def _with_probabilities(selection: Selection, wanted: bool | None) -> bool:
    problem = probability_problem(selection.head)
    if wanted and problem is not None:
        raise UnsupportedModelError(
            f"this model's probabilities cannot be exported: {problem}; its labels and scores can."
        )
    return problem is None and wanted is not False


def _facts(selection: Selection, sample: Any) -> dict[str, str]:
    """The file's own documentation."""
    model = selection.model
    facts = {
        "kernelite": __version__,
        "source": model.origin.description,
        "guarantee_of_the_model": model.guarantee,
        "promise": selection.promise,
        "dtype": selection.dtype,
    }
    if model.tolerance is not None:
        facts["tolerance"] = ", ".join(f"{value:.6g}" for value in model.tolerance)
    if selection.dtype == "float32":
        facts["float32_error"] = str(float32_error(selection, sample))
    return facts
