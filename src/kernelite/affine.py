"""An affine map of the inputs, feature by feature: z' = (z - shift) * scale.

Length scales per feature (ARD) and the scalers of a pipeline are folded into a model this way.
The model that is served is the composition in real arithmetic. Computing z' rounds twice an entry,
so the engines see rows whose entries are off by a relative 2u; the bounds of every engine contain
what that can change (`kernelite.approximation.rounding.row_rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np

from kernelite.errors import InputError
from kernelite.inputs import FloatArray, Rows, is_sparse

__all__ = ["AffineMap"]

MOST_LOST = 1e-12  # of a mapped feature, which scalers bring near 1


@dataclass(frozen=True, eq=False)
class AffineMap:
    """z' = (z - shift) * scale, for rows z of width d.

    Parameters
    ----------
    scale : array-like of shape (d,)
        Finite; zero drops a feature.
    shift : array-like of shape (d,)

    Examples
    --------
    >>> AffineMap([2.0, 1.0], [1.0, 0.0])(np.array([[3.0, 5.0]]))
    array([[4., 5.]])
    """

    scale: FloatArray
    shift: FloatArray

    def __post_init__(self) -> None:
        for name in ("scale", "shift"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != 1 or not np.isfinite(array).all():
                raise InputError(f"`{name}` of an affine map must be a list of finite numbers.")
            object.__setattr__(self, name, array)
        if self.scale.shape != self.shift.shape:
            raise InputError(
                f"`scale` has {len(self.scale)} features, but `shift` has {len(self.shift)}."
            )

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.scale)

    @overload
    def __call__(self, rows: FloatArray) -> FloatArray: ...

    @overload
    def __call__(self, rows: Rows) -> Rows: ...

    def __call__(self, rows: Rows) -> Rows:
        """Mapped rows; sparse ones stay sparse where the shift is zero."""
        with np.errstate(over="ignore"):  # what overflows is infinitely far
            if is_sparse(rows):
                if not self.shift.any():
                    return rows.multiply(self.scale[None, :]).tocsr()
                rows = rows.toarray()
            mapped = rows - self.shift
            mapped *= self.scale
        return mapped

    def then(self, other: AffineMap) -> AffineMap:
        """This map followed by another: ((z - a) s - b) t = (z - (a + b / s)) s t.

        Features whose scale is zero are constant afterwards, which one map cannot say unless that
        constant is zero; then, where a step overflows, and where the sum of the shifts would lose
        digits (features far from zero for how little they vary), it is an `InputError`.

        Examples
        --------
        >>> AffineMap([2.0], [1.0]).then(AffineMap([3.0], [4.0]))(np.array([[5.0]]))
        array([[12.]])
        """
        if self.n_features != other.n_features:
            raise InputError(f"maps of {self.n_features} and {other.n_features} features.")
        if (other.shift[self.scale == 0] != 0).any():
            raise InputError("a feature that is dropped cannot be shifted afterwards.")
        moved = np.divide(
            other.shift, self.scale, out=np.zeros_like(self.scale), where=self.scale != 0
        )
        joined = AffineMap(self.scale * other.scale, self.shift + moved)
        # Both roundings, as the model behind sees them: relative to the shift, not to the result.
        lost = (np.abs(joined.shift) + np.abs(moved)) * np.abs(joined.scale) * 2.0**-53
        if (lost[moved != 0] > MOST_LOST).any():
            raise InputError("the shifts of two maps cannot be added without losing digits.")
        return joined

    def widened(self) -> AffineMap:
        """The map with one more feature, which it leaves alone."""
        return AffineMap(np.append(self.scale, 1.0), np.append(self.shift, 0.0))
