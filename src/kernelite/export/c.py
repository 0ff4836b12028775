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

from dataclasses import dataclass
from typing import Any

from kernelite import __version__
from kernelite.errors import UnsupportedModelError
from kernelite.export.c_arrays import Writer, check_name, comment
from kernelite.export.c_constants import (
    bound_constants,
    exact_constants,
    form_constants,
    map_constants,
)
from kernelite.export.c_heads import CHead, Labels, c_head, label_constants
from kernelite.export.c_third import has_third, third_constants
from kernelite.export.float32 import float32_error
from kernelite.export.selection import Dtype, Part, Selection, select
from kernelite.model import CompiledModel
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = ["to_c", "to_c_program"]

FORMS: dict[type, str] = {QuadraticForm: "quadratic", SpectralForm: "spectral"}
"""Form -> its template."""


@dataclass(frozen=True, eq=False)
class _Source:
    """All that the two texts are made from, computed once."""

    w: Writer
    selection: Selection
    head: CHead
    labels: Labels

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
    label = _spaced(source.labels.c_type)
    parts = [
        _opening(source, sample),
        f"#ifndef {guard}\n#define {guard}\n\n",
        w.template("fast_math.h"),
        "\n#include <math.h>\n\n",
        _constants(source),
        *(f"\n{w.template(file).replace('LABEL ', label)}" for file in _files(source)),
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
    _check_machine(selection)
    head = c_head(selection.head)
    return _Source(w, selection, head, label_constants(w, head.labels))


def _constants(source: _Source) -> str:
    w, selection = source.w, source.selection
    model, approximation = selection.model, selection.approximation
    text = w.define("FEATURES", str(model.n_features_in_))
    text += w.define("OUTPUTS", str(model.head.n_scores))
    if approximation is not None:
        text += form_constants(w, approximation)
    text += map_constants(w, model.preparation.input_map)
    text += _answer_constants(source)
    if _bounded(selection):
        assert approximation is not None
        text += bound_constants(w, approximation)
        text += w.define("SETTLED(scores, bounds)", _settled(source))
        text += third_constants(w, approximation) if _has_second_tier(selection) else ""
    elif selection.falls_back:
        text += w.define("THRESHOLD", w.literal(model.threshold or 0.0))
    if selection.expansion is not None:
        text += exact_constants(w, selection.expansion, alone=approximation is None)
    return text


def _answer_constants(source: _Source) -> str:
    """Tolerances, labels and the rules by which they are told."""
    w, tolerance = source.w, source.selection.model.tolerance
    text = "" if tolerance is None else w.array("tolerance", tolerance, "float64")
    if source.head.labels is not None:
        text += w.define("CLASSES", str(len(source.head.labels)))
    text += "".join(w.define(name, value) for name, value in source.head.macros)
    return text + source.labels.text


def _spaced(c_type: str) -> str:
    return c_type if c_type.endswith("*") else f"{c_type} "


def _files(source: _Source) -> list[str]:
    """Templates in the order in which they use each other."""
    selection, family = source.selection, source.head.family
    model, approximation = selection.model, selection.approximation
    files = ["map.h"] if model.preparation.input_map is not None else []
    files += [f"{family}.h"] if source.labelled else []
    answers = ["label.h"] if source.labelled else []
    if approximation is None:
        return [*files, "exact.h", "score_exact.h", *answers]
    form = FORMS[type(approximation.form)]
    files += ["cells.h"] if len(approximation.cells) > 1 else []
    files += [f"{form}.h"]
    if _bounded(selection):
        files += ["bound.h"] if approximation.form.kernel == "rbf" else []
        files += [f"{form}_bound.h"]
        files += [f"{family}_decided.h"] if source.labelled else []
        files += ["within.h"] if model.tolerance is not None else []
    if selection.decided:
        answers += ["decided.h"] + (["label_decided.h"] if source.labelled else [])
    if not selection.falls_back:
        return [*files, "score_form.h", *answers]
    if model.guarantee == "calibrated":
        return [*files, f"{family}_margin.h", "exact.h", "score_calibrated.h", *answers]
    if _has_second_tier(selection):
        return [*files, "third.h", "exact.h", "score_third.h", *answers]
    return [*files, "exact.h", "score_certified.h", *answers]


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


def _check_machine(selection: Selection) -> None:
    model = selection.model
    if model.parts:
        raise UnsupportedModelError(
            f"this model is made of {len(model.parts)} machines that do not share a kernel, which "
            "are not written in C; export it to ONNX."
        )
    if model.tail is not None:
        raise UnsupportedModelError(
            "this model adds a polynomial of the rows to its kernels, which is not written in C; "
            "export it to ONNX."
        )
    if model.preparation.before_map.steps:
        raise UnsupportedModelError(
            "this model selects features of a row, which is not written in C; export it to ONNX."
        )
    if model.n_features_in_ < 1:
        raise UnsupportedModelError("a model without features has no arrays to write.")
