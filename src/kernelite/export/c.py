"""A compiled model as one C99 header: static const arrays, no allocation, math.h alone.

In: a `CompiledModel`. Out: text that defines, for a name NAME,

    void NAME_score(const double *x, double *scores)         all models
    int NAME_index(const double *x)                          classifiers and one-class models
    LABEL NAME_label(const double *x)                        the same: NAME_labels[NAME_index(x)]
    void NAME_error_bound(const double *x, double *bounds)   with `decided`
    int NAME_decided(const double *x)                        with `decided`
    int NAME_index_decided(const double *x, int *decided)    with `decided`: both in one pass

The functions are templates in the folder `templates`; this module chooses and fills them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelite import __version__
from kernelite.errors import UnsupportedModelError
from kernelite.export.c_arrays import Writer, check_name, comment
from kernelite.export.c_constants import (
    STEPS,
    bound_constants,
    exact_text,
    form_constants,
    map_text,
    polynomial_text,
)
from kernelite.export.c_formulas import kernel_function
from kernelite.export.c_heads import CHead, Labels, c_head, label_constants
from kernelite.export.c_third import has_third, third_constants
from kernelite.export.float32 import float32_error
from kernelite.export.selection import Dtype, Part, Selection, require_kernels, select
from kernelite.model import CompiledModel
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = ["check", "to_c", "to_c_program"]

FORMS: dict[type, str] = {QuadraticForm: "quadratic", SpectralForm: "spectral"}
"""Form -> its template."""


@dataclass(frozen=True, eq=False)
class _Source:
    """All that the two texts are made from, computed once."""

    w: Writer
    selection: Selection
    head: CHead = CHead("")
    labels: Labels = Labels()
    before: tuple[Any, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether the model answers labels."""
        return self.head.labels is not None


def to_c(
    model: CompiledModel,
    /,
    *,
    name: str = "model",
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    sample: Any = None,
) -> str:
    """Write a compiled model as a C99 header.

    Parameters
    ----------
    model : CompiledModel
    name : str
        What all names in the header begin with.
    part : {"all", "approximation", "exact"}
        "all" keeps the model's guarantee, which may need its support vectors in the header.
        "approximation": the forms alone. "exact": the exact model.
    decided : bool
        With "approximation": add `NAME_decided` and `NAME_error_bound`.
    dtype : {"float64", "float32"}
        float32 proves nothing; its error is measured on `sample` and stated in the header.
    sample : array-like of shape (m, d), optional

    Returns
    -------
    str

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> header = to_c(kernelite.compile(bump, guarantee="exact"), name="bump")
    >>> "static inline void bump_score(const double *x, double *scores)" in header
    True
    """
    source = _source(model, name, part, decided, dtype)
    w, guard = source.w, f"KERNELITE_{name.upper()}_H"
    parts = [
        _opening(source, sample),
        f"#ifndef {guard}\n#define {guard}\n\n",
        w.template("fast_math.h"),
        "\n#include <math.h>\n\n",
        _sum_of_machines(source) if model.parts else _machine(source),
        *(f"\n{text}" for text in _answers(source)),
        "\n#endif\n",
    ]
    return "".join(parts)


def to_c_program(
    model: CompiledModel,
    /,
    *,
    header: str,
    name: str = "model",
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
) -> str:
    """Write the program that reads rows on stdin and answers on stdout.

    Parameters
    ----------
    model : CompiledModel
    header : str
        What the program includes: the file name of `to_c`'s text.
    name, part, decided, dtype
        As for `to_c`.

    Returns
    -------
    str

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> program = to_c_program(kernelite.compile(bump, guarantee="exact"), header="bump.h")
    >>> '#include "bump.h"' in program
    True
    """
    if not header.isprintable() or set(header) & set('"\\?'):
        raise UnsupportedModelError(f"the file name {header!r} cannot be included in C.")
    source = _source(model, name, part, decided, dtype)
    kind = ("label" if source.labelled else "values") + ("_decided" if decided else "")
    printer = source.w.template(f"print_{kind}.c").replace("FORMAT", source.labels.form)
    program = source.w.template("main.c").replace("PRINT\n", printer + "\n")
    return program.replace("HEADER", header)


