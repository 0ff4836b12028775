"""Rows as they come, checked and placed before the right engines, which are laid out here.

In: a compiled model and rows. Out: rows at the width of its engines, and what runs them. Rows
outside the paper's validity bound are told of, once per call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from kernelite.backends.cpu.parts import PartRows
from kernelite.backends.cpu.rows import OutsideRows
from kernelite.backends.cpu.runner import Runner
from kernelite.backends.cpu.staging import stage_model, stage_parts
from kernelite.data.rows.inputs import (
    FLOAT64,
    FloatArray,
    Rows,
    check_csr,
    check_rows,
    fit_width,
    is_tensor,
)
from kernelite.machine.kernels import RBF
from kernelite.machine.preparation import Preparation, Selection
from kernelite.program.criteria import label_criterion
from kernelite.series.rounding import UNIT
from kernelite.support.errors import InputError, OutsideValidityError, missing_extra

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = [
    "OnInvalid",
    "OutsideValidityWarning",
    "check_on_invalid",
    "of_tensor",
    "part_rows",
    "report_invalid",
    "rows_and_runner",
    "rows_for",
    "runner_of",
    "wide_row",
]

# What happens when rows lie outside the paper's validity bound: one summary per call.

OnInvalid: TypeAlias = Literal["warn", "raise", "ignore"]


class OutsideValidityWarning(UserWarning):
    """Some rows of a call lie outside the validity bound, so their scores may be off.

    Parameters
    ----------
    message : str
    outside, total : int
        Rows outside the bound, and rows of the call; kept, for callers that sum over calls.
    """

    def __init__(self, message: str, outside: int = 0, total: int = 0) -> None:
        super().__init__(message)
        self.outside = outside
        self.total = total


def of_tensor(model: ModelFields, X: Any, what: str, here: Callable[[FloatArray], Any]) -> Any:
    """What is asked of rows that are a tensor: by `here` in host memory, else on their GPU.

    Parameters
    ----------
    model : CompiledModel
    X : tensor or array of shape (m, d)
    what : str
        As `backends.torch.interchange.evidence_there` calls it.
    here : callable
        Of rows in host memory.
    """
    from kernelite.backends.torch.interchange import as_host_array, evidence_there, like

    host = as_host_array(X)
    return evidence_there(model, X, what) if host is None else like(X, here(host))


def explained_on(X: Any, background: Any, device: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Rows to explain in host memory, and how products are laid out where a device is meant.

    That is the device of tensors, unless one is named; by default processors sum products up.
    """
    rows = [X, background]
    for place, given in enumerate(rows):
        if is_tensor(given):
            from kernelite.backends.torch.shapley import brought

            rows[place], lay_on = brought(given)
            device = device if device is not None else lay_on
    if device is None:
        return *rows, {}
    try:
        from kernelite.backends.torch.shapley import DeviceProducts
    except ImportError as error:
        raise missing_extra("Shapley values on a device need torch", "torch", "torch") from error
    return *rows, {"products": partial(DeviceProducts, device=device)}


def check_on_invalid(value: str) -> None:
    """Refuse an unknown policy."""
    if not isinstance(value, str) or value not in ("warn", "raise", "ignore"):
        raise InputError(f"`on_invalid` must be 'warn', 'raise' or 'ignore', got {value!r}.")


def report_invalid(outside: int, total: int, policy: OnInvalid) -> None:
    """Warn, raise or stay silent about `outside` of `total` rows."""
    check_on_invalid(policy)
    if outside == 0 or policy == "ignore":
        return
    message = (
        f"{outside} of {total} rows ({100 * outside / total:.2f}%) lie outside the validity bound "
        "of the quadratic form, so their scores may be off; train with a smaller gamma, or pass "
        "`on_invalid='ignore'` if that is known."
    )
    if policy == "raise":
        raise OutsideValidityError(message)
    warnings.warn(OutsideValidityWarning(message, outside, total), stacklevel=4)


# Rows, checked.


