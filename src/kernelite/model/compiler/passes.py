"""One pass a guarantee: from a task to the fields of the compiled model that it decides.

A `Task` is what all passes of one compilation share: the machine, a sample, expansion points. A
tolerance is given, or a share of how much the exact values vary on the sample.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.forms import certify
from kernelite.data.rows.inputs import FloatArray, Rows, check_rows, dense_block, fit_width
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.planner.calibrated import calibrated_plan
from kernelite.planner.costs import Option, exact_candidate, tiers_cost
from kernelite.planner.plan import Candidate, Plan
from kernelite.planner.planner import (
    Finals,
    local_candidate,
    plan_certified,
    truncated_form,
)
from kernelite.planner.search import PREFERRED
from kernelite.program.criteria import label_criterion
from kernelite.series.approximation import Approximation
from kernelite.series.packed import collapsed, packed_degree, packed_numbers
from kernelite.series.series import SeriesForm, quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.sources import Machine
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.terminal import progress_bar

__all__ = [
    "DEFAULT_TOLERANCE",
    "Task",
    "calibrated_fields",
    "certified_fields",
    "default_tolerance",
    "exact_fields",
    "given_tolerance",
    "none_fields",
    "pointwise_fields",
    "sample_rows",
    "score_tolerance",
]

SAMPLE_ROWS = 4000  # rows that the plan is costed on
SAMPLE_NUMBERS = 2**23  # in all of them, 64 MB
FEWEST_SAMPLE_ROWS = 20  # of `X` to plan by: a form that settles fewer may settle nothing else
SUPPORT_VECTORS_ASKED = 256  # where there are fewer
MOST_SAMPLE_FEATURES = 2**25  # features of a row of the sample, 256 MB


@dataclass(frozen=True, eq=False)
class Task:
    """A compilation to be done.

    Parameters
    ----------
    machine : Machine
        Of one machine.
    given : rows, optional
        The user's sample, as the expansion sees it.
    wanted_point : {"auto", "mean", "origin"} or array of shape (d,)
    max_bytes, random_state
        As for `compile`.
    """

    machine: Machine
    given: Rows | None
    wanted_point: Any
    max_bytes: int
    random_state: int

    @property
    def expansion(self) -> KernelExpansion:
        return self.machine.single

    @cached_property
    def engine(self) -> ExactEngine:
        """The exact engine, laid out once for all that a compilation asks of it."""
        return ExactEngine.prepare(self.expansion, mapped=self.mapped)

    def forget_engine(self) -> None:
        """Free its memory; whoever asks for it later has it laid out again."""
        self.__dict__.pop("engine", None)

    def last_scores(self, rows: FloatArray) -> FloatArray:
        """Exact scores of rows; then the engine's memory is freed."""
        scores = self.engine.run(rows).scores
        self.forget_engine()
        return scores

    @property
    def mapped(self) -> bool:
        """Whether rows come through an affine map."""
        return self.machine.preparation.input_map is not None

    def sample(self) -> FloatArray:
        """At most 4,000 rows of `X`, or of the support vectors, drawn by `random_state`.

        They are dense, so of wide rows there are fewer.
        """
        return self._drawn(self.expansion.centers if self.given is None else self.given)

    def judges(self, sample: FloatArray) -> FloatArray:
        """The rows that judge candidates: the sample, and if it is small, support vectors too."""
        if not self._too_small(sample):
            return sample
        return np.concatenate([sample, self._drawn(self.expansion.centers, SUPPORT_VECTORS_ASKED)])

    def _too_small(self, sample: FloatArray) -> bool:
        return self.given is not None and 0 < len(sample) < FEWEST_SAMPLE_ROWS

    def _drawn(self, rows: Rows, most: int = SAMPLE_ROWS) -> FloatArray:
        most = min(most, -(-SAMPLE_NUMBERS // max(rows.shape[1], 1)))
        if rows.shape[1] > MOST_SAMPLE_FEATURES:
            raise InputError(
                f"this model has {rows.shape[1]:,} features: too many to plan with, since one row "
                f"takes {8 * rows.shape[1] / 2**20:,.0f} MB; use guarantee='exact'."
            )
        if rows.shape[0] <= most:
            return dense_block(rows, slice(None))
        rng = np.random.default_rng(self.random_state)
        drawn = np.sort(rng.choice(rows.shape[0], most, replace=False))
        return dense_block(rows, drawn)

    def point(self) -> tuple[str, FloatArray]:
        """The expansion point, its name first."""
        wanted, d = self.wanted_point, self.expansion.n_features
        if not isinstance(wanted, str):
            return "given point", self._checked_point(wanted)
        if wanted not in ("auto", "mean", "origin"):
            raise InputError(
                f"`expansion_point` must be 'auto', 'mean', 'origin' or an array, got {wanted!r}."
            )
        if wanted == "origin" or self.expansion.kernel.quadratic:
            return "origin", np.zeros(d)
        fewest = FEWEST_SAMPLE_ROWS if wanted == "auto" else 1
        if self.given is None or self.given.shape[0] < fewest:
            return "mean of the support vectors", _mean(self.expansion.centers)
        return "mean of X", _mean(self.given)

    def _checked_point(self, wanted: Any) -> FloatArray:
        machine, d = self.machine, self.machine.n_features
        try:
            point = np.array(wanted, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"`expansion_point` must be 'auto', 'mean', 'origin' or {d} numbers ({error})."
            ) from None
        if point.shape != (d,) or not np.isfinite(point).all():
            raise InputError(
                f"`expansion_point` must hold {d} finite numbers, one a feature, got shape "
                f"{np.shape(wanted)}."
            )
        if machine.preparation.steps:
            point = dense_block(machine.preparation(point[None, :]), slice(None))[0]
        if self.expansion.kernel.quadratic and point.any():
            raise InputError("a degree-2 polynomial kernel is compiled about the origin only.")
        return point

    def refuse_large_form(self) -> None:
        d, k = self.expansion.n_features, self.expansion.n_outputs
        if 8 * k * d * d > self.max_bytes:
            raise InputError(
                f"the quadratic form of {k} outputs at {d} features needs "
                f"{8 * k * d * d / 2**20:,.0f} MB, more than `max_bytes` "
                f"({self.max_bytes / 2**20:,.0f} MB); raise `max_bytes` or use guarantee='exact'."
            )

    def sample_note(self, sample: FloatArray) -> str:
        if self._too_small(sample):
            rows = "1 row" if len(sample) == 1 else f"{len(sample)} rows"
            return (
                f"`X` is too small to choose a form by ({rows}): 'Falls back' was measured "
                "on support vectors as well, which are harder rows than most."
            )
        kind = "support vectors (no `X` was given)" if self.given is None else "rows of `X`"
        return f"'Falls back' was measured on {len(sample):,} {kind}."


def sample_rows(machine: Machine, X: Any) -> Rows:
    """A user's sample, behind whatever stands before the expansion."""
    d, names = machine.single.n_features, machine.feature_names
    shape = getattr(X, "shape", ())
    if machine.type_name == "gaussian_kde" and shape[:1] == (d,) != shape[1:]:
        raise InputError(
            f"`X` must have shape (m, {d}), got {shape}. SciPy's points are columns: pass "
            "`points.T`."
        )
    before, input_map = machine.preparation.before_map, machine.preparation.input_map
    if before.steps:
        rows = check_rows(before(X, names), n_features=d)
    elif machine.width_is_open:
        # Features beyond the width are constant zeros in the model, so a sample may lose them.
        rows = fit_width(check_rows(X, feature_names=names), d)[0]
    else:
        rows = check_rows(X, n_features=d, feature_names=names)
    return rows if input_map is None else input_map(rows)


def _mean(rows: Rows) -> FloatArray:
    if not rows.shape[0]:
        return np.zeros(rows.shape[1])
    return np.asarray(rows.mean(axis=0), dtype=np.float64).reshape(-1)


DEFAULT_TOLERANCE = 1e-3  # of the standard deviation of the exact values


def given_tolerance(head: Head, tolerance: Any) -> FloatArray:
    """A user's tolerance, checked, of shape (values,).

    Examples
    --------
    >>> from kernelite.machine.heads import RegressorHead
    >>> given_tolerance(RegressorHead(2), 0.5)
    array([0.5, 0.5])
    """
    k = head.n_values
    try:
        if np.asarray(tolerance).dtype.kind in "USb":  # text would pass for the number it spells
            raise TypeError
        array = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), (k,)).copy()
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"`tolerance` must be a number, or {k} of them, got {tolerance!r}."
        ) from None
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"`tolerance` must be positive and finite, got {tolerance!r}.")
    return array


