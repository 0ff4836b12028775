"""A compiled model as one C99 header: static const arrays, no allocation, math.h alone.

In: a `CompiledModel`. Out: text that defines, for a name NAME,

    void NAME_score(const double *x, double *scores)         all models
    LABEL NAME_label(const double *x)                        classifiers and one-class models
    void NAME_error_bound(const double *x, double *bounds)   with `decided`
    int NAME_decided(const double *x)                        with `decided`

The functions are templates in the folder `templates`; this module chooses and fills them.
"""

from __future__ import annotations

from typing import Any

from kernelite import __version__
from kernelite.errors import UnsupportedModelError
from kernelite.export.c_arrays import Writer, check_name, comment
from kernelite.export.c_constants import (
    answer_constants,
    bound_constants,
    exact_constants,
    form_constants,
    map_constants,
)
from kernelite.export.c_third import has_third, third_constants
from kernelite.export.float32 import float32_error
from kernelite.export.heads import LABELLED, one_score_decides
from kernelite.export.selection import Dtype, Part, Selection, select
from kernelite.machine.heads import ArgmaxHead, ClassifierHead
from kernelite.model import CompiledModel
from kernelite.series.spectral import SpectralForm

__all__ = ["to_c", "to_c_program"]


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
    w = Writer(check_name(name), dtype)
    selection = select(model, part, decided=decided, dtype=dtype)
    _check_rules(selection)
    guard = f"KERNELITE_{name.upper()}_H"
    parts = [
        _opening(selection, sample),
        f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n\n",
        _constants(w, selection),
        *(f"\n{text}" for text in _functions(w, selection)),
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
    w = Writer(check_name(name), dtype)
    _, label, form = answer_constants(w, select(model, part, decided=decided, dtype=dtype))
    kind = ("label" if label else "values") + ("_decided" if decided else "")
    printer = w.template(f"print_{kind}.c").replace("FORMAT", form)
    return w.template("main.c").replace("PRINT\n", printer + "\n").replace("HEADER", header)


def _constants(w: Writer, selection: Selection) -> str:
    model, approximation = selection.model, selection.approximation
    text = w.define("FEATURES", str(model.n_features_in_))
    text += w.define("OUTPUTS", str(model.head.n_scores))
    if approximation is not None:
        text += form_constants(w, approximation)
    text += map_constants(w, model.input_map)
    text += answer_constants(w, selection)[0]
    if _bounded(selection):
        assert approximation is not None
        text += bound_constants(w, approximation)
        text += w.define("SETTLED(scores, bounds)", _settled(selection))
        text += third_constants(w, approximation) if _has_second_tier(selection) else ""
    elif selection.falls_back:
        text += w.define("THRESHOLD", w.literal(model.threshold or 0.0))
    if selection.expansion is not None:
        text += exact_constants(w, selection.expansion, alone=approximation is None)
    return text


def _functions(w: Writer, selection: Selection) -> list[str]:
    texts = [w.template(file) for file in _files(selection)]
    label = answer_constants(w, selection)[1]
    if label:
        spaced = label if label.endswith("*") else f"{label} "
        texts.append(w.template("label.h").replace("LABEL ", spaced))
    return texts


def _files(selection: Selection) -> list[str]:
    """Templates in the order in which they use each other."""
    model, approximation = selection.model, selection.approximation
    labelled = isinstance(selection.head, LABELLED)
    family = "argmax" if isinstance(selection.head, ArgmaxHead) else "votes"
    family = "binary" if one_score_decides(selection.head) else family
    files = ["map.h"] if model.input_map is not None else []
    files += [f"{family}.h"] if labelled else []
    if approximation is None:
        return [*files, "exact.h", "score_exact.h"]
    form = "spectral" if isinstance(approximation.form, SpectralForm) else "quadratic"
    files += ["cells.h"] if len(approximation.cells) > 1 else []
    files += [f"{form}.h"]
    if _bounded(selection):
        files += ["bound.h"] if approximation.form.kernel == "rbf" else []
        files += [f"{form}_bound.h"]
        files += [f"{family}_decided.h"] if labelled else []
        files += ["within.h"] if model.tolerance is not None else []
    if not selection.falls_back:
        return [*files, "score_form.h", *(["decided.h"] if selection.decided else [])]
    if model.guarantee == "calibrated":
        return [*files, f"{family}_margin.h", "exact.h", "score_calibrated.h"]
    if _has_second_tier(selection):
        return [*files, "third.h", "exact.h", "score_third.h"]
    return [*files, "exact.h", "score_certified.h"]


def _has_second_tier(selection: Selection) -> bool:
    """Whether rows that the first bound leaves open get another try before the exact model."""
    forms = selection.approximation
    return _proves(selection) and forms is not None and has_third(forms)


def _bounded(selection: Selection) -> bool:
    return selection.decided or _proves(selection)


def _proves(selection: Selection) -> bool:
    """Whether a row's bound decides if the exact model is asked."""
    return selection.falls_back and selection.model.guarantee == "certified"


def _settled(selection: Selection) -> str:
    """What the form's scores must fulfil: labels proven, values (and scores) within tolerance."""
    rules = []
    labelled = isinstance(selection.head, LABELLED)
    if labelled:
        rules.append("NAME_proven(scores, bounds)")
    if selection.model.tolerance is not None and not (labelled and selection.decided):
        rules.append("NAME_within(bounds)")
    return f"({' && '.join(rules)})"


def _opening(selection: Selection, sample: Any) -> str:
    model = selection.model
    lines = [f"Written by kernelite {__version__}.", model.origin.description, selection.promise]
    if model.tolerance is not None:
        lines.append("Tolerance: " + ", ".join(f"{value:.6g}" for value in model.tolerance))
    if selection.dtype == "float32":
        lines.append(f"float32 error: {float32_error(selection, sample)}")
    return comment(*lines)


def _check_rules(selection: Selection) -> None:
    head = selection.head
    if selection.model.n_features_in_ < 1:
        raise UnsupportedModelError("a model without features has no arrays to write.")
    if not isinstance(head, ClassifierHead):
        return
    if head.labels_by_probability:
        raise UnsupportedModelError("labels by probability are not written in C; export to ONNX.")
    if head.break_ties and head.n_classes > 2:
        raise UnsupportedModelError(
            "ties that are broken by summed scores (break_ties) are not written in C; export to "
            "ONNX, or fit with break_ties=False."
        )
