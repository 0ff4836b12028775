"""LIBSVM's `svm-scale` range files: the scaling that a model's training data went through.

    x                         y                     (optional, before x)
    lower upper               lower upper
    index min max             min max
    ...

A feature z becomes lower + (upper - lower) (z - min) / (max - min); one that the file does not
name, or whose min and max agree, becomes 0. With the range, a model takes rows as they were
measured, and a regressor whose target was scaled answers in the target's own units. (svm-scale
prints six digits, so that rows scaled by it differ from these in the seventh.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, is_sparse
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import BadNumber, parse_float, parse_int, quote
from kernelite.machine.affine import AffineMap, check_scales
from kernelite.machine.exactly import nearest, nearest_all, two_words
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.machine import Machine
from kernelite.machine.preparation import Preparation
from kernelite.sources.common import scaled_outputs
from kernelite.support.errors import FileFormatError, InputError, UnsupportedModelError

__all__ = ["SvmRange", "read_range", "with_range"]

MAX_WIDTH = 2**24  # the map takes memory for each feature up to the largest index
ALWAYS_GRANTED, GRANTED_EACH = 2**16, 64  # so a short file may not ask for much of it


@dataclass(frozen=True, eq=False)
class SvmRange:
    """What a range file says.

    Parameters
    ----------
    lower, upper : float
        Where features go.
    columns : array of int, shape (r,)
        Zero-based, ascending.
    minimum, maximum : arrays of shape (r,)
        Where they come from.
    target : (lower, upper, min, max), optional
        The same for the target.
    """

    lower: float
    upper: float
    columns: NDArray[np.int64]
    minimum: FloatArray
    maximum: FloatArray
    target: tuple[float, float, float, float] | None = None

    @property
    def n_features(self) -> int:
        """The largest index."""
        return int(self.columns.max(initial=-1)) + 1

    def affine(self, width: int) -> AffineMap:
        """The map of rows of `width` features, at least `n_features`.

        Examples
        --------
        >>> unit = SvmRange(-1.0, 1.0, np.array([1]), np.array([0.0]), np.array([4.0]))
        >>> unit.affine(2)(np.array([[7.0, 3.0]]))
        array([[0. , 0.5]])
        """
        moves = self.maximum > self.minimum  # svm-scale leaves single-valued features out
        columns, least = self.columns[moves], self.minimum[moves]
        lower, extent = Fraction(self.lower), Fraction(self.upper) - Fraction(self.lower)
        factors = [extent / (Fraction(b) - Fraction(a)) for a, b in zip(least, self.maximum[moves])]
        ends = [two_words(Fraction(a) - lower / f) for a, f in zip(least, factors)]
        check_scales(nearest_all(factors))
        scale, words = np.zeros(width), np.zeros((2, width))
        scale[columns], words[:, columns] = nearest_all(factors), np.array(ends).reshape(-1, 2).T
        return AffineMap(scale, words[0], words[1])


def read_range(path: str | os.PathLike[str], /) -> SvmRange:
    """Read a range file that `svm-scale -s` wrote.

    Parameters
    ----------
    path : path-like
        Plain, .gz or .bz2.

    Returns
    -------
    SvmRange

    Raises
    ------
    FileFormatError
        If it is something else, naming line and token.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "train.range")
    ...     with open(name, "w") as file:
    ...         _ = file.write("x\\n-1 1\\n1 0 4\\n3 -2 2\\n")
    ...     read_range(name).columns
    array([0, 2])
    """
    with Lines(path) as lines:
        content = ((number, text) for number, text in lines if text.strip())
        number, text = _next(content, path, "nothing but blank lines")
        target = None
        if text.strip() == "y":
            low, high = _pair(content, path, "the target's bounds")
            least, most = _pair(content, path, "the target's minimum and maximum")
            _check(path, number + 1, low < high, "the target's lower bound is not below its upper")
            _check(path, number + 2, least < most, "the target's minimum is not below its maximum")
            target = (low, high, least, most)
            number, text = _next(content, path, "no line `x`")
        _check(path, number, text.strip() == "x", f"expected `x`, got {quote(text.strip())}")
        lower, upper = _pair(content, path, "the bounds of the features")
        _check(path, number + 1, lower < upper, "the lower bound is not below the upper one")
        columns, minimum, maximum = _features(content, path)
    return SvmRange(lower, upper, columns, minimum, maximum, target)


def with_range(machine: Machine, given: SvmRange | str | os.PathLike[str], /) -> Machine:
    """A model that takes rows as they were before `svm-scale`.

    Parameters
    ----------
    machine : Machine
        One machine, trained on scaled data.
    given : SvmRange or path of a range file

    Returns
    -------
    Machine
        With the scaling as its `preparation`, and values in the target's units.
    """
    if not isinstance(given, SvmRange | str | os.PathLike):
        kind = type(given).__name__
        raise InputError(f"`input_range` must be the path of a range file, got a {kind}.")
    found = given if isinstance(given, SvmRange) else read_range(given)
    if machine.preparation.steps:
        raise UnsupportedModelError(
            f"this {machine.type_name} scales its inputs already; a range file is for models that "
            "were trained on data scaled by svm-scale."
        )
    expansion = machine.single
    width = max(expansion.n_features, found.n_features)
    named = len(found.columns)
    if width > max(expansion.n_features, ALWAYS_GRANTED + GRANTED_EACH * named):
        raise InputError(
            f"the range names feature {width}, but only {named} features in all; a range may be at "
            f"most {GRANTED_EACH} times as wide as it is long, beyond the first {ALWAYS_GRANTED}."
        )
    if not machine.width_is_open and width > expansion.n_features:
        raise InputError(
            f"the range names feature {width}, but the model has {expansion.n_features}."
        )
    expansion = _padded(expansion, width)
    head: Any = machine.head
    if found.target is not None and head.scores_are_values:
        lower, upper, least, most = found.target
        factor = (Fraction(most) - Fraction(least)) / (Fraction(upper) - Fraction(lower))
        shift = Fraction(least) - factor * Fraction(lower)
        k = expansion.n_outputs
        expansion = scaled_outputs(expansion, [factor] * k, [shift] * k)
        if head.noise_scale is not None:
            head = replace(head, noise_scale=nearest(factor) * head.noise_scale)
    return replace(
        machine,
        expansion=expansion,
        head=head,
        preparation=Preparation.of(found.affine(width)),
        ignores_beyond=machine.width_is_open,
        description=f"{machine.description}, behind svm-scale",
    )


def _padded(expansion: KernelExpansion, width: int) -> KernelExpansion:
    """The same centers with zeros up to `width`; they become sparse where those would be many."""
    more = width - expansion.n_features
    if not more:
        return expansion
    centers: Any = expansion.centers
    if expansion.n_centers * width > max(GRANTED_EACH * centers.size, ALWAYS_GRANTED):
        from scipy.sparse import csr_array

        centers = csr_array(centers)
    if is_sparse(centers):
        centers = type(centers)(
            (centers.data, centers.indices, centers.indptr), shape=(expansion.n_centers, width)
        )
    else:
        centers = np.pad(centers, ((0, 0), (0, more)))
    return replace(expansion, centers=centers)


def _features(
    content: Iterator[tuple[int, str]], path: Any
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    found: dict[int, tuple[float, float]] = {}
    for number, text in content:
        index_text, *rest = text.split()
        try:
            index = parse_int(index_text, "index", low=1, high=MAX_WIDTH)
            values = [parse_float(token) for token in rest]
        except BadNumber as error:
            raise FileFormatError(path, str(error), line=number) from None
        _check(path, number, len(values) == 2, f"expected `index min max`, got {quote(text)}")
        _check(path, number, index - 1 not in found, f"index {index} is there twice")
        least, most = values
        _check(path, number, least <= most, f"the minimum of index {index} is above its maximum")
        span = most - least
        _check(path, number, np.isfinite(span), f"the range of index {index} overflows")
        found[index - 1] = (least, most)
    columns = np.array(sorted(found), dtype=np.int64)
    ends = np.array([found[int(column)] for column in columns]).reshape(-1, 2)
    return columns, ends[:, 0], ends[:, 1]


def _pair(content: Iterator[tuple[int, str]], path: Any, what: str) -> tuple[float, float]:
    number, text = _next(content, path, f"no line with {what}")
    tokens = text.split()
    _check(path, number, len(tokens) == 2, f"expected {what}, two numbers, got {quote(text)}")
    try:
        return parse_float(tokens[0]), parse_float(tokens[1])
    except BadNumber as error:
        raise FileFormatError(path, str(error), line=number) from None


def _next(content: Iterator[tuple[int, str]], path: Any, absent: str) -> tuple[int, str]:
    for found in content:
        return found
    raise FileFormatError(path, f"this is no svm-scale range file, it has {absent}")


def _check(path: Any, line: int, holds: Any, problem: str) -> None:
    if not holds:
        raise FileFormatError(path, problem, line=line)
