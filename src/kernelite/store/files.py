"""The `.kernelite` store: a compiled model as one safetensors file, never pickle.

The file's `__metadata__` has one key, "kernelite" (one, because safetensors keeps no order), whose
value is JSON: {"format": "kernelite", "version": 4, "digest": "...", "model": {...}}. What stands
under "model", and the names of the tensors: `kernelite.store.packing`; the digest is of both:
`kernelite.store.document`. The same model always gives the same bytes.

To bump the format, when a stored class changes its fields or the tree its shape: raise
`document.VERSION`, and add to `UPGRADES` a function from the old version's (tree, tensors) to the
new version's. Files of older versions are upgraded step by step on load; files of newer ones are
refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from itertools import islice
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import Defect, quote
from kernelite.model import CompiledModel, require_compiled
from kernelite.model.checks import disagreements
from kernelite.program.criteria import decision_criterion, label_criterion
from kernelite.store.document import KEY, VERSION, check_digest, read_document, written_document
from kernelite.store.packing import Tensors, Tree, pack, unpack
from kernelite.support.errors import (
    FileFormatError,
    InputError,
    KerneliteError,
    UnsupportedModelError,
)
from kernelite.support.files import STANDARD_INPUT, atomic_write, open_binary

__all__ = [
    "VERSION",
    "dumps",
    "load",
    "loads",
    "model_kind",
    "save",
    "stored_digest",
]


def _one_form(tree: Tree, tensors: Tensors) -> tuple[Tree, Tensors]:
    """Version 4 has one form about one point where version 3 had a list of cells."""

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if node.get("class") == "Approximation":
            cells = node.get("cells")
            if not isinstance(cells, list) or len(cells) != 1 or not isinstance(cells[0], dict):
                raise InputError(f"it holds forms about several points, {GONE}")
            node = {**cells[0], "class": "Approximation"}
        if isinstance(name := node.get("tensor"), str):
            return {**node, "tensor": name.replace(CELL, FORM)}
        return {name: walk(item) for name, item in node.items()}

    return walk(tree), {name.replace(CELL, FORM): array for name, array in tensors.items()}


CELL, FORM = "approximation.cells.0.", "approximation."
GONE = "which this version does not have; compile the model again"
UPGRADES: dict[int, Callable[[Tree, Tensors], tuple[Tree, Tensors]]] = {3: _one_form}

STORED_DTYPES = {
    "BOOL": "?",
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"I{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
}
SHOWN_CHARACTERS = 400  # characters of a message; names in it come from the file


def save(model: CompiledModel, path: str | os.PathLike[str], /) -> None:
    """Write a model to a file, whole or not at all.

    Parameters
    ----------
    model : CompiledModel
    path : path-like
        By custom it ends in `.kernelite`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> X, y = load_iris(return_X_y=True)
    >>> fast = kernelite.compile(SVC(gamma=0.01).fit(X, y), X, guarantee="none")
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "iris.kernelite")
    ...     save(fast, name)
    ...     load(name).predict(X[:3])
    array([0, 0, 0])
    """
    data = dumps(model)
    with atomic_write(path, "wb") as file:
        file.write(data)


def load(path: str | os.PathLike[str], /) -> CompiledModel:
    """Read a compiled model: a `.kernelite` file, or approxsvm's text; told apart by content.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    CompiledModel

    Raises
    ------
    FileFormatError
        If it is neither, or damaged.
    UnsupportedModelError
        If it is a model that has not been compiled.

    Examples
    --------
    >>> load("no/such.kernelite")
    Traceback (most recent call last):
    kernelite.FileFormatError: no/such.kernelite: there is no such file
    """
    kind = model_kind(path)
    if kind == "libsvm":
        raise UnsupportedModelError(
            f"{os.fspath(path)}: this is a LIBSVM model, which has to be compiled first: "
            "`kernelite compile` does so, or kernelite.compile(path)."
        )
    if kind == "approxsvm":
        from kernelite.store import approxsvm

        return approxsvm.read(path)
    with open_binary(path) as file:
        data = file.read()
    return loads(data, name=path)


def stored_digest(path: str | os.PathLike[str], /) -> tuple[int, str]:
    """The format version and the digest in a `.kernelite` file, of which `load` says if they fit.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    version : int
    digest : str

    Raises
    ------
    FileFormatError
        If it is another file.

    Examples
    --------
    >>> stored_digest("no/such.kernelite")
    Traceback (most recent call last):
    kernelite.FileFormatError: no/such.kernelite: there is no such file
    """
    if model_kind(path) != "kernelite":
        raise FileFormatError(path, "this is no .kernelite file, so it holds no digest")
    with open_binary(path) as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    try:
        document = read_document(json.loads(data[8 : 8 + length]))
    except (KerneliteError, RecursionError, ValueError) as error:
        raise FileFormatError(path, f"its metadata cannot be read ({error})") from None
    return document["version"], document["digest"]


def dumps(model: CompiledModel, /) -> bytes:
    """A model as the bytes of a `.kernelite` file, the same bytes every time.

    Parameters
    ----------
    model : CompiledModel

    Returns
    -------
    bytes

    Raises
    ------
    InputError
        If it holds something that files cannot.

    Examples
    --------
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> import kernelite
    >>> bump = KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> model = kernelite.compile(bump, guarantee="exact")
    >>> loads(dumps(model)).predict([[0.0]])
    array([2.5])
    """
    from safetensors.numpy import save as serialize

    require_compiled(model)
    tree, tensors = pack(model)
    return serialize(tensors, metadata={KEY: written_document(tree, tensors)})


def loads(data: bytes, /, *, name: str | os.PathLike[str] = "bytes") -> CompiledModel:
    """Build a model from the bytes of a `.kernelite` file.

    Parameters
    ----------
    data : bytes
    name : path-like
        What errors call it.

    Returns
    -------
    CompiledModel

    Raises
    ------
    FileFormatError
        If anything about them is wrong, in one sentence.

    Examples
    --------
    >>> loads(b"junk")
    Traceback (most recent call last):
    kernelite.FileFormatError: bytes: this is not a kernelite model, or ...
    """

    def refuse(problem: str) -> NoReturn:
        shown = "".join(c if c.isprintable() else "?" for c in problem[:SHOWN_CHARACTERS])
        raise FileFormatError(name, shown.rstrip("."))

    try:
        tensors, header = _container(data)
        document = read_document(header)
        check_digest(document, tensors)
        tree, tensors = _current(document, tensors)
        model = unpack(tree, tensors)
    except KerneliteError as error:
        refuse(str(error))
    except RecursionError:
        refuse("its metadata are nested too deeply")
    if not isinstance(model, CompiledModel):
        refuse("it holds something other than a compiled model")
    try:
        _try_out(model)
        problem = next(disagreements(model), None)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        refuse(f"its parts do not fit together ({error})")
    if problem is not None:
        refuse(f"{problem}; it was changed after it was made")
    return model


def _try_out(model: CompiledModel) -> None:
    """One row of scores through the head: numbers of classes, machines and outputs must agree."""
    head: Any = model.head
    scores = np.zeros((1, head.n_scores))
    methods = {
        "predict": ("predict", label_criterion(head, model.tolerance)),
        "decision_function": ("decision", decision_criterion(head, model.tolerance)),
        "predict_proba": ("probabilities", None),
    }
    with np.errstate(all="ignore"):
        for offer, (name, criterion) in methods.items():
            if offer in model.offers and offer not in head.needs_posterior:
                getattr(head, name)(scores)
                if criterion is not None:
                    criterion(scores, np.ones_like(scores))
    for part in model.parts:
        _try_out(part.model)


def _container(data: bytes) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and the header of a safetensors file; its offsets are checked by the library."""
    import safetensors

    library: Any = safetensors  # it has no annotations
    try:
        parts = library.deserialize(data)
    except library.SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing: ")
        raise InputError(f"this is not a kernelite model, or it is damaged ({reason})") from None
    tensors = {key: _array(part, key) for key, part in parts}
    length = int.from_bytes(data[:8], "little")
    return tensors, json.loads(data[8 : 8 + length])


