"""What TransformedTargetRegressor does to a prediction: the inverse of the target's transform.

Increasing or decreasing functions take the ends of a range to the ends of a range. Of an unknown
function nothing can be said, so that every row has to be exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.errors import InputError
from kernelite.machine.heads.ranges import Range
from kernelite.rows.inputs import FloatArray

__all__ = ["DECREASING", "INCREASING", "KeptInverse", "NamedInverse"]

INCREASING = frozenset(
    [
        "arcsinh",
        "arctan",
        "cbrt",
        "deg2rad",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log10",
        "log1p",
        "log2",
        "rad2deg",
        "sinh",
        "sqrt",
        "tanh",
    ]
)
DECREASING = frozenset({"negative"})


@dataclass(frozen=True)
class NamedInverse:
    """A NumPy function that is monotone wherever it is defined.

    Examples
    --------
    >>> NamedInverse("expm1")(np.array([[0.0]]))
    array([[0.]])
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in INCREASING | DECREASING:
            known = ", ".join(sorted(INCREASING | DECREASING))
            raise InputError(f"{self.name!r} is not among the known functions: {known}.")

    def __call__(self, values: FloatArray) -> FloatArray:
        """Of each value, in the same shape."""
        return getattr(np, self.name)(values)

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends over [low, high]; not a number outside the function's domain, hence exact."""
        with np.errstate(all="ignore"):
            ends = self(low), self(high)
        return ends if self.name in INCREASING else (ends[1], ends[0])


@dataclass(frozen=True, eq=False)
class KeptInverse:
    """A fitted transformer, kept as it is; no file can hold it.

    Parameters
    ----------
    transformer : object
        With `inverse_transform`.
    increasing : bool
        Whether that is known to be increasing, feature by feature.
    """

    transformer: Any
    increasing: bool = False

    @property
    def __unstorable__(self) -> str:
        return (
            f"this model keeps a {type(self.transformer).__name__} behind it as it is, and a "
            ".kernelite file holds no Python objects; joblib.dump(model, path) stores it, for "
            "readers who trust the file."
        )

    def __call__(self, values: FloatArray) -> FloatArray:
        """Of each value, in the same shape."""
        if not len(values):  # transformers refuse none
            return values
        return np.asarray(self.transformer.inverse_transform(values))

    def range(self, low: FloatArray, high: FloatArray) -> Range:
        """Ends over [low, high]; everything, of an unknown function."""
        if not self.increasing:
            return np.full(low.shape, -np.inf), np.full(low.shape, np.inf)
        return self(low), self(high)
