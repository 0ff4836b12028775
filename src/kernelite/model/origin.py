"""Where a compiled model came from, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Guarantee", "Origin"]

Guarantee: TypeAlias = Literal["certified", "calibrated", "none", "exact"]


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