def default_tolerance(head: Head, scores: FloatArray) -> FloatArray | None:
    """1e-3 of the standard deviation of the values that exact scores give; None for labels.

    Parameters
    ----------
    head : Head
    scores : ndarray of shape (m, k)
        Exact, of a sample.

    Examples
    --------
    >>> from kernelite.machine.heads import RegressorHead
    >>> default_tolerance(RegressorHead(), np.array([[1.0], [3.0]]))
    array([0.001])
    """
    if head.proves_labels:
        return None
    return _share_of_spread(head.predict(scores), len(scores), head.n_values)


def score_tolerance(head: Head, scores: FloatArray) -> FloatArray | None:
    """1e-3 of the standard deviation of `decision_function`'s own columns; None if there is none.

    Parameters
    ----------
    head : Head
    scores : ndarray of shape (m, k)
        Exact, of a sample.

    Examples
    --------
    >>> from kernelite.machine.heads import OutlierHead
    >>> score_tolerance(OutlierHead(), np.array([[1.0], [3.0]]))
    array([0.001])
    """
    if not head.proves_labels or "decision_function" not in head.offers:
        return None
    if not len(scores):
        return None
    return _share_of_spread(head.decision(scores), len(scores), 1)


def _share_of_spread(values: Any, count: int, columns: int) -> FloatArray:
    """The default tolerance of each column, from its values on a sample."""
    if not count:
        return np.full(columns, DEFAULT_TOLERANCE)
    values = np.asarray(values).reshape(count, -1)
    values = values[np.isfinite(values).all(axis=1)]  # rows at which a polynomial overflows
    if not len(values):
        return np.full(columns, DEFAULT_TOLERANCE)
    # A constant output has no scale of its own; take the size of its value.
    size = np.maximum(np.abs(values).max(axis=0), 1e-300)
    spread = (values / size).std(axis=0)  # squares of the values themselves might overflow
    return np.asarray(DEFAULT_TOLERANCE * np.where(spread > 1e-12, spread * size, size))