def _source(model: CompiledModel, name: str, part: Part, decided: bool, dtype: Dtype) -> _Source:
    w = Writer(check_name(name), dtype)
    selection = select(model, part, decided=decided, dtype=dtype)
    head = c_head(selection.head)
    several = model.parts or model.tail is not None
    if head.family == "density" or (selection.falls_back and several):
        selection = select(model, "exact", dtype=dtype)  # such forms are not written in C
    _check_machine(selection)
    return _Source(w, selection, head, label_constants(w, head.labels))


def _sum_of_machines(source: _Source) -> str:
    """A function for each machine, and NAME_score, which adds their scores up."""
    w, whole = source.w, source.selection
    text = _sizes(source)
    adding = ""
    for i, piece in enumerate(whole.pieces):
        own = replace(w, name=f"{w.name}_{i}")
        alone = replace(
            whole,
            model=piece.model,
            pieces=(replace(piece, outputs=np.arange(len(piece.outputs))),),
        )
        before = whole.model.preparation.steps
        text += _machine(_Source(own, alone, before=before))
        text += own.array("place", piece.outputs, "int")
        adding += (
            f"    NAME_{i}_score(x, own);\n    for (k = 0; k < NAME_{i}_OUTPUTS; k++)\n"
            f"        scores[NAME_{i}_place[k]] += own[k];\n"
        )
    return (
        text
        + _answer_constants(source)
        + w.template("sum.h").replace("    ADDING\n", w.fill(adding))
    )


def _sizes(source: _Source) -> str:
    w, model = source.w, source.selection.model
    text = w.define("FEATURES", str(model.n_features_in_))
    return text + w.define("OUTPUTS", str(model.head.n_scores))


def _machine(source: _Source) -> str:
    """Constants and functions of one machine, up to NAME_score."""
    w, selection = source.w, source.selection
    model, approximation, expansion = selection.model, selection.approximation, selection.expansion
    served: Any = expansion if approximation is None else approximation.form
    text = _sizes(source) + w.define("WIDTH", str(served.n_features))
    if approximation is not None:
        text += form_constants(w, approximation)
    text += map_text(w, (*source.before, *model.preparation.steps))
    text += polynomial_text(w, model.tail)
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


def _answer_constants(source: _Source) -> str:
    """Tolerances, labels and the rules by which they are told."""
    w, tolerance = source.w, source.selection.model.tolerance
    used = tolerance is not None and _bounded(source.selection)
    text = w.array("tolerance", tolerance, "float64") if used else ""  # type: ignore[arg-type]
    if source.head.labels is not None:
        text += w.define("CLASSES", str(len(source.head.labels)))
    text += "".join(w.define(name, value) for name, value in source.head.macros)
    return text + source.labels.text


def _spaced(c_type: str) -> str:
    return c_type if c_type.endswith("*") else f"{c_type} "


def _forms(source: _Source) -> list[str]:
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
        files += ["bound.h"] if approximation.form.kernel == "rbf" else []
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


def _answers(source: _Source) -> list[str]:
    """Texts of what comes after the scores."""
    w, files = source.w, ["label.h"] if source.labelled else []
    if source.selection.decided:
        files += ["decided.h"] + (["label_decided.h"] if source.labelled else [])
    label = _spaced(source.labels.c_type)
    winner = [f"{source.head.family}.h"] if source.labelled and source.selection.model.parts else []
    return [w.template(file).replace("LABEL ", label) for file in [*winner, *files]]


def _has_second_tier(selection: Selection) -> bool:
    """Whether rows that the first bound leaves open get another try before the exact model."""
    forms = selection.approximation
    return _proves(selection) and forms is not None and has_third(forms)


