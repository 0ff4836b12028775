"""MultiOutputClassifier and MultiOutputRegressor: one machine per output, answers side by side."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray, Range
from kernelite.machine.heads.members import Member, OfMembers, n_columns
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray

__all__ = ["MultiOutputHead"]


@dataclass(frozen=True, eq=False)
class MultiOutputHead(OfMembers):
    """Several heads, none of which knows of the others.

    Parameters
    ----------
    members : tuple of Member
    kind : {"classifier", "regressor"}
    methods : tuple of str
        Which methods the source has.

    Examples
    --------
    >>> from kernelite.machine.heads.values import RegressorHead
    >>> members = (Member(RegressorHead(), [1], "value"), Member(RegressorHead(), [0], "value"))
    >>> MultiOutputHead(members, "regressor", ("predict",)).predict(np.array([[1.0, 2.0]]))
    array([[2., 1.]])
    """

    members: tuple[Member, ...]
    kind: Literal["classifier", "regressor"]
    methods: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise InputError("a model of several outputs needs at least one.")
        n_columns(self.members)

    @property
    def n_values(self) -> int:
        """Outputs."""
        return len(self.members)

    @property
    def offers(self) -> frozenset[str]:
        """What the source offers."""
        return frozenset(self.methods)

    @property
    def classes(self) -> list[NDArray[Any]] | None:
        """One array of labels per output."""
        if self.kind == "regressor":
            return None
        return [member.head.classes for member in self.members]

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels or values of shape (m, outputs)."""
        return ops(scores).stack([m.predict(scores).reshape(-1) for m in self.members], axis=1)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows of which every output is decided."""
        each = [member.decided(scores, bounds) for member in self.members]
        return ops(scores).all(ops(scores).stack(each, axis=1), axis=1)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of a regressor's `predict`."""
        ends = [m.head.value_range(m.of(scores), m.of(bounds)) for m in self.members]
        low, high = (ops(scores).stack([e[i].reshape(-1) for e in ends], axis=1) for i in (0, 1))
        return low, high

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Those of each output, side by side; see `split`."""
        return ops(scores).concat([m.probabilities(scores) for m in self.members], axis=1)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        ends = [member.probability_range(scores, bounds) for member in self.members]
        low, high = (ops(scores).concat([end[i] for end in ends], axis=1) for i in (0, 1))
        return low, high

    def split(self, probabilities: FloatArray) -> list[FloatArray]:
        """One array per output, as scikit-learn returns them."""
        assert self.classes is not None
        ends = np.cumsum([0, *(len(labels) for labels in self.classes)]).tolist()
        # Times one: a copy, of tensors too.
        return [probabilities[:, start:end] * 1.0 for start, end in pairwise(ends)]

    def margin(self, scores: FloatArray) -> FloatArray:
        """The smallest margin of an output, shape (m,)."""
        each = [m.head.margin(m.of(scores)) for m in self.members]
        return ops(scores).min(ops(scores).stack(each, axis=1), axis=1)
