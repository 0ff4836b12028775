"""A compiled model as an ONNX graph of standard operators.

In: a `CompiledModel`. Out: a `ModelProto` with the inputs and outputs that
`kernelite.model.export.answers` lists; names and shapes are skl2onnx's. The graph is made
there; what stands here writes it. The `onnx` package is needed to write a graph, not to build one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite import __version__
from kernelite.machine.ops import ONNX
from kernelite.model import CompiledModel
from kernelite.model.export.answers import Answers, answers_of, label_lists, label_type
from kernelite.model.export.float32 import float32_error
from kernelite.model.export.graph import Graph
from kernelite.model.export.nodes import Node, Value
from kernelite.model.export.selection import Dtype, ExportSelection, Part
from kernelite.support.errors import UnsupportedModelError, optional

__all__ = ["to_onnx"]

OPSET = 18  # of 2022-12: onnxruntime from 1.14 on
ML_OPSET = 2  # whose LabelEncoder takes texts
IR_VERSION = 8
LARGEST_FILE = 2**31 - 2**20  # a protobuf message holds less than 2 GB


def require_onnx() -> Any:
    """The `onnx` package, or an error that names the extra."""
    return optional("onnx", "exporting to ONNX needs onnx", "onnx", "onnx")


def to_onnx(
    model: CompiledModel,
    /,
    *,
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    std: bool = False,
    inputs: Dtype | None = None,
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
        With "approximation": add `decided`, true where the answer is proven, and `error_bound`;
        beside labels also `score_bound`.
    dtype : {"float64", "float32"}
        float32 proves nothing; its error is measured on `sample` and stored in the file.
    probabilities : bool, optional
        Whether to add class probabilities; by default where the source has them and they are a
        plain formula. True also adds those that are coupled by an iteration, or need variances,
        for which every row is evaluated exactly; it refuses models that have none.
    std : bool
        Of a Gaussian process: add `std`, the standard deviations of its values, which takes the
        square of the number of training rows in numbers. Computed in doubles, not proven.
    inputs : {"float64", "float32"}, optional
        The type of the numbers that come in, by default `dtype`. Those of float32 are doubles from
        the first step on: everything holds of the numbers that they are.
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
    found = answers_of(
        model,
        ONNX,
        part=part,
        decided=decided,
        dtype=dtype,
        probabilities=probabilities,
        std=std,
        inputs=inputs,
    )
    selection, graph, outputs = found.selection, found.graph, found.outputs
    for name, value in outputs.items():
        graph.named(value, name)
    domains = {"": OPSET} | ({"ai.onnx.ml": ML_OPSET} if found.columns else {})
    proto = onnx.helper.make_model(
        _finished(found, inputs or dtype),
        opset_imports=[onnx.helper.make_opsetid(*domain) for domain in domains.items()],
        ir_version=IR_VERSION,
        producer_name="kernelite",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(proto, _facts(selection, sample))
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _finished(found: Answers, inputs: Dtype) -> Any:
    """The graph with its inputs and outputs described, if it fits into a file."""
    selection, graph = found.selection, found.graph
    model = selection.model
    if found.columns:
        names = _column_names(found)
        ends = [
            described(name, "object" if column.value.kind == "O" else inputs, ["N", 1])
            for name, column in zip(names, found.columns)
        ]
        first = [
            Node("Identity", (name,), c.value.name, {}) for name, c in zip(names, found.columns)
        ]
        graph.nodes[:0] = first
    else:
        ends = [described("X", inputs, ["N", model.n_features_in_])]
    finished = written(
        graph,
        "kernelite",
        ends,
        [_output(selection, name, value) for name, value in found.outputs.items()],
        doc_string=f"{model.origin.description}. {selection.promise}",
    )
    size = finished.ByteSize()
    if size > LARGEST_FILE:
        raise UnsupportedModelError(
            f"the graph would take {size / 2**30:.1f} GB, more than an ONNX file can hold (2 GB); "
            "export the form alone (--with-decided or --form-only)."
        )
    return finished


def _column_names(found: Answers) -> list[str]:
    """Of the inputs: as the columns are called, unless names in the graph are the same."""
    names = [column.name for column in found.columns]
    taken = {node.output for node in found.graph.nodes} | found.graph.constants.keys()
    taken |= found.outputs.keys() | {column.value.name for column in found.columns}
    if len(set(names)) < len(names) or not all(names) or taken & set(names):
        return [f"X{column.place}" for column in found.columns]
    return names


def _output(selection: ExportSelection, name: str, value: Value) -> Any:
    """Name, type and shape of an output; what only the head knows of the shape stays open."""
    head, dtype, width = selection.head, str(selection.dtype), None
    if name == "label":
        dtype = label_type(head)
        width = 1 if head.kind == "outlier" else None
    elif name == "probabilities" and len(label_lists(head)) == 1:
        width = len(head.classes)
    elif name == "decided":
        dtype = "bool"
    elif name in ("scores", "score_bound"):
        width = head.n_scores
    elif name == "std":
        width = head.n_values
    return described(name, dtype, ["N"] if value.ndim == 1 else ["N", width])


def _facts(selection: ExportSelection, sample: Any) -> dict[str, str]:
    """The file's own documentation."""
    model = selection.model
    facts = {
        "kernelite": __version__,
        "source": model.origin.description,
        "guarantee_of_the_model": model.guarantee,
        "promise": selection.promise,
        "dtype": selection.dtype,
    }
    if selection.head.proves_labels:
        facts["scores"] = selection.scores
    if model.tolerance is not None:
        facts["tolerance"] = ", ".join(f"{value:.6g}" for value in model.tolerance)
    if selection.dtype == "float32":
        facts["float32_error"] = float32_error(selection, sample)
    return facts


def written(graph: Graph, name: str, inputs: list[Any], outputs: list[Any], **options: Any) -> Any:
    """A graph as `onnx` holds it: the nodes and constants that its outputs need.

    Parameters
    ----------
    graph : Graph
    name : str
    inputs, outputs : list
        As `described` makes them.
    options
        Of `onnx.helper.make_graph`.
    """
    onnx = require_onnx()
    nodes, constants = graph.needed(output.name for output in outputs)
    tensors = [onnx.numpy_helper.from_array(array, key) for key, array in constants.items()]
    return onnx.helper.make_graph(
        [_node(node) for node in nodes], name, inputs, outputs, tensors, **options
    )


def described(name: str, dtype: str, shape: list[Any] | None) -> Any:
    """Name, type and shape of an input or output."""
    helper = require_onnx().helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)


def _node(node: Node) -> Any:
    helper = require_onnx().helper
    if node.operator == "LabelEncoder":
        made: dict[str, Any] = {
            "domain": "ai.onnx.ml",
            "keys_strings": node.options["keys"],
            "values_int64s": node.options["values"],
            "default_int64": node.options["other"],
        }
    else:
        made = {key: _attribute(key, value) for key, value in node.options.items()}
    return helper.make_node(node.operator, node.inputs, [node.output], **made)


def _attribute(key: str, value: Any) -> Any:
    """Types are numbers, arrays tensors, and (graph, inputs, outputs) a graph inside."""
    onnx = require_onnx()
    if key == "to":
        return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(value))
    if isinstance(value, np.ndarray):
        return onnx.numpy_helper.from_array(value)
    if not isinstance(value, tuple):
        return value
    graph, inputs, outputs = value
    types = {"f": graph.dtype.name, "i": "int64", "b": "bool"}
    ends = [
        [described(v.name, types[v.kind], None if v.ndim else []) for v in side]
        for side in (inputs, outputs)
    ]
    return written(graph, "inner", *ends)