def rows_and_runner(
    model: ModelFields, X: Any, beyond: FloatArray | None = None
) -> tuple[Any, Runner]:
    """Rows and the runner for their width."""
    rows, cut_off = rows_for(model, X)
    if beyond is not None:
        beyond = _checked_beyond(beyond, rows.shape[0])
    if cut_off is not None:
        beyond = cut_off if beyond is None else beyond + cut_off
    if model.origin.ignores_beyond:
        beyond = None
    if beyond is None or not beyond.any() or model.parts or not _counts_beyond(model):
        return rows, model._runner
    # Squares were added up, and what the caller knows may be such a sum too.
    count = 64 + (X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else 0)
    return OutsideRows(rows, beyond, count * UNIT), model._runner


def wide_row(model: ModelFields, X: Any) -> FloatArray | OutsideRows | None:
    """One plain row with more features than the model has; None for all that is something else.

    The quick way: what it leaves, `rows_and_runner` takes or refuses.
    """
    d = model.n_features_in_
    plain = type(X) is np.ndarray and X.dtype is FLOAT64 and X.ndim == 2 and len(X) == 1
    if not plain or X.shape[1] <= d or not (X.flags.c_contiguous and X.flags.aligned):
        return None
    rest = X[0, d:]
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = float(rest.dot(rest))
    if not beyond < np.inf:
        return None
    if beyond == 0.0 or model.origin.ignores_beyond or not _counts_beyond(model):
        return X[:, :d]
    return OutsideRows(X[:, :d], np.array([beyond]), (64 + X.shape[1]) * UNIT)


def _counts_beyond(model: ModelFields) -> bool:
    """Whether features beyond the width change a kernel value: not one of x.z."""
    return model._served.kernel_tag == RBF


def _checked_beyond(beyond: Any, count: int) -> FloatArray:
    """A caller's squared norms; one that overflowed is infinite."""
    try:
        array = np.asarray(beyond, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (count,) or not (array >= 0).all():
        raise InputError(f"`beyond` must hold {count} squared norms, one per row, none negative.")
    return array


def rows_for(model: ModelFields, X: Any) -> tuple[Rows, FloatArray | None]:
    """Rows at the model's width, and the squared norm of what lies beyond it.

    Whether they are finite shows in |u|^2, which the forms compute anyway: see `Runner`.
    """
    names = model.origin.feature_names
    if model.parts:
        return part_rows(model, X), None
    if not model.preparation.rowwise:
        before = model.preparation.before_map
        return check_rows(before(X, names), n_features=model._served.n_features), None
    first = model.preparation.steps[0] if model.preparation.steps else None
    if isinstance(first, Selection) and first.either:
        rows = check_rows(X, feature_names=names, finite=False)
        if rows.shape[1] not in (first.n_features, first.n_out):
            raise InputError(
                f"`X` has {rows.shape[1]} columns, but this model takes kernel values with all "
                f"{first.n_features} training rows, or with its {first.n_out} support vectors."
            )
        return rows, None
    d = model.n_features_in_
    poly = not _counts_beyond(model)  # drops what is beyond its width, NaN included
    wide = model.origin.width_is_open
    width = None if wide else d
    rows = check_rows(X, n_features=width, feature_names=names, finite=wide and poly)
    if model.approximation is None:
        check_csr(rows)
    return fit_width(rows, d) if wide else (rows, None)


def part_rows(model: ModelFields, X: Any) -> PartRows:
    """What each part sees; parts without transformers of their own share one checked copy."""
    names: Any = model.origin.feature_names
    if model.preparation.steps:
        X, names = model.preparation(X, names), None
    shared: Rows | None = None
    found = []
    for part in model.parts:
        if not part.model.preparation.rowwise:
            found.append(rows_for(part.model, X)[0])
            continue
        if shared is None:
            d = part.model.n_features_in_
            shared = check_rows(X, n_features=d, feature_names=names, finite=False)
            if any(part.model.approximation is None for part in model.parts):
                check_csr(shared)
        found.append(shared)
    return PartRows(tuple(found))


# The engines of a model, laid out to run: prepare once, predict many.


def runner_of(model: ModelFields) -> Runner:
    """The runner of a model, or of its parts, for rows of the model's width."""
    if model.parts:
        parts = [
            (
                part.model._runner,
                part.outputs,
                label_criterion(part.model.head, part.model.tolerance),
            )
            for part in model.parts
        ]
        return stage_parts(parts, model.head.n_scores, model.preparation)
    left = model.preparation
    if not left.rowwise:  # what stands before the map has seen all rows at once
        left = Preparation.of(left.input_map)
    return stage_model(model.approximation, model.expansion, left, model.local, model.tail)
