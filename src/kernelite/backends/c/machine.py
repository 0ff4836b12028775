"""One machine in C, or several: constants and functions up to NAME_score.

In: what is exported. Out: C text. Preparations, forms, certificates, kernels, heads and criteria
are traced from their definitions (`model.export.tracing`) and written as statements; what stands
here is which functions a header has, and which row goes where.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.c.formulas import CLanguage, Writer, array, literal, string, whole
from kernelite.machine.heads import Head
from kernelite.machine.ops import C
from kernelite.model import CompiledModel
from kernelite.model.export.emitting import Constants, function_body
from kernelite.model.export.exact import (
    deviations,
    exact_scores,
    has_logarithms,
    latent_variances,
    log_sums,
)
from kernelite.model.export.selection import ExportSelection, unwritten
from kernelite.model.export.tracing import Trace, TracedNode
from kernelite.program.criteria import And, Margin, Within, label_criterion
from kernelite.series.approximation import Approximation
from kernelite.support.errors import KerneliteError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = [
    "Functions",
    "LabelTable",
    "Source",
    "answer",
    "label_constants",
    "label_rule",
    "machine_text",
    "moments",
    "sum_text",
]


@dataclass(frozen=True)
class LabelTable:
    """The constants of labels: their C text, type, and format in printf."""

    text: str = ""
    c_type: str = ""
    form: str = ""


def label_rule(head: Head) -> tuple[NDArray[Any], TracedNode] | None:
    """Labels, and which of them a row has; None of values, and of several numbers as labels."""
    trace = Trace("C")
    found = answer(head, "predict", moments(head, "predict", trace))
    if not head.proves_labels:
        return None
    one = found.ndim == 1
    if one and found.op == "take":
        return found.inputs[0].data, found.inputs[1]
    if one and found.op == "where" and all(side.op == "constant" for side in found.inputs[1:]):
        labels = np.array([side.data.flat[0] for side in found.inputs[1:]], np.int8)
        return labels, trace.where(found.inputs[0], 0, 1)
    if not one and found.kind != "O":
        return None
    raise _refused(head, "labels are several texts")


def moments(head: Head, method: str, trace: Trace) -> dict[str, TracedNode]:
    """What a method's answers are made of: scores, and variances where it needs them."""
    found = {"scores": trace.input("scores", head.n_scores)}
    if method in head.needs_posterior:
        found["variances"] = trace.input("variances", head.n_scores)
    return found


def answer(head: Head, method: str, given: dict[str, TracedNode]) -> TracedNode:
    """What a method makes of scores, by the head's own formula."""
    formula: Any = head
    try:
        if "variances" in given:
            found: TracedNode = formula.from_moments(method, given["scores"], given["variances"])
        else:
            found = formula.answer(method, given["scores"])
    except (KerneliteError, AttributeError, TypeError) as error:
        raise _refused(head, unwritten(error).removesuffix("; ONNX graphs hold more")) from None
    return found


def _refused(head: Head, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"what this {head.kind} makes of its scores ({type(head).__name__}) is not written in C: "
        f"{why}; ONNX graphs hold more."
    )


def label_constants(w: Writer, labels: NDArray[Any] | None) -> LabelTable:
    """An array of labels, by their index."""
    if labels is None:
        return LabelTable()
    letter, listed = labels.dtype.kind, labels.tolist()
    if letter in "UO" and all(isinstance(label, str) for label in listed):
        c_type, form, values = "const char *", "%s", [string(label) for label in listed]
    elif letter == "f":
        c_type, form, values = "double", "%.17g", [literal(label) for label in listed]
    elif letter == "b" or (letter in "iu" and labels.dtype.itemsize == 1):
        c_type, form, values = "int", "%d", [str(int(label)) for label in listed]
    elif letter in "iu" and max(listed) >= 2**63:
        raise UnsupportedModelError("labels of 2^63 and more do not fit C's long long.")
    elif letter in "iu":
        wide = max(abs(label) for label in listed) >= 2**31
        c_type, form = ("long long", "%lld") if wide else ("long", "%ld")
        values = [whole(label, wide) for label in listed]
    else:
        raise UnsupportedModelError(
            f"labels of type {labels.dtype} cannot be written in C; numbers, booleans or strings, "
            "all of one type, can."
        )
    const = "static const char *const" if form == "%s" else f"static const {c_type}"
    text = f"{const} {w.name}_labels[{len(values)}] = {{{', '.join(values)}}};\n"
    return LabelTable(text, c_type, form)


