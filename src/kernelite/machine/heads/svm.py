"""Support vector classifiers: a score per pair of classes, votes, Platt's probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads.base import (
    BoolArray,
    BySign,
    Judged,
    LabelHead,
    Range,
    checked_classes,
)
from kernelite.machine.heads.calibrated import SigmoidCalibrator
from kernelite.machine.heads.coupling import (
    LIMITS,
    Chances,
    Coupling,
    class_probabilities,
    couple,
    logit_errors,
    pair_probabilities,
)
from kernelite.machine.heads.intervals import SLACK, best_decided, outwards, score_range, squash
from kernelite.machine.heads.pairwise import (
    count_votes,
    ovr_scores,
    pair_sums,
    summed_scores,
    vote_range,
    winner_decided,
    winner_decided_by_sums,
    winner_margin,
)
from kernelite.machine.ops import ops
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["ClassifierHead"]


@dataclass(frozen=True, eq=False)
class ClassifierHead(LabelHead):
    """One-vs-one classification: K classes, a score per pair (0,1), (0,2), ..., (K-2,K-1).

    Parameters
    ----------
    classes : array of shape (K,)
        Labels, in the order in which ties are broken: LIBSVM's `label` line, or sorted.
    first_positive : bool
        Whether a positive score votes for the first class of its pair (LIBSVM, and scikit-learn
        with three classes or more) or for the second (scikit-learn with two).
    shape : {"ovo", "ovr"}
        What `decision` returns for three classes or more.
    break_ties : bool
        Ties by the summed scores, as scikit-learn's `break_ties` with shape "ovr".
    platt_a, platt_b : array of shape (k,), optional
        Platt's sigmoid per pair, for scores of which a positive one votes for the first class.
    labels_by_probability : bool
        Predict the most probable class instead of the one with most votes (svm-predict `-b 1`).
    couple_two_classes : bool
        With two classes, couple the probabilities iteratively too, as scikit-learn does; LIBSVM
        takes the sigmoid itself. The two differ in the third digit.
    threshold : float
        With two classes, the score at which the label changes (approxsvm); decision values stay
        unshifted.
    zero_is_first : bool
        With two classes, whether a score of exactly `threshold` means the first (approxsvm) or the
        second (LIBSVM, scikit-learn).

    Examples
    --------
    >>> head = ClassifierHead(np.array(["no", "yes"]), first_positive=False)
    >>> head.predict(np.array([[-0.5], [0.0], [2.0]]))
    array(['no', 'yes', 'yes'], dtype='<U3')
    """

    classes: NDArray[Any]
    first_positive: bool = True
    shape: Literal["ovo", "ovr"] = "ovo"
    break_ties: bool = False
    platt_a: FloatArray | None = None
    platt_b: FloatArray | None = None
    labels_by_probability: bool = False
    couple_two_classes: bool = False
    threshold: float = 0.0
    zero_is_first: bool = False

    kind: Literal["classifier"] = "classifier"
    scores_are_pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", checked_classes(self.classes))
        if self.shape not in ("ovo", "ovr"):
            raise InputError(f"`shape` must be 'ovo' or 'ovr', got {self.shape!r}.")
        if (self.platt_a is None) != (self.platt_b is None):
            raise InputError("`platt_a` and `platt_b` go together; one of them is missing.")
        for name in ("platt_a", "platt_b"):
            value = getattr(self, name)
            if value is not None:
                array = np.asarray(value, dtype=np.float64)
                if array.shape != (self.n_scores,) or not np.isfinite(array).all():
                    raise InputError(
                        f"`{name}` must hold {self.n_scores} finite numbers, one per pair."
                    )
                object.__setattr__(self, name, array)
        if self.labels_by_probability and self.platt_a is None:
            raise InputError("labels by probability need `platt_a` and `platt_b`.")
        if not np.isfinite(self.threshold):
            raise InputError(f"`threshold` must be finite, got {self.threshold!r}.")
        if self.n_classes != 2 and (self.threshold != 0 or self.zero_is_first):
            raise InputError("`threshold` and `zero_is_first` are for two classes only.")

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def n_scores(self) -> int:
        """K (K - 1) / 2 pairs."""
        return self.n_classes * (self.n_classes - 1) // 2

    @property
    def by_votes(self) -> bool:
        """Whether the first class of a pair with a positive score gets a vote, and most votes win.

        A class that wins all of its pairs is then the label, however ties are broken.
        """
        return self.n_classes > 2 and self.first_positive and not self.labels_by_probability

    @property
    def voting_classes(self) -> NDArray[Any] | None:
        """Labels, where votes decide."""
        return self.classes if self.by_votes else None

    @property
    def by_sign(self) -> BySign | None:
        """Of two classes, unless probabilities tell."""
        if self.n_classes != 2 or self.labels_by_probability:
            return None
        return BySign(self.classes, self.threshold, self.first_positive, self.zero_is_first)

    @property
    def votes_by_sign(self) -> bool:
        """Two classes on scikit-learn's signs, with nothing moved."""
        moved = self.threshold != 0.0 or self.zero_is_first or self.labels_by_probability
        return self.n_classes == 2 and not self.first_positive and not moved

    @property
    def votes_of_pairs(self) -> bool:
        """Of three classes or more."""
        return not self.decides_by_scores and self.first_positive

    @property
    def ties_to_first(self) -> bool:
        """Unless scores break ties."""
        return self.by_votes and not self.break_ties

    @property
    def decides_by_scores(self) -> bool:
        """Not "ovr" decision values: votes and squashed sums."""
        return self.n_classes == 2 or self.shape == "ovo"

    @property
    def offers(self) -> frozenset[str]:
        """Decision values always, probabilities where there are sigmoids."""
        names = {"predict", "decision_function"}
        if self.platt_a is not None:
            names |= {"predict_proba", "predict_log_proba"}
        return frozenset(names)

    def winners(self, scores: FloatArray) -> NDArray[np.intp]:
        """Index into `classes` of each row's label."""
        xp = ops(scores)
        if self.labels_by_probability:
            return xp.argmax(self.probabilities(scores), axis=1)
        if self.n_classes == 2:
            return xp.where(self._is_first(scores), 0, 1)
        if self.break_ties:
            return xp.argmax(ovr_scores(self.towards_first(scores), self.n_classes), axis=1)
        return xp.argmax(count_votes(self.towards_first(scores) > 0, self.n_classes), axis=1)

    def _is_first(self, scores: FloatArray) -> BoolArray:
        """Which rows get the first of two classes."""
        # LIBSVM gives a score of zero to the second class.
        score, limit = scores[:, 0], self.threshold
        if self.zero_is_first:
            return score >= limit if self.first_positive else score <= limit
        return score > limit if self.first_positive else score < limit

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels of shape (m,); in NumPy, those of two classes take one pass over the rows."""
        two = self.n_classes == 2 and not self.labels_by_probability
        if two and isinstance(scores, np.ndarray):
            return np.where(self._is_first(scores), self.classes[:1], self.classes[1:])
        return super().predict(scores)

    def decision(self, scores: FloatArray) -> FloatArray:
        """Shape (m,) for two classes, (m, k) for "ovo", (m, K) for "ovr"."""
        if self.n_classes == 2:
            return scores[:, 0]
        if self.shape == "ovr":
            return ovr_scores(self.towards_first(scores), self.n_classes)
        return scores

    def decision_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `decision`."""
        K = self.n_classes
        if K == 2 or self.shape == "ovo":
            low, high = score_range(scores, bounds)
            return (low[:, 0], high[:, 0]) if K == 2 else (low, high)
        towards_first = self.towards_first(scores)
        votes_low, votes_high = vote_range(towards_first, bounds, K)
        sums = summed_scores(towards_first, K)
        # Every class takes part in K - 1 pairs; their bounds add up, and so does rounding.
        slack = pair_sums(bounds + SLACK * ops(scores).abs(scores), K)
        last = SLACK * K  # of adding votes
        return votes_low + squash(sums - slack) - last, votes_high + squash(sums + slack) + last

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose winner cannot change within the bounds (votes, not every pair)."""
        if self.labels_by_probability:
            return self._decided_by_probability(scores, bounds)
        if self.n_classes == 2:
            # Subtracting rounds, but never past the bound: rounding is monotone.
            gap = scores[:, 0] - self.threshold if self.threshold else scores[:, 0]
            return ops(scores).abs(gap) > bounds[:, 0]
        towards_first = self.towards_first(scores)
        if self.break_ties:
            return winner_decided_by_sums(towards_first, bounds, self.n_classes)
        return winner_decided(towards_first, bounds, self.n_classes)

    def same_answer(self, method: str, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """As `decided`; the votes that "ovr" decision values show are of every pair."""
        if method == "decision_function" and self.shape == "ovr" and self.n_classes > 2:
            return self.pairs_decided(scores, bounds)
        return self.decided(scores, bounds)

    def within(
        self, method: str, scores: FloatArray, bounds: FloatArray, tolerance: FloatArray | float
    ) -> BoolArray:
        """Rows whose answer is within the tolerance of both ends of where it can be.

        Where all rows have small bounds and no pair in doubt, their ranges need not be known.
        """
        if method == "predict_proba" and self.coupled:
            _, errors = self._coupled_within(scores, bounds)
            return ops(errors).all(errors <= tolerance, axis=1)
        limit = self.limit_by_pairs(method, tolerance)
        if limit is not None and isinstance(scores, np.ndarray):
            close = self.pairs_decided(scores, bounds) & (bounds.max(axis=1) <= limit)
            if close.all():
                return close
        return super().within(method, scores, bounds, tolerance)

    def told_by_pairs(self, method: str) -> bool:
        """Not where ties of votes are broken by sums, unless all votes are the answer."""
        if self.n_classes < 3 or self.labels_by_probability:
            return False
        return not self.break_ties or (method == "decision_function" and self.shape == "ovr")

    def limit_by_pairs(self, method: str, tolerance: FloatArray | float) -> float | None:
        """Of votes and squashed sums, which have slope 1/3."""
        if method != "decision_function" or self.decides_by_scores:
            return None
        return float(np.min(self.bounds_for(method, tolerance)))

    def pairs_decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows in which every pair's sign is decided."""
        xp = ops(scores)
        return xp.all(xp.abs(scores) > bounds, axis=1)

    def label_sets(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Which labels a row can have, shape (m, K): those that can reach the surest one's votes.

        Examples
        --------
        >>> head = ClassifierHead(np.array([0, 1]), first_positive=False)
        >>> head.label_sets(np.array([[1.0], [0.1]]), np.full((2, 1), 0.25))
        array([[False,  True],
               [ True,  True]])
        """
        sets = super().label_sets(scores, bounds)
        if self.n_classes < 3 or self.labels_by_probability:
            return sets
        xp = ops(scores)
        if isinstance(sets, np.ndarray) and np.count_nonzero(sets) == len(sets):
            return sets  # of one label each
        low, high = vote_range(self.towards_first(scores), bounds, self.n_classes)
        return sets & (xp.max(low, axis=1, keepdims=True) <= high)

    def margin(self, scores: FloatArray) -> FloatArray:
        """|f - threshold|, or the winner's smallest lead: shape (m,)."""
        if self.n_classes > 2:
            return winner_margin(self.towards_first(scores), self.n_classes)
        return ops(scores).abs(scores[:, 0] - self.threshold)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Class probabilities of shape (m, K), as the source couples them."""
        a, b = self._platt
        return class_probabilities(
            self.towards_first(scores),
            *(a, b, self.n_classes),
            couple_two_classes=self.couple_two_classes,
            coupling=self.coupling,
            chances=self.chances,
        )

    coupling: ClassVar[Any] = staticmethod(couple)
    chances: ClassVar[Any] = staticmethod(pair_probabilities)

    def coupled_by(self, coupling: Coupling, chances: Chances) -> ClassifierHead:
        """The same, where others give the chances of pairs of classes, and couple them."""
        head = replace(self)
        object.__setattr__(head, "coupling", coupling)
        object.__setattr__(head, "chances", chances)
        return head

    @property
    def _platt(self) -> tuple[FloatArray, FloatArray]:
        if self.platt_a is None or self.platt_b is None:
            raise InputError("this model was trained without probabilities.")
        return self.platt_a, self.platt_b

    def labelled_by_probability(self) -> ClassifierHead:
        """With the most probable class as label, as svm-predict's `-b 1`."""
        return replace(self, labels_by_probability=True)

    def probability_range(self, scores: FloatArray, bounds: FloatArray) -> Range:
        """Ends of `probabilities`: one sigmoid is monotone; `couple` follows errors of several."""
        if self.coupled:
            p, errors = self._coupled_within(scores, bounds)
            xp = ops(p)
            low, high = outwards(p - errors, p + errors)
            return xp.maximum(low, 0.0), xp.minimum(high, 1.0)
        xp, ends = ops(scores), score_range(self.towards_first(scores), bounds)
        first = outwards(*(xp.clip(p, *LIMITS) for p in self._sigmoid.range(*ends)))
        second = outwards(1.0 - first[1], 1.0 - first[0])
        return xp.concat([first[0], second[0]], axis=1), xp.concat([first[1], second[1]], axis=1)

    def _coupled_within(
        self, scores: FloatArray, bounds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Coupled probabilities, and how far they may be off: each (m, K)."""
        (a, b), towards_first = self._platt, self.towards_first(scores)
        first = self.chances(towards_first, a, b)
        moved = logit_errors(towards_first, bounds, a, b, first)
        p, errors = self.coupling(first, self.n_classes, moved)
        assert errors is not None
        return p, errors

    @property
    def _sigmoid(self) -> SigmoidCalibrator:
        """Of two classes: the first one's probability, of a score towards it."""
        a, b = self._platt
        return SigmoidCalibrator(float(a[0]), float(b[0]))

    def judged_by(self, method: str) -> Judged:
        """Scores' bounds tell of a sigmoid.

        Where classes are coupled, following errors takes longer than to sum up all digits.
        """
        return "exact" if method == "predict_proba" and self.coupled else "bounds"

    def bounds_for(self, method: str, tolerance: Any) -> FloatArray:
        """Platt's sigmoid has slope |a| / 4 at most; "ovr" squashes K - 1 pairs, with slope 1/3."""
        if method == "decision_function" and not self.decides_by_scores:
            return tolerance * min(1.0, 3.0 / (self.n_classes - 1)) * (1.0 - SLACK)
        if method != "predict_proba":
            return tolerance
        assert self.platt_a is not None
        return 4.0 * tolerance / np.maximum(np.abs(self.platt_a), 1e-300)

    @property
    def coupled(self) -> bool:
        """Whether probabilities come from an iteration with a stopping rule."""
        return self.n_classes != 2 or self.couple_two_classes

    def towards_first(self, scores: FloatArray) -> FloatArray:
        """Scores signed so that a positive one favours the first class of its pair."""
        return scores if self.first_positive else -scores

    def _decided_by_probability(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        # Two classes: the sign of the sigmoid's exponent tells, where it is large enough for two
        # probabilities of doubles to differ.
        if self.coupled:
            return best_decided(*self.probability_range(scores, bounds), self.n_classes)
        ends = score_range(self.towards_first(scores), bounds)
        low, high = self._sigmoid.exponents(*ends)
        return ((low > SLACK) | (high < -SLACK))[:, 0]
