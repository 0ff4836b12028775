"""Model files as a command line meets them: compiled, fitted (LIBSVM), or pickled."""

from __future__ import annotations

import os
from typing import Any

from kernelite.compiler.model_files import open_model
from kernelite.errors import FileFormatError, InputError
from kernelite.model import CompiledModel
from kernelite.store.model_kind import model_kind
from kernelite.support.files import open_binary

__all__ = ["check_order", "check_output", "fitted_model", "is_pickle", "predictor"]

_PICKLED = (".pkl", ".pickle", ".joblib")


def check_output(output: str, *inputs: str | None) -> None:
    """Refuse to write over a file that is read.

    Parameters
    ----------
    output : str
    *inputs : str or None
    """
    if not os.path.isfile(output):  # devices and pipes may well be both ends
        return
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.samefile(output, path):
            raise InputError(f"`{output}` is read too, so it cannot be written; name another.")


def check_order(data: str, model: str) -> None:
    """Say it in one sentence if DATA and MODEL were swapped, as far as their starts tell."""
    if _is_model(data) and os.path.exists(model) and not _is_model(model):
        raise InputError(
            f"`{data}` is a model and `{model}` is not: the data come first, then the model."
        )


def _is_model(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        return is_pickle(path) or bool(model_kind(path))
    except FileFormatError:
        return False


def predictor(path: str, *, exact: bool = False, allow_pickle: bool = False) -> CompiledModel:
    """A model that predicts.

    Parameters
    ----------
    path : str
        A compiled model; with `exact`, a fitted one.
    exact : bool
        Run the fitted model as it is, on kernelite's exact engine.
    allow_pickle : bool
        Unpickle a scikit-learn model, which runs the code it holds.

    Returns
    -------
    CompiledModel
    """
    if not is_pickle(path):
        return open_model(path, exact=exact)
    if not exact:
        raise InputError(
            f"`{path}` is a pickle, not a compiled model: compile it first with `kernelite "
            "compile --allow-pickle`, or predict with `--exact --allow-pickle`."
        )
    from kernelite.compiler import compile

    return compile(fitted_model(path, allow_pickle=allow_pickle), guarantee="exact")


def fitted_model(path: str, *, allow_pickle: bool = False) -> Any:
    """What `kernelite.compile` takes: the path of a LIBSVM model, or an unpickled estimator.

    Parameters
    ----------
    path : str
    allow_pickle : bool

    Returns
    -------
    str or estimator
    """
    if is_pickle(path):
        if not allow_pickle:
            raise InputError(
                f"`{path}` is a pickle, and unpickling runs any code that the file holds; if you "
                "trust where it comes from, pass `--allow-pickle`."
            )
        return _unpickled(path)
    kind = model_kind(path)
    if kind != "libsvm":
        raise InputError(
            f"`{path}` is compiled already ({kind} format); expected a fitted model: LIBSVM text, "
            "or with `--allow-pickle` a scikit-learn pickle."
        )
    return path


def is_pickle(path: str) -> bool:
    """Whether a file is a pickle, by its name or its first bytes.

    Examples
    --------
    >>> is_pickle("model.joblib")
    True
    """
    if path.lower().endswith(_PICKLED):
        return True
    if not os.path.isfile(path):
        return False
    with open_binary(path) as file:
        start = file.read(2)
    return len(start) == 2 and start[0] == 0x80 and start[1] <= 5


def _unpickled(path: str) -> Any:
    import joblib

    open_binary(path).close()  # says in one sentence why it cannot be read
    try:
        return joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise FileFormatError(path, f"cannot be unpickled ({reason})") from None
