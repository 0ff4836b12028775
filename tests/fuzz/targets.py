"""What is done with a file: read, used as a user would, and checked where there is a second way.

A target returns "answered" or "refused"; whatever else happens is a failure. Refused is a file for
which kernelite raises an error of its own with a message of one line.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import kernelite as kl
from kernelite.data.tables import libsvm_data as reader
from kernelite.data.tables.data import iter_data, read_data
from kernelite.support.errors import InputError, KerneliteError
from tests.fuzz.corpus import BINARY, MODEL, Seed, corpus
from tests.fuzz.models import METHODS, answers_of, as_taken, with_text

__all__ = ["TARGETS", "Unclean", "run"]

WIDEST = 2000  # features of models whose answers are asked for; others are only loaded
BY_COMMAND = 40  # every so many files go through `kernelite check` and `inspect` too
MODELS = ("kernelite", "kernelite, digest renewed", "libsvm model", "approxsvm")


class Unclean(AssertionError):
    """An outcome that is neither an answer nor a refusal."""


def run(name: str, path: Path, seed: Seed, number: int) -> str:
    """Do with a file of a format what its users do."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            TARGETS[name](path, seed)
            outcome = "answered"
        except KerneliteError as error:
            outcome = "refused"
            if len(lines := str(error).splitlines()) != 1:
                raise Unclean(f"the error has {len(lines)} lines: {error}") from error
        if number % BY_COMMAND == 0:
            by_command(name, path)
    return outcome


COMMAND_LINE = import_module("kernelite.cli")
_parser = cache(lambda verb, make=COMMAND_LINE._parser: make([verb]))


def by_command(name: str, path: Path) -> None:
    """`kernelite check`, and `inspect` for models: exit code 0 or 1, and no escapes."""
    verbs = [["check", str(path)]]
    if name in MODELS:
        verbs.append(["inspect", str(path)])
    for verb in verbs:
        out, err = io.StringIO(), io.StringIO()
        # A verb's parser is made once: that takes longer than a small file.
        kept = mock.patch.object(COMMAND_LINE, "_parser", lambda words: _parser(words[0]))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), kept:
            code = COMMAND_LINE.main(verb)
        if code not in (0, 1):
            raise Unclean(f"kernelite {verb[0]} ends with {code}: {err.getvalue()}")
        if any(ord(c) < 32 and c not in "\n\t" for c in out.getvalue() + err.getvalue()):
            raise Unclean(f"kernelite {verb[0]} prints control characters")
        if verb[0] == "check" and code == 1 and not out.getvalue() + err.getvalue():
            raise Unclean("kernelite check refuses without a word")


def damaged_model(path: Path, seed: Seed) -> None:
    """A model whose digest was left as it was: refused, or what it was before."""
    model = kl.load(path)
    found = answers_of(model)
    if found not in {one.answers for one in corpus("kernelite")}:
        raise Unclean(f"a damaged file was accepted and answers {found}, not {seed.answers}")


def changed_model(path: Path, seed: Seed) -> None:
    """A model that is another one."""
    use(kl.load(path))


