"""One machine in C, or several: constants and functions up to NAME_score.

In: what is exported. Out: C text, from the templates and the constants that they need. The table of
heads stands first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.c.constants import (
    bound_constants,
    exact_text,
    form_constants,
    has_third,
    map_text,
    polynomial_text,
    third_constants,
)
from kernelite.backends.c.formulas import Writer, literal, string
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
from kernelite.model.export.selection import Selection, steps_of
from kernelite.series.series import QuadraticForm
from kernelite.series.spectral import SpectralForm
from kernelite.support.errors import UnsupportedModelError

__all__ = [
    "HEADS",
    "CHead",
    "Labels",
    "Source",
    "c_head",
    "label_constants",
    "machine_text",
    "sum_text",
]

# Heads in C: a table of what each kind of head makes of its scores.
#
# In: a head. Out: the family of templates that decides, its macros, and the labels; or a refusal. A
# family is "binary" (one score and a boundary), "votes" (pairs of classes), "argmax", "density"
# (sums in logarithms), or "" (values).


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


# Machines in C, from templates.

FORMS: dict[type, str] = {QuadraticForm: "quadratic", SpectralForm: "spectral"}
"""Form -> its template."""


@dataclass(frozen=True, eq=False)
class Source:
    """All that a text is made from.

    Parameters
    ----------
    w : Writer
    selection : Selection
    head : CHead
    labels : Labels
    before : tuple of steps
        What rows go through before the machine's own steps.
    """

    w: Writer
    selection: Selection
    head: CHead
    labels: Labels
    before: tuple[Any, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether the model answers labels."""
        return self.head.labels is not None


def sum_text(source: Source) -> str:
    """A function for each machine, and NAME_score, which adds their scores up."""
    w, whole = source.w, source.selection
    before = steps_of(whole.model)
    text, adding = _sizes(source), ""
    for i, piece in enumerate(whole.pieces):
        own = replace(w, name=f"{w.name}_{i}")
        alone = replace(whole, model=piece.model, pieces=(piece,))
        text += machine_text(Source(own, alone, CHead(""), Labels(), before))
        text += own.array("place", piece.outputs, "int")
        adding += (
            f"    NAME_{i}_score(x, own);\n    for (k = 0; k < NAME_{i}_OUTPUTS; k++)\n"
            f"        scores[NAME_{i}_place[k]] += own[k];\n"
        )
    whole_text = w.template("sum.h").replace("    ADDING\n", w.fill(adding))
    return f"{text}{_answer_constants(source)}\n{whole_text}"


def _sizes(source: Source) -> str:
    w, model = source.w, source.selection.model
    text = w.define("FEATURES", str(model.n_features_in_))
    return text + w.define("OUTPUTS", str(model.head.n_scores))


def machine_text(source: Source) -> str:
    """Constants and functions of one machine, up to NAME_score."""
    w, selection = source.w, source.selection
    model, approximation, expansion = selection.model, selection.approximation, selection.expansion
    served: Any = expansion if approximation is None else approximation.form
    text = _sizes(source) + w.define("WIDTH", str(served.n_features))
    if approximation is not None:
        text += form_constants(w, approximation)
    text += map_text(w, (*source.before, *steps_of(model))) + polynomial_text(w, model.tail)
    text += _answer_constants(source)
    if _bounded(selection):
        assert approximation is not None
        text += bound_constants(w, approximation)
        text += w.define("SETTLED(scores, bounds)", _settled(source))
        text += third_constants(w, approximation) if _has_second_tier(selection) else ""
    elif selection.falls_back:
        text += w.define("THRESHOLD", w.literal(model.threshold or 0.0))
    text += "".join(f"\n{w.template(file)}" for file in _forms(source))
    if expansion is not None:
        density = source.head.family == "density"
        text += exact_text(w, expansion, alone=approximation is None, density=density)
    return f"{text}\n{w.template(_score_file(selection))}"


def _answer_constants(source: Source) -> str:
    """Tolerances, labels and the rules by which they are told."""
    w, tolerance = source.w, source.selection.model.tolerance
    used = tolerance is not None and _bounded(source.selection)
    text = w.array("tolerance", tolerance, "float64") if used else ""  # type: ignore[arg-type]
    if source.head.labels is not None:
        text += w.define("CLASSES", str(len(source.head.labels)))
    text += "".join(w.define(name, value) for name, value in source.head.macros)
    return text + source.labels.text


def _forms(source: Source) -> list[str]:
    """Templates that scores need, in the order in which they use each other."""
    selection, family = source.selection, source.head.family
    approximation = selection.approximation
    files = [f"{family}.h"] if source.labelled else []
    if approximation is None:
        return files
    form = FORMS[type(approximation.form)]
    files += ["cells.h"] if len(approximation.cells) > 1 else []
    files += [f"{form}.h"]
    if _bounded(selection):
        files += ["bound.h"] if approximation.form.damped else []
        files += [f"{form}_bound.h"]
        files += [f"{family}_decided.h"] if source.labelled else []
        files += ["within.h"] if selection.model.tolerance is not None else []
    if _has_second_tier(selection):
        return [*files, "third.h"]
    calibrated = selection.falls_back and selection.model.guarantee == "calibrated"
    return [*files, f"{family}_margin.h"] if calibrated else files


def _score_file(selection: Selection) -> str:
    """The template of NAME_score."""
    if selection.approximation is None:
        return "score_exact.h"
    if not selection.falls_back:
        return "score_form.h"
    if selection.model.guarantee == "calibrated":
        return "score_calibrated.h"
    return "score_third.h" if _has_second_tier(selection) else "score_certified.h"


def _has_second_tier(selection: Selection) -> bool:
    """Whether rows that the first bound leaves open get another try before the exact model."""
    forms = selection.approximation
    return _proves(selection) and forms is not None and has_third(forms)


def _bounded(selection: Selection) -> bool:
    return selection.decided or _proves(selection)


def _proves(selection: Selection) -> bool:
    """Whether a row's bound decides if the exact model is asked."""
    return selection.falls_back and selection.model.guarantee == "certified"


def _settled(source: Source) -> str:
    """What the form's scores must fulfil: labels proven, values (and scores) within tolerance."""
    selection, rules = source.selection, []
    if source.labelled:
        rules.append("NAME_proven(scores, bounds)")
    if selection.model.tolerance is not None and not (source.labelled and selection.decided):
        rules.append("NAME_within(bounds)")
    return f"({' && '.join(rules)})"
