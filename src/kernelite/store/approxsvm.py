"""approxsvm's text models (Claesen et al., 2014): read, written, and what they cannot hold refused.

    f^(z) = exp(-gamma |z|^2) (c + v.z + z'Mz) + b          one output, RBF, about the origin

approxsvm answers its first label when f^ >= `threshold`, ties included, so a model read from it has
a head with that threshold and rule. Models from elsewhere give a score of exactly zero to the other
label; written to this format they follow approxsvm's rule, as its own approximations do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import C_INT, BadNumber, Defect, parse_float, parse_int, quote
from kernelite.machine.heads import ClassifierHead, Head, OutlierHead, RegressorHead
from kernelite.model import CompiledModel, Origin
from kernelite.planner.plan import Candidate, Plan
from kernelite.series.approximation import Approximation
from kernelite.series.series import QuadraticForm
from kernelite.support.errors import FileFormatError, UnsupportedModelError
from kernelite.support.files import atomic_write

__all__ = [
    "APPROXSVM_CLASSIFIERS",
    "REGRESSORS",
    "ApproxText",
    "defects",
    "format_text",
    "parse_text",
    "read",
    "write",
]

# The text of an approxsvm model: lines come in, an `ApproxText` goes out, and the other way.
#
#     approximated SVM classifier | approximated SVM regressor
#     labels POS NEG, threshold T                                   classifiers only, a line each
#     svm_type NAME, d N, kernel_type rbf, gamma G, maxnorm N, b B, c C           a line each
#     v and d numbers; M; d lines of d numbers
#
# Nothing is allocated before the numbers for it have been read, whatever `d` promises.

APPROXSVM_CLASSIFIERS = ("c_svc", "nu_svm", "one_svm", "ls_svm")
REGRESSORS = ("eps_svr", "nu_svr", "ls_svm")
TITLES = {"approximated SVM classifier": True, "approximated SVM regressor": False}
ASYMMETRY = 0.01  # of M's largest entry; single precision stays under a thousandth of it


@dataclass(frozen=True, eq=False)
class ApproxText:
    """What an approxsvm model says, in its own words; `labels` is None for regressors.

    Parameters
    ----------
    labels : tuple of int, optional
        Of a decision at or above `threshold`, and of the others.
    threshold : float
    svm_type : str
    gamma, maxnorm, b, c : float
        `maxnorm` is the largest squared norm of a support vector; b = -rho.
    v : ndarray of shape (d,)
    M : ndarray of shape (d, d)
    """

    labels: tuple[int, int] | None
    threshold: float
    svm_type: str
    gamma: float
    maxnorm: float
    b: float
    c: float
    v: FloatArray
    M: FloatArray


def format_text(text: ApproxText, /) -> Iterator[str]:
    """The lines of the file, numbers in the fewest digits that give the same double back.

    Examples
    --------
    >>> one = ApproxText(None, 0.0, "eps_svr", 0.5, 1.0, 0.1, 2.0, np.zeros(1), np.ones((1, 1)))
    >>> [line for line in format_text(one)][-4:]
    ['c 2.0', 'v 0.0', 'M', '1.0 ']
    """
    if text.labels is None:
        yield "approximated SVM regressor"
    else:
        yield "approximated SVM classifier"
        yield f"labels {text.labels[0]} {text.labels[1]}"
        yield f"threshold {text.threshold!r}"
    yield f"svm_type {text.svm_type}"
    yield f"d {len(text.v)}"
    yield "kernel_type rbf"
    for key in ("gamma", "maxnorm", "b", "c"):
        yield f"{key} {getattr(text, key)!r}"
    yield " ".join(["v", *map(repr, text.v.tolist())])
    yield "M"
    for row in text.M:
        yield "".join(f"{value!r} " for value in row.tolist())


def parse_text(lines: Lines, /) -> ApproxText | None:
    """Read the text to its end.

    Parameters
    ----------
    lines : Lines
        At the start of the file; its `report` receives the defects.

    Returns
    -------
    ApproxText or None
        None if there were defects.
    """
    return _Parser(lines).text()


class _Unreadable(Exception):
    """What follows makes no sense any more; the defect has been reported."""


class _Parser:
    """Reads line after line. Bad numbers are reported and passed over, a bad structure ends it."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.number: int | None = None
        self.sound = True

    def text(self) -> ApproxText | None:
        try:
            text = self.whole()
        except _Unreadable:
            return None
        return text if self.sound else None

    def whole(self) -> ApproxText:
        title = self.line("its title").rstrip()
        if title not in TITLES:
            self.stop(title, f"{quote(title)} is not the title of an approxsvm model")
        classifier = TITLES[title]
        labels = self.labels() if classifier else None
        threshold = self.float("threshold") if classifier else 0.0
        svm_type = self.word("svm_type", APPROXSVM_CLASSIFIERS if classifier else REGRESSORS)
        d = self.integer(self.values("d", 1)[0], "d", low=0, high=C_INT)
        self.word("kernel_type", ("rbf",))
        gamma = self.float("gamma")
        if self.sound and not gamma > 0:
            self.defect(None, f"gamma must be positive, got {gamma!r}")
        maxnorm = self.float("maxnorm")
        if maxnorm < 0:
            self.defect(None, f"maxnorm must not be negative, got {maxnorm!r}")
        b, c = self.float("b"), self.float("c")
        v = self.floats(self.values("v", d), "value of v")
        self.values("M", 0)
        return ApproxText(labels, threshold, svm_type, gamma, maxnorm, b, c, v, self.matrix(d))

    def labels(self) -> tuple[int, int]:
        tokens = self.values("labels", 2)
        positive, negative = (self.integer(t, "label", low=-C_INT - 1, high=C_INT) for t in tokens)
        if positive == negative:
            self.defect(tokens[1], f"the labels must differ, both are {quote(tokens[1])}")
        return positive, negative

    def matrix(self, d: int) -> FloatArray:
        """d lines of d numbers and nothing after them, symmetrised."""
        first = (self.number or 0) + 1
        rows: list[FloatArray] = []
        while len(rows) < d:
            tokens = self.line(f"row {len(rows) + 1} of M's {d}").split()
            if len(tokens) != d:
                self.stop(None, f"a row of M has {len(tokens)} numbers, expected {d}")
            rows.append(self.floats(tokens, "value of M"))
        if not self.lines.ended:
            self.defect(None, "the last line has no end, so the file was cut short")
        for number, rest in self.lines:
            self.number = number
            if rest.strip():
                self.stop(rest, f"{quote(rest)} comes after the {d} rows of M")
        M = np.array(rows).reshape(d, d)
        with np.errstate(over="ignore"):
            differs = np.abs(M - M.T) > ASYMMETRY * np.abs(M).max(initial=0.0)
        if differs.any():
            row, column = np.argwhere(differs)[0] + 1
            self.number = first + int(row) - 1
            self.defect(None, f"M is not symmetric, see row {row} and column {column}")
        # u'Mu needs the symmetric part only; equal entries stay as they are, to the bit.
        return np.where(M == M.T, M, 0.5 * M + 0.5 * M.T)

    def line(self, expected: str) -> str:
        for number, text in self.lines:
            self.number = number
            return text
        self.stop(None, f"the file ends before {expected}")

    def values(self, key: str, count: int) -> list[str]:
        """The words after `key` on the next line."""
        text = self.line(f"`{key}`")
        first, *rest = text.split() or [""]
        if first != key:
            self.stop(first, f"expected `{key}`, got {quote(first)}")
        if len(rest) != count:
            self.stop(None, f"`{key}` has {len(rest)} values, expected {count}")
        return rest

    def word(self, key: str, known: tuple[str, ...]) -> str:
        (word,) = self.values(key, 1)
        if word not in known:
            self.defect(word, f"{key} {quote(word)} is unknown here, known: {', '.join(known)}")
        return word

    def integer(self, token: str, what: str, *, low: int, high: int) -> int:
        try:
            return parse_int(token, what, low=low, high=high)
        except BadNumber as error:
            self.stop(token, str(error))

    def float(self, key: str) -> float:
        return float(self.floats(self.values(key, 1), key)[0])

    def floats(self, tokens: list[str], what: str) -> FloatArray:
        out = np.zeros(len(tokens))
        for i, token in enumerate(tokens):
            try:
                out[i] = parse_float(token, what)
            except BadNumber as error:
                self.defect(token, str(error))
        return out

    def defect(self, token: str | None, problem: str) -> None:
        self.sound = False
        self.lines.report(Defect(self.number, token, problem))

    def stop(self, token: str | None, problem: str) -> NoReturn:
        self.defect(token, problem)
        raise _Unreadable