@dataclass(frozen=True, eq=False)
class Source:
    """All that a text is made from.

    Parameters
    ----------
    w : Writer
    selection : ExportSelection
    labels : LabelTable
    whole : CompiledModel, optional
        What the machine is a part of: rows come to that, and go through its steps first.
    probabilities, std : bool
        What is given besides.
    """

    w: Writer
    selection: ExportSelection
    labels: LabelTable = LabelTable()
    whole: CompiledModel | None = None
    probabilities: bool = False
    std: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """What is answered."""
        return ("predict", "predict_proba") if self.probabilities else ("predict",)

    @property
    def features(self) -> int:
        """How many numbers a row has as it comes."""
        return (self.whole or self.selection.model).n_features_in_

    @property
    def steps(self) -> tuple[Any, ...]:
        """What rows go through before the machine."""
        before = () if self.whole is None else self.whole.preparation.steps
        return (*before, *self.selection.model.preparation.steps)

    @property
    def labelled(self) -> bool:
        """Whether the model answers labels."""
        return bool(self.labels.text)


class Functions:
    """The functions of one machine under construction, and the constants that they share."""

    def __init__(self, w: Writer) -> None:
        self.w, self.language = w, CLanguage(w.dtype)
        self.constants = Constants(self.language, f"{w.name}_c")
        self.text = ""

    def add(
        self,
        said: str,
        name: str,
        inputs: dict[str, TracedNode],
        outputs: dict[str, Any] | None = None,
        returned: TracedNode | None = None,
    ) -> None:
        """A function of arrays: what it does, its name, its arguments and results."""
        real = self.w.real
        arguments = [f"const {real} *{argument}" for argument in inputs]
        arguments += [f"{real} *{argument}" for argument in outputs or {}]
        written = [(node, argument) for argument, node in (outputs or {}).items()]
        body = function_body(self.constants, written, returned)
        unused = [argument for argument in inputs if f"{argument}[" not in body]
        body = "".join(f"    (void){argument};\n" for argument in unused) + body
        kind = "int" if returned is not None else "void"
        self.text += (
            f"\n/* {said} */\nstatic inline {kind} {self.w.name}_{name}({', '.join(arguments)})\n"
            f"{{\n{body}}}\n"
        )


def sum_text(source: Source) -> str:
    """A function for each machine, and NAME_score, which adds their scores up."""
    w, whole = source.w, source.selection
    text, adding = _sizes(source), ""
    for i, piece in enumerate(whole.pieces):
        own = replace(w, name=f"{w.name}_{i}")
        alone = replace(whole, model=piece.model, pieces=(piece,))
        text += machine_text(Source(own, alone, whole=whole.model), answers=False)
        text += array(f"{own.name}_place", piece.outputs, "int")
        adding += (
            f"    NAME_{i}_score(x, own);\n    for (k = 0; k < NAME_{i}_OUTPUTS; k++)\n"
            f"        scores[NAME_{i}_place[k]] += own[k];\n"
        )
    made = Functions(w)
    _add_answers(source, made)
    return (
        text
        + made.constants.text
        + made.text
        + _scores(
            w,
            "those of all machines added up",
            "    REAL own[NAME_OUTPUTS];\n    int k;\n    for (k = 0; k < NAME_OUTPUTS; k++)\n"
            f"        scores[k] = 0;\n{adding}",
        )
    )


def _sizes(source: Source) -> str:
    w, model = source.w, source.selection.model
    text = w.define("FEATURES", str(source.features))
    return text + w.define("OUTPUTS", str(model.head.n_scores)) + source.labels.text


