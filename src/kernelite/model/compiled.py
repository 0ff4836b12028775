"""CompiledModel: runs a compiled predictor, says what is proven, saves itself.

In: rows. Out: what the source's own `predict`, `decision_function`, ... would answer.
Immutable after construction, hence safe to share between threads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

import kernelite.model.moments as moments
from kernelite.affine import AffineMap
from kernelite.approximation.cells import Approximation
from kernelite.approximation.local import LocalSums
from kernelite.approximation.quadratic import QuadraticForm
from kernelite.approximation.spectral import SpectralForm
from kernelite.approximation.widen import widen, widen_expansion, with_column
from kernelite.engines.composite import CompositeRunner, PartRows, PartRunner
from kernelite.engines.log_sums import log_sums
from kernelite.engines.stats import Stats
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.front import Front
from kernelite.head import DensityHead, Head
from kernelite.heads.criteria import (
    PROBABILITY_TOLERANCE,
    Settles,
    by_margin,
    decision_settles,
    label_settles,
    never,
    probability_settles,
    transform_settles,
)
from kernelite.inputs import FloatArray, Rows, check_rows, fit_width, is_plain_row
from kernelite.model.contract import ScikitLearnContract
from kernelite.model.offering import offered
from kernelite.model.validity import OnInvalid, report_invalid
from kernelite.planning.plan import Plan
from kernelite.planning.tolerances import n_values
from kernelite.posterior import Posterior
from kernelite.runner import Finish, Runner
from kernelite.sizes import array_bytes
from kernelite.tail import PolynomialTail

__all__ = ["CompiledModel", "Guarantee", "ModelPart", "Origin"]

Guarantee: TypeAlias = Literal["certified", "calibrated", "none", "exact"]
VALUES = ("regressor", "transform", "density")  # kinds that answer within a tolerance
ONE_ROW = Stats(rows=1, form=1)


@dataclass(frozen=True)
class Origin:
    """Where a compiled model came from.

    Parameters
    ----------
    description : str
        One line for people.
    family, type_name : str
        E.g. "libsvm", "c_svc".
    n_centers : int
        Support vectors of the exact model; 0 where that is not known.
    feature_names : tuple of str, optional
    width_is_open : bool
        Whether rows of a file may carry features beyond the model's width (LIBSVM).
    ignores_beyond : bool
        Whether such features are dropped instead of counting in |z|^2 (behind svm-scale).
    """

    description: str
    family: str
    type_name: str
    n_centers: int
    feature_names: tuple[str, ...] | None = None
    width_is_open: bool = False
    ignores_beyond: bool = False


@dataclass(frozen=True, eq=False)
class ModelPart:
    """One machine of a model that is made of several.

    Parameters
    ----------
    model : CompiledModel
        The machine compiled by itself.
    outputs : array of int
        The scores of the whole that its own are added to.
    """

    model: CompiledModel
    outputs: NDArray[np.int64]

    def __post_init__(self) -> None:
        outputs = np.asarray(self.outputs, dtype=np.int64)
        if outputs.shape != (self.model.head.n_scores,) or self.model.parts:
            raise InputError("a part is one machine, with a place for each of its scores.")
        object.__setattr__(self, "outputs", outputs)


@dataclass(frozen=True, eq=False, repr=False)
class CompiledModel(ScikitLearnContract):
    """A compiled kernel machine. Made by `kernelite.compile` or `kernelite.load`.

    Parameters
    ----------
    head : Head
    approximation : Approximation, optional
        The forms; None when the plan is exact.
    expansion : KernelExpansion, optional
        The exact model, for rows that fall back; None with guarantee "none".
    guarantee : {"certified", "calibrated", "none", "exact"}
    plan : Plan
    origin : Origin
    tolerance : ndarray of shape (k,), optional
        How far certified values may be from the exact ones.
    threshold : float, optional
        The margin below which a calibrated model asks the exact one.
    on_invalid : {"warn", "raise", "ignore"}
    input_map : AffineMap, optional
        Applied to rows before anything else; what follows is all in mapped coordinates.
    local : LocalSums, optional
        Where the plan is exact: leave far centers out, as far as the guarantee allows.
    tail : PolynomialTail, optional
        A polynomial of the rows that is added to the scores.
    posterior : Posterior, optional
        Of a Gaussian process: what its variance is computed from.
    front : Front, optional
        What comes before that: transformers kept as they are, features selected.
    parts : tuple of ModelPart
        Machines whose kernels or inputs differ, each with its own approximation; their scores are
        added up for `head`. A model with parts has no approximation or expansion of its own.
    """

    head: Head
    approximation: Approximation | None
    expansion: KernelExpansion | None
    guarantee: Guarantee
    plan: Plan
    origin: Origin
    tolerance: FloatArray | None = None
    threshold: float | None = None
    on_invalid: OnInvalid = "warn"
    input_map: AffineMap | None = None
    posterior: Posterior | None = None
    front: Front | None = None
    parts: tuple[ModelPart, ...] = ()
    local: LocalSums | None = None
    tail: PolynomialTail | None = None

    def __post_init__(self) -> None:
        if self.parts:
            self._check_parts()
            return
        if self.approximation is None and self.expansion is None:
            raise InputError("a compiled model needs a form or the exact expansion; both are None.")
        self._check_shapes()
        if self.guarantee != "none" and self.expansion is None:
            raise InputError(f"a {self.guarantee} model must carry its support vectors.")
        if self.guarantee == "calibrated" and self.approximation and self.threshold is None:
            raise InputError("a calibrated model needs a `threshold`.")
        if self.guarantee == "certified" and self.approximation:
            if not self.approximation.certified:
                raise InputError("a certified model needs a certificate for each of its cells.")
            if self.tolerance is None and self.head.kind in VALUES:
                raise InputError("a certified regressor needs a `tolerance`.")

    def _check_shapes(self) -> None:
        expected = self._part.n_features, self.head.n_scores
        for name, part in (("form", self.form), ("expansion", self.expansion)):
            if part is not None and (part.n_features, part.n_outputs) != expected:
                raise InputError(
                    f"the {name} has {part.n_features} features and {part.n_outputs} outputs, but "
                    f"the model has {expected[0]} and its head wants {expected[1]}."
                )
        if self.input_map is not None and self.input_map.n_features != expected[0]:
            raise InputError(
                f"the input map has {self.input_map.n_features} features, but the model has "
                f"{expected[0]}."
            )
        if self.local is not None and len(self.local.absolute) != expected[1]:
            raise InputError(f"`absolute` of local sums must hold {expected[1]} numbers.")
        tail = self.tail
        if tail is not None and (tail.n_features, tail.n_outputs) != expected:
            raise InputError("the polynomial has other features or outputs than the model.")
        if self.posterior is not None:
            self.posterior.check_belongs(self.expansion)
        if self.front is not None and self.front.rowwise:
            width = self.front(np.zeros((0, self.front.width))).shape[1]
            if width != expected[0]:
                raise InputError(
                    f"the front makes {width} features, but the model has {expected[0]}."
                )
        names = self.origin.feature_names
        if names is not None and len(names) != self.n_features_in_:
            raise InputError(f"{len(names)} feature names for {self.n_features_in_} features.")
        count = n_values(self.head)
        if self.tolerance is not None and self.tolerance.shape != (count,):
            raise InputError(f"`tolerance` must hold {count} numbers, one an output.")

    def _check_parts(self) -> None:
        if self.approximation or self.expansion or self.input_map or self.threshold is not None:
            raise InputError("a model of several parts has forms and maps in its parts only.")
        reached = {int(output) for part in self.parts for output in part.outputs}
        if reached != set(range(self.head.n_scores)):
            raise InputError("the parts do not reach each score that the head wants.")
        if any(part.model.guarantee != self.guarantee for part in self.parts):
            raise InputError("the parts of a model must have its guarantee.")
        if self.guarantee == "calibrated":
            raise InputError("a model of several parts cannot be calibrated.")

    # What the source was -------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """d, the width of a row."""
        if self.front is not None:
            return self.front.width
        return self.parts[0].model.n_features_in_ if self.parts else self._part.n_features

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of a classifier."""
        classes: NDArray[Any] | None = getattr(self.head, "classes", None)
        if classes is None:
            raise AttributeError(f"a {self.head.kind} has no `classes_`")
        return classes

    @property
    def offers(self) -> frozenset[str]:
        """Names of the predicting methods this model has: those of its source."""
        names = self.head.offers
        if self.posterior is None and not any(part.model.posterior for part in self.parts):
            names = names - getattr(self.head, "needs_posterior", frozenset())
        if self.head.kind in ("classifier", "regressor", "density"):
            names |= {"score"}
        if self.head.kind == "transform":
            names |= {"get_feature_names_out", "set_output"}
        return names

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Column names seen at fit time."""
        if self.origin.feature_names is None:
            raise AttributeError("this model was fitted without feature names")
        return np.array(self.origin.feature_names, dtype=object)

    @property
    def gamma(self) -> float:
        """The kernel's width."""
        if self.parts:
            raise AttributeError("the parts of this model have a `gamma` each")
        return self._part.gamma

    @property
    def form(self) -> QuadraticForm | SpectralForm | None:
        """The (first cell's) form; None when the plan is exact."""
        return None if self.approximation is None else self.approximation.form

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays this model holds."""
        return array_bytes(self)

    # Predicting ----------------------------------------------------------------------------

    @overload
    def predict(
        self,
        X: Any,
        /,
        *,
        return_stats: Literal[False] = False,
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> NDArray[Any]: ...

    @overload
    def predict(
        self, X: Any, /, *, return_std: Literal[True]
    ) -> tuple[NDArray[Any], FloatArray]: ...

    @overload
    def predict(
        self, X: Any, /, *, return_cov: Literal[True]
    ) -> tuple[NDArray[Any], FloatArray]: ...

    @overload
    def predict(
        self,
        X: Any,
        /,
        *,
        return_stats: Literal[True],
        on_invalid: OnInvalid | None = None,
        beyond: FloatArray | None = None,
    ) -> tuple[NDArray[Any], Stats]: ...

    @offered
    def predict(
        self,
        X: Any,
        /,
        *,
        return_std: bool = False,
        return_cov: bool = False,
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
            Also return a `Stats`: how many rows each tier decided.
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
            raise InputError(
                "one of `return_std`, `return_cov` and `return_stats` can be had at a time."
            )
        if "predict" in getattr(self.head, "needs_posterior", ()):
            answers = moments.labels(self, X)
            stats = Stats(rows=len(answers), exact=len(answers))
        else:
            settles = label_settles(self.head, self.tolerance)
            answers, stats = self._answer(X, self.head.predict, settles, on_invalid, beyond)
        if return_std or return_cov:
            return answers, moments.spread(self, X, joint=return_cov)
        return (answers, stats) if return_stats else answers

    @offered
    def decision_function(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """Decision values in the source's own shape and sign.

        With "certified", their labels are proven and their error is at most `error_bound`; with a
        `tolerance`, it is at most that.
        """
        settles = decision_settles(self.head, self.tolerance)
        return self._answer(X, self.head.decision, settles, on_invalid, beyond)[0]

    @offered
    def predict_proba(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """Class probabilities, where the source has them; shape (m, K).

        With "certified", within 1e-3 of the exact model's for two classes on LIBSVM's rule; where
        classes are coupled by iteration, all rows are evaluated exactly.
        """
        if "predict_proba" in getattr(self.head, "needs_posterior", ()):
            return moments.probabilities(self, X)
        settles = probability_settles(self.head, PROBABILITY_TOLERANCE)
        finish: Finish = self.head.probabilities  # type: ignore[attr-defined]
        answers = self._answer(X, finish, settles, on_invalid, beyond)[0]
        # With several outputs, scikit-learn returns a list, an array an output.
        return self.head.split(answers) if hasattr(self.head, "split") else answers

    @offered
    def predict_log_proba(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """The logarithm of `predict_proba`; minus infinity where that is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, on_invalid=on_invalid, beyond=beyond))

    @offered
    def score_samples(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """A score a row, larger for rows more like those trained on; shape (m,).

        Settled as `decision_function`, from which a one-class machine differs by its offset.
        """
        settles = decision_settles(self.head, self.tolerance)
        finish: Finish = self.head.score_samples  # type: ignore[attr-defined]
        answers = self._answer(X, finish, settles, on_invalid, beyond)[0]
        if isinstance(self.head, DensityHead) and self.expansion is not None:
            low = np.flatnonzero(self.head.underflows(answers))
            if len(low):
                expansion, (rows, runner) = self.expansion, self._placed(X)
                sums = runner.each(rows[low], lambda part: log_sums(expansion, part), len(low))
                answers[low] = sums + self.head.log_scale
        return answers

    @offered
    def transform(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """New coordinates of the rows, shape (m, k); with "certified", within `tolerance`."""
        settles = transform_settles(self.head, self.tolerance)
        finish: Finish = self.head.transform  # type: ignore[attr-defined]
        return self._contained(self._answer(X, finish, settles, on_invalid, beyond)[0], X)

    def scores(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """The expansion's raw outputs, shape (m, k), settled as for `predict`."""
        settles = label_settles(self.head, self.tolerance)
        return self._answer(X, lambda scores: scores, settles, on_invalid, beyond)[0]

    # What is known of the error --------------------------------------------------------------

    def error_bound(self, X: Any, /) -> FloatArray:
        """A proven bound on the error of the scores of each row, shape (m, k).

        It needs no support vectors, only the certificate's constants.
        """
        forms = [self.approximation, *(part.model.approximation for part in self.parts)]
        if any(form is not None and not form.certified for form in forms):
            raise InputError(
                "this model carries no certificate; compile it with `certificate=True` or with "
                "guarantee='certified'."
            )
        rows, runner = self._placed(X)
        return runner.bounds(rows)

    def valid(self, X: Any, /) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""
        rows, runner = self._placed(X)
        return runner.valid(rows)

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write a `.kernelite` file: safetensors with JSON metadata, never pickle."""
        from kernelite.formats.store import save

        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: engines hold compiled code, and are laid out again when needed."""
        kept = [*(field.name for field in fields(self)), "_container"]
        return {name: self.__dict__[name] for name in kept if name in self.__dict__}

    def report(
        self,
        X: Any,
        path: str | os.PathLike[str] | None = None,
        /,
        *,
        exact: CompiledModel | None = None,
    ) -> str:
        """A page about this model and how it does on some rows; needs the extra `report`.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Rows; no labels needed.
        path : path-like, optional
            Where to write the page.
        exact : CompiledModel, optional
            The exact model, where this one holds no support vectors.

        Returns
        -------
        str
            HTML, self-contained.
        """
        from kernelite.report.page import report, write

        page = report(self, X, exact=exact)
        if path is not None:
            write(page, path)
        return page

    # Inside --------------------------------------------------------------------------------

    @property
    def _part(self) -> Any:
        return self.expansion if self.form is None else self.form

    @cached_property
    def _runner(self) -> Runner:
        if self.parts:
            return self._composite_runner()
        front = self.front if self.front is not None and self.front.rowwise else None
        return Runner.prepare(
            self.approximation, self.expansion, self.input_map, front, self.local, self.tail
        )

    @cached_property
    def _wide_runner(self) -> Runner:
        """For rows with features beyond the width: one more feature, in which all centers are 0."""
        return Runner.prepare(
            None if self.approximation is None else widen(self.approximation),
            None if self.expansion is None else widen_expansion(self.expansion),
            None if self.input_map is None else self.input_map.widened(),
        )

    def _rows(self, X: Any) -> tuple[Rows, FloatArray | None]:
        """Rows at the model's width, and the squared norm of what lies beyond it.

        Whether they are finite shows in |u|^2, which the forms compute anyway: see `Runner`.
        """
        names = self.origin.feature_names
        if self.parts:
            return self._part_rows(X), None
        if self.front is not None and not self.front.rowwise:
            return check_rows(self.front(X, names), n_features=self._part.n_features), None
        d = self.n_features_in_
        poly = self._part.kernel == "poly2"  # drops what is beyond its width, NaN included
        if self.origin.width_is_open:
            return fit_width(check_rows(X, feature_names=names, finite=poly), d)
        return check_rows(X, n_features=d, feature_names=names, finite=False), None

    def _part_rows(self, X: Any) -> PartRows:
        """What each part sees; parts without transformers of their own share one checked copy."""
        names: Any = self.origin.feature_names
        if self.front is not None:
            X, names = self.front(X, names), None
        shared: Rows | None = None
        found = []
        for part in self.parts:
            front = part.model.front
            if front is not None and not front.rowwise:
                found.append(part.model._rows(X)[0])
                continue
            if shared is None:
                d = part.model.n_features_in_
                shared = check_rows(X, n_features=d, feature_names=names, finite=False)
            found.append(shared)
        return PartRows(tuple(found))

    def _composite_runner(self) -> CompositeRunner:
        parts = tuple(
            PartRunner(
                part.model._runner,
                part.outputs,
                label_settles(part.model.head, part.model.tolerance),
            )
            for part in self.parts
        )
        return CompositeRunner(parts=parts, n_outputs=self.head.n_scores)

    def _placed(self, X: Any, beyond: FloatArray | None = None) -> tuple[Rows, Runner]:
        """Rows and the runner for their width."""
        rows, cut_off = self._rows(X)
        if cut_off is not None:
            beyond = cut_off if beyond is None else beyond + cut_off
        if self.origin.ignores_beyond:
            beyond = None
        if beyond is None or not beyond.any() or self.parts or self._part.kernel == "poly2":
            return rows, self._runner
        return with_column(rows, np.sqrt(beyond)), self._wide_runner

    def _answer(
        self,
        X: Any,
        finish: Finish,
        settles: Settles,
        on_invalid: OnInvalid | None,
        beyond: FloatArray | None,
    ) -> tuple[NDArray[Any], Stats]:
        rule = self._rule(settles)
        plain = type(X) is np.ndarray and beyond is None and self.front is None
        if plain and is_plain_row(X, self.n_features_in_):
            scores = self._runner.run_one(X, rule)
            if scores is not None:
                return finish(scores), ONE_ROW
        rows, runner = self._placed(X, beyond)
        answers, stats = runner.run(rows, finish, rule)
        if self.guarantee == "none":
            policy = on_invalid if on_invalid is not None else self.on_invalid
            report_invalid(stats.outside_validity, stats.rows, policy)
        return answers, stats

    def _rule(self, settles: Settles) -> Settles | None:
        """What this model's guarantee asks of a row, given what certified would ask."""
        if self.guarantee == "none":
            return None
        if self.guarantee == "calibrated" and settles is not never:
            assert self.threshold is not None or self.approximation is None
            return by_margin(self.head, self.threshold or 0.0)
        return settles