TYPE_NAMES = {
    "SVC": "c_svc",
    "nu_svc": "nu_svm",
    "NuSVC": "nu_svm",
    "epsilon_svr": "eps_svr",
    "SVR": "eps_svr",
    "NuSVR": "nu_svr",
}
"""Other families' names of the types; those that are not here keep theirs or take a default."""

LARGEST_SINGLE = float(np.finfo(np.float32).max)  # approxsvm keeps every number in single precision


def read(path: str | os.PathLike[str], /) -> CompiledModel:
    """Read a model that approxsvm's approx-svm, or `write`, has written.

    Parameters
    ----------
    path : path-like
        Text, plain, gzip or bzip2.

    Returns
    -------
    CompiledModel
        Of guarantee "none". `one_svm` with labels 1 and -1 is an outlier detector, every other
        classifier one of two integer labels.

    Raises
    ------
    FileFormatError
        For the first defect, with its line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = '''approximated SVM classifier
    ... labels 7 -7
    ... threshold 0
    ... svm_type c_svc
    ... d 1
    ... kernel_type rbf
    ... gamma 0.5
    ... maxnorm 0.25
    ... b 0
    ... c 0
    ... v 1
    ... M
    ... 0
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "line.approx")
    ...     with open(name, "w") as file:
    ...         _ = file.write(text)
    ...     model = read(name)
    >>> model.predict([[-0.25], [0.0], [0.25]])
    array([-7,  7,  7])
    """
    with Lines(path) as lines:
        text = parse_text(lines)
    assert text is not None  # or a defect has been raised
    return _model(text)