def _scores(w: Writer, how: str, body: str, *, logarithm: bool = False) -> str:
    """NAME_score, the raw sums; of a density NAME_logarithm, since its sums underflow."""
    said = f"Scores of a row of NAME_FEATURES numbers: NAME_OUTPUTS of them, {how}."
    if logarithm:
        said = "The log-density of a row of NAME_FEATURES numbers."
    name = "logarithm" if logarithm else "score"
    return w.fill(
        f"\n/* {said} */\n"
        f"static inline void NAME_{name}(const REAL *x, REAL *scores)\n{{\n{body}}}\n"
    )


def machine_text(source: Source, *, answers: bool = True) -> str:
    """Constants and functions of one machine, up to NAME_score; `answers`: and what follows."""
    w, selection = source.w, source.selection
    model, expansion = selection.model, selection.expansion
    made = Functions(w)
    served: Any = expansion if selection.approximation is None else selection.approximation.form
    _add_map(made, source.steps, source.features)
    if answers:
        _add_answers(source, made)
    body, how = "    NAME_ROW(x);\n", ["by the exact model"]
    if selection.approximation is not None:
        tiers, how = _add_forms(source, made, selection.approximation)
        body += tiers
    if expansion is not None:
        x = Trace("C").input("x", served.n_features)
        head: Any = selection.head
        if head.kind == "density" and has_logarithms(expansion):
            found = head.from_logarithms(log_sums(expansion, x))[:, None]
        elif head.kind == "density":
            found = head.score_samples(exact_scores(expansion, x))[:, None]
        elif expansion.n_centers:
            found = exact_scores(expansion, x)
        else:
            found = x.trace.constant(expansion.intercept[None, :])
        made.add("The exact model.", "exact", {"x": x}, {"scores": found})
        body += "    NAME_exact(row, scores);\n"
    body += _add_polynomial(made, model)
    text = _sizes(source) + w.define("WIDTH", str(served.n_features))
    text += w.define(
        "ROW(x)",
        "REAL row[NAME_WIDTH]; NAME_map(x, row)" if source.steps else "const REAL *row = x",
    )
    density = expansion is not None and selection.head.kind == "density"
    text += made.constants.text + made.text
    return text + _scores(w, ", else ".join(how), body, logarithm=density)


def _add_map(made: Functions, steps: tuple[Any, ...], width: int) -> None:
    """NAME_map, if rows go through steps."""
    if steps:
        x = row = Trace("C").input("x", width)
        for step in steps:
            row = step.formula(row)
        made.add("What rows go through before the model.", "map", {"x": x}, {"row": row})


def _add_answers(source: Source, made: Functions) -> None:
    """NAME_winner, of a model that answers labels; else NAME_VALUES and NAME_values.

    On request NAME_likely and NAME_spread; NAME_variance where one of all these needs it.
    """
    selection = source.selection
    head, model, trace = selection.head, selection.model, Trace("C")
    if source.std or any(method in head.needs_posterior for method in source.methods):
        x = trace.input("x", model.n_features_in_)
        found = latent_variances(selection, x)
        made.text += made.w.define("VARIANCES", str(found.size))
        said = "Latent variances of a row, as it comes."
        made.add(said, "variance", {"x": x}, {"variances": found})
        if source.std:
            assert model.posterior is not None
            variances = trace.input("variances", found.size)
            spread = deviations(model.posterior, variances)
            made.text += made.w.define("DEVIATIONS", str(spread.size))
            said = "The standard deviations that go with these variances."
            made.add(said, "spread", {"variances": variances}, {"deviations": spread})
    given = moments(head, "predict", trace)
    if not source.labelled:
        # Sums of a density are taken in logarithms: they are its values.
        found = given["scores"] if head.kind == "density" else answer(head, "predict", given)
        made.text += made.w.define("VALUES", str(found.size))
        made.add("The values of these scores.", "values", given, {"values": found})
    else:
        rule = label_rule(head)
        assert rule is not None
        given = moments(head, "predict", rule[1].trace)
        said = "The place of the label of these scores in the list of labels."
        made.add(said, "winner", given, returned=rule[1])
    if source.probabilities:
        given = moments(head, "predict_proba", trace)
        found = answer(head, "predict_proba", given)
        made.text += made.w.define("PROBABILITIES", str(found.size))
        said = "The probabilities of these scores."
        made.add(said, "likely", given, {"probabilities": found})