def _bounded(selection: Selection) -> bool:
    return selection.decided or _proves(selection)


def _proves(selection: Selection) -> bool:
    """Whether a row's bound decides if the exact model is asked."""
    return selection.falls_back and selection.model.guarantee == "certified"


def _settled(source: _Source) -> str:
    """What the form's scores must fulfil: labels proven, values (and scores) within tolerance."""
    selection, rules = source.selection, []
    if source.labelled:
        rules.append("NAME_proven(scores, bounds)")
    if selection.model.tolerance is not None and not (source.labelled and selection.decided):
        rules.append("NAME_within(bounds)")
    return f"({' && '.join(rules)})"


def _opening(source: _Source, sample: Any) -> str:
    selection = source.selection
    model = selection.model
    lines = [f"Written by kernelite {__version__}.", model.origin.description, selection.promise]
    lines += [selection.scores] if source.labelled else []
    if model.tolerance is not None:
        lines.append("Tolerance: " + ", ".join(f"{value:.6g}" for value in model.tolerance))
    if selection.dtype == "float32":
        lines.append(f"float32 error: {float32_error(selection, sample)}")
    return comment(*lines, "", *_functions(source), "", *_features(model))


def _functions(source: _Source) -> list[str]:
    """What the header defines, as its first comment lists it."""
    w, decided = source.w, source.selection.decided
    row, label = "const REAL *x", _spaced(source.labels.c_type)
    lines = [f"void NAME_score({row}, REAL *scores)  NAME_OUTPUTS scores of a row x"]
    if source.labelled:
        lines.append(f"int NAME_index({row})  the place of the label in NAME_labels")
        lines.append(f"{label}NAME_label({row})  the label itself")
    if decided:
        lines.append(f"void NAME_error_bound({row}, REAL *bounds)  bounds on the scores' errors")
        lines.append(f"int NAME_decided({row})  1 where the answer is proven, else 0")
    if decided and source.labelled:
        lines.append(f"int NAME_index_decided({row}, int *decided)  both, in one pass")
    return ["Functions:", *(f"  {w.fill(line)}" for line in lines)]


def _features(model: CompiledModel) -> list[str]:
    """The order of a row's numbers."""
    names = model.origin.feature_names
    if names is None:
        return [f"A row x has {model.n_features_in_} numbers, in the order of the training data."]
    return ["A row x has, in this order:", *(f"  x[{i}]  {name}" for i, name in enumerate(names))]


def check(selection: Selection) -> None:
    """Refuse, by one sentence and before anything is written, what C does not say."""
    _source(selection.model, "model", "all", selection.decided, selection.dtype)


def _check_machine(selection: Selection) -> None:
    model = selection.model
    machines = [model, *(piece.model for piece in selection.pieces)]
    for preparation in (machine.preparation for machine in machines):
        unknown = [step for step in preparation.steps if type(step) not in STEPS]
        if model.tail is not None:
            unknown += preparation.before_map.steps
        if unknown:
            raise UnsupportedModelError(
                f"the step {type(unknown[0]).__name__} before this model is not written in C; "
                "ONNX graphs hold more."
            )
    if selection.decided and (model.parts or model.tail is not None):
        raise UnsupportedModelError(
            "bounds of several machines, or beside a polynomial, are not written in C; ONNX graphs hold more."
        )
    for piece in selection.pieces:
        cells = () if piece.approximation is None else piece.approximation.cells
        if len({type(cell.form) for cell in cells}) > 1:
            raise UnsupportedModelError(
                "the cells of this model hold forms of different kinds, which is not written in C; "
                "ONNX graphs hold more."
            )
    require_kernels(selection, "C", lambda one: kernel_function(Writer("model"), one))
    if model.n_features_in_ < 1:
        raise UnsupportedModelError("a model without features has no arrays to write.")
