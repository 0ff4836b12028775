"""Planning: candidates are built, costed on a sample of rows, and the cheapest sound one is kept.

In: an expansion, a sample, and what settles a row. Out: an approximation (or None: exact) and the
`Plan` that explains it; `local_candidate` gives the settings of sums over near centers. Costs come
from operation counts; `Finals`, with which the file begins, times those that are close. Sentences
that say why a plan is the exact engine follow.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from time import get_clock_info, perf_counter, thread_time
from typing import TypeAlias

import numpy as np

from kernelite.backends.cpu.approximation import FormStages, form_stages
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.limits import limit_threads, thread_count
from kernelite.backends.cpu.local import LocalEngine
from kernelite.backends.cpu.one_pass import labels_of
from kernelite.backends.cpu.rows import BLOCK_ELEMENTS
from kernelite.backends.cpu.staging import stage_engine
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.planner.costs import Option, exact_candidate, local_cost, tiers_cost
from kernelite.planner.plan import MEASURED, Candidate, Plan
from kernelite.planner.search import PREFERRED, OnProgress, Search, ranks
from kernelite.program.cascade import holds
from kernelite.program.criteria import Criterion, predict_criterion
from kernelite.series.approximation import Approximation, LocalSums
from kernelite.series.series import SeriesForm
from kernelite.series.spectral import spectrum, truncate
from kernelite.support.errors import InputError

__all__ = ["Finals", "local_candidate", "plan_certified", "truncated_form"]

# Finalists timed on rows of the sample, instead of trusting the cost table.
#
# By default this is done only where estimates are close. The rates behind them were measured on one
# machine, and another one may order candidates differently if they are within a factor of two.
# plan="measure" always times them. What counts is the time that one thread spends on its core, so
# that other work on the machine changes few plans: those of near ties.

FINALISTS = 3
COARSEST_SECONDS = 1e-5  # between readings of a clock that may be used
clock = thread_time if get_clock_info("thread_time").resolution < COARSEST_SECONDS else perf_counter
CLOSE_RATIO = 2.0  # times the cheapest estimate, within which finalists are timed
# Rows of a call: few open rows cost more in a small block.
FEWEST_TIMED_ROWS, MOST_TIMED_ROWS = 1 << 10, 1 << 14
CALL_NANOSECONDS = 4e6  # that a call should take
# Each finalist is called once to load its kernels, then at least so often and so long,
FINALIST_ROUNDS, FINALIST_SECONDS = 3, 0.06
CLEAR_RATIO = 1.5  # or until the second takes so many times as long as the first
AS_FAST = 1.05  # times the least cost: among those that are no dearer, estimates choose
MOST_OPEN_SHARE = 0.9  # of the rows, that a finalist may leave to the exact engine
MEASURED_FINALISTS = 4  # finalists where all are timed


class Finals:
    """Times the cheapest options and the exact engine as a prediction would run them.

    Parameters
    ----------
    head : Head
    tolerance : ndarray of shape (k,), optional
    engine : ExactEngine
        What finishes the rows that an option leaves open.
    always : bool
        Whether to time them even where estimates are far apart.
    """

    def __init__(
        self, head: Head, tolerance: FloatArray | None, engine: ExactEngine, *, always: bool
    ) -> None:
        self.head, self.tolerance, self.engine, self.always = head, tolerance, engine, always

    def __call__(
        self, options: list[Option], exact: float, sample: FloatArray
    ) -> tuple[list[Option], float, str | None]:
        """Options with measured costs, the exact engine's, and a note; or all as they came.

        They come, and stay, in the order of their estimates.
        """
        limit = np.inf if self.always else CLOSE_RATIO * min(exact, options[0].nanoseconds)
        # What leaves nearly all rows open cannot gain anything; noise must not say that it does.
        finalists = [
            option
            for option in options
            if option.nanoseconds <= limit and option.open_share <= MOST_OPEN_SHARE
        ]
        alone = len(finalists) + (exact <= limit) < 2
        if not len(sample) or (alone and not self.always):
            return options, exact, None
        finalists = finalists[: MEASURED_FINALISTS if self.always else FINALISTS]
        stages = [form_stages(option.approximation) for option in finalists]
        expected = [*(option.nanoseconds for option in finalists), exact]
        counts = [rows_of_a_call(cost, sample.shape[1]) for cost in expected]
        *costs, exact = self._timed([*stages, ()], counts, sample)
        measured = [
            replace(option, nanoseconds=cost + option.unseen)
            for option, cost in zip(finalists, costs, strict=True)
        ]
        most = max([option.nanoseconds for option in measured], default=0.0)
        rest = [
            replace(option, nanoseconds=max(option.nanoseconds, most))  # shown, not chosen
            for option in options
            if option not in finalists
        ]
        note = f"{MEASURED}, on up to {max(counts):,} rows at a time ({platform.machine()})."
        return measured + rest, exact, note

    def _timed(
        self, stages: Sequence[FormStages | tuple[()]], counts: list[int], sample: FloatArray
    ) -> list[float]:
        """Nanoseconds per row of each, before the exact engine, on so many rows, by all threads."""
        criterion = predict_criterion(self.head, self.tolerance)
        finish = labels_of(self.head) if self.head.proves_labels else lambda scores: scores
        rows = cache(partial(_rows, sample))
        calls = [
            partial(stage_engine(self.engine, forms).run, rows(count), finish, criterion)
            for forms, count in zip(stages, counts, strict=True)
        ]
        return timed(calls, [len(rows(count)) for count in counts])


def rows_of_a_call(nanoseconds: float, d: int) -> int:
    """How many rows of d features to time at once, given what one is expected to cost.

    As many as a prediction takes at a time, if that is not too long: what the first open row of a
    block costs, all of them share.

    Examples
    --------
    >>> rows_of_a_call(400.0, 20), rows_of_a_call(9000.0, 20), rows_of_a_call(400.0, 2000)
    (10000, 1024, 1048)
    """
    most = min(MOST_TIMED_ROWS, BLOCK_ELEMENTS // max(d, 1))
    return max(min(int(CALL_NANOSECONDS / max(nanoseconds, 1.0)), most), FEWEST_TIMED_ROWS)


def _rows(sample: FloatArray, count: int) -> FloatArray:
    """About so many rows: some of the sample's, or the sample over and over."""
    if count < len(sample):
        return np.ascontiguousarray(sample[:: -(-len(sample) // count)])
    return np.tile(sample, (count // len(sample), 1))


def timed(calls: Sequence[Callable[[], object]], rows: list[int]) -> list[float]:
    """Nanoseconds per row of calls, each timed on one thread, if all threads share the rows."""
    with limit_threads(1):
        costs = raced(calls, rows)
    return [cost / thread_count() for cost in costs]


def raced(calls: Sequence[Callable[[], object]], rows: list[int]) -> list[float]:
    """Nanoseconds per row of calls that answer so many rows each: the best of several, in turns."""
    for call in calls:
        call()  # loads kernels
    best, spent, rounds, clear = [np.inf] * len(calls), 0.0, 0, False
    while rounds < FINALIST_ROUNDS or (spent < FINALIST_SECONDS * len(calls) and not clear):
        rounds += 1
        for number, call in enumerate(calls):
            started = clock()
            call()
            taken = clock() - started
            best[number] = min(best[number], 1e9 * taken / rows[number])
            spent += taken
        first, *others = sorted(best)
        clear = bool(others) and others[0] > CLEAR_RATIO * first
    return best


# Why a plan is the exact engine, and what would pay instead, in a sentence or two.
#
# In: what the search found. Out: the verdict on the exact engine and a note for the plan.

UNPROVEN_SHARE = 0.5  # of the rows, from which it is the proof that does not reach
FAR_GAMMA_RATIO = 3.0  # times gamma_max, up to which most rows are proven


def why_exact(
    search: Search, name: str, point: FloatArray, options: list[Option], exact: float
) -> tuple[str, str]:
    """The verdict, and the note; no note where the search has said it all.

    Parameters
    ----------
    search : Search
    name : str
    point : ndarray of shape (d,)
        The expansion point.
    options : list of Option
        The forms that lost.
    exact : float
        Nanoseconds of the exact engine per row.
    """
    count = f"{search.expansion.n_centers:,}"
    best = min((option.open_share for option in options), default=float(search.out_of_reach))
    # Even if it proved all rows, a form would have to be cheaper than the exact engine.
    alone = [tiers_cost(form.approximation, search.expansion, 0.0, 0.0) for form in options]
    if min(alone, default=0.0) >= exact * thread_count() or (search.too_dear and not options):
        return "no form is cheaper here", (
            f"Nothing need be done: summing {count} support vectors is the fastest way."
        )
    rbf = search.expansion.kernel.damps
    if best > UNPROVEN_SHARE and rbf:
        left = f"the best bound leaves {100 * best:.0f}%" if options else "it would leave too many"
        statistical = "guarantee='calibrated', which is statistical"
        other = statistical if search.labels else "a larger `tolerance`"
        gamma = _smaller_gamma(search.expansion, name, point, search.sample)
        return "gamma is too large for a form", (
            f"Gamma is too large for a proof: {left} of the rows open. {gamma}, or {other}, "
            "may pay."
        )
    if not options:
        return "no form is cheaper here", ""
    note = f"Summing {count} support vectors costs less than a form and the rows it leaves open."
    if rbf and best > 0.0:
        gamma = _smaller_gamma(search.expansion, name, point, search.sample)
        note += f" {gamma} leaves fewer of them."
    return "no form is cheaper here", note


def _smaller_gamma(
    expansion: KernelExpansion, name: str, point: FloatArray, sample: FloatArray
) -> str:
    """Which gamma would be served by a form, as the beginning of a sentence."""
    with np.errstate(over="ignore", divide="ignore"):
        farthest = np.square(sample - point).sum(axis=1).max(initial=0.0)
        limit = float(1.0 / np.float64(4.0 * farthest))
        times = float(np.float64(expansion.gamma) / limit)
    if not FAR_GAMMA_RATIO < times < np.inf:
        return f"A gamma below this one ({expansion.gamma:.3g})"
    return (
        f"A gamma up to a few times gamma_max about the {name}, {limit:.3g} (this one is "
        f"{times:,.0f} times that)"
    )


# Planning itself.

SHARE_LEFT_OUT = 1e-3  # of the scores' standard deviation, by a truncated form without a proof;
MOST_LEFT_OUT = 1e-2  # up to this where the form itself is off by as much
OTHERS_SHOWN = 8  # candidates that a plan keeps besides the chosen one
Measure: TypeAlias = Callable[
    [list[Option], float, FloatArray], tuple[list[Option], float, str | None]
]


def plan_certified(
    expansion: KernelExpansion,
    name: str,
    point: FloatArray,
    sample: FloatArray,
    criterion: Criterion,
    engine: ExactEngine,
    *,
    max_bytes: int,
    mapped: bool = False,
    choose: Measure | None = None,
    values: bool = False,
    wanted: str | None = None,
    on_progress: OnProgress = lambda share: None,
) -> tuple[Approximation | None, Plan]:
    """Choose among ranks, third orders and the exact engine.

    Parameters
    ----------
    expansion : KernelExpansion
    name : str
    point : ndarray of shape (d,)
        The expansion point.
    sample : ndarray of shape (m, d)
    criterion : callable of (scores, bounds)
        Which rows the guarantee accepts.
    engine : ExactEngine
        Of the expansion.
    max_bytes : int
    mapped : bool
        Whether rows come through an affine map.
    choose : callable, optional
        Replaces estimated costs by measured ones (see `Finals`).
    values : bool
        Whether the model answers values within a tolerance, not labels.
    wanted : str, optional
        A candidate's name, or "form" for the cheapest form: chosen whatever the exact engine costs.
    on_progress : callable
        Told the share of the work that is done.
    """
    search = Search(
        *(expansion, sample, criterion, max_bytes, mapped, engine),
        labels=not values,
        forced=wanted is not None,
    )
    search.about(point, f"about the {name}", on_progress)
    options = [option.on_all_threads() for option in search.options]
    options.sort(key=lambda option: option.nanoseconds)
    exact = exact_candidate(expansion, "", labels=not values, reached=search.reached)
    if wanted is not None:
        option = _wanted(options, wanted, search.notes)
        on_progress(1.0)
        plan = Plan("certified", option.candidate("asked for"), (exact,), exact.nanoseconds)
        return option.approximation, plan.noting(*search.notes)
    if choose is not None and options:
        options, cost, note = choose(options, exact.nanoseconds, sample)
        exact = replace(exact, nanoseconds=cost)
        search.notes += [note] if note else []
    on_progress(1.0)
    winner = _winner(options, exact.nanoseconds)
    others = sorted(options, key=lambda option: option.nanoseconds)
    if winner is not None:
        others.remove(winner)
        chosen, last = winner.candidate("cheapest"), "looks at every support vector"
        rivals = [replace(exact, verdict=last)]
    else:
        verdict, note = why_exact(search, name, point, others, exact.nanoseconds)
        search.notes += [note] if note else []
        chosen, rivals = replace(exact, verdict=verdict), []
    lost = [option.candidate(_why_lost(option, winner)) for option in others[:OTHERS_SHOWN]]
    plan = Plan("certified", chosen, (*lost, *rivals), exact.nanoseconds, tuple(search.notes))
    return None if winner is None else winner.approximation, plan


def _winner(options: list[Option], exact: float) -> Option | None:
    """The cheapest option, if it is clearly cheaper than the exact engine."""
    least = min([option.nanoseconds for option in options], default=np.inf)
    if least >= PREFERRED * exact:
        return None
    # Timed again, near ones would come in another order; their estimates stay the same.
    return next(option for option in options if option.nanoseconds <= AS_FAST * least)


def _wanted(options: list[Option], name: str, notes: list[str]) -> Option:
    """The option of that name, or the cheapest one, which comes first."""
    if not options:
        raise InputError(f"`plan` asks for a form, but there is none. {' '.join(notes)}")
    found = options if name == "form" else [o for o in options if o.name == name]
    if not found:
        known = ", ".join(repr(option.name) for option in options)
        raise InputError(
            f"`plan` names no candidate: {name!r}; there are {known}, and the words 'auto', "
            "'estimate', 'measure' and 'form' (the exact engine is guarantee='exact')."
        )
    return found[0]


def truncated_form(
    form: SeriesForm, sample: FloatArray, off: Callable[[], float] = lambda: 0.0
) -> SeriesForm:
    """For "none": the smallest rank that stays far below the scores, if it is cheaper.

    On 95% of the sample, what is left out must stay under 0.1% of the standard deviation of the
    scores, or under what the form itself is `off` by on 95% of it, but never above 1%. That is
    measured: the bound of a truncation is many times larger.
    """
    tried = ranks(form.n_features, form.n_outputs)
    if not form.damped or not len(sample) or not tried:
        return form
    whole, _, _ = form.evaluate(sample)
    spread = float(whole.std())
    most = max(SHARE_LEFT_OUT * spread, min(off(), MOST_LEFT_OUT * spread))
    eigenpairs = spectrum(form)
    for rank in tried:
        cut = truncate(eigenpairs, rank)
        left_out = np.abs(cut.evaluate(sample)[0] - whole)
        if np.quantile(left_out, 0.95, axis=0).max(initial=0.0) <= most:
            return cut
    return form


def _why_lost(option: Option, winner: Option | None) -> str:
    if winner is None:
        return f"{100 * option.open_share:.0f}% of rows stay open"
    if option.nanoseconds < winner.nanoseconds:
        return "as fast when timed, estimated slower"
    if option.open_share > 2 * winner.open_share + 0.001:
        return "more rows stay open"
    return f"{option.nanoseconds / winner.nanoseconds:.2g}x the cost"


FEWEST_LOCAL_CENTERS = 512  # below, the exact engine is too fast to gain much
VISIT_ROWS = 256  # of the sample, that visits are counted on
LABEL_SHARES = (0.1, 1e-3)  # of the spread of scores, that may be left out of a label's


def local_candidate(
    expansion: KernelExpansion,
    head: Head,
    sample: FloatArray,
    criterion: Criterion,
    tolerance: FloatArray | None,
    *,
    exact: Callable[[FloatArray], FloatArray],
    exact_nanoseconds: float,
    mapped: bool,
    measure: bool = False,
) -> tuple[LocalSums, Candidate] | None:
    """The cheapest settings and their candidate.

    Parameters
    ----------
    expansion : KernelExpansion
    head : Head
    sample : ndarray of shape (m, d)
    criterion : callable of (scores, bounds)
        Which rows the guarantee accepts.
    tolerance : ndarray of shape (k,), optional
    exact : callable
        Scores of rows; called once at most, before centers are sorted into boxes.
    exact_nanoseconds : float
        Of the exact engine per row.
    mapped : bool
        Whether rows come through an affine map.
    measure : bool
        Time the rows instead of counting boxes and leaves.
    """
    if expansion.n_centers < FEWEST_LOCAL_CENTERS or not len(sample):
        return None
    if not LocalEngine.serves(expansion):
        return None
    rows = np.ascontiguousarray(sample[:: -(-len(sample) // VISIT_ROWS)])
    tried, budgets = [], _budgets(exact, head, rows, tolerance)
    local = LocalEngine.prepare(expansion, budgets[0], mapped=mapped)
    for settings in budgets:
        visits = replace(local, settings=settings).visits(rows)
        # Start where most rows end, so that they look only once or twice.
        settings = replace(settings, start=max(visits.threshold - 1.0, 0.0))
        engine = replace(local, settings=settings)
        share = 1.0 - float(holds(criterion, engine.run(rows)).mean())
        cost = local_cost(local, visits)
        if measure:
            many = _rows(sample, rows_of_a_call(cost, sample.shape[1]))
            (cost,) = timed([partial(engine.run, many)], [len(many)])
        else:
            cost /= thread_count()
        tried.append((cost + share * exact_nanoseconds, share, settings))
    nanoseconds, share, settings = min(tried, key=lambda option: option[0])
    name = "sums over near centers"
    return settings, Candidate(name, nanoseconds, share, expansion.nbytes, "")


def _budgets(
    exact: Callable[[FloatArray], FloatArray],
    head: Head,
    rows: FloatArray,
    tolerance: FloatArray | None,
) -> list[LocalSums]:
    """Most of what the guarantee allows, the rest being for rounding; for labels, guesses."""
    budget = head.sum_budget(tolerance)
    if budget is not None:
        return [LocalSums(0.9 * budget[0], 0.9 * budget[1])]
    scores = exact(rows)
    spread = np.maximum(scores.std(axis=0), 1e-300)
    return [LocalSums(share * spread) for share in LABEL_SHARES]
