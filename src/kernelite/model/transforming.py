"""`transform`, and the frames that its coordinates may come in."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelite.errors import InputError
from kernelite.model.offering import offered
from kernelite.model.predicting import Predicting
from kernelite.model.serving import answer
from kernelite.model.validity import OnInvalid
from kernelite.program.criteria import transform_criterion
from kernelite.rows.frames import is_frame
from kernelite.rows.inputs import FloatArray, RowsLike

__all__ = ["Transforming"]

CONTAINERS = ("default", "pandas", "polars")


class Transforming(Predicting):
    """New coordinates of rows, their names and their container."""

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
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the coordinates that `transform` gives, as scikit-learn makes them."""
        prefix = self.origin.type_name.lower()
        return np.array([f"{prefix}{i}" for i in range(self.head.n_scores)], dtype=object)

    @offered
    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: an array ("default"), or a pandas or polars frame.

        The one thing about a compiled model that can change; numbers do not.
        """
        if transform is not None:
            if transform not in CONTAINERS:
                known = ", ".join(CONTAINERS)
                raise InputError(f"`transform` must be one of {known}, got {transform!r}.")
            object.__setattr__(self, "_container", transform)
        return self

    def _contained(self, answers: NDArray[Any], X: Any) -> Any:
        """What `transform` answers, in the container that was asked for."""
        container = getattr(self, "_container", "default")
        if container == "default" or "get_feature_names_out" not in self.offers:
            return answers
        names = list(self.get_feature_names_out())
        if container == "polars":
            return import_module("polars").DataFrame(answers, schema=names, orient="row")
        index = X.index if is_frame(X) and hasattr(X, "index") else None
        return import_module("pandas").DataFrame(answers, index=index, columns=names)
