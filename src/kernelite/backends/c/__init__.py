"""A compiled model as one C99 header: static const arrays, no allocation, math.h alone.

In: a `CompiledModel`. Out: text that defines, for a name NAME,

    void NAME_score(const double *x, double *scores)         all models but densities
    void NAME_value(const double *x, double *values)         regressors, transforms, densities
    int NAME_index(const double *x)                          classifiers and one-class models
    LABEL NAME_label(const double *x)                        the same: NAME_labels[NAME_index(x)]
    void NAME_probability(const double *x, double *p)        classes of a model that has them
    void NAME_deviation(const double *x, double *s)          with `std`, of a Gaussian process
    void NAME_score_bound(const double *x, double *bounds)   with `decided`
    int NAME_decided(const double *x)                        with `decided`
    int NAME_index_decided(const double *x, int *decided)    with `decided`: both in one pass

What a row goes through is written from the definitions, in `machine`; the functions above are
templates.
"""

from __future__ import annotations

from typing import Any

from kernelite import __version__
from kernelite.backends.c.formulas import CLanguage, Writer, check_name, comment
from kernelite.backends.c.machine import (
    LabelTable,
    Source,
    answer,
    label_constants,
    label_rule,
    machine_text,
    moments,
    sum_text,
)
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.model import CompiledModel
from kernelite.model.export.emitting import Constants, function_body
from kernelite.model.export.exact import kernel_values, prepared
from kernelite.model.export.float32 import float32_error
from kernelite.model.export.selection import (
    Dtype,
    ExportSelection,
    Part,
    check_size,
    needs_variances,
    plain_reach,
    require_deviations,
    require_kernels,
    require_label_variances,
    select,
    text_columns,
    with_probabilities,
)
from kernelite.model.export.tracing import Trace
from kernelite.support.errors import UnsupportedModelError

__all__ = ["to_c", "to_c_program"]


