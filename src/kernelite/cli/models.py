"""Model files as a command line meets them: compiled, fitted (LIBSVM), or pickled."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from kernelite.cli.arguments import COLUMNAR, column_reading, data_options
from kernelite.model import CompiledModel
from kernelite.store.files import loads, model_kind
from kernelite.support.errors import (
    FileFormatError,
    InputError,
    KerneliteError,
    require_scikit_learn,
)
from kernelite.support.files import check_apart, open_binary

__all__ = [
    "check_order",
    "check_output",
    "fitted_model",
    "is_pickle",
    "original_model",
    "predictor",
    "read_sample",
]

_PICKLED = (".pkl", ".pickle", ".joblib")


def check_output(output: str, *inputs: str | None) -> None:
    """Refuse to write over a file that is read.

    Parameters
    ----------
    output : str
    *inputs : str or None
    """
    if os.path.isfile(output):  # devices and pipes may well be both ends
        check_apart(output, *filter(None, inputs))


@contextmanager
def check_order(
    data: str, model: str, *, order: str = "the data come first, then the model"
) -> Iterator[None]:
    """Say it in one sentence if a model cannot be read because it stands where the data should."""
    try:
        yield
    except KerneliteError:
        if _is_model(data) and os.path.exists(model) and not _is_model(model):
            raise InputError(f"`{data}` is a model and `{model}` is not: {order}.") from None
        raise


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
    found = _compiled(path)  # which is by far the most common
    if found is not None and (not exact or found.guarantee == "exact"):
        return found
    from kernelite.model.compiler import open_model  # it takes a while

    if not is_pickle(path):
        return open_model(path, exact=exact)
    if not exact:
        raise InputError(
            f"`{path}` is a pickle, not a compiled model: compile it first with `kernelite "
            "compile --allow-pickle`, or predict with `--exact --allow-pickle`."
        )
    from kernelite.model.compiler import compile

    return compile(fitted_model(path, allow_pickle=allow_pickle), guarantee="exact")


def _compiled(path: str) -> CompiledModel | None:
    """The model of a `.kernelite` file, which is opened once; None for any other file."""
    if not os.path.isfile(path):
        return None
    with open_binary(path) as file:
        if file.peek(9)[5:9] != b"\0\0\0{":
            return None
        return loads(file.read(), name=path)


def read_sample(args: argparse.Namespace, path: str, model: Any) -> Any:
    """Rows of a data file that a model takes, all in memory: an array, or a frame with text.

    Parameters
    ----------
    args : Namespace
        With the options of `add_data_options`, and `columns` if the verb has them.
    path : str
        A file, "-" for standard input, or a folder of columnar files.
    model : CompiledModel, or anything with its `n_features_in_`, `origin`, `head` and `preparation`
    """
    columns = getattr(args, "columns", None)
    if not _has_columns(args, path, columns):
        from kernelite.data.scoring.streams import fitted_rows
        from kernelite.data.tables.data import read_data

        data = read_data(path, **{"labels": "ignore"} | data_options(args))
        return fitted_rows(model, data)[0]
    from kernelite.data.scoring.streams import Wanted, read_rows

    wanted = Wanted(columns, **column_reading(args))
    return read_rows(model, path, wanted, format=args.data_format)


def _has_columns(args: argparse.Namespace, path: str, columns: Any) -> bool:
    """By the format or the name; without pyarrow, CSV is a plain table of numbers."""
    from kernelite.data.tables.columnar.reading import format_of

    if args.data_format is not None:
        columnar = args.data_format in COLUMNAR
    else:
        format = format_of(path)
        plain = columns is None and find_spec("pyarrow") is None
        columnar = os.path.isdir(path) or format in ("parquet", "arrow")
        columnar = columnar or (format == "csv" and not plain)
    if columns is not None and not columnar:
        args.usage_error(f"argument --columns: `{path}` must be Parquet, Arrow, Feather or CSV")
    return columnar


def original_model(path: str, *, allow_pickle: bool = False) -> Any:
    """The model that was compiled, to be asked itself.

    Parameters
    ----------
    path : str
        A LIBSVM model, which is summed up by its definition, in NumPy; or a pickle.
    allow_pickle : bool

    Returns
    -------
    estimator or callable
    """
    found = fitted_model(path, allow_pickle=allow_pickle)
    if not isinstance(found, str):
        return found
    from kernelite.sources import read

    source = read(found)

    def libsvm_model(rows: Any) -> Any:
        return source.head.predict(source.expansion.scores(rows))

    libsvm_model.__name__ = "LIBSVM model"
    return libsvm_model


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
    >>> is_pickle("no/such.joblib")
    False
    """
    if not os.path.isfile(path):
        return False
    if path.lower().endswith(_PICKLED):
        return True
    with open_binary(path) as file:
        start = file.read(2)
    return len(start) == 2 and start[0] == 0x80 and start[1] <= 5


def _unpickled(path: str) -> Any:
    require_scikit_learn("reading a pickle needs")
    import joblib

    open_binary(path).close()  # says in one sentence why it cannot be read
    try:
        return joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise FileFormatError(path, f"cannot be unpickled ({reason})") from None
