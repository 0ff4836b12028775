"""The predicting methods of a compiled model.

In: rows. Out: what the source's own `predict`, `decision_function`, ... would answer. Where a
method says how its rows are settled, that is what guarantee "certified" proves.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelite.cpu.local import log_sums
from kernelite.errors import InputError
from kernelite.model.contract import ScikitLearnContract, offered
from kernelite.model.moments import (
    latent_labels,
    latent_probabilities,
    posterior_of,
    spread,
)
from kernelite.model.serving import OnInvalid, answer, rows_and_runner
from kernelite.program.bounded import EXACT, Stats
from kernelite.program.criteria import (
    PROBABILITY_TOLERANCE,
    label_criterion,
    probability_criterion,
    transform_criterion,
)
from kernelite.rows.inputs import FloatArray, RowsLike, is_tensor

__all__ = ["Predicting"]


class OneAtATimeError(InputError, RuntimeError):
    """More was asked for than one call gives; scikit-learn raises a RuntimeError there."""


class Predicting(ScikitLearnContract):
    """Labels, values, decision values, probabilities, coordinates, scores."""

    @overload
    def predict(
        self,
        X: RowsLike,
        /,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        *,
        return_stats: Literal[False] = False,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> NDArray[Any]: ...

    @overload
    def predict(
        self, X: RowsLike, /, return_std: Literal[True]
    ) -> tuple[NDArray[Any], FloatArray]: ...

    @overload
    def predict(
        self, X: RowsLike, /, return_std: Literal[False] = False, *, return_cov: Literal[True]
    ) -> tuple[NDArray[Any], FloatArray]: ...

    @overload
    def predict(
        self,
        X: RowsLike,
        /,
        *,
        return_stats: Literal[True],
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> tuple[NDArray[Any], Stats]: ...

    @offered
    def predict(
        self,
        X: RowsLike,
        /,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        return_stats: bool = False,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> NDArray[Any] | tuple[NDArray[Any], Any]:
        """Labels or values.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
        return_std, return_cov : bool
            Of a Gaussian process: also return the standard deviation of each row, exactly and at
            bounded memory, or the covariance of all rows, shape (m, m). One of them at most.
        return_stats : bool
            Also return a `Stats`: how many rows each stage decided.
        on_invalid : {"warn", "raise", "ignore"}, optional
            What happens when rows lie outside the validity bound ("none" only); the model's own
            by default.
        beyond : ndarray of shape (m,), optional
            Squared norm of the features that a row has beyond the model's width.

        Returns
        -------
        ndarray of shape (m,), or (ndarray, what was asked for besides)
        """
        if return_std + return_cov + return_stats > 1:
            raise OneAtATimeError(
                "one of `return_std`, `return_cov` and `return_stats` can be had at a time."
            )
        if return_std or return_cov:
            posterior_of(self)  # refuses before anything is computed, or warned of
        if "predict" in self.head.needs_posterior:
            answers = latent_labels(self, X)
            stats = Stats(len(answers), {EXACT: len(answers)})
        else:
            answers, stats = answer(
                self, X, self.head.predict, self._for_predict, on_invalid, beyond
            )
        if return_std or return_cov:
            return answers, spread(self, X, joint=return_cov)
        return (answers, stats) if return_stats else answers

    @offered
    def decision_function(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """Decision values in the source's own shape and sign.

        With "certified", within `tolerance`, by default 1e-3 of the standard deviation of each
        column on the sample, and their labels are proven, so that sign or argmax agree with
        `predict`. With "exact", to rounding. With "calibrated" and "none", the form's; so are those
        of files written before version 3, with their labels proven. `error_bound` bounds them.
        """
        return answer(self, X, self.head.decision, self._for_decisions, on_invalid, beyond)[0]

    @offered
    def predict_proba(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """Class probabilities, where the source has them; shape (m, K).

        With "certified", within 1e-3 of the exact model's for two classes on LIBSVM's rule; where
        classes are coupled by iteration, all rows are evaluated exactly.
        """
        if "predict_proba" in self.head.needs_posterior:
            return latent_probabilities(self, X)
        criterion = probability_criterion(self.head, PROBABILITY_TOLERANCE)
        answers = answer(self, X, self.head.probabilities, criterion, on_invalid, beyond)[0]
        return self.head.split(answers)

    @offered
    def predict_log_proba(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """The logarithm of `predict_proba`; minus infinity where that is 0."""
        found: Any = self.predict_proba(X, on_invalid=on_invalid, beyond=beyond)
        if is_tensor(found) and hasattr(found, "log"):
            return found.log()
        with np.errstate(divide="ignore"):
            return np.log(found)

    @offered
    def score_samples(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """A score per row, larger for rows more like those trained on; shape (m,).

        Settled as `decision_function`, from which a one-class machine differs by its offset.
        """
        criterion = self._for_decisions
        answers = answer(self, X, self.head.score_samples, criterion, on_invalid, beyond)[0]
        if is_tensor(answers):  # where sums underflow, that was seen to on the way
            return answers
        if self.expansion is not None:
            low = np.flatnonzero(self.head.underflows(answers))
            if len(low):
                expansion, (rows, runner) = self.expansion, rows_and_runner(self, X)
                sums = runner.each(rows[low], lambda part: log_sums(expansion, part), len(low))
                answers[low] = self.head.from_logarithms(sums)
        return answers

    @offered
    def transform(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """New coordinates of the rows, shape (m, k); with "certified", within `tolerance`."""
        criterion = transform_criterion(self.head, self.tolerance)
        found, _ = answer(self, X, self.head.transform, criterion, on_invalid, beyond)
        return self._contained(found, X)

    @offered
    def pdf(self, points: ArrayLike, /) -> FloatArray:
        """Densities as SciPy's `gaussian_kde` gives them, shape (m,).

        Parameters
        ----------
        points : array-like of shape (d, m), or (d,) for one point
            SciPy's shape; `score_samples` takes rows, shape (m, d).
        """
        return np.exp(self.logpdf(points))

    @offered
    def evaluate(self, points: ArrayLike, /) -> FloatArray:
        """The same as `pdf`, by SciPy's other name."""
        return self.pdf(points)

    @offered
    def logpdf(self, points: ArrayLike, /) -> FloatArray:
        """The logarithm of `pdf`."""
        given, d = np.atleast_2d(np.asarray(points)), self.n_features_in_
        if given.shape[0] == 1 and given.shape[1] == d:  # one point, as SciPy reads it
            given = given.T
        if given.ndim != 2 or given.shape[0] != d:
            raise InputError(
                f"`points` must have shape ({d}, m), as SciPy's have, got {np.shape(points)}; "
                "`score_samples` takes rows."
            )
        return self.score_samples(np.ascontiguousarray(given.T))

    def __call__(self, points: ArrayLike, /) -> NDArray[Any]:
        """As SciPy's own objects are called; other models are not.

        Parameters
        ----------
        points : array-like
            Of a `gaussian_kde`, shape (d, m) as in `pdf`; of an `RBFInterpolator`, rows of shape
            (m, d) as in `predict`.
        """
        if self.origin.family != "scipy":
            known = ", ".join(sorted(self.offers))
            raise TypeError(f"this model is not called, since its source is not; it has: {known}.")
        return self.pdf(points) if "pdf" in self.offers else self.predict(points)

    @offered
    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """How well `y` is predicted, by the source's own default measure.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
        y : array-like of shape (m,) or (m, outputs)
            Not used by a density.
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        float
            The accuracy of labels (of all outputs at once, if several), the R^2 of values, the
            summed log density.
        """
        kind = self.head.kind
        if kind == "density":
            return float(np.sum(self.score_samples(X)))
        from sklearn import metrics

        if kind == "regressor":
            return float(metrics.r2_score(y, self.predict(X), sample_weight=sample_weight))
        predicted = self.predict(X)
        if isinstance(self.head.classes, list):
            return float(np.mean(np.all(np.asarray(y) == predicted, axis=1)))
        return float(metrics.accuracy_score(y, predicted, sample_weight=sample_weight))

    def scores(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """The expansion's raw outputs, shape (m, k), settled as for `predict`."""
        criterion = label_criterion(self.head, self.tolerance)
        return answer(self, X, lambda scores: scores, criterion, on_invalid, beyond)[0]