def to_c(
    model: CompiledModel,
    /,
    *,
    name: str = "model",
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    std: bool = False,
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
        With "approximation": add `NAME_decided` and `NAME_score_bound`.
    dtype : {"float64", "float32"}
        float32 proves nothing; its error is measured on `sample` and stated in the header.
    probabilities : bool, optional
        Whether to add `NAME_probability`; by default where probabilities are a plain formula. They
        are those of the exact model, if that is in the header.
    std : bool
        Of a Gaussian process: add `NAME_deviation`, the standard deviations of its values.
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
    source = _source(model, name, part, decided, dtype, probabilities=probabilities, std=std)
    w, guard = source.w, f"KERNELITE_{name.upper()}_H"
    parts = [
        _opening(source, sample),
        f"#ifndef {guard}\n#define {guard}\n\n",
        w.template("fast_math.h"),
        "\n#include <math.h>\n\n",
        sum_text(source) if model.parts else machine_text(source),
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


def _source(
    model: CompiledModel,
    name: str,
    part: Part,
    decided: bool,
    dtype: Dtype,
    *,
    probabilities: bool | None = None,
    std: bool = False,
) -> Source:
    w = Writer(check_name(name), dtype)
    texts = [place for place, text in text_columns(model).items() if text]
    if texts:
        names = model.origin.feature_names
        called = texts[0] if names is None else f"`{names[texts[0]]}`"
        raise UnsupportedModelError(
            f"column {called} of this model holds texts, and a row is an array of numbers in C; "
            "export to ONNX or JavaScript, or encode it before and fit the rest."
        )
    selection = select(model, part, decided=decided, dtype=dtype)
    if part == "all" and needs_variances(selection.head):
        selection = select(model, "exact", dtype=dtype)
    require_label_variances(selection)
    if std:
        require_deviations(selection)
    rule = label_rule(selection.head)
    machines = [model, *(piece.model for piece in selection.pieces)]
    steps = [step for one in machines for step in one.preparation.steps]
    careful = any(plain_reach(step) is not None for step in steps)
    several = careful or model.parts or model.tail is not None
    density = selection.head.kind == "density"
    if decided and (several or density):
        raise UnsupportedModelError(
            "bounds of densities, of several machines, behind projections or beside a polynomial "
            "are not written in C; ONNX graphs hold more."
        )
    if density and part == "approximation":
        raise UnsupportedModelError(
            "the form of a density is not written in C; export the exact model, or to ONNX."
        )
    if density or (selection.falls_back and several):
        selection = select(model, "exact", dtype=dtype)  # such forms are not written in C
    likely = with_probabilities(selection, probabilities, lambda: _unwritten(selection.head))
    methods = {"predict", "predict_proba"} if likely else {"predict"}
    check_size(selection, "C", spreads=std or bool(methods & selection.head.needs_posterior))
    _check_machine(selection)
    return Source(
        w,
        selection,
        LabelTable() if rule is None else label_constants(w, rule[0]),
        probabilities=likely,
        std=std,
    )


def _unwritten(head: Head) -> str | None:
    """Why probabilities are not written; None where they are."""
    try:
        answer(head, "predict_proba", moments(head, "predict_proba", Trace("C")))
    except UnsupportedModelError as error:
        return str(error).rstrip(".")
    return None


def _spaced(c_type: str) -> str:
    return c_type if c_type.endswith("*") else f"{c_type} "


def _answers(source: Source) -> list[str]:
    """Texts of what comes after the scores."""
    w, selection = source.w, source.selection
    files = ["label.h" if source.labelled else "value.h"]
    if selection.decided:
        files += ["decided.h"] + (["label_decided.h"] if source.labelled else [])
    files += ["probability.h"] if source.probabilities else []
    files += ["deviation.h"] if source.std else []
    label = _spaced(source.labels.c_type)
    texts = {file: w.template(file).replace("LABEL ", label) for file in files}
    if selection.head.kind == "density":
        old, new = f"{w.name}_score(", f"{w.name}_logarithm("
        texts["value.h"] = texts["value.h"].replace(old, new)
    for file, method in (("label.h", "predict"), ("probability.h", "predict_proba")):
        if file in texts and method in selection.head.needs_posterior:
            more = {
                "    REAL scores": "    REAL variances[NAME_VARIANCES];\n    REAL scores",
                "    NAME_score(x, scores);\n": "    NAME_score(x, scores);\n"
                "    NAME_variance(x, variances);\n",
                "(scores": "(scores, variances",
            }
            for old, new in more.items():
                texts[file] = texts[file].replace(w.fill(old), w.fill(new))
    if selection.falls_back and source.probabilities:  # scores may tell labels alone
        exact = f"    {w.name}_ROW(x);\n    {w.name}_exact(row, scores);\n"
        texts["probability.h"] = texts["probability.h"].replace(
            f"    {w.name}_score(x, scores);\n", exact
        )
    return list(texts.values())


def _opening(source: Source, sample: Any) -> str:
    selection = source.selection
    model = selection.model
    lines = [f"Written by kernelite {__version__}.", model.origin.description, selection.promise]
    lines += [selection.scores] if source.labelled else []
    if model.tolerance is not None:
        lines.append("Tolerance: " + ", ".join(f"{value:.6g}" for value in model.tolerance))
    if selection.dtype == "float32":
        lines.append(f"float32 error: {float32_error(selection, sample)}")
    return comment(*lines, "", *_functions(source), "", *_features(model))


def _functions(source: Source) -> list[str]:
    """What the header defines, as its first comment lists it."""
    w, decided = source.w, source.selection.decided
    row, label = "const REAL *x", _spaced(source.labels.c_type)
    lines = [f"void NAME_score({row}, REAL *scores)  NAME_OUTPUTS raw sums of a row x"]
    if source.labelled:
        lines.append("  as scores(X) in Python; one-vs-one has one for each pair of classes")
    if source.selection.head.kind == "density":
        lines = []  # its sums are taken in logarithms
    if source.labelled:
        lines.append(f"int NAME_index({row})  the place of the label in NAME_labels")
        lines.append(f"{label}NAME_label({row})  the label itself")
    else:
        lines.append(f"void NAME_value({row}, REAL *values)  NAME_VALUES values, as predicted")
    if source.probabilities:
        lines.append(
            f"void NAME_probability({row}, REAL *probabilities)  NAME_PROBABILITIES of them, in "
            "the order of the labels"
        )
    if source.std:
        lines.append(f"void NAME_deviation({row}, REAL *deviations)  NAME_DEVIATIONS of them")
    if decided:
        lines.append(f"void NAME_score_bound({row}, REAL *bounds)  bounds on the scores' errors")
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


def check(selection: ExportSelection) -> None:
    """Refuse, by one sentence and before anything is written, what C does not say."""
    _source(selection.model, "model", "all", selection.decided, selection.dtype)


def _check_machine(selection: ExportSelection) -> None:
    def tried(expansion: KernelExpansion) -> None:
        x = Trace("C").input("x", expansion.n_features)
        made = Constants(CLanguage(), "c")
        function_body(made, [(kernel_values(expansion, x), "values")])

    require_kernels(selection, "C", tried)
    model = selection.model
    if model.n_features_in_ > 0:
        X = prepared(model, Trace("C").input("x", model.n_features_in_))
        for piece in selection.pieces if model.parts else ():
            prepared(piece.model, X)
    if selection.model.n_features_in_ < 1:
        raise UnsupportedModelError("a model without features has no arrays to write.")
