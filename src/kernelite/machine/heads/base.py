"""What every head can do: the protocol that sources, criteria and models rely on."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kernelite.rows.inputs import FloatArray

__all__ = ["BoolArray", "Head", "Kind"]

BoolArray: TypeAlias = NDArray[np.bool_]
Kind: TypeAlias = Literal["classifier", "regressor", "outlier", "transform", "density"]


@runtime_checkable
class Head(Protocol):
    """What every head can do. `scores` and `bounds` have shape (m, k)."""

    @property
    def kind(self) -> Kind:
        """What the source was."""
        ...

    @property
    def offers(self) -> frozenset[str]:
        """Names of the methods that the source has, and so its compiled model."""
        ...

    @property
    def n_scores(self) -> int:
        """k, the columns this head expects."""
        ...

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """Labels or values, as the source's `predict` gives them."""
        ...

    def decision(self, scores: FloatArray) -> FloatArray:
        """Decision values in the source's shape and sign."""
        ...

    def decided(self, scores: FloatArray, bounds: FloatArray) -> BoolArray:
        """Rows whose `predict` is the same for all true scores within `bounds` of `scores`."""
        ...
