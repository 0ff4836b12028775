"""Heads in C: a table of what each kind of head makes of its scores.

In: a head. Out: the family of templates that decides, its macros, and the labels; or a refusal. A
family is "binary" (one score and a boundary), "votes" (pairs of classes), "argmax", "density" (sums
in logarithms), or "" (values).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import UnsupportedModelError
from kernelite.export.c_arrays import Writer, literal, string
from kernelite.machine.heads import (
    ArgmaxHead,
    ClassifierHead,
    DensityHead,
    Head,
    LatentHead,
    LinearHead,
    OutlierHead,
    RegressorHead,
    TransformHead,
)

__all__ = ["HEADS", "CHead", "Labels", "c_head", "label_constants"]


@dataclass(frozen=True, eq=False)
class CHead:
    """What the templates need to know of a head.

    Parameters
    ----------
    family : {"binary", "votes", "argmax", "density", ""}
    labels : ndarray, optional
        In the order of their indices; None of values.
    macros : tuple of (name, value)
    """

    family: str
    labels: NDArray[Any] | None = None
    macros: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Labels:
    """The constants of labels: their C text, type, and format in printf."""

    text: str = ""
    c_type: str = ""
    form: str = ""


def c_head(head: Head) -> CHead:
    """The head's entry of the table `HEADS`, or a refusal in one sentence."""
    if type(head) not in HEADS:
        raise UnsupportedModelError(
            f"what this {head.kind} makes of its scores ({type(head).__name__}) is not written in "
            "C; ONNX graphs hold more."
        )
    return HEADS[type(head)](head)


def label_constants(w: Writer, labels: NDArray[Any] | None) -> Labels:
    """An array of labels, by their index."""
    if labels is None:
        return Labels()
    kind = _label_kind(labels)
    c_type, form = _LABEL_TYPES[kind]
    if kind == "string":
        values = [string(label) for label in labels.tolist()]
    elif kind == "real":
        values = [literal(label) for label in labels.tolist()]
    else:
        values = [f"{int(label)}{'LL' if kind == 'long' else ''}" for label in labels.tolist()]
    const = "static const char *const" if kind == "string" else f"static const {c_type}"
    text = f"{const} {w.name}_labels[{len(values)}] = {{{', '.join(values)}}};\n"
    return Labels(text, c_type, form)


_LABEL_TYPES = {
    "truth": ("int", "%d"),
    "small": ("int", "%d"),
    "whole": ("long", "%ld"),
    "long": ("long long", "%lld"),
    "real": ("double", "%.17g"),
    "string": ("const char *", "%s"),
}


def _label_kind(classes: NDArray[Any]) -> str:
    letter, labels = classes.dtype.kind, classes.tolist()
    if letter in "UO" and all(isinstance(label, str) for label in labels):
        return "string"
    if letter in "iu":
        if classes.dtype.itemsize == 1:
            return "small"
        return "long" if max(abs(label) for label in labels) >= 2**31 else "whole"
    if letter not in "bf":
        raise UnsupportedModelError(
            f"labels of type {classes.dtype} cannot be written in C; numbers, booleans or strings, "
            "all of one type, can."
        )
    return "truth" if letter == "b" else "real"


def _binary(labels: NDArray[Any], rule: str, boundary: float = 0.0) -> CHead:
    """The first label where the score is on that side of the boundary."""
    macros = (("BOUNDARY", literal(boundary)), ("IS_FIRST(s)", f"((s) {rule} NAME_BOUNDARY)"))
    return CHead("binary", labels, macros)


def _outlier(head: OutlierHead) -> CHead:
    return _binary(np.array([1, -1], dtype=np.int8), ">=" if head.zero_is_inlier else ">")


def _classifier(head: ClassifierHead) -> CHead:
    if head.labels_by_probability:
        raise UnsupportedModelError(
            "labels by probability are not written in C; ONNX graphs hold more."
        )
    if head.n_classes == 2:
        rule = (">" if head.first_positive else "<") + ("=" if head.zero_is_first else "")
        return _binary(head.classes, rule, head.threshold)
    _require_classes(head.classes)
    if head.break_ties:
        raise UnsupportedModelError(
            "ties that are broken by summed scores (break_ties) are not written in C; export to "
            "ONNX, or fit with break_ties=False."
        )
    return CHead("votes", head.classes, (("FIRST(s)", "(s)" if head.first_positive else "(-(s))"),))


def _linear(head: LinearHead) -> CHead:
    return _binary(head.classes, "<=") if head.n_scores == 1 else CHead("argmax", head.classes)


def _argmax(head: ArgmaxHead) -> CHead:
    _require_classes(head.classes)
    return CHead("argmax", head.classes)


def _require_classes(classes: NDArray[Any]) -> None:
    if len(classes) < 2:
        raise UnsupportedModelError("a model with one class has no score to export.")


def _values(head: RegressorHead | TransformHead) -> CHead:
    return CHead("")


HEADS: dict[type, Callable[[Any], CHead]] = {
    ArgmaxHead: _argmax,
    ClassifierHead: _classifier,
    DensityHead: lambda head: CHead("density", None, (("LOG_SCALE", literal(head.log_scale)),)),
    LatentHead: lambda head: _binary(head.classes, "<="),
    LinearHead: _linear,
    OutlierHead: _outlier,
    RegressorHead: _values,
    TransformHead: _values,
}
"""Head -> what the templates need of it."""
