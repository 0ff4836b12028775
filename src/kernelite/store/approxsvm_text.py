"""The text of an approxsvm model: lines come in, an `ApproxText` goes out, and the other way.

    approximated SVM classifier | approximated SVM regressor
    labels POS NEG, threshold T                                   classifiers only, a line each
    svm_type NAME, d N, kernel_type rbf, gamma G, maxnorm N, b B, c C           a line each
    v and d numbers; M; d lines of d numbers

Nothing is allocated before the numbers for it have been read, whatever `d` promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import C_INT, BadNumber, Defect, parse_float, parse_int, quote

__all__ = ["APPROXSVM_CLASSIFIERS", "REGRESSORS", "ApproxText", "format_text", "parse_text"]

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
