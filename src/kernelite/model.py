"""CompiledModel: runs a compiled predictor, says what is proven, saves itself.

In: rows. Out: what the source's own `predict`, `decision_function`, ... would answer.
Immutable after construction, hence safe to share between threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.approximation.quadratic import QuadraticForm
from kernelite.engines.blas import quadratic_scores
from kernelite.errors import InputError
from kernelite.expansion import KernelExpansion
from kernelite.head import ClassifierHead, Head, OutlierHead
from kernelite.inputs import FloatArray, Rows, check_rows, dense_block, row_blocks
from kernelite.plan import Plan
from kernelite.validity import OnInvalid, report_invalid

__all__ = ["CompiledModel", "Origin"]

Guarantee = Literal["none", "exact"]
BLOCK_ELEMENTS = 1 << 18  # numbers of one block of rows: 2 MB, so that temporaries stay in cache


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
    """

    description: str
    family: str
    type_name: str
    n_centers: int
    feature_names: tuple[str, ...] | None = None
    width_is_open: bool = False


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """A compiled kernel machine. Made by `kernelite.compile` or `kernelite.load`."""

    head: Head
    form: QuadraticForm | None
    expansion: KernelExpansion | None
    guarantee: Guarantee
    plan: Plan
    origin: Origin
    on_invalid: OnInvalid = "warn"

    def __post_init__(self) -> None:
        if self.form is None and self.expansion is None:
            raise InputError("a compiled model needs a form or the exact expansion; both are None.")
        expected = self.n_features_in_, self.head.n_scores
        for name, part in (("form", self.form), ("expansion", self.expansion)):
            if part is not None and (part.n_features, part.n_outputs) != expected:
                raise InputError(
                    f"the {name} has {part.n_features} features and {part.n_outputs} outputs, but "
                    f"the model has {expected[0]} and its head wants {expected[1]}."
                )
        names = self.origin.feature_names
        if names is not None and len(names) != expected[0]:
            raise InputError(f"{len(names)} feature names for {expected[0]} features.")

    # What the source was -------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """d, the width of a row."""
        part = self.form if self.form is not None else self.expansion
        assert part is not None
        return part.n_features

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of a classifier."""
        if not isinstance(self.head, ClassifierHead):
            raise AttributeError(f"a {self.head.kind} has no `classes_`")
        return self.head.classes

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Column names seen at fit time."""
        if self.origin.feature_names is None:
            raise AttributeError("this model was fitted without feature names")
        return np.array(self.origin.feature_names, dtype=object)

    @property
    def gamma(self) -> float:
        """The kernel's width."""
        part = self.form if self.form is not None else self.expansion
        assert part is not None
        return part.gamma

    # Predicting ----------------------------------------------------------------------------

    def predict(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> NDArray[Any]:
        """Labels or values.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
        on_invalid : {"warn", "raise", "ignore"}, optional
            What happens when rows lie outside the validity bound; the model's own by default.
        beyond : ndarray of shape (m,), optional
            Squared norm of the features that a row has beyond the model's width.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self._answer(X, self.head.predict, on_invalid, beyond)

    def decision_function(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """Decision values in the source's own shape and sign."""
        return self._answer(X, self.head.decision, on_invalid, beyond)

    def predict_proba(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """Class probabilities, where the source has them; shape (m, K)."""
        if not isinstance(self.head, ClassifierHead | OutlierHead):
            raise AttributeError(f"a {self.head.kind} has no `predict_proba`")
        return self._answer(X, self.head.probabilities, on_invalid, beyond)

    def scores(
        self, X: Any, /, *, on_invalid: OnInvalid | None = None, beyond: FloatArray | None = None
    ) -> FloatArray:
        """The expansion's raw outputs, shape (m, k)."""
        return self._answer(X, lambda scores: scores, on_invalid, beyond)

    def valid(self, X: Any, /) -> NDArray[np.bool_]:
        """Rows inside the paper's validity bound, shape (m,)."""
        form = self.form
        if form is None:
            return np.ones(len(self._rows(X)), dtype=np.bool_)
        rows = self._rows(X)
        out = np.empty(rows.shape[0], dtype=np.bool_)
        for block in self._blocks(rows):
            U = dense_block(rows, block) - form.point
            out[block] = form.valid(np.einsum("ij,ij->i", U, U))
        return out

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write a `.kernelite` file: safetensors with JSON metadata, never pickle."""
        from kernelite.formats.store import save

        save(self, path)

    # Inside --------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Rows:
        return check_rows(
            X, n_features=self.n_features_in_, feature_names=self.origin.feature_names
        )

    def _blocks(self, rows: Rows) -> list[slice]:
        block = max(64, BLOCK_ELEMENTS // max(rows.shape[1], 1))
        return list(row_blocks(rows.shape[0], block)) or [slice(0, 0)]

    def _answer(
        self,
        X: Any,
        finish: Callable[[FloatArray], NDArray[Any]],
        on_invalid: OnInvalid | None,
        beyond: FloatArray | None,
    ) -> NDArray[Any]:
        """Scores block by block, each finished by the head at once, so that memory is bounded."""
        rows = self._rows(X)
        out: NDArray[Any] | None = None
        outside = 0
        for block in self._blocks(rows):
            scores, invalid = self._scores(dense_block(rows, block))
            outside += invalid
            if beyond is not None:
                scores = self._push_out(scores, beyond[block])
            answers = finish(scores)
            if out is None:
                out = np.empty((rows.shape[0], *answers.shape[1:]), dtype=answers.dtype)
            out[block] = answers
        assert out is not None
        report_invalid(outside, rows.shape[0], on_invalid or self.on_invalid)
        return out

    def _scores(self, rows: FloatArray) -> tuple[FloatArray, int]:
        if self.form is None:
            assert self.expansion is not None
            return self.expansion.scores(rows), 0
        scores, sq_norms = quadratic_scores(self.form, rows)
        return scores, int(np.count_nonzero(~self.form.valid(sq_norms)))

    def _push_out(self, scores: FloatArray, beyond: FloatArray) -> FloatArray:
        """Account for features beyond the width: every center has zeros there.

        So |x - z|^2 grows by `beyond` for all centers, and f - b shrinks by exp(-gamma beyond).
        """
        part = self.form if self.form is not None else self.expansion
        assert part is not None
        if part.kernel == "poly2":
            return scores
        shrink = np.exp(-part.gamma * beyond)[:, None]
        return np.where(shrink == 1.0, scores, part.intercept + shrink * (scores - part.intercept))
