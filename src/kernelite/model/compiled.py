"""CompiledModel: a compiled predictor that scores itself, says what is proven, saves itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelite.data.rows.inputs import FloatArray, RowsLike, check_finite, is_tensor
from kernelite.model.contract import names_can_be_set, offered
from kernelite.model.predicting import Predicting, rule_of
from kernelite.model.serving import explained_on, of_tensor, rows_and_runner
from kernelite.program.bounded import Bounded, spelled_out
from kernelite.program.criteria import PROBABILITY_TOLERANCE, decision_tolerance, never
from kernelite.support.errors import InputError, require_scikit_learn
from kernelite.support.records import dataclass

__all__ = ["CompiledModel", "require_compiled"]


@names_can_be_set
@dataclass(frozen=True, eq=False, repr=False)
class CompiledModel(Predicting):
    """A compiled kernel machine. Made by `kernelite.compile` or `kernelite.load`.

    It has those of `predict`, `decision_function`, `predict_proba`, `transform`, ... that its
    source has, and answers in the source's shapes. `plan` says what was chosen and why, `guarantee`
    what is promised. Threads may share one. Only `set_output`, and setting `feature_names_in_` as
    scikit-learn does, change it: do that before.
    """

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
        require_scikit_learn("`score` needs")
        from sklearn import metrics

        if kind == "regressor":
            return float(metrics.r2_score(y, self.predict(X), sample_weight=sample_weight))
        predicted = self.predict(X)
        if isinstance(self.head.classes, list):
            return float(np.mean(np.all(np.asarray(y) == predicted, axis=1)))
        return float(metrics.accuracy_score(y, predicted, sample_weight=sample_weight))

    # Why ----------------------------------------------------------------------------------------

    def shap_values(
        self,
        X: RowsLike,
        background: RowsLike | None = None,
        /,
        *,
        groups: Mapping[str, Sequence[Any]] | None = None,
        tolerance: float | None = None,
        output: str | None = None,
        device: object = None,
    ) -> Any:
        """Exact Shapley values of the scores, with proven bounds.

        How much of a row's score each column accounts for, compared with the background rows:
        base value plus values is the score. The exact model is explained, whatever the guarantee.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Rows to explain.
        background : array-like of shape (B, d)
            Rows to compare with: some that the model was fitted on, about a hundred. Columns that a
            coalition leaves out take their values from there (interventional, as in shap).
        groups : dict, optional
            Columns that are one player: a name for each group, and the names or numbers of its
            columns. The features that an encoder makes of a column are one player anyway.
        tolerance : float, optional
            How far values may be off: the quadrature then takes fewer nodes. By default they are as
            exact as doubles are. `bounds` says what was reached.
        output : "scores", optional
            Explain the raw scores even if no method of the source answers them.
        device : str or torch.device, optional
            The device of torch's to compute on, such as "cuda". By default rows that are tensors
            are explained where they lie, others on all processors. Bounds are proven there too.

        Returns
        -------
        shap.Explanation, or Explanation where shap is not installed
            With `values` of shape (m, p), or (m, p, k) for several scores, `base_values`, `data`,
            `feature_names`, and `bounds`, shaped as `values`.

        Examples
        --------
        >>> import kernelite
        >>> bump = kernelite.KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
        >>> model = kernelite.compile(bump, guarantee="exact")
        >>> found = model.shap_values([[0.0, 1.0]], [[1.0, 1.0]])
        >>> found.values.round(4), found.base_values.round(4)
        (array([[0.4651, 0.    ]]), array([0.7707]))
        """
        from kernelite.explain.shapley import shap_values

        X, background, where = explained_on(X, background, device)
        asked: Any = {"groups": groups, "tolerance": tolerance, "output": output}
        found = shap_values(self, X, background, **asked, **where)
        return found.for_shap() if find_spec("shap") else found

    def gradient(
        self,
        X: RowsLike,
        /,
        *,
        of: Literal["score", "std"] = "score",
        return_value: bool = False,
        return_bound: bool = False,
    ) -> Any:
        """Derivatives of the exact scores by the columns of `X`, with proven bounds.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        of : {"score", "std"}
            Of the scores (decision values, a regressor's values, a Gaussian process's mean, the
            logarithm of a density), or of a Gaussian process's standard deviation.
        return_value : bool
            Also return what is differentiated, first: as SciPy's `minimize(jac=True)` takes it.
        return_bound : bool
            Also return bounds on the error of each derivative, last; infinite at a kink.

        Returns
        -------
        ndarray of shape (m, d), or (m, k, d) for several scores; or a tuple with what was asked for

        Examples
        --------
        >>> import kernelite
        >>> bump = kernelite.KernelExpansion([[0.0, 0.0]], [2.0], 0.5, gamma=1.0)
        >>> model = kernelite.compile(bump, guarantee="exact")
        >>> value, gradient = model.gradient([[1.0, 0.5]], return_value=True)
        >>> value.round(4), gradient.round(4)
        (array([1.073]), array([[-1.146, -0.573]]))
        """
        from kernelite.explain.gradients import gradient

        return gradient(self, X, of=of, return_value=return_value, return_bound=return_bound)

    def radius(self, X: RowsLike, /, *, norm: Literal["l2", "linf"] = "l2") -> FloatArray:
        """How far each row may move before its label can change: a proven lower bound, shape (m,).

        No point nearer than that, in the units of the columns of `X`, has another label under the
        exact model. It is zero where the label itself is open.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        norm : {"l2", "linf"}
            The length of a move: the root of its squares' sum, or its largest entry.

        Examples
        --------
        >>> import numpy as np
        >>> import kernelite
        >>> from sklearn.svm import SVC
        >>> rows = np.array([[0.0, 0.0], [2.0, 0.0]])
        >>> model = kernelite.compile(SVC(gamma=0.5).fit(rows, [0, 1]), rows)
        >>> model.radius(rows).round(1)  # the boundary is at a distance of 1
        array([0.9, 0.9])
        """
        from kernelite.explain.radius import radius

        return radius(self, X, norm=norm)

    # What is proven -----------------------------------------------------------------------------

    def error_bound(self, X: RowsLike, /) -> FloatArray:
        """A proven bound on the error of `decision_function`, in its shape; else of `scores`.

        Where decision values are within a tolerance, it is at least that. A model without
        `decision_function` has bounds on its scores, of shape (m, k); a regressor of one output
        predicts its score, so that its bounds have shape (m,).
        """
        if is_tensor(X):
            return of_tensor(self, X, "error_bound", self.error_bound)
        if "decision_function" not in self.offers:
            bounds = self.score_bound(X)
            return bounds.reshape(-1) if self._predicts_vectors else bounds
        self._require_certificate()
        rows, runner = rows_and_runner(self, X)
        criterion = self._for_decisions
        bounds = runner.map_blocks(rows, rule_of(self, criterion), self._decision_bound)
        return np.asarray(bounds)

    @property
    def _predicts_vectors(self) -> bool:
        """Whether this is a regressor whose one score, of shape (m,), is what it predicts."""
        if self.head.kind != "regressor" or self.head.n_scores != 1:
            return False
        if self.head.judged_by("predict") != "bounds":  # it transforms its score
            return False
        return np.ndim(self.head.predict(np.zeros((1, 1)))) == 1

    def _decision_bound(self, found: Bounded) -> FloatArray:
        """How far decision values of a block may be off."""
        assert found.bounds is not None
        wide = spelled_out(found.bounds)
        bound = self.head.answer_bound("decision_function", found.scores, wide)
        spread = decision_tolerance(self.head, self.tolerance, self.score_tolerance)
        if spread is not None and bound.ndim == 1:
            spread = np.max(spread)
        return _at_least(bound, found, spread)

    def proba_bound(self, X: RowsLike, /) -> Any:
        """A proven bound on the error of `predict_proba`, in its shape.

        Where probabilities are served within a tolerance (1e-3), it is at least that. Of a row
        whose coupling may as well stop a round earlier or later, nothing is known but that
        probabilities lie between 0 and 1. Those of a Gaussian process depend on variances, which
        are not proven: they are refused.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.kernel_approximation import Nystroem
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> import kernelite
        >>> X, y = load_iris(return_X_y=True)
        >>> model = make_pipeline(Nystroem(gamma=0.1, random_state=0), LogisticRegression())
        >>> fast = kernelite.compile(model.fit(X, y), X, guarantee="exact")
        >>> fast.proba_bound(X).shape, bool(fast.proba_bound(X).max() < 1e-9)
        ((150, 3), True)
        """
        head, method = self._of_probabilities, "predict_proba"
        if method not in self.offers:
            raise InputError("this model has no probabilities.")
        if method in head.needs_posterior:
            raise InputError(
                "probabilities that depend on variances are computed exactly, not proven."
            )
        self._require_certificate()
        spread = PROBABILITY_TOLERANCE if head.judged_by(method) in ("bounds", "range") else 0.0

        def bound_of(found: Bounded) -> FloatArray:
            assert found.bounds is not None
            bound = head.answer_bound(method, found.scores, spelled_out(found.bounds))
            return _at_least(bound, found, spread)

        rows, runner = rows_and_runner(self, X)
        rule = rule_of(self, self._for_probabilities)
        return head.split(np.asarray(runner.map_blocks(rows, rule, bound_of)))

    def std_bound(self, X: RowsLike, /) -> FloatArray:
        """A proven bound on the error of the deviations of `predict(X, return_std=True)`.

        It has their shape. With "certified", deviations are within `tolerance`, as means are, and
        the bound is at least that; else it is the rounding of doubles. The exact deviation is that
        of the stored factor, amplitudes and noise, in real arithmetic. The bound is infinite where
        nothing is known: for kernels whose k(z, z) varies with the row, and for factors that are
        too near to singular.

        Examples
        --------
        >>> from sklearn.gaussian_process import GaussianProcessRegressor
        >>> import kernelite
        >>> rows = np.array([[0.0], [1.0], [2.0]])
        >>> model = GaussianProcessRegressor(alpha=0.1).fit(rows, [0.0, 1.0, 0.0])
        >>> fast = kernelite.compile(model, rows, guarantee="exact")
        >>> bool((fast.std_bound(rows) < 1e-12).all())
        True
        """
        from kernelite.model.moments import spread_bound

        return spread_bound(self, X)

    def score_bound(self, X: RowsLike, /) -> FloatArray:
        """A proven bound on the error of `scores`, shape (m, k).

        Where values are served within a tolerance it is no more than that, unless rounding alone
        is. A model without support vectors has the bound of its form, from constants it holds.
        """
        self._require_certificate()
        rows, runner = rows_and_runner(self, X)
        rule = rule_of(self, self._for_scores)
        return runner.bounds(rows, rule)

    def _require_certificate(self) -> None:
        forms = [self.approximation, *(part.model.approximation for part in self.parts)]
        if any(form is not None and not form.certified for form in forms):
            raise InputError(
                "this model carries no certificate; compile it with `certificate=True` or with "
                "guarantee='certified'."
            )

    def decided(self, X: RowsLike, /, *, beyond: FloatArray | None = None) -> NDArray[np.bool_]:
        """Rows whose answer is proven, shape (m,): all but those within the rounding of doubles.

        With "certified" and "exact", that `predict` agrees with the exact model in real arithmetic:
        on its label, or within the tolerance. With "none", that the certificate says so. Labels
        that depend on variances (Gaussian processes of three classes) are computed, not proven.
        """
        if is_tensor(X) and beyond is None:
            return of_tensor(self, X, "decided", self.decided)
        rows, runner = rows_and_runner(self, X, beyond)
        if "predict" in self.head.needs_posterior:
            for seen in rows.rows:
                check_finite(seen)
            return np.zeros(rows.shape[0], dtype=np.bool_)
        criterion = self._for_predict
        if criterion is never:  # exact values, as good as their rounding
            self._require_certificate()
            return np.asarray(np.isfinite(runner.bounds(rows, rule_of(self, never))).all(axis=1))
        if self.guarantee == "none":
            self._require_certificate()
            scores = runner.run(rows, lambda scores: scores, None)[0]
            return criterion(scores, runner.bounds(rows, None))
        if self.guarantee == "calibrated":
            raise InputError("guarantee='calibrated' is statistical: no row's answer is proven.")
        return runner.decided(rows, criterion)

    def valid(self, X: RowsLike, /) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""
        rows, runner = rows_and_runner(self, X)
        return runner.valid(rows)

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write a `.kernelite` file: safetensors with JSON metadata, never pickle."""
        from kernelite.store.files import save

        save(self, path)

    def export(self, path: str | os.PathLike[str], /, **options: Any) -> list[str]:
        """Write this model for another runtime: an ONNX graph, a C99 header or a JavaScript module.

        Parameters
        ----------
        path : path-like
            Ends in `.onnx` (needs the extra `onnx`), `.h`, `.js` or `.mjs`.
        **options
            `part`, `decided`, `dtype`, `probabilities`, `std`, `inputs`, `name`, `main`, `sample`,
            as in `kernelite.export`.

        Returns
        -------
        list of str
            The files that were written, each whole or not at all.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import kernelite
        >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
        >>> model = kernelite.compile(bump, guarantee="exact")
        >>> with TemporaryDirectory() as folder:
        ...     [file] = model.export(os.path.join(folder, "bump.h"))
        >>> os.path.basename(file)
        'bump.h'
        """
        from kernelite.model.export import export

        return export(self, path, **options)

    def export_refusals(self) -> dict[str, str]:
        """Why this model cannot be exported: a sentence for each of ONNX, C and JavaScript."""
        from kernelite.model.export import refusals

        return refusals(self)

    def report(
        self,
        X: RowsLike,
        path: str | os.PathLike[str] | None = None,
        /,
        *,
        model: object = None,
        exact: CompiledModel | None = None,
    ) -> str:
        """A page about this model and how it does on some rows; needs the extra `report`.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Rows; no labels needed.
        path : path-like, optional
            Where to write the page.
        model : estimator, optional
            The model that was compiled, to compare answers and speed with.
        exact : CompiledModel, optional
            The exact model, where this one holds no support vectors.

        Returns
        -------
        str
            HTML, self-contained; a notebook shows the page.
        """
        from kernelite.model.report import report, write

        page = report(self, X, model=model, exact=exact)
        if path is not None:
            write(page, path)
        return page


def _at_least(bound: FloatArray, found: Bounded, spread: Any) -> FloatArray:
    """Bounds of settled rows are the tolerance at least: any stage within it may answer them.

    Which one does may depend on the rows around.
    """
    if spread is None or found.settled is None:
        return bound
    settled = found.settled if bound.ndim == 1 else found.settled[:, None]
    return np.where(settled, np.maximum(bound, spread), bound)


def require_compiled(model: object, name: str = "model") -> None:
    """Refuse whatever is not a compiled model.

    Examples
    --------
    >>> require_compiled("svm.kernelite")
    Traceback (most recent call last):
    kernelite.InputError: `model` must be a CompiledModel, got the path `svm.kernelite`; ...
    """
    if not isinstance(model, CompiledModel):
        found = type(model).__name__
        if isinstance(model, str | os.PathLike):
            found = f"the path `{os.fspath(model)}`"
        raise InputError(
            f"`{name}` must be a CompiledModel, got {found}; `kl.compile` makes one, `kl.load` "
            "reads one."
        )