SPREAD_ROWS = 256  # of the sample, that show how decision values vary, or how far a form is off
SPREAD_PAIRS = 400_000_000  # of rows and centers, for all of them
AS_CHEAP = 1.1  # times a form's cost: estimates are no closer than that
Fields: TypeAlias = dict[str, Any]


def exact_fields(task: Task, guarantee: str = "exact") -> Fields:
    """The exact model, on kernelite's engine."""
    chosen = exact_candidate(task.expansion, "asked for", labels=task.machine.head.proves_labels)
    plan = Plan(guarantee, chosen, (), chosen.nanoseconds)
    return {"approximation": None, "expansion": task.expansion, "plan": plan}


def pointwise_fields(task: Task, guarantee: str, tolerance: Any, plan: str) -> Fields:
    """A kernel without a series: exact under every guarantee, by whatever layout is cheapest."""
    kernel = task.expansion.kernel
    if not kernel.proven and guarantee != "exact":
        raise UnsupportedModelError(
            f"the kernel of this {task.machine.type_name} ({kernel.label}) {kernel.unproven}; use "
            "guarantee='exact'."
        )
    if plan not in ("auto", "estimate", "measure", "exact"):
        raise InputError(
            f"`plan` asks for {plan!r}, but there is no form of this kernel "
            f"({task.expansion.kernel_name}); leave `plan` out."
        )
    expansion, labels = task.expansion, task.machine.head.proves_labels
    chosen = exact_candidate(expansion, "this kernel has no form", labels=labels)
    note = "This kernel has no form: every row is summed exactly, under each guarantee."
    if not kernel.proven:
        note = f"Nothing is proven: this kernel {kernel.unproven}."
    if (degree := packed_degree(expansion)) is not None:
        # Exact, and no center is looked at, so that no row falls back.
        name = "one dot product" if degree == 1 else f"polynomial of degree {degree}, packed"
        numbers = 8 * expansion.n_outputs * packed_numbers(expansion.n_features, degree)
        verdict = "exact, no support vector is looked at"
        chosen, note = Candidate(name, chosen.nanoseconds, 0.0, numbers, verdict), ""
    # A variance is computed from the training rows; nothing else needs those of a linear kernel.
    posterior = task.machine.posterior if guarantee != "none" else None
    fields: Fields = {
        "approximation": None,
        "expansion": collapsed(expansion) if posterior is None else expansion,
        "plan": Plan(guarantee, chosen, (), chosen.nanoseconds, (note,) if note else ()),
    }
    if guarantee == "certified":
        fields["tolerance"] = _tolerances(task, tolerance, task.sample())
    return fields


def none_fields(task: Task, rank: int | str, certificate: bool) -> Fields:
    """The paper's form about one point, cut to `rank` directions."""
    _warn_about_few_centers(task.expansion)
    task.refuse_large_form()
    _, point = task.point()
    form = quadratic_form(task.expansion, point)
    cut = _cut(task, form, rank)
    proof = certify(task.expansion, point, mapped=task.mapped) if certificate else None
    approximation = Approximation(cut, proof)
    cost = tiers_cost(approximation, task.expansion, 0.0, 0.0)
    chosen = Option(cut.name, approximation, cost, 0.0).on_all_threads().candidate("asked for")
    exact = exact_candidate(task.expansion, "", labels=task.machine.head.proves_labels).nanoseconds
    cheaper = "The exact engine is estimated to cost no more than this form: try guarantee='exact'."
    notes = (cheaper,) if exact < AS_CHEAP * chosen.nanoseconds else ()
    plan = Plan("none", chosen, (), exact, notes)
    return {"approximation": approximation, "expansion": None, "plan": plan}


