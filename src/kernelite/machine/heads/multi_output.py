"""MultiOutputClassifier and MultiOutputRegressor: a machine an output, answers side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray
from kernelite.machine.heads.members import Member, n_columns
from kernelite.machine.heads.ranges import Range, margin, value_range
from kernelite.rows.inputs import FloatArray

__all__ = ["SeveralHead"]


@dataclass(frozen=True, eq=False)
class SeveralHead:
    """Several heads, none of which knows of the others.

    Parameters
    ----------
    members : tuple of Member
    kind : {"classifier", "regressor"}
    methods : tuple of str
        Which methods the source has.

    Examples
    --------
    >>> from kernelite.machine.heads.regressor import RegressorHead
    >>> members = (Member(RegressorHead(), [1], "value"), Member(RegressorHead(), [0], "value"))
    >>> SeveralHead(members, "regressor", ("predict",)).predict(np.array([[1.0, 2.0]]))
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
    def n_scores(self) -> int:
        """Scores of all machines."""
        return n_columns(self.members)

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
        """A list of labels an output."""
        if self.kind == "regressor":
            return None
        return [member.head.classes for member in self.members]  # type: ignore[attr-defined]

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels or values of shape (m, outputs)."""
        return np.asarray([member.predict(scores) for member in self.members]).T

    def decision(self, scores: FloatArray) -> FloatArray:
        """The raw scores; the source has no decision values."""
        return scores

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows of which every output is decided."""
        return np.all([member.decided(scores, bounds) for member in self.members], axis=0)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of a regressor's `predict`."""
        ends = [value_range(m.head, m.of(scores), m.of(bounds)) for m in self.members]
        return np.stack([low for low, _ in ends], axis=1), np.stack([h for _, h in ends], axis=1)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Those of each output, side by side; see `split`."""
        return np.hstack([member.probabilities(scores) for member in self.members])

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`."""
        ends = [member.probability_range(scores, bounds) for member in self.members]
        return np.hstack([low for low, _ in ends]), np.hstack([high for _, high in ends])

    def split(self, probabilities: FloatArray) -> list[FloatArray]:
        """An array an output, as scikit-learn returns them."""
        assert self.classes is not None
        ends = np.cumsum([len(labels) for labels in self.classes])[:-1]
        return [np.ascontiguousarray(part) for part in np.split(probabilities, ends, axis=1)]

    def margin(self, scores: FloatArray) -> FloatArray:
        """The smallest margin of an output, shape (m,)."""
        return np.min([margin(m.head, m.of(scores)) for m in self.members], axis=0)