def _add_forms(source: Source, made: Functions, forms: Approximation) -> tuple[str, list[str]]:
    """NAME_form, NAME_bounded, NAME_third, as far as they are needed; which of them answers."""
    selection = source.selection
    proves = selection.falls_back and selection.model.guarantee == "certified"
    if not selection.falls_back and not selection.decided:
        _add_form(made, forms, "form", bounded=False)
        return "    NAME_form(row, scores);\n", ["by the form"]
    if not (proves or selection.decided):
        _add_form(made, forms, "form", bounded=False)
        _add_settled(source, made, bounded=False)
        body = "    NAME_form(row, scores);\n    if (NAME_settled(scores))\n        return;\n"
        return body, ["by the form where its margin is above the tested threshold", EXACTLY]
    _add_form(made, forms, "bounded", bounded=True)
    _add_settled(source, made, bounded=True)
    answer = "    if (NAME_settled(scores, bounds))\n        return;\n"
    body = f"    REAL bounds[NAME_OUTPUTS];\n    NAME_bounded(row, scores, bounds);\n{answer}"
    how = ["by the form where that is proven to be good enough"]
    if selection.decided:
        return body.removesuffix(answer), ["by the form"]
    if forms.has_second_form:
        _add_form(made, forms, "third", bounded=True)
        body += f"    NAME_third(row, scores, bounds);\n{answer}"
        how.append("by the form of third order where that is")
    return body, [*how, EXACTLY]


EXACTLY = "by the exact model"


def _add_form(made: Functions, forms: Approximation, name: str, *, bounded: bool) -> None:
    """A function of a form, by its definition."""
    said = {
        "form": "The form.",
        "bounded": "The form, and bounds on its errors, which hold for IEEE doubles.",
        "third": "The form of third order, for rows that the first bound leaves open.",
    }[name]
    x = Trace("C").input("x", forms.form.n_features)
    row: Any = x
    if name == "third":
        found, bounds = forms.second(row, None, C)
    else:
        found, bounds = forms.form.evaluate(row), None
        if bounded:
            assert forms.certificate is not None
            bounds = forms.form.bounds(forms.certificate, found, 2, C)
    outputs = {"scores": found.scores} | ({"bounds": bounds} if bounded else {})
    made.add(said, name, {"x": x}, outputs)


def _add_settled(source: Source, made: Functions, *, bounded: bool) -> None:
    """NAME_settled: what the form's scores must fulfil."""
    selection = source.selection
    model, head = selection.model, selection.head
    trace = Trace("C")
    scores = trace.input("scores", head.n_scores)
    if not bounded:
        margin: Any = Margin(head, model.threshold or 0.0)
        found = margin(scores, None)
        said = "Whether the margin is above the tested threshold."
        made.add(said, "settled", {"scores": scores}, returned=found)
        return
    bounds = trace.input("bounds", head.n_scores)
    criterion: Any = label_criterion(head, model.tolerance)
    if model.tolerance is not None and source.labelled and not selection.decided:
        criterion = And(criterion, Within(model.tolerance))
    said = "Whether the answer is the same, or near enough, wherever scores lie in their bounds."
    inputs = {"scores": scores, "bounds": bounds}
    made.add(said, "settled", inputs, returned=criterion(scores, bounds))


def _add_polynomial(made: Functions, model: Any) -> str:
    """NAME_polynomial, if the model has one; and what adds it to the scores."""
    if model.tail is None:
        return ""
    x = Trace("C").input("x", model.n_features_in_)
    values = model.tail.values(x)[0]
    made.add("The model's polynomial.", "polynomial", {"x": x}, {"values": values})
    return (
        "    REAL values[NAME_OUTPUTS];\n    int k;\n    NAME_polynomial(x, values);\n"
        "    for (k = 0; k < NAME_OUTPUTS; k++)\n        scores[k] += values[k];\n"
    )