def certified_fields(task: Task, tolerance: Any, plan: str) -> Fields:
    """The cheapest tiers whose answers are proven, or local sums where they are cheaper."""
    head, sample = task.machine.head, task.sample()
    if plan == "exact":
        tolerances = _tolerances(task, tolerance, sample)
        return exact_fields(task, "certified") | _kept_within(task, sample, tolerances)
    wanted = None if plan in ("auto", "estimate", "measure") else plan
    with progress_bar("certifying") as on_progress:
        tolerances, judges = _tolerances(task, tolerance, sample), task.judges(sample)
        criterion, timed = label_criterion(head, tolerances), plan in ("auto", "measure")
        finals = Finals(head, tolerances, task.engine, always=plan == "measure") if timed else None
        approximation, explained = plan_certified(
            task.expansion,
            *task.point(),
            judges,
            criterion,
            task.engine,
            max_bytes=task.max_bytes,
            mapped=task.mapped,
            choose=finals,
            values=not head.proves_labels,
            wanted=wanted,
            on_progress=on_progress,
        )
    local, kept = None, _kept_within(task, sample, tolerances)
    if wanted is None:
        # The engine takes more than the centers do, and so will boxes of them.
        finals = None
        if head.sum_budget(tolerances) is not None:
            task.forget_engine()
        found = local_candidate(
            *(task.expansion, head, judges, criterion, tolerances),
            exact=task.last_scores,
            exact_nanoseconds=explained.exact_nanoseconds,
            mapped=task.mapped,
            measure=plan == "measure",
        )
        cheapest = PREFERRED * explained.chosen.nanoseconds
        if found is not None and found[1].nanoseconds < cheapest:
            approximation, (local, candidate) = None, found
            explained = explained.choosing(candidate)
    return {
        "approximation": approximation,
        "expansion": task.expansion,
        "plan": explained.noting(task.sample_note(sample)),
        "local": local,
        **kept,
    }


def calibrated_fields(task: Task, max_disagreement: float, confidence: float) -> Fields:
    """The cheapest form, with a margin that was tested on rows it was not chosen by."""
    if task.given is None:
        raise InputError("guarantee='calibrated' needs `X`, rows like those to come, to test on.")
    task.refuse_large_form()
    name, point = task.point()
    approximation, threshold, plan = calibrated_plan(
        task.expansion,
        task.machine.head,
        task.given,
        None if name == "mean of X" else point,
        max_disagreement=max_disagreement,
        confidence=confidence,
        random_state=task.random_state,
    )
    return {
        "approximation": approximation,
        "expansion": task.expansion,
        "plan": plan,
        "threshold": threshold,
    }


def _cut(task: Task, form: SeriesForm, rank: int | str) -> SeriesForm:
    if isinstance(rank, Integral):
        if rank > form.n_features:
            raise InputError(f"`rank` must lie between 1 and {form.n_features}, got {rank}.")
        return truncate(spectrum(form), int(rank))
    sample = task.sample()
    if rank == "full" or not len(sample):
        return form

    def off() -> float:
        some = sample[:: -(-len(sample) // SPREAD_ROWS)]
        errors = np.abs(form.evaluate(some)[0] - task.engine.run(some).scores)
        return float(np.quantile(errors, 0.95, axis=0).max(initial=0.0))

    return truncated_form(form, sample, off)


def _tolerances(task: Task, tolerance: Any, sample: FloatArray) -> FloatArray | None:
    head = task.machine.head
    if tolerance is not None:
        return given_tolerance(head, tolerance)
    if head.proves_labels:
        return None
    if (own := head.own_tolerance(DEFAULT_TOLERANCE)) is not None:
        return own
    # Fewer rows show the spread as well where each of them takes long.
    most = max(SPREAD_ROWS, SPREAD_PAIRS // max(task.expansion.n_centers, 1))
    sample = sample[:: -(-len(sample) // most) or 1]
    scores = task.engine.run(sample).scores
    tail = task.machine.tail
    return default_tolerance(head, scores if tail is None else scores + tail.values(sample)[0])


def _kept_within(task: Task, sample: FloatArray, tolerances: FloatArray | None) -> Fields:
    """Tolerances of values; where there are none, of decision values, from some rows."""
    if tolerances is not None:
        return {"tolerance": tolerances, "score_tolerance": None}
    some = sample[:: -(-len(sample) // SPREAD_ROWS) or 1]
    spread = score_tolerance(task.machine.head, task.engine.run(some).scores)
    return {"tolerance": None, "score_tolerance": spread}


def _warn_about_few_centers(expansion: KernelExpansion) -> None:
    n, d = expansion.n_centers, expansion.n_features
    if 0 < n <= d:
        warnings.warn(
            f"the model has only {n} support vectors in {d} features: the compiled matrix gives "
            "away the space they span (with one, the vector itself). It is not a way to hide them.",
            stacklevel=4,
        )