def defects(path: str | os.PathLike[str], /) -> list[Defect]:
    """Everything that is wrong with an approxsvm model file.

    Parameters
    ----------
    path : path-like
        Text, plain, gzip or bzip2.

    Returns
    -------
    list of Defect
        Sorted by line; empty if the file can be used.

    Examples
    --------
    >>> defects("no/such.approx")[0].problem
    'there is no such file'
    """
    found: list[Defect] = []
    try:
        with Lines(path, report=found.append) as lines:
            parse_text(lines)
    except FileFormatError as error:  # it could not be opened
        found.append(Defect(error.line, None, error.problem))
    return sorted(found, key=lambda defect: defect.line or 0)


def write(
    model: CompiledModel, path: str | os.PathLike[str], /, *, drop_probabilities: bool = False
) -> None:
    """Write a model for approxsvm's approx-predict, in full precision, whole or not at all.

    Feature names, plan and description are not kept.

    Parameters
    ----------
    model : CompiledModel
        Of one output, guarantee "none", kernel "rbf", about the origin.
    path : path-like
    drop_probabilities : bool
        Leave out what the model knows about probabilities, as approxsvm does, instead of refusing.

    Raises
    ------
    UnsupportedModelError
        If the format cannot hold the model; the message says why.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0], [1.0]], [2.0, 1.0], 0.5, gamma=0.125)
    >>> model = kernelite.compile(bump, guarantee="none", expansion_point="origin")
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "bump.approx")
    ...     write(model, name)
    ...     float(read(name).predict([[0.25]])[0]) == float(model.predict([[0.25]])[0])
    True
    """
    text = _text(model, drop_probabilities)
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in format_text(text))


def _model(text: ApproxText) -> CompiledModel:
    d = len(text.v)
    form = QuadraticForm(
        point=np.zeros(d),
        constant=np.array([text.c]),
        linear=text.v.reshape(d, 1),
        quadratic=text.M.reshape(1, d, d),
        intercept=np.array([text.b]),
        gamma=text.gamma,
        max_sq_norm=text.maxnorm,
    )
    kind = f"approxsvm {text.svm_type}"
    chosen = Candidate("quadratic form", d * d / 50 + 1, 0.0, form.quadratic.nbytes, "as read")
    return CompiledModel(
        head=_head(text),
        approximation=Approximation(form),
        expansion=None,
        guarantee="none",
        plan=Plan("none", chosen, (), math.nan, ("Nothing is known of the exact model.",)),
        origin=Origin(
            f"{kind}, {d} features, gamma {text.gamma:.6g}",
            "approxsvm",
            text.svm_type,
            n_centers=0,
            width_is_open=True,
        ),
    )


