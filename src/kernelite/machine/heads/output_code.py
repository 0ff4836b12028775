"""OutputCodeClassifier: binary machines answer a code word; the nearest class's code wins.

label = argmin_c |y - code_c|^2 = argmin_c |code_c|^2 - 2 y . code_c
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads.base import BoolArray, LabelHead
from kernelite.machine.heads.intervals import SLACK, lead
from kernelite.machine.heads.members import Member, OfMembers, n_columns
from kernelite.machine.heads.multiclass import response_range
from kernelite.machine.ops import ops
from kernelite.rows.inputs import FloatArray

__all__ = ["OutputCodeHead"]


@dataclass(frozen=True, eq=False)
class OutputCodeHead(OfMembers, LabelHead):
    """The class whose code word is nearest to the responses.

    Parameters
    ----------
    classes : array of shape (K,)
    code_book : array of shape (K, c)
    members : tuple of Member
        c of them.

    Examples
    --------
    >>> from kernelite.machine.heads.svm import ClassifierHead
    >>> svm = ClassifierHead(np.array([0, 1]), first_positive=False)
    >>> book = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> head = OutputCodeHead(np.array([5, 6, 7]), book, (Member(svm, [0]), Member(svm, [1])))
    >>> head.predict(np.array([[-0.5, 2.0]]))
    array([6])
    """

    classes: NDArray[Any]
    code_book: FloatArray
    members: tuple[Member, ...]

    kind: Literal["classifier"] = "classifier"
    offers: ClassVar[frozenset[str]] = frozenset({"predict"})

    def __post_init__(self) -> None:
        book = np.array(self.code_book, dtype=np.float64)
        if book.shape != (len(self.classes), len(self.members)) or not np.isfinite(book).all():
            raise InputError(
                f"`code_book` must have shape ({len(self.classes)}, {len(self.members)}), got "
                f"{book.shape}."
            )
        object.__setattr__(self, "code_book", book)
        n_columns(self.members)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        codes, first = self._codes()
        xp = ops(scores)
        nearest = xp.argmax(-self._distances(self.decision(scores), codes), axis=1)
        return xp.take(first, nearest)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Responses of shape (m, c)."""
        return ops(scores).stack([member.binary(scores) for member in self.members], axis=1)

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose nearest code cannot change within the bounds.

        The difference of two squared distances is linear in the responses.
        """
        xp = ops(scores)
        low, high = response_range(self.members, scores, bounds)
        middle, radius = (low + high) / 2.0, (high - low) / 2.0
        codes, _ = self._codes()
        with np.errstate(invalid="ignore"):
            distances = self._distances(middle, codes)
            winner = xp.argmax(-distances, axis=1)
            nearest = xp.take_along_axis(distances, winner[:, None], axis=1)[:, 0]
            radius = radius + SLACK * (1.0 + xp.abs(middle))
            mine, settled = xp.take(codes, winner), xp.full((scores.shape[0],), True)
            for index, code in enumerate(codes):
                reach = 2.0 * xp.sum(radius * xp.abs(mine - code), axis=1)
                settled = settled & ((winner == index) | (distances[:, index] - nearest > reach))
        return settled

    def margin(self, scores: FloatArray) -> FloatArray:
        """By how much the nearest code is nearer than the next one, shape (m,)."""
        codes, _ = self._codes()
        return lead(-self._distances(self.decision(scores), codes), len(codes))

    def _distances(self, responses: FloatArray, codes: FloatArray) -> FloatArray:
        return np.square(codes).sum(axis=1) - 2.0 * (responses @ codes.T)

    def _codes(self) -> tuple[FloatArray, NDArray[np.intp]]:
        """Codes that differ, in order, each with the first class that has it: that one wins."""
        _, first = np.unique(self.code_book, axis=0, return_index=True)
        first = np.sort(first)
        return self.code_book[first], first
