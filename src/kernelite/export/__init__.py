"""Compiled models for other runtimes: ONNX graphs and C99 headers.

The package is a function too: `kernelite.export(model, "model.onnx")` writes a file. Names of one
target are loaded on first use, so that neither target needs the other's libraries.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernelite.errors import InputError, KerneliteError
from kernelite.export.selection import Dtype, Part, select
from kernelite.model import CompiledModel, require_compiled
from kernelite.support.files import atomic_write

if TYPE_CHECKING:
    from kernelite.export.c import to_c, to_c_program
    from kernelite.export.onnx import to_onnx

__all__ = ["export", "to_c", "to_c_program", "to_onnx"]

TARGETS = {".onnx": "ONNX graph", ".h": "C99 header"}


def export(
    model: CompiledModel,
    path: str | os.PathLike[str],
    /,
    *,
    part: Part = "all",
    decided: bool = False,
    dtype: Dtype = "float64",
    probabilities: bool | None = None,
    name: str | None = None,
    main: bool = False,
    sample: Any = None,
) -> list[str]:
    """Write a compiled model for another runtime.

    Parameters
    ----------
    model : CompiledModel
    path : path-like
        Ends in `.onnx` or `.h`.
    part, decided, dtype, sample
        As for `kernelite.export.to_onnx` and `kernelite.export.to_c`.
    probabilities : bool, optional
        ONNX only: insist on class probabilities, or leave them out.
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
    if suffix not in TARGETS:
        known = " or ".join(f"`{ending}` ({what})" for ending, what in TARGETS.items())
        raise InputError(f"the name of an export must end in {known}, got `{file}`.")
    options: dict[str, Any] = {"part": part, "decided": decided, "dtype": dtype}
    if suffix == ".onnx":
        if name is not None or main:
            raise InputError("`name` and `main` are for C headers, not for ONNX.")
        return _write_onnx(model, file, probabilities=probabilities, sample=sample, **options)
    if probabilities:
        raise InputError("probabilities are not written in C; export to ONNX.")
    return _write_c(model, file, name or _identifier(stem), main, sample, options)


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
    from kernelite.export import c, onnx

    found = {}
    for target, check in {"ONNX": onnx.check, "C": c.check}.items():
        try:
            check(select(model))
        except (KerneliteError, ArithmeticError, TypeError, ValueError) as error:
            # Also what no check foresees: exporting would fail, compiling must not.
            found[target] = str(error).rstrip(".")
    return found


def export_names(file: str, *, main: bool) -> list[str]:
    """The files that `export` writes.

    Examples
    --------
    >>> export_names("svm.h", main=True)
    ['svm.h', 'svm.c']
    """
    return [file, f"{os.path.splitext(file)[0]}.c"] if main else [file]


def _write_onnx(model: CompiledModel, file: str, **options: Any) -> list[str]:
    from kernelite.export.onnx import to_onnx

    graph = to_onnx(model, **options)
    with atomic_write(file, "wb") as stream:
        stream.write(graph.SerializeToString())
    return [file]


def _write_c(
    model: CompiledModel, file: str, name: str, main: bool, sample: Any, options: dict[str, Any]
) -> list[str]:
    from kernelite.export.c import to_c, to_c_program

    texts = [to_c(model, name=name, sample=sample, **options)]
    if main:
        texts.append(to_c_program(model, header=os.path.basename(file), name=name, **options))
    targets = export_names(file, main=main)
    for target, text in zip(targets, texts):
        with atomic_write(target) as stream:
            stream.write(text)
    return targets


def _identifier(stem: str) -> str:
    """A C identifier from a file's name."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", os.path.basename(stem))[:30]
    return plain if re.match(r"[A-Za-z]", plain) else f"m{plain}"


# The package as a function, and the names of its targets.


_HOMES = {"to_c": "c", "to_c_program": "c", "to_onnx": "onnx"}


class _ExportPackage(ModuleType):
    """This package, which can be called."""

    __call__ = staticmethod(export)
    __signature__ = inspect.signature(export)  # otherwise the first argument is taken for `self`


sys.modules[__name__].__class__ = _ExportPackage


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelite.export' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kernelite.export.{_HOMES[name]}"), name)