def _array(part: dict[str, Any], key: str) -> NDArray[Any]:
    dtype = STORED_DTYPES.get(part["dtype"])
    if dtype is None:
        raise InputError(f"the tensor `{key}` has the unknown type {part['dtype']}")
    if dtype == "?" and np.frombuffer(part["data"], np.uint8).max(initial=0) > 1:
        raise InputError(f"the tensor `{key}` has a truth value that is neither 0 nor 1")
    try:
        array = np.frombuffer(part["data"], dtype=dtype).reshape(part["shape"])
    except ValueError as error:  # an empty tensor of impossible dimensions
        raise InputError(f"the tensor `{key}` has an unusable shape ({error})") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _current(document: dict[str, Any], tensors: Tensors) -> tuple[Tree, Tensors]:
    tree: Tree = document["model"]
    for version in range(document["version"], VERSION):
        tree, tensors = UPGRADES[version](tree, tensors)
    return tree, tensors


ModelKind = Literal["kernelite", "approxsvm", "libsvm"]

MOST_BLANK_LINES = 1000  # lines before the first word of a model
LIBSVM_KEYS = (
    *("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv"),
    *("rho", "label", "probA", "probB", "prob_density_marks", "nr_sv", "SV"),
)


def model_kind(path: str | os.PathLike[str], /) -> ModelKind:
    """Tell a model file's kind by its content, whatever its name.

    Parameters
    ----------
    path : path-like
        Text models may be plain, gzip or bzip2.

    Returns
    -------
    "kernelite", "approxsvm" or "libsvm"

    Raises
    ------
    FileFormatError
        If it is none of them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "a.model")
    ...     with open(name, "w") as file:
    ...         _ = file.write("svm_type c_svc\\n")
    ...     model_kind(name)
    'libsvm'
    """
    _check_regular(path)
    with open_binary(path) as file:
        start = file.read(9)
    # A safetensors file: the header's length as eight bytes, little-endian, then JSON.
    if start[5:] == b"\0\0\0{":
        return "kernelite"
    line = _first_line(path)
    if line.startswith("approximated SVM "):
        return "approxsvm"
    word = line.split(maxsplit=1)[0]
    if word in LIBSVM_KEYS:
        return "libsvm"
    problem = f"{quote(word)} begins no kind of model; {_EXPECTED}"
    if _LIBSVM_ROW.match(line):
        problem = f"this looks like LIBSVM data, not like a model; {_EXPECTED}"
    raise FileFormatError(path, problem, line=1)


def _check_regular(path: str | os.PathLike[str]) -> None:
    """Before it is opened: opening a pipe that nobody writes to waits for ever."""
    if os.fspath(path) == STANDARD_INPUT:
        raise FileFormatError(path, "a model is read from a regular file, not from standard input")
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # `open_binary` says what is wrong
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise FileFormatError(path, "a model is read from a regular file, not from a pipe")


_LIBSVM_ROW = re.compile(r"\S+(?:\s+[0-9]+:\S+)+\s*$")
_EXPECTED = "expected a .kernelite file, an approxsvm model or a LIBSVM model"


def _first_line(path: str | os.PathLike[str]) -> str:
    """The first line that is not blank."""
    defects: list[Defect] = []
    with Lines(path, report=defects.append) as lines:
        for _, text in islice(lines, MOST_BLANK_LINES):
            if defects:
                break
            if text.strip():
                return text
        compressed = lines.compression is not None
    if not defects:  # no lines, or only blank ones at its start
        raise FileFormatError(path, f"the file is empty; {_EXPECTED}")
    if compressed:
        raise FileFormatError(path, defects[0].problem, line=defects[0].line)
    raise FileFormatError(path, f"this is no model; {_EXPECTED}")