def _head(text: ApproxText) -> Head:
    if text.labels is None:
        return RegressorHead()
    if text.svm_type == "one_svm" and text.labels == (1, -1) and text.threshold == 0:
        # scikit-learn's offset_: what turns the decision into the sum over the support vectors
        return OutlierHead(offset=-text.b, zero_is_inlier=True)
    labels = np.array(text.labels, dtype=np.int64)
    return ClassifierHead(labels, threshold=text.threshold, zero_is_first=True)


def _text(model: CompiledModel, drop_probabilities: bool) -> ApproxText:
    if model.approximation is None or model.guarantee != "none":
        raise _refusal(f"its guarantee is '{model.guarantee}', and only 'none' can be held")
    if model.approximation.certified:
        raise _refusal("it has a certificate, which would be lost; compile without one")
    form = model.approximation.form
    if not isinstance(form, QuadraticForm):
        raise _refusal("its form is truncated; compile with rank='full'")
    if not form.damped:
        raise _refusal("its kernel is polynomial, and only RBF can be held")
    if form.n_outputs != 1:
        raise _refusal(f"it has {form.n_outputs} outputs, and only one can be held")
    if form.point.any():
        raise _refusal("it is expanded about another point; compile with expansion_point='origin'")
    if not drop_probabilities and _has_probabilities(model.head):
        raise _refusal("it has probabilities, which would be lost")
    labels, threshold = _labels(model.head)
    text = ApproxText(
        labels,
        threshold,
        _type_name(model),
        float(form.gamma),
        float(form.max_sq_norm),
        float(form.intercept[0]),
        float(form.constant[0]),
        form.linear[:, 0],
        form.quadratic[0],
    )
    _check_single(text)
    return text


def _labels(head: Head) -> tuple[tuple[int, int] | None, float]:
    """Labels of a decision at or above the threshold and of one below, and the threshold."""
    if isinstance(head, RegressorHead):
        return None, 0.0
    if isinstance(head, OutlierHead):
        return (1, -1), 0.0
    if not isinstance(head, ClassifierHead):
        raise _refusal(f"it is a {head.kind}, and only classifiers and regressors can be held")
    if head.labels_by_probability:
        raise _refusal("its labels follow the probabilities, which cannot be held")
    labels = [_integer(label) for label in head.classes.tolist()]
    first, second = labels if head.first_positive else reversed(labels)
    return (first, second), float(head.threshold)


def _integer(label: object) -> int:
    if not isinstance(label, int | float) or isinstance(label, bool):
        raise _refusal(f"its label {label!r} is not a number")
    if not -(2**31) <= label < 2**31 or label != round(label):
        raise _refusal(f"its label {label!r} is not an integer of 32 bits")
    return int(label)


def _has_probabilities(head: Head) -> bool:
    return "predict_proba" in head.offers or head.noise_scale is not None


def _type_name(model: CompiledModel) -> str:
    if model.head.kind == "outlier":
        return "one_svm"
    classifier = model.head.kind == "classifier"
    name = TYPE_NAMES.get(model.origin.type_name, model.origin.type_name)
    if name in (APPROXSVM_CLASSIFIERS if classifier else REGRESSORS):
        return name
    return "c_svc" if classifier else "eps_svr"


def _check_single(text: ApproxText) -> None:
    """approxsvm's reader stops at a number above the largest float, and a gamma of zero is none."""
    numbers = np.concatenate(
        [[text.threshold, text.gamma, text.maxnorm, text.b, text.c], text.v, text.M.ravel()]
    )
    largest = float(np.abs(numbers).max())
    if largest > LARGEST_SINGLE:
        raise _refusal(f"its largest number, {largest:.3g}, overflows in single precision")
    if np.float32(text.gamma) == 0:
        raise _refusal(f"its gamma, {text.gamma!r}, vanishes in single precision")


def _refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"approxsvm's format cannot hold this model: {reason}; save it as a .kernelite file."
    )
