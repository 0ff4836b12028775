"""Model files for the command line: a path comes in, a model that predicts goes out."""

from __future__ import annotations

import os

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.model import CompiledModel
from kernelite.store.files import load
from kernelite.store.model_kind import model_kind

__all__ = ["open_model"]


def open_model(path: str | os.PathLike[str], /, *, exact: bool = False) -> CompiledModel:
    """Open a `.kernelite` file, an approxsvm model or a LIBSVM model, told apart by content.

    Parameters
    ----------
    path : path-like
        Text models may be plain, gzip or bzip2.
    exact : bool
        Evaluate a LIBSVM model exactly; without it, such a model has to be compiled first.

    Returns
    -------
    CompiledModel

    Raises
    ------
    FileFormatError
        If it is no model, or damaged.
    UnsupportedModelError
        If it has to be compiled first, or `exact` is asked of a model that is compiled already.

    Examples
    --------
    >>> open_model("no/such.model", exact=True)
    Traceback (most recent call last):
    kernelite.errors.FileFormatError: no/such.model: there is no such file
    """
    name = os.fspath(path)
    if model_kind(path) == "libsvm":
        if exact:
            from kernelite.compiler import compile

            return compile(name, guarantee="exact")
        raise UnsupportedModelError(
            f"{name}: this is a LIBSVM model; compile it first (`kernelite compile`), or pass "
            "--exact to evaluate it as it is."
        )
    model = load(path)
    if exact and model.guarantee != "exact":
        raise InputError(
            f"--exact needs the LIBSVM model, but {name} is compiled (guarantee "
            f"'{model.guarantee}'); leave --exact out, or name the LIBSVM model."
        )
    return model
