"""The contract of a head: scores to answers, and to intervals of answers.

A head states what a library's methods make of its scores, and between which ends that lies while
scores are off by their bounds. When a row is decided, and how close an answer is, follow from that,
here; a head overrides them only by a sound rule that settles more rows, or by one that says that
nothing is known. Ties and roundings are each head's own.

Answers and intervals are written in the operations of `kernelite.machine.ops`: they work on arrays
and on whatever else stands for scores, so that exports have them too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.intervals import BoolArray, Range
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "BoolArray",
    "BySign",
    "Head",
    "Judged",
    "LabelHead",
    "Range",
    "ValueHead",
    "checked_classes",
]

Kind: TypeAlias = Literal["classifier", "regressor", "outlier", "transform", "density"]
Judged: TypeAlias = Literal["bounds", "range", "same", "exact"]

ANSWERS = {
    "predict": "predict",
    "decision_function": "decision",
    "predict_proba": "probabilities",
    "transform": "transform",
    "score_samples": "score_samples",
}
"""Methods of a compiled model, and the functions of its head that answer them."""


class BySign(NamedTuple):
    """How one score tells which of two labels a row has.

    Parameters
    ----------
    labels : ndarray of shape (2,)
        That of scores beyond the threshold, and that of all others.
    threshold : float
        A label is proven where the score is farther from it than the score's bound. How far a
        score is from it is the margin.
    above : bool
        Whether scores beyond it are larger ones.
    closed : bool
        Whether a score at the threshold counts as beyond.
    """

    labels: NDArray[Any]
    threshold: float = 0.0
    above: bool = True
    closed: bool = False


class Head:
    """What every head can do. `scores` and `bounds` have shape (m, k)."""

    needs_posterior: ClassVar[frozenset[str]] = frozenset()
    """Methods that ask for variances too; `from_moments` answers them."""

    if TYPE_CHECKING:  # fields of some heads, properties of others

        @property
        def kind(self) -> Kind:
            """What the source was."""

        @property
        def offers(self) -> frozenset[str]:
            """Names of the methods that the source has, and so its compiled model."""

        @property
        def n_scores(self) -> int:
            """k, the columns this head expects."""

        @property
        def classes(self) -> Any:
            """Labels of shape (K,), a list of such per output, or None."""

    @property
    def proves_labels(self) -> bool:
        """Whether `predict` answers labels, which are proven, not values within a tolerance."""
        return self.kind in ("classifier", "outlier")

    @property
    def voting_classes(self) -> NDArray[Any] | None:
        """Labels, where a class that wins all of its pairs is the label; None elsewhere."""
        return None

    @property
    def by_sign(self) -> BySign | None:
        """How the label follows from one score; None where it takes more."""
        return None

    @property
    def ties_to_first(self) -> bool:
        """Whether of those classes with most votes the first is the label."""
        return False

    @property
    def decides_by_scores(self) -> bool:
        """Whether `decision` answers the scores themselves, column by column."""
        return False

    @property
    def scores_are_values(self) -> bool:
        """Whether `predict` answers the scores themselves, each within its own tolerance."""
        return False

    @property
    def value_shape(self) -> tuple[int, ...] | None:
        """What a row's values are shaped like; None: () where it is one, else (values,)."""
        return None

    @property
    def votes_by_sign(self) -> bool:
        """Whether one score decides between two labels: the second, unless it is below zero."""
        return False

    @property
    def votes_of_pairs(self) -> bool:
        """Whether `decision` is scikit-learn's "ovr": votes of pairs and their squashed sums."""
        return False

    @property
    def scores_are_pairs(self) -> bool:
        """Whether there is a score per pair of `classes`: (0, 1), (0, 2), ..., (K - 2, K - 1)."""
        return False

    @property
    def offset(self) -> float:
        """What `score_samples` adds to the score."""
        return 0.0

    @property
    def noise_scale(self) -> float | None:
        """LIBSVM's sigma of the Laplace noise of a regressor, where it was estimated."""
        return None

    @property
    def n_values(self) -> int:
        """How many tolerances there are: one per value; one in all where machines vote."""
        return self.n_scores

    # Answers ----------------------------------------------------------------------------------

    def answer(self, method: str, scores: FloatArray) -> Any:
        """What the source's method of that name answers."""
        return getattr(self, ANSWERS[method])(scores)

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels or values, as the source's `predict` gives them."""
        raise InputError("this model predicts nothing.")

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label, shape (m,)."""
        raise InputError("this model has no labels.")

    def decision(self, scores: FloatArray) -> FloatArray:
        """Decision values in the source's shape and sign."""
        return scores

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Class probabilities of shape (m, K)."""
        raise InputError("this model has no probabilities.")

    def coupled_by(self, coupling: Callable[..., Any], chances: Callable[..., Any]) -> Head:
        """The same, where others give the chances of pairs of classes, and couple them."""
        return self

    def transform(self, scores: FloatArray) -> FloatArray:
        """New coordinates."""
        raise InputError("this model does not transform rows.")

    def score_samples(self, scores: FloatArray) -> FloatArray:
        """A score per row, shape (m,)."""
        raise InputError("this model does not score samples.")

    def labelled_by_probability(self) -> Head:
        """The head that answers the most probable label, where votes may say another."""
        return self

    def split(self, probabilities: FloatArray) -> Any:
        """Probabilities as the source returns them: one array, or a list with one per output."""
        return probabilities

    def from_moments(self, method: str, means: FloatArray, variances: FloatArray) -> NDArray[Any]:
        """Answers of a Gaussian process from latent means and variances, each (m, machines)."""
        raise UnsupportedModelError("this model answers without variances.")

    def underflows(self, answers: FloatArray) -> BoolArray:
        """Rows whose scores are so small that they have to be computed in logarithms."""
        return np.zeros(len(answers), dtype=np.bool_)

    def from_logarithms(self, log_sums: FloatArray) -> FloatArray:
        """What `score_samples` answers, from the logarithm of the scores."""
        raise UnsupportedModelError("this model takes no logarithms.")

    # Intervals --------------------------------------------------------------------------------

    def answer_range(self, method: str, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `answer`, for all true scores within the bounds."""
        if method == "predict_proba":
            return self.probability_range(scores, bounds)
        if method == "decision_function":
            return self.decision_range(scores, bounds)
        return self.value_range(scores, bounds)

    def answer_bound(self, method: str, scores: FloatArray, bounds: FloatArray) -> FloatArray:
        """How far `answer` may be off, in its shape; infinite where nothing is known."""
        xp, answer = ops(scores), self.answer(method, scores)
        low, high = self.answer_range(method, scores, bounds)
        with np.errstate(invalid="ignore"):  # infinite ends, or none
            bound = xp.maximum(high - answer, answer - low) * (1.0 + 2.0**-49)  # which rounded
        return xp.where(xp.isnan(bound), np.inf, bound)

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`; anything, of a head that does not say."""
        return _anything(self.decision(scores))

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`; anything from 0 to 1, of a head that does not say."""
        shape, xp = (scores.shape[0], len(self.classes)), ops(scores)
        return xp.full(shape, 0.0), xp.full(shape, 1.0)

    def value_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of a regressor's `predict`; anything, of a head that does not say."""
        return _anything(self.predict(scores))

    def label_sets(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which labels a row can have, shape (m, K): one where it is decided, possibly all."""
        raise InputError("this model has no labels.")

    # What follows -----------------------------------------------------------------------------

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose `predict` is the same for all true scores within `bounds` of `scores`."""
        return ops(scores).full((scores.shape[0],), False)

    def same_answer(self, method: str, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose answer is proven as far as it consists of labels and votes."""
        return self.decided(scores, bounds)

    def within(
        self, method: str, scores: FloatArray, bounds: FloatArray, tolerance: FloatArray | float
    ) -> BoolArray:
        """Rows whose answer is within the tolerance of both ends of where it can be."""
        answer = self.answer(method, scores)
        low, high = self.answer_range(method, scores, bounds)
        with np.errstate(invalid="ignore"):  # infinite ends, or none
            near = (high - answer <= tolerance) & (answer - low <= tolerance)
        return near if near.ndim == 1 else ops(scores).all(near, axis=1)

    def margin(self, scores: FloatArray) -> FloatArray:
        """How far a row is from another label, shape (m,)."""
        return ops(scores).abs(scores[:, 0])

    # How a compiled model may tell that an answer is close enough --------------------------------

    def judged_by(self, method: str) -> Judged:
        """Which criterion accepts answers of a method.

        "bounds": the scores' bounds alone, see `bounds_for`; "range": `within`; "same": it has
        steps, and `same_answer` tells; "exact": nothing does, so that exact scores are needed.
        """
        return "exact" if method == "predict_proba" else "bounds"

    def bounds_for(self, method: str, tolerance: Any) -> FloatArray:
        """Bounds of the scores, shape (k,), which keep answers within a tolerance."""
        return tolerance

    def told_by_pairs(self, method: str) -> bool:
        """Whether the sign of every score, once proven, is enough for `same_answer`."""
        return False

    def sufficient_limit(self, method: str, tolerance: FloatArray | float) -> float | None:
        """The bound of every score that is enough for `within`, whatever they are."""
        return None

    def limit_by_pairs(self, method: str, tolerance: FloatArray | float) -> float | None:
        """The bound of every score that is enough for `within`, once their signs are proven."""
        return None

    def own_tolerance(self, default: float) -> FloatArray | None:
        """(values,): as the estimator was set up, or the default; None where a sample tells."""
        return None

    def sum_budget(self, tolerance: FloatArray | None) -> tuple[FloatArray, float] | None:
        """(absolute (k,), relative): how much sums may be off for values within a tolerance."""
        return None


class LabelHead(Head):
    """A classifier: `winners` says which of `classes`."""

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,)."""
        return ops(scores).take(self.classes, self.winners(scores))

    def label_sets(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which labels a row can have, shape (m, K)."""
        sure = self.winners(scores)[:, None] == np.arange(len(self.classes))[None, :]
        return sure | ~self.decided(scores, bounds)[:, None]


class ValueHead(Head):
    """Values: within a tolerance or not; there is no label to decide."""

    classes = None

    def decision(self, scores: FloatArray) -> FloatArray:
        """The values themselves."""
        return self.predict(scores)


def _anything(values: FloatArray) -> Range:
    """From minus infinity to infinity, in the shape of `values`."""
    xp = ops(values)
    return xp.full_like(values, -np.inf), xp.full_like(values, np.inf)


def checked_classes(classes: Any) -> NDArray[Any]:
    """Labels of shape (K,), each there once.

    Examples
    --------
    >>> checked_classes(["no", "yes", "no"])
    Traceback (most recent call last):
    kernelite.InputError: `classes` contains a label twice.
    """
    found = np.asarray(classes)
    if found.ndim != 1 or found.size == 0:
        raise InputError(f"`classes` must be a list of labels, got shape {found.shape}.")
    if len(np.unique(found)) != len(found):
        raise InputError("`classes` contains a label twice.")
    return found
