"""LIBSVM text models: a file comes in, a `Machine` goes out.

    f_ij(z) = sum_s coef_s k(x_s, z) - rho_ij       positive votes for the first label of (i, j)

Plain, gzip or bzip2; c_svc, nu_svc, one_class, epsilon_svr, nu_svr; kernels linear, polynomial, rbf
and sigmoid. `defects` lists everything that is wrong with a file, by the same parser.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import TypeVar

import numpy as np

from kernelite.data.rows.inputs import FloatArray, Rows
from kernelite.data.tables.dataset import make_csr
from kernelite.data.tables.libsvm_data import (
    SparseBlock,
    joined,
    pair_problems,
    parse_rows,
    tokens_of,
)
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import (
    C_INT,
    BadNumber,
    Defect,
    Report,
    chunked,
    parse_float,
    parse_int,
    quote,
)
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, Head, OutlierHead, RegressorHead
from kernelite.machine.machine import Machine, describe
from kernelite.sources.common import NamedKernel, named_kernel, pairwise_coefficients
from kernelite.support.errors import FileFormatError, UnsupportedModelError

__all__ = ["defects", "read_libsvm"]


def read_libsvm(path: str | os.PathLike[str], /) -> Machine:
    """Read a LIBSVM model file.

    Labels are integers in the order of the file's `label` line. The model's probabilities, if it
    has any, are in the head; labels stay those of the votes, as with svm-predict's `-b 0`.

    Parameters
    ----------
    path : path-like
        A text model, plain or compressed.

    Returns
    -------
    Machine
        Its centers are dense where that takes at most 256 MB and is in proportion to the file,
        else sparse (see `rows_of`).

    Raises
    ------
    FileFormatError
        For the first defect, with its line.
    UnsupportedModelError
        If the kernel is another one, or there is one class only.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = '''svm_type epsilon_svr
    ... kernel_type rbf
    ... gamma 0.5
    ... nr_class 2
    ... total_sv 1
    ... rho -0.25
    ... SV
    ... 2 1:1 3:-1
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "bump.model")
    ...     with open(name, "w") as file:
    ...         _ = file.write(text)
    ...     machine = read_libsvm(name)
    >>> machine.description
    'LIBSVM epsilon_svr, 1 support vector, gamma 0.5'
    >>> machine.expansion.scores([[1.0, 0.0, -1.0]])
    array([[2.25]])
    """
    with Lines(path) as lines:
        header = read_header(lines)
        assert header is not None  # or a defect has been raised
        for _, problem in _refusals(header):
            raise UnsupportedModelError(f"{os.fspath(path)}: {problem}.")
        coefficients, vectors = read_vectors(lines, header.n_coefficients, header.total_sv)
    expansion = _expansion(header, coefficients, rows_of(vectors))
    head = _head(header)
    return Machine(
        expansion,
        head,
        describe(f"LIBSVM {header.svm_type}", expansion),
        "libsvm",
        str(header.svm_type),
        width_is_open=True,
    )


def defects(path: str | os.PathLike[str], /) -> list[Defect]:
    """Everything that is wrong with a LIBSVM model file; of a support vector's line, the first.

    Parameters
    ----------
    path : path-like
        A text model, plain or compressed.

    Returns
    -------
    list of Defect
        Sorted by line, those of the whole file first; empty if the file can be used.

    Examples
    --------
    >>> defects("no/such.model")[0].problem
    'there is no such file'
    """
    found: list[Defect] = []
    report: Report = found.append
    try:
        with Lines(path, report=report) as lines:
            header = read_header(lines)
            if header is not None:
                found += [Defect(line, None, problem) for line, problem in _refusals(header)]
                read_vectors(lines, header.n_coefficients, header.total_sv)
    except FileFormatError as error:  # it could not be opened
        found.append(Defect(error.line, None, error.problem))
    return sorted(found, key=lambda defect: defect.line or 0)


def _refusals(header: Header) -> list[tuple[int, str]]:
    """Sound files that cannot be served: line and reason."""
    refusals = []
    if header.kernel_type == "precomputed":
        problem = "kernel_type `precomputed` is not served, since the file holds no vectors; train "
        refusals.append((header.lines["kernel_type"], problem + "with -t 0, 1, 2 or 3"))
    degree = header.degree
    if header.kernel_type == "polynomial" and degree is not None and not 1 <= degree <= 100:
        problem = f"degree `{degree}` of the polynomial kernel is not served, accepted are 1 to 100"
        refusals.append((header.lines["degree"], problem))
    if header.nr_class == 1:
        problem = "the model knows one class only, so there is nothing to predict"
        refusals.append((header.lines["nr_class"], problem))
    return refusals


def _expansion(header: Header, coefficients: FloatArray, vectors: Rows) -> KernelExpansion:
    if header.is_classifier:
        coefficients = pairwise_coefficients(coefficients, header.nr_sv)
    return _kernel(header).expansion(vectors, coefficients, -np.array(header.rho))


def _kernel(header: Header) -> NamedKernel:
    named = SimpleNamespace(
        kernel=header.kernel_type, gamma=header.gamma, degree=header.degree, coef0=header.coef0
    )
    return named_kernel(named, "LIBSVM model", 1)  # the header's checks saw to gamma


def _head(header: Header) -> Head:
    if header.is_classifier:
        platt = bool(header.prob_a)
        return ClassifierHead(
            np.array(header.label, dtype=np.int64),
            first_positive=True,
            platt_a=np.array(header.prob_a) if platt else None,
            platt_b=np.array(header.prob_b) if platt else None,
        )
    if header.svm_type == "one_class":
        marks = np.array(header.density_marks) if header.density_marks else None
        return OutlierHead(offset=header.rho[0], density_marks=marks)
    return RegressorHead(noise_scale=header.prob_a[0] if header.prob_a else None)


SVM_TYPES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
KERNEL_TYPES = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")
CLASSIFIERS = ("c_svc", "nu_svc")
KEYS = (
    *("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv"),
    *("rho", "label", "probA", "probB", "prob_density_marks", "nr_sv"),
)
DENSITY_MARKS = 10  # of a one-class model's density

T = TypeVar("T")
Entries = dict[str, tuple[int, list[str]]]  # key -> its line and the tokens after it


@dataclass(frozen=True)
class Header:
    """What the header says; None or empty where the file does not (or not readably) say it."""

    svm_type: str | None = None
    kernel_type: str | None = None
    degree: int | None = None
    gamma: float | None = None
    coef0: float = 0.0
    nr_class: int | None = None
    total_sv: int | None = None
    rho: tuple[float, ...] = ()
    label: tuple[int, ...] = ()
    nr_sv: tuple[int, ...] = ()
    prob_a: tuple[float, ...] = ()
    prob_b: tuple[float, ...] = ()
    density_marks: tuple[float, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def is_classifier(self) -> bool:
        """Whether labels are voted for."""
        return self.svm_type in CLASSIFIERS

    @property
    def n_coefficients(self) -> int | None:
        """Coefficients at the start of each support vector's line; None if that is unclear."""
        if self.nr_class is None or len(self.rho) != self.nr_class * (self.nr_class - 1) // 2:
            return None
        return max(self.nr_class - 1, 1)


def read_header(lines: Lines) -> Header | None:
    """Read up to and including the line `SV`; None if this is no LIBSVM model at all.

    Parameters
    ----------
    lines : Lines
        At the start of the file; its `report` receives the defects.

    Returns
    -------
    Header or None
    """
    entries = _entries(lines)
    return None if entries is None else _Values(entries, lines.report).header()


def _entries(lines: Lines) -> Entries | None:
    """The header's lines by key, `SV` included, checked for unknown and double keys."""
    entries: Entries = {}
    number = 0
    for number, text in lines:
        key, *tokens = text.replace("\t", " ").strip(" ").split(" ")
        if key == "SV" and not any(tokens):
            return entries | {"SV": (number, [])}
        if key not in KEYS:
            known = ", ".join(KEYS)
            if not entries:
                problem = f"{quote(key)} does not begin a LIBSVM model, expected `svm_type`"
                lines.report(Defect(number, key, problem))
                return None
            problem = f"{quote(key)} is not a key of a LIBSVM model, known are {known} and SV"
            lines.report(Defect(number, key, problem))
        elif key in entries:
            first = entries[key][0]
            lines.report(Defect(number, key, f"`{key}` is there twice, first on line {first}"))
        else:
            entries[key] = number, [token for token in tokens if token]
    if number == 0:
        lines.report(Defect(None, None, "the file is empty, expected a LIBSVM model"))
        return None
    problem = "the file ends before the line `SV`, so it has no support vectors"
    lines.report(Defect(number, None, problem))
    return entries | {"SV": (number, [])}


class _Values:
    """The header's values, parsed and checked against each other, one method a shape."""

    def __init__(self, entries: Entries, report: Report) -> None:
        self.entries = entries
        self.report = report

    def header(self) -> Header:
        svm_type = self.word("svm_type", SVM_TYPES)
        kernel_type = self.word("kernel_type", KERNEL_TYPES)
        classifier = svm_type in CLASSIFIERS
        for key in _required(svm_type, kernel_type):
            if key not in self.entries:
                self.defect("SV", f"`{key}` is missing from the header")
        nr_class = self.integer("nr_class", 1, C_INT)
        if nr_class is not None and not classifier and svm_type is not None and nr_class != 2:
            self.defect("nr_class", f"nr_class `{nr_class}` should be 2 for {svm_type}")
            nr_class = 2
        total_sv = self.integer("total_sv", 0, C_INT)
        pairs = None if nr_class is None else nr_class * (nr_class - 1) // 2
        parsed = Header(
            svm_type=svm_type,
            kernel_type=kernel_type,
            degree=self.integer("degree", -C_INT - 1, C_INT),
            gamma=self.gamma(),
            coef0=self.number("coef0") or 0.0,
            nr_class=nr_class,
            total_sv=total_sv,
            rho=self.numbers("rho", pairs, "one per pair of classes"),
            prob_a=self.numbers("probA", pairs, "one per pair of classes"),
            prob_b=self.numbers("probB", pairs, "one per pair of classes"),
            density_marks=self.numbers(
                "prob_density_marks", DENSITY_MARKS, "the marks of the density"
            ),
            label=self.labels(nr_class if classifier else None),
            nr_sv=self.counts(nr_class if classifier else None, total_sv),
            lines={key: line for key, (line, _) in self.entries.items()},
        )
        if classifier and ("probA" in self.entries) != ("probB" in self.entries):
            here, absent = ("probA", "probB") if "probA" in self.entries else ("probB", "probA")
            self.defect(here, f"`{here}` is there but `{absent}` is missing")
        return parsed

    def defect(self, key: str, problem: str, token: str | None = None) -> None:
        self.report(Defect(self.entries[key][0], token, problem))

    def values(self, key: str, parse: Callable[[str], T], count: int | None, each: str) -> list[T]:
        """The values of `key`, `count` of them; empty when absent or wrong."""
        line, tokens = self.entries.get(key, (0, None))
        if tokens is None:
            return []
        if count is not None and len(tokens) != count:
            self.defect(key, f"`{key}` has {len(tokens)} values, expected {count} ({each})")
            return []
        try:
            return [parse(token) for token in tokens]
        except BadNumber as error:
            self.report(Defect(line, None, str(error)))
            return []

    def word(self, key: str, known: tuple[str, ...]) -> str | None:
        words = self.values(key, str, 1, "a name")
        if words and words[0] not in known:
            problem = f"{key} {quote(words[0])} is unknown, known are {', '.join(known)}"
            self.defect(key, problem, words[0])
            return None
        return words[0] if words else None

    def integer(self, key: str, low: int, high: int) -> int | None:
        values = self.values(key, lambda t: parse_int(t, key, low=low, high=high), 1, "a number")
        return values[0] if values else None

    def number(self, key: str) -> float | None:
        values = self.values(key, lambda t: parse_float(t, key), 1, "a number")
        return values[0] if values else None

    def numbers(self, key: str, count: int | None, each: str) -> tuple[float, ...]:
        return tuple(self.values(key, lambda t: parse_float(t, key), count, each))

    def gamma(self) -> float | None:
        value = self.number("gamma")
        if value is not None and value <= 0:
            self.defect("gamma", f"gamma `{value:g}` should be positive")
            return None
        return value

    def labels(self, count: int | None) -> tuple[int, ...]:
        def parse(token: str) -> int:
            return parse_int(token, "label", low=-C_INT - 1, high=C_INT)

        labels = self.values("label", parse, count, "one per class")
        seen: set[int] = set()
        for label in labels:
            if label in seen:
                self.defect("label", f"label `{label}` is there twice", str(label))
                return ()
            seen.add(label)
        return tuple(labels)

    def counts(self, count: int | None, total: int | None) -> tuple[int, ...]:
        def parse(token: str) -> int:
            return parse_int(token, "nr_sv", high=C_INT)

        counts = self.values("nr_sv", parse, count, "one per class")
        if counts and total is not None and count is not None and sum(counts) != total:
            problem = f"`nr_sv` adds up to {sum(counts)}, but `total_sv` is {total}"
            self.defect("nr_sv", problem)
            return ()
        return tuple(counts)


def _required(svm_type: str | None, kernel_type: str | None) -> list[str]:
    required = ["svm_type", "kernel_type", "nr_class", "total_sv", "rho"]
    if svm_type in CLASSIFIERS:
        required += ["label", "nr_sv"]
    if kernel_type in ("rbf", "polynomial", "sigmoid"):
        required.append("gamma")
    if kernel_type in ("polynomial", "sigmoid"):
        required.append("coef0")
    if kernel_type == "polynomial":
        required.append("degree")
    return required


# The support vectors: a line each, coefficients first, then index:value pairs.
#
# In: the lines after `SV`, which are those of data files with K - 1 numbers in the label's place.
# Out: these numbers, and the vectors as sparse rows.


BATCH_CHARACTERS = 2**20  # of text converted at once
DENSE_NUMBERS = 2**25  # 256 MB
DENSE_RATIO = 64
ALWAYS_DENSE_NUMBERS = 2**17  # 1 MB
SIGN = re.compile(r"\+(?<=[ \t]\+)(?=[0-9]++:)")  # of an index, which LIBSVM takes in its models


def read_vectors(
    lines: Lines, n_coefficients: int | None, total: int | None
) -> tuple[FloatArray, SparseBlock]:
    """Read the lines after `SV` to the end of the file.

    Parameters
    ----------
    lines : Lines
        After the header; its `report` receives the defects, at most one a line.
    n_coefficients : int or None
        Numbers before the first pair of each line; None (when the header is broken) for any.
    total : int or None
        How many vectors the header promises.

    Returns
    -------
    (ndarray of shape (n, n_coefficients), SparseBlock)
        Of the lines without defects.
    """
    problems = partial(_first_problem, n_coefficients=n_coefficients)
    parts = [parse_rows([], n_coefficients or 0, C_INT, problems, lines.report)]
    late: list[Defect] = []  # those of the whole, told after those of earlier lines
    for batch in chunked(_counted(lines, total, late.append), BATCH_CHARACTERS):
        if n_coefficients is not None:
            parts.append(parse_rows(batch, n_coefficients, C_INT, problems, lines.report))
            continue
        for number, text in batch:  # nothing can be built; the lines are only checked
            for token, problem in problems(text):
                lines.report(Defect(number, token, problem))
    for defect in late:
        lines.report(defect)
    return np.concatenate([first for first, _ in parts]), joined([block for _, block in parts])


def rows_of(block: SparseBlock) -> Rows:
    """The vectors, dense if that takes little memory for what the file holds, else sparse.

    Dense means at most 256 MB, and at most 64 numbers for each one in the file (a megabyte
    is always granted): a short line with a large index must not ask for gigabytes.
    """
    granted = max(DENSE_RATIO * block.values.size, ALWAYS_DENSE_NUMBERS)
    if block.n_rows * block.width <= min(DENSE_NUMBERS, granted):
        return block.dense(block.width)
    return make_csr(block.values, block.indices, block.indptr, block.width)


def _counted(lines: Lines, total: int | None, report: Report) -> Iterator[tuple[int, str]]:
    """The lines of vectors: as many as promised, the last one whole, none empty among them."""
    count, number, blank, last = 0, None, None, ""
    for number, text in lines:
        if not text.strip(" \t"):
            blank = blank or number
            continue
        if blank is not None:
            report(Defect(blank, None, "an empty line, expected a support vector"))
            blank = None
        if count == total:
            report(Defect(number, None, f"more support vectors than `total_sv` promises ({total})"))
            return
        count += 1
        last = text
        yield number, SIGN.sub("", text)
    if count and not lines.ended:
        token = tokens_of(last)[-1]
        problem = f"the file ends at {quote(token)} within a line, so it was cut short"
        report(Defect(number, token, f"{problem}; if it is complete, end it with a newline"))
    if total is not None and count < total:
        problem = f"the file ends after {count} support vectors, but `total_sv` promises {total}"
        report(Defect(number, None, problem))


def _first_problem(row: str, n_coefficients: int | None) -> Iterator[tuple[str, str]]:
    return islice(_problems(tokens_of(row), n_coefficients), 1)


def _problems(tokens: list[str], n_coefficients: int | None) -> Iterator[tuple[str, str]]:
    if n_coefficients is None:
        n_coefficients = next((i for i, t in enumerate(tokens) if ":" in t), len(tokens)) or 1
    for place, token in enumerate(tokens[:n_coefficients]):
        if ":" in token:
            yield (
                token,
                f"{quote(token)} where coefficient {place + 1} of {n_coefficients} should be",
            )
        try:
            parse_float(token, "coefficient")
        except BadNumber as error:
            yield token, str(error)
    if len(tokens) < n_coefficients:
        yield tokens[-1], f"the line has {len(tokens)} coefficients of {n_coefficients}"
    yield from pair_problems(tokens[n_coefficients:], C_INT)
