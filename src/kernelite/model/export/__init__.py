"""Compiled models for other runtimes: `kernelite.export(model, "model.onnx")` writes a file.

A target is imported when it is asked for, so that none needs another's libraries.
"""

from __future__ import annotations

import os
import re
from typing import Any

from kernelite.data.rows.inputs import RowsLike
from kernelite.model import CompiledModel, require_compiled
from kernelite.model.export.selection import Dtype, Part, select
from kernelite.support.errors import InputError, KerneliteError
from kernelite.support.files import atomic_write

__all__ = ["export", "export_names", "refusals"]

TARGETS = {".onnx": "ONNX graph", ".h": "C99 header", ".js": "JavaScript module"}
OTHER_ENDINGS = {".mjs": ".js"}  # other endings of the same


def export(
    model: CompiledModel,
    path: str | os.PathLike[str],
    /,
    *,
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    std: bool = False,
    inputs: Dtype | None = None,
    name: str | None = None,
    main: bool = False,
    sample: RowsLike | None = None,
) -> list[str]:
    """Write a compiled model for another runtime.

    Parameters
    ----------
    model : CompiledModel
    path : path-like
        Ends in `.onnx`, `.h`, `.js` or `.mjs`.
    part, decided, dtype, sample
        As for `to_onnx`, `to_c` and `to_javascript` in `kernelite.backends`.
    probabilities : bool, optional
        Insist on class probabilities, or leave them out; by default they are written where they
        are a plain formula of the scores.
    std : bool
        Of a Gaussian process: also write standard deviations.
    inputs : {"float64", "float32"}, optional
        ONNX only: the type of the numbers that come in, by default `dtype`.
    name : str, optional
        C only: what the header's names begin with; the file's own name by default.
    main : bool
        C only: also write a program, `.c` beside the header, that reads rows on stdin.

    Returns
    -------
    list of str
        The files that were written, each whole or not at all.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> model = kernelite.compile(bump, guarantee="exact")
    >>> with TemporaryDirectory() as folder:
    ...     written = export(model, os.path.join(folder, "bump.h"), main=True)
    >>> [os.path.basename(file) for file in written]
    ['bump.h', 'bump.c']
    """
    if isinstance(path, CompiledModel) and not isinstance(model, CompiledModel):
        raise InputError("the model comes first: `kl.export(model, path)`.")
    require_compiled(model)
    file = os.fspath(path)
    stem, suffix = os.path.splitext(file)
    suffix = OTHER_ENDINGS.get(suffix, suffix)
    if suffix not in TARGETS:
        known = " or ".join(f"`{ending}` ({what})" for ending, what in TARGETS.items())
        raise InputError(f"the name of an export must end in {known}, got `{file}`.")
    if suffix != ".h" and (name is not None or main):
        raise InputError("`name` and `main` are for C headers alone.")
    if suffix != ".onnx" and inputs is not None:
        raise InputError("`inputs` is for ONNX graphs, whose inputs have a type.")
    options: dict[str, Any] = {"part": part, "decided": decided}
    options |= {"probabilities": probabilities, "std": std}
    files: dict[str, str | bytes]
    if suffix == ".js":
        if dtype != "float64":
            raise InputError("JavaScript has doubles alone: `dtype` must be 'float64'.")
        from kernelite.backends.javascript import to_javascript

        files = {file: to_javascript(model, **options)}
    elif suffix == ".onnx":
        from kernelite.backends.onnx import to_onnx

        graph = to_onnx(model, dtype=dtype, sample=sample, inputs=inputs, **options)
        files = {file: graph.SerializeToString()}
    else:
        from kernelite.backends.c import to_c, to_c_program

        name = name or _identifier(stem)
        files = {file: to_c(model, name=name, dtype=dtype, sample=sample, **options)}
        if main:
            same: dict[str, Any] = {"name": name, "part": part, "decided": decided, "dtype": dtype}
            program = export_names(file, main=True)[1]
            files[program] = to_c_program(model, header=os.path.basename(file), **same)
    for target, content in files.items():
        with atomic_write(target, "wb" if isinstance(content, bytes) else "w") as stream:
            stream.write(content)
    return list(files)


def refusals(model: CompiledModel) -> dict[str, str]:
    """Why a model cannot be exported, for each target that refuses it.

    Nothing is built, and no library of a target is needed: about a millisecond.

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> refusals(kernelite.compile(bump, guarantee="exact"))
    {}
    """
    from kernelite.backends.c import check as check_c
    from kernelite.backends.javascript import check as check_javascript
    from kernelite.model.export.answers import check as check_onnx

    found = {}
    checks = {"ONNX": check_onnx, "C": check_c, "JavaScript": check_javascript}
    for target, check in checks.items():
        try:
            check(select(model))
        except KerneliteError as error:
            found[target] = str(error).rstrip(".")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # What no check foresees: exporting would fail, compiling must not.
            found[target] = f"its formulas are not written there ({error})"
    return found


def export_names(file: str, *, main: bool) -> list[str]:
    """The files that `export` writes.

    Examples
    --------
    >>> export_names("svm.h", main=True)
    ['svm.h', 'svm.c']
    """
    return [file, f"{os.path.splitext(file)[0]}.c"] if main else [file]


def _identifier(stem: str) -> str:
    """A C identifier from a file's name."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", os.path.basename(stem))[:30]
    return plain if re.match(r"[A-Za-z]", plain) else f"m{plain}"
