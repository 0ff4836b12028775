"""The predicting methods of a compiled model, and how each takes rows to answers.

In: rows. Out: what the source's own `predict`, `decision_function`, ... would answer. Where a
method says how its rows are settled, that is what guarantee "certified" proves.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.local import log_sums
from kernelite.backends.cpu.one_pass import Finish
from kernelite.data.rows.inputs import FloatArray, RowsLike, is_tensor, plain_rows
from kernelite.model.contract import ScikitLearnContract, offered
from kernelite.model.fields import ModelFields
from kernelite.model.moments import (
    joint_answers,
    latent_answers,
    mean_and_spread,
    posterior_of,
    samples,
    spread,
)
from kernelite.model.serving import (
    OnInvalid,
    check_on_invalid,
    report_invalid,
    rows_and_runner,
    wide_row,
)
from kernelite.program.bounded import EXACT, Stats
from kernelite.program.criteria import Criterion, LabelMargin, Margin, never
from kernelite.support.errors import InputError

__all__ = ["Predicting", "answer", "rule_of"]


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
        plain = return_std and on_invalid is None and beyond is None
        if plain and (both := mean_and_spread(self, X)) is not None:
            return both
        if return_std or return_cov:
            posterior_of(self)  # refuses before anything is computed, or warned of
        if "predict" in self.head.needs_posterior:
            answers = self._from_moments(X, "predict")
            stats = Stats(len(answers), {EXACT: len(answers)})
        else:
            asked = self._labels, self._for_predict, on_invalid, beyond, return_stats
            answers, stats = answer(self, X, *asked)
        if return_std or return_cov:
            return answers, spread(self, X, joint=return_cov)
        return (answers, stats) if return_stats else answers

    @offered
    def sample_y(
        self, X: RowsLike, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> FloatArray:
        """Values drawn from a Gaussian process at the rows, as scikit-learn draws them.

        Parameters
        ----------
        X : array-like of shape (m, d)
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (m, n_samples), or (m, outputs, n_samples) of several outputs
        """
        mean, covariance = self.predict(X, return_cov=True)
        return samples(mean, covariance, n_samples, random_state)

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

        With "certified", they are within `tolerance` of the exact ones, by default 1e-3 of the
        standard deviation of each column on the sample, and their labels are proven, so that sign
        or argmax agree with `predict`. With "exact", they are exact up to rounding; with
        "calibrated" and "none", they are the form's. `error_bound` bounds their errors.
        """
        return answer(self, X, self._decisions, self._for_decisions, on_invalid, beyond)[0]

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

        With "certified", within 1e-3 of the exact model's; `proba_bound` bounds them.
        """
        if "predict_proba" in self.head.needs_posterior:
            return self._from_moments(X, "predict_proba")
        finish = (self.head if is_tensor(X) else self._of_probabilities).probabilities
        answers = answer(self, X, finish, self._for_probabilities, on_invalid, beyond)[0]
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

        It is as exact as `decision_function`, from which it differs by the offset of a one-class
        machine.
        """
        criterion = self._for_decisions
        answers = answer(self, X, self.head.score_samples, criterion, on_invalid, beyond)[0]
        if is_tensor(answers):  # where sums underflow, that was seen to on the way
            return answers
        if self.expansion is not None and self.expansion.kernel.exponents(np.zeros(1)) is not None:
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
        found, _ = answer(self, X, self.head.transform, self._for_transform, on_invalid, beyond)
        return self._contained(found, X)

    def scores(
        self,
        X: RowsLike,
        /,
        *,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> FloatArray:
        """The raw sums over support vectors, shape (m, k), as exact as `predict` needs them.

        One-vs-one has one for each pair of classes. Exports call them `scores` too.
        """
        return answer(self, X, lambda scores: scores, self._for_scores, on_invalid, beyond)[0]

    def _from_moments(self, X: RowsLike, method: Literal["predict", "predict_proba"]) -> Any:
        """Answers of a Gaussian process that its variance takes part in."""
        tailed = any(part.model.tail is not None for part in self.parts)
        if "predict" in self.head.needs_posterior and not (tailed or is_tensor(X)):
            return joint_answers(self, X, method)
        means = answer(self, X, lambda scores: scores, never, None, None)[0]
        return latent_answers(self, X, method, means)


# From rows to answers.


def answer(
    model: Predicting,
    X: Any,
    finish: Finish,
    criterion: Criterion,
    on_invalid: OnInvalid | None,
    beyond: FloatArray | None,
    counted: bool = False,
) -> tuple[NDArray[Any], Stats]:
    """What `finish` makes of scores that `criterion` accepts; how they came about, if `counted`."""
    if on_invalid is not None:
        check_on_invalid(on_invalid)
    rule = rule_of(model, criterion)
    rows: Any = None
    runner = model._runner
    if beyond is None and not model._has_steps:  # the low-latency path
        rows = plain_rows(X, model.n_features_in_)
        if rows is None and model.origin.width_is_open and not model.parts:
            rows = wide_row(model, X)
        if rows is not None and rows.shape[0] == 1:
            found = runner.run_one(rows, finish, rule)
            if found is not None:
                return found
    if rows is None or model.parts:  # each part has rows of its own
        if is_tensor(X):
            return _answer_tensor(model, X, finish, criterion, on_invalid, beyond, counted)
        rows, runner = rows_and_runner(model, X, beyond)
    shown = model.guarantee == "none"
    answers, stats = runner.run(rows, finish, rule, counted or shown)
    if shown:
        policy = on_invalid if on_invalid is not None else model.on_invalid
        report_invalid(stats.outside_validity, stats.rows, policy)
    return answers, stats


def _answer_tensor(
    model: Predicting,
    X: Any,
    finish: Finish,
    criterion: Criterion,
    on_invalid: OnInvalid | None,
    beyond: FloatArray | None,
    counted: bool,
) -> tuple[Any, Stats]:
    """As `answer`, where the rows are: in host memory by the engines here, else on their GPU."""
    from kernelite.backends.torch.interchange import answer_there, as_host_array, like

    host = as_host_array(X)
    if host is not None:
        if model.head.kind == "density":  # which takes logarithms where sums underflow
            found = model.score_samples(host, on_invalid=on_invalid, beyond=beyond)
            return like(X, found), Stats(rows=len(host))
        answers, stats = answer(model, host, finish, criterion, on_invalid, beyond, counted)
        return like(X, answers), stats
    if beyond is not None:
        raise InputError("`beyond` goes with rows in host memory; bring `X` there by `X.cpu()`.")
    if finish is model._labels:
        finish = model.head.predict
    elif finish is model._decisions:
        finish = model.head.decision
    return answer_there(model, X, finish, criterion, on_invalid)


def rule_of(model: ModelFields, criterion: Criterion) -> Criterion | None:
    """What this model's guarantee asks of a row, given what certified would ask."""
    if model.guarantee == "none":
        return None
    if model.guarantee == "exact" and criterion.asks_values:
        return never  # no stage with fewer digits, whatever tolerance the method would have
    exact = model.approximation is None and not model.parts
    if model.guarantee == "calibrated" and criterion is not never and not exact:
        rule = LabelMargin if criterion.labels_alone else Margin
        return rule(model.head, model.threshold or 0.0)
    return criterion
