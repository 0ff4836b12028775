"""A compiled model as one ES module without dependencies, for browsers and Node.

In: a `CompiledModel`. Out: text that exports

    predict(rows)         labels, or values of a regressor
    scores(rows)          of models with labels: the raw sums, as `fast.scores`
    answer(rows)          all that the model gives: label, scores, decision, probabilities, bounds
    decided(rows)         with `decided`: true where the label is proven to be the exact model's
    about                 features, their names, classes, and what is promised

A row is an array of numbers; rows are an array of them, or one typed array. The module is the graph
of `kernelite.model.export`, printed: each node is a line that calls a function of `runtime.js`.
Doubles are IEEE's in JavaScript; exp and log are the module's own, since the language states no
accuracy.
"""

from __future__ import annotations

import base64
import json
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite import __version__
from kernelite.machine.ops import JAVASCRIPT
from kernelite.machine.preparation.columns import Columns
from kernelite.model import CompiledModel
from kernelite.model.export import answers
from kernelite.model.export.answers import Answers, answers_of
from kernelite.model.export.graph import Graph
from kernelite.model.export.nodes import Node, Value
from kernelite.model.export.selection import ExportSelection, Part
from kernelite.support.errors import UnsupportedModelError

__all__ = ["to_javascript"]

LARGEST_INTEGER = 2**53


def to_javascript(
    model: CompiledModel,
    /,
    *,
    part: Part = "all",
    decided: bool = False,
    probabilities: bool | None = None,
    std: bool = False,
) -> str:
    """Write a compiled model as a JavaScript module.

    Parameters
    ----------
    model : CompiledModel
    part : {"all", "approximation", "exact"}
        "all" keeps the model's guarantee: rows that the forms leave open are evaluated exactly.
        "approximation": the forms alone. "exact": the exact model.
    decided : bool
        With "approximation": add `decided` and bounds.
    probabilities : bool, optional
        Whether to add class probabilities; by default where they are a plain formula.
    std : bool
        Of a Gaussian process: add `std`, the standard deviations of its values.

    Returns
    -------
    str

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> module = to_javascript(kernelite.compile(bump, guarantee="exact"))
    >>> "export function predict(rows)" in module
    True
    """
    found = answers_of(
        model, JAVASCRIPT, part=part, decided=decided, probabilities=probabilities, std=std
    )
    _check_labels(found.selection)
    nodes, constants = found.graph.needed(value.name for value in found.outputs.values())
    outputs = list(found.outputs)
    truths = [name for name, value in found.outputs.items() if value.kind == "b"]
    main = "label" if "label" in outputs else "variable"
    returned = ", ".join(f"{name}: {_name(value.name)}" for name, value in found.outputs.items())
    given = ", ".join(_name(column.value.name) for column in found.columns) or _name("X")
    body = "\n".join(f"  {line}" for line in map(_line, nodes))
    text = [
        f"// Written by kernelite {__version__}. {_plain(model.origin.description)}.",
        f"// {found.selection.promise}",
        f"export const about = {_json(_about(found))};",
        resources.files(__package__).joinpath("runtime.js").read_text(encoding="utf-8"),
        *(f"const {_name(name)} = {_constant(array)};" for name, array in constants.items()),
        f"function run({given}) {{\n{body}\n  return {{ {returned} }};\n}}",
        f"export const answer = (rows) => answers(rows, run, {_json(outputs)}, {_json(truths)});",
        f"export function predict(rows) {{ return answer(rows).{main}; }}",
    ]
    if "scores" in outputs:
        text.append("export function scores(rows) { return answer(rows).scores; }")
    if decided:
        text.append("export function decided(rows) { return answer(rows).decided; }")
    return "\n".join(text) + "\n"


def _line(node: Node) -> str:
    """A node as a statement."""
    options = dict(node.options)
    if "to" in options:
        options = {"whole": options["to"] == "int64"}
    if "value" in options:
        options["value"] = np.asarray(options["value"], dtype=np.float64).item()
    given = [_name(name) for name in node.inputs]
    if "body" in options:
        given.append(f"{{ body: {_inner(*options['body'])} }}")
    elif options:
        given.append(_options(options))
    return f"const {_name(node.output)} = ops.{node.operator}({', '.join(given)});"


def _inner(graph: Graph, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> str:
    """A graph inside another, as a function."""
    nodes, constants = graph.needed(value.name for value in outputs)
    lines = [f"const {_name(name)} = {_constant(array)};" for name, array in constants.items()]
    lines += map(_line, nodes)
    given, found = (", ".join(_name(value.name) for value in side) for side in (inputs, outputs))
    return f"({given}) => {{ {' '.join(lines)} return [{found}]; }}"


def _options(options: dict[str, Any]) -> str:
    """Options as an object; infinities have names in JavaScript."""
    said = ", ".join(f"{name}: {_number(value)}" for name, value in options.items())
    return f"{{ {said} }}"


def _number(value: Any) -> str:
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return _json(value)


def _constant(array: NDArray[Any]) -> str:
    """A tensor: texts as they are, numbers as the bytes of doubles."""
    shape = _json(list(array.shape))
    if array.dtype.kind in "UO":
        return f"tensor({_json(array.ravel().tolist())}, {shape})"
    data = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return f'decoded("{base64.b64encode(data).decode()}", {shape})'


def _name(name: str) -> str:
    return f"_{name}"


def _json(value: Any) -> str:
    """JSON that may also stand in a page's script."""
    return json.dumps(value).replace("</", "<\\/").replace("<!--", "<\\!--")


def _plain(text: str) -> str:
    """Text for a comment of one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _about(found: Answers) -> dict[str, Any]:
    selection, model = found.selection, found.selection.model
    classes = selection.head.classes
    machines = [model, *(part.model for part in model.parts)]
    return {
        "kernelite": __version__,
        "source": _plain(model.origin.description),
        "promise": selection.promise,
        "features": model.n_features_in_,
        "featureNames": None if (names := model.origin.feature_names) is None else list(names),
        "classes": classes.tolist() if isinstance(classes, np.ndarray) else None,
        "columns": [
            {"place": column.place, "name": column.name, "text": column.value.kind == "O"}
            for column in found.columns
        ],
        "missing": any(
            isinstance(step, Columns) for one in machines for step in one.preparation.steps
        ),
        "outputs": list(found.outputs),
        "tolerance": None if model.tolerance is None else np.ravel(model.tolerance).tolist(),
    }


def check(selection: ExportSelection) -> None:
    """Refuse, by one sentence and before anything is built, what a module cannot hold."""
    answers.check(selection, JAVASCRIPT.name)
    _check_labels(selection)


def _check_labels(selection: ExportSelection) -> None:
    classes = selection.head.classes
    each = classes if isinstance(classes, list) else [] if classes is None else [classes]
    for labels in each:
        if labels.dtype.kind in "iu" and np.abs(labels.astype(float)).max() >= LARGEST_INTEGER:
            raise UnsupportedModelError(
                "labels of 2^53 and more are no exact numbers in JavaScript; use others, or text."
            )
