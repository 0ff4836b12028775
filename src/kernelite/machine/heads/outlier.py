"""One-class machines: the sign of one score."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import BoolArray, BySign, Head, Judged, Range
from kernelite.machine.heads.intervals import score_range, widened
from kernelite.machine.heads.pairwise import density_probabilities
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["OutlierHead"]


@dataclass(frozen=True, eq=False)
class OutlierHead(Head):
    """One-class SVM: +1 for a positive score, -1 for zero or less, as in LIBSVM.

    Parameters
    ----------
    offset : float
        What scikit-learn calls `offset_`: `score_samples` is the score plus this.
    zero_is_inlier : bool
        How a score of exactly zero is labelled.
    density_marks : array of shape (10,), optional
        LIBSVM's marks of the one-class probability.

    Examples
    --------
    >>> OutlierHead().predict(np.array([[0.25], [-0.25]]))
    array([ 1, -1])
    """

    offset: float = 0.0
    zero_is_inlier: bool = False
    density_marks: FloatArray | None = None

    kind: Literal["outlier"] = "outlier"
    n_scores: Literal[1] = 1

    classes: ClassVar[None] = None
    decides_by_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.density_marks is not None:
            marks = np.asarray(self.density_marks, dtype=np.float64)
            if marks.shape != (10,) or not np.isfinite(marks).all():
                raise InputError("`density_marks` must hold ten finite numbers.")
            object.__setattr__(self, "density_marks", marks)

    @property
    def offers(self) -> frozenset[str]:
        """As scikit-learn's OneClassSVM, and probabilities where LIBSVM stored marks."""
        names = {"predict", "decision_function", "score_samples"}
        return frozenset(names if self.density_marks is None else names | {"predict_proba"})

    @property
    def by_sign(self) -> BySign:
        """Always."""
        return BySign(np.array([1, -1]), closed=self.zero_is_inlier)

    def predict(self, scores: FloatArray) -> NDArray[np.intp]:
        """+1 or -1, shape (m,)."""
        column = scores[:, 0]
        return ops(scores).where(column >= 0 if self.zero_is_inlier else column > 0, 1, -1)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Shape (m,)."""
        return scores[:, 0]

    def score_samples(self, scores: FloatArray) -> FloatArray:
        """The score without its offset, shape (m,)."""
        return scores[:, 0] + self.offset

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        low, high = score_range(scores, bounds)
        return low[:, 0], high[:, 0]

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose sign cannot change within the bounds."""
        return ops(scores).abs(scores[:, 0]) > bounds[:, 0]

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """(inlier, outlier) of shape (m, 2), in LIBSVM's ten steps."""
        if self.density_marks is None:
            raise InputError("this one-class model was trained without probabilities.")
        return density_probabilities(scores[:, 0], self.density_marks)

    def judged_by(self, method: str) -> Judged:
        """Probabilities are a step function of the score."""
        return "same" if method == "predict_proba" else "bounds"

    def same_answer(self, method: str, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose sign, or whose step, cannot change within the bounds."""
        if method != "predict_proba":
            return self.decided(scores, bounds)
        xp = ops(scores)
        low, high = (self.probabilities(end) for end in score_range(scores, bounds))
        return xp.all(low == high, axis=1) & ~xp.any(xp.isnan(scores + bounds), axis=1)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`: their step, or all that they can be."""
        xp, found = ops(scores), self.probabilities(scores)
        known = self.same_answer("predict_proba", scores, bounds)[:, None]
        return widened(xp.where(known, found, 0.0), xp.where(known, found, 1.0))
