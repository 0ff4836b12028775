"""From rows as they come to answers: checked, placed before the right engines, run, finished.

In: a compiled model and rows. Out: what a head makes of scores that the guarantee accepts. Rows
outside the paper's validity bound are told of, once per call.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.outside import OutsideRows
from kernelite.cpu.runner import Finish, Runner
from kernelite.cpu.sums import PartRows
from kernelite.errors import InputError, OutsideValidityError
from kernelite.machine.front import Preparation
from kernelite.program.bounded import Stats
from kernelite.program.criteria import Criterion, Margin, label_criterion, never
from kernelite.rows.inputs import (
    FloatArray,
    Rows,
    check_csr,
    check_rows,
    fit_width,
    is_plain_row,
    is_tensor,
)
from kernelite.series.rounding import UNIT

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = [
    "OnInvalid",
    "OutsideValidityWarning",
    "answer",
    "check_on_invalid",
    "part_rows",
    "report_invalid",
    "rows_and_runner",
    "rows_for",
    "rule_of",
    "runner_of",
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


def check_on_invalid(value: str) -> None:
    """Refuse an unknown policy."""
    if value not in ("warn", "raise", "ignore"):
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


# From rows to answers.


def answer(
    model: ModelFields,
    X: Any,
    finish: Finish,
    criterion: Criterion,
    on_invalid: OnInvalid | None,
    beyond: FloatArray | None,
) -> tuple[NDArray[Any], Stats]:
    """What `finish` makes of the scores, once `criterion` accepts them, and how they came about."""
    if on_invalid is not None:
        check_on_invalid(on_invalid)
    rule = rule_of(model, criterion)
    plain = type(X) is np.ndarray and beyond is None and not model.preparation.before_map.steps
    if plain and is_plain_row(X, model.n_features_in_):  # the low-latency path
        found = model._runner.run_one(X, finish, rule)
        if found is not None:
            return found
    if is_tensor(X):
        return _answer_tensor(model, X, finish, criterion, on_invalid, beyond)
    rows, runner = rows_and_runner(model, X, beyond)
    answers, stats = runner.run(rows, finish, rule)
    if model.guarantee == "none":
        policy = on_invalid if on_invalid is not None else model.on_invalid
        report_invalid(stats.outside_validity, stats.rows, policy)
    return answers, stats


def _answer_tensor(
    model: ModelFields,
    X: Any,
    finish: Finish,
    criterion: Criterion,
    on_invalid: OnInvalid | None,
    beyond: FloatArray | None,
) -> tuple[Any, Stats]:
    """As `answer`, where the rows are: in host memory by the engines here, else on their GPU."""
    from kernelite.gpu.interchange import answer_there, as_host_array, like

    host = as_host_array(X)
    if host is not None:
        if model.head.kind == "density":  # which takes logarithms where sums underflow
            score_samples: Any = getattr(model, "score_samples")  # noqa: B009
            found = score_samples(host, on_invalid=on_invalid, beyond=beyond)
            return like(X, found), Stats(rows=len(host))
        answers, stats = answer(model, host, finish, criterion, on_invalid, beyond)
        return like(X, answers), stats
    if beyond is not None:
        raise InputError("`beyond` goes with rows in host memory; bring `X` there by `X.cpu()`.")
    return answer_there(model, X, finish, criterion, on_invalid)


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


def _counts_beyond(model: ModelFields) -> bool:
    """Whether features beyond the width change a kernel value: not one of x.z."""
    return model._served.kernel == "rbf"


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


def rule_of(model: ModelFields, criterion: Criterion) -> Criterion | None:
    """What this model's guarantee asks of a row, given what certified would ask."""
    if model.guarantee == "none":
        return None
    exact = model.approximation is None and not model.parts
    if model.guarantee == "calibrated" and criterion is not never and not exact:
        return Margin(model.head, model.threshold or 0.0)
    return criterion


# The engines of a model, laid out to run: prepare once, predict many.


def runner_of(model: ModelFields) -> Runner:
    """For rows of the model's width."""
    if model.parts:
        parts = [
            (
                part.model._runner,
                part.outputs,
                label_criterion(part.model.head, part.model.tolerance),
            )
            for part in model.parts
        ]
        return Runner.of_parts(parts, model.head.n_scores)
    left = model.preparation
    if not left.rowwise:  # what stands before the map has seen all rows at once
        left = Preparation.of(left.input_map)
    return Runner.prepare(model.approximation, model.expansion, left, model.local, model.tail)
