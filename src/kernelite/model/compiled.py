"""CompiledModel: a compiled predictor that scores itself, says what is proven, saves itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelite.errors import InputError
from kernelite.model.contract import offered
from kernelite.model.predicting import Predicting, rule_of
from kernelite.model.serving import rows_and_runner
from kernelite.program.bounded import Bounded, spelled_out
from kernelite.program.criteria import (
    decision_tolerance,
    label_criterion,
    never,
)
from kernelite.rows.inputs import FloatArray, RowsLike

__all__ = ["CompiledModel", "require_compiled"]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledModel(Predicting):
    """A compiled kernel machine. Made by `kernelite.compile` or `kernelite.load`.

    It answers as its source does: those of `predict`, `decision_function`, `predict_proba`,
    `transform`, ... that the source has, in the source's shapes. `plan` says what was chosen and
    why, `guarantee` what is promised. Immutable, hence safe to share between threads.
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
        from sklearn import metrics

        if kind == "regressor":
            return float(metrics.r2_score(y, self.predict(X), sample_weight=sample_weight))
        predicted = self.predict(X)
        if isinstance(self.head.classes, list):
            return float(np.mean(np.all(np.asarray(y) == predicted, axis=1)))
        return float(metrics.accuracy_score(y, predicted, sample_weight=sample_weight))

    # What is proven -----------------------------------------------------------------------------

    def error_bound(self, X: RowsLike, /) -> FloatArray:
        """A proven bound on the error of `decision_function`, in its shape; else of `scores`.

        Where decision values are served within a tolerance, it is at least the tolerance. Models
        without `decision_function` have bounds of shape (m, k), of their scores. Of a regressor
        with one output these are what it predicts, and bounds have that shape, (m,).
        """
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
        decision = self.head.decision(found.scores)
        low, high = self.head.decision_range(found.scores, spelled_out(found.bounds))
        with np.errstate(invalid="ignore"):
            bound = np.maximum(high - decision, decision - low)
        bound[np.isnan(bound)] = np.inf
        spread = decision_tolerance(self.head, self.tolerance, self.score_tolerance)
        if spread is not None and found.settled is not None:
            # Which stage answers may depend on the rows around: each is within the tolerance.
            spread = spread if bound.ndim > 1 else np.max(spread)
            settled = found.settled[:, None] if bound.ndim > 1 else found.settled
            bound = np.where(settled, np.maximum(bound, spread), bound)
        return bound

    def score_bound(self, X: RowsLike, /) -> FloatArray:
        """A proven bound on the error of `scores`, shape (m, k).

        Where values are served within a tolerance by the exact engine, it is the tolerance. It
        needs no support vectors, only the certificate's constants.
        """
        self._require_certificate()
        rows, runner = rows_and_runner(self, X)
        rule = rule_of(self, label_criterion(self.head, self.tolerance))
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
        on its label, or within the tolerance. With "none", that the certificate says so.
        """
        if "predict" in self.head.needs_posterior:
            raise InputError("labels that depend on variances are computed exactly, not proven.")
        rows, runner = rows_and_runner(self, X, beyond)
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
        """Write this model for another runtime: `.onnx` for a graph, `.h` for a C99 header.

        Parameters
        ----------
        path : path-like
            Ends in `.onnx` (needs the extra `onnx`) or `.h`.
        **options
            `part`, `decided`, `dtype`, `probabilities`, `name`, `main`, `sample`, as in
            `kernelite.export`.

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
        from kernelite.export import export

        return export(self, path, **options)

    def export_refusals(self) -> dict[str, str]:
        """Why this model cannot be exported, for each of "ONNX" and "C" that refuses it."""
        from kernelite.export import refusals

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
        from kernelite.report.page import report, write

        page = report(self, X, model=model, exact=exact)
        if path is not None:
            write(page, path)
        return page


def require_compiled(model: object, name: str = "model") -> None:
    """Refuse whatever is not a compiled model.

    Examples
    --------
    >>> require_compiled("svm.kernelite")
    Traceback (most recent call last):
    kernelite.errors.InputError: `model` must be a CompiledModel, got the path `svm.kernelite`; ...
    """
    if not isinstance(model, CompiledModel):
        found = type(model).__name__
        if isinstance(model, str | os.PathLike):
            found = f"the path `{os.fspath(model)}`"
        raise InputError(
            f"`{name}` must be a CompiledModel, got {found}; `kl.compile` makes one, `kl.load` "
            "reads one."
        )