def use(model: kl.CompiledModel) -> None:
    """All that a user would do first; whatever is finite has an answer that is a number."""
    if not str(model.plan) or not repr(model):
        raise Unclean("there is no plan to show")
    d = model.n_features_in_
    if d > WIDEST:
        return
    rows = np.vstack([np.eye(3, d), np.full((1, d), -0.5)])
    huge = np.vstack([rows, np.full((1, d), 1e200)])
    for method in METHODS:
        if method in model.offers:
            answer = getattr(model, method)
            _check_numbers(method, answer(as_taken(model, rows)), rows)
            answer(as_taken(model, rows[:1]))
            _check_numbers(method, answer(as_taken(model, rows[:0])), rows[:0])
            # A polynomial's value overflows, which the guarantee leaves open; before the model,
            # powers and norms do, which is refused.
            with contextlib.suppress(InputError):
                _check_numbers(method, answer(as_taken(model, huge))[:-1], rows)
    if not model.preparation.rowwise:
        texts = huge.astype(object)
        texts[:, d // 2 :] = np.array(["x", "", "groß", None, "\ud800"], dtype=object)[:, None]
        with contextlib.suppress(KerneliteError):
            model.predict(texts)


def _check_numbers(method: str, found: Any, rows: np.ndarray) -> None:
    if len(found) != len(rows):
        raise Unclean(f"{method} gives {len(found)} answers for {len(rows)} rows")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise Unclean(f"{method} gives NaN")


def libsvm_model(path: Path, seed: Seed) -> None:
    """A LIBSVM model, exactly and as a form."""
    model = kl.compile(os.fspath(path), guarantee="exact")
    use(model)
    if model.n_features_in_ <= 16:
        use(kl.compile(os.fspath(path), guarantee="none", plan="estimate", on_invalid="ignore"))


def libsvm_data(path: Path, seed: Seed) -> None:
    """LIBSVM rows: whole, in parts, and by the reader that is not compiled, all the same."""
    whole = read_data(path, format="libsvm")
    parts = list(iter_data(path, 2, format="libsvm"))
    if sum(part.rows.nnz for part in parts) != whole.rows.nnz:
        raise Unclean("parts hold other numbers than the whole")
    with _carefully():
        careful = read_data(path, format="libsvm")
    same = [
        np.array_equal(getattr(whole.rows, field), getattr(careful.rows, field))
        for field in ("data", "indices", "indptr")
    ]
    if not all(same) or whole.rows.shape != careful.rows.shape:
        raise Unclean("the compiled reader and the careful one disagree")
    _check_rows(whole.rows.data)


@contextlib.contextmanager
def _carefully() -> Any:
    fast = reader.read_block
    reader.read_block = lambda *_: None  # type: ignore[assignment]
    try:
        yield
    finally:
        reader.read_block = fast  # type: ignore[assignment]


def _check_rows(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise Unclean("a row holds a number that is not finite")


def scaling(path: Path, seed: Seed) -> None:
    """A range file before a model."""
    for name in ("binary", "three"):
        model = path.with_name(f"{name}-of-ranges.model")
        if not model.exists():
            model.write_bytes(BINARY if name == "binary" else MODEL)
        use(kl.compile(os.fspath(model), guarantee="exact", input_range=path))


def approximated(path: Path, seed: Seed) -> None:
    """A model of approxsvm."""
    model = kl.load(path)
    use(model)


def delimited(path: Path, seed: Seed) -> None:
    """CSV: whole, in parts, and by the columnar reader, which has rules of its own."""
    by_columns = False
    with contextlib.suppress(KerneliteError):
        columns(path, seed)
        by_columns = True
    try:
        whole = read_data(path, format="delimited")
    except KerneliteError:
        if by_columns:  # text is for columns alone
            return
        raise
    _check_rows(whole.rows)
    few = max(2, len(whole.rows) // 1000)  # small files unpack to many lines
    parts = list(iter_data(path, few, format="delimited"))
    if len(parts) and not np.array_equal(np.concatenate([p.rows for p in parts]), whole.rows):
        raise Unclean("parts hold other numbers than the whole")


def array(path: Path, seed: Seed) -> None:
    """A .npy or .npz file."""
    whole = read_data(path)
    values = whole.rows if isinstance(whole.rows, np.ndarray) else whole.rows.data
    _check_rows(values)
    parts = list(iter_data(path, 2))
    if sum(part.rows.shape[0] for part in parts) != whole.rows.shape[0]:
        raise Unclean("parts hold other rows than the whole")


def columns(path: Path, seed: Seed) -> None:
    """Columnar files with answers for each row, by a model of numbers, or one that takes text."""
    out = path.with_name("answers.csv")
    out.unlink(missing_ok=True)
    named = ".csv" not in path.name
    by_text = path.stat().st_size % 3 == 0 if named else "Größe".encode() in path.read_bytes()
    model = _texts() if by_text else _four(named)
    try:
        done = kl.predict_files(model, path, out, keep="all" if named else ())
    except KerneliteError:
        if out.exists():
            raise Unclean("a refused file left an output behind") from None
        raise
    with out.open(encoding="utf-8", newline="") as file:
        written = sum(1 for _ in csv.reader(file)) - 1  # kept text may hold ends of lines
    if written != done.rows:
        raise Unclean(f"{written} answers for {done.rows} rows")


@cache
def _four(named: bool) -> kl.CompiledModel:
    from tests.store.models import HEADS, compiled

    return compiled(HEADS["three"], exact=True, names=("a", "b", "c", "d") if named else None)


@cache
def _texts() -> kl.CompiledModel:
    return with_text()


TARGETS: dict[str, Callable[[Path, Seed], None]] = {
    "kernelite": damaged_model,
    "kernelite, digest renewed": changed_model,
    "libsvm model": libsvm_model,
    "libsvm data": libsvm_data,
    "range": scaling,
    "approxsvm": approximated,
    "csv": delimited,
    "npy": array,
    "npz": array,
    "parquet": columns,
    "arrow": columns,
}
