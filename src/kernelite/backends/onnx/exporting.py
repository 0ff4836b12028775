"""A compiled model as an ONNX graph of standard operators.

In: a `CompiledModel`. Out: a `ModelProto` with the inputs and outputs that
`kernelite.model.export.graph.answers` lists; names and shapes are skl2onnx's. The graph is made
there; what stands here writes it. The `onnx` package is needed to write a graph, not to build one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite import __version__
from kernelite.machine.arithmetic import ONNX
from kernelite.model import CompiledModel
from kernelite.model.export.float32 import float32_error
from kernelite.model.export.graph.answers import answers_of, label_lists, label_type
from kernelite.model.export.graph.graph import Graph, Node, Value
from kernelite.model.export.selection import Dtype, Part, Selection
from kernelite.support.errors import UnsupportedModelError, missing_extra

__all__ = ["to_onnx"]

OPSET = 18  # of 2022-12: onnxruntime from 1.14 on
IR_VERSION = 8
LARGEST_FILE = 2**31 - 2**20  # a protobuf message holds less than 2 GB


def require_onnx() -> Any:
    """The `onnx` package, or an error that names the extra."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("exporting to ONNX needs onnx", "onnx", "onnx") from None
    return onnx


def to_onnx(
    model: CompiledModel,
    /,
    *,
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    std: bool = False,
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
    )
    selection, graph, outputs = found.selection, found.graph, found.outputs
    for name, value in outputs.items():
        graph.named(value, name)
    proto = onnx.helper.make_model(
        _finished(selection, graph, outputs),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="kernelite",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(proto, _facts(selection, sample))
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _finished(selection: Selection, graph: Graph, outputs: dict[str, Value]) -> Any:
    """The graph with its inputs and outputs described, if it fits into a file."""
    model = selection.model
    finished = written(
        graph,
        "kernelite",
        [described("X", selection.dtype, ["N", model.n_features_in_])],
        [_output(selection, name, value) for name, value in outputs.items()],
        doc_string=f"{model.origin.description}. {selection.promise}",
    )
    size = finished.ByteSize()
    if size > LARGEST_FILE:
        raise UnsupportedModelError(
            f"the graph would take {size / 2**30:.1f} GB, more than an ONNX file can hold (2 GB); "
            "export the form alone (--with-decided or --form-only)."
        )
    return finished


def _output(selection: Selection, name: str, value: Value) -> Any:
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
    if selection.head.proves_labels:
        facts["scores"] = selection.scores
    if model.tolerance is not None:
        facts["tolerance"] = ", ".join(f"{value:.6g}" for value in model.tolerance)
    if selection.dtype == "float32":
        facts["float32_error"] = str(float32_error(selection, sample))
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
