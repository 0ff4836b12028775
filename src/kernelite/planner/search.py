"""The candidates of a certified plan: built, run on a sample of rows, costed.

In: an expansion, a sample, and what settles a row. Out: `Option`s. What cannot become the cheapest
is not built: an option costs at least its first tier, and its second one for the rows left open.
The file begins with second tiers of the third order, whose tensors have d^3 entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from kernelite.backends.cpu.approximation import ApproximationEngine, runs_at_once
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.forms import certify
from kernelite.backends.cpu.kernels.providers import provider
from kernelite.backends.cpu.staging import stage_engine
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.costs import (
    VOTES_PER_ROW,
    Option,
    Reached,
    behind_cost,
    exact_cost,
    least_form_cost,
    nanoseconds,
    open_row_work,
    second_cost,
    tiers_cost,
    unseen_cost,
    voting_work,
)
from kernelite.planner.proof_probe import PROBED_ROWS, ProofProbe
from kernelite.program.bounded import Bounded, spelled_out
from kernelite.program.cascade import holds, judged, tighter
from kernelite.program.criteria import Criterion, Proven
from kernelite.series.approximation import Approximation, Certificate
from kernelite.series.cubic import CubicForm, cubic_form, cubic_tensor
from kernelite.series.directional import (
    DirectionalBound,
    cubic_gram,
    directional_bound,
    gram_slack,
    may_pair,
)
from kernelite.series.series import SeriesForm
from kernelite.series.spectral import spectrum, truncate
from kernelite.series.work import (
    cubic_work,
    directional_work,
    packed_size,
    product_work,
    quadratic_work,
)
from kernelite.support.errors import UnsupportedModelError

__all__ = ["PREFERRED", "OnProgress", "Search", "ranks", "third_order_fits"]

CUBIC_RANKS = (16, 32, 64)
DIRECTIONS = 32  # of a bound on the third order, where its tensor is too large to hold
TENSOR_BYTES = 192 * 2**20  # the most dense third-order tensors may take while compiling
GRAM_BUDGET = 3e10  # multiply-adds that Gram matrices may cost where tensors are too large to hold
LARGEST_TENSOR_ENTRY = 1e100  # entry of a third-order tensor: its square is still far from overflow


def third_order_tiers(
    expansion: KernelExpansion,
    form: SeriesForm,
    certificate: Certificate,
    max_bytes: int,
    pays: Callable[[float], bool],
    helps: Callable[[], bool],
) -> Iterator[tuple[CubicForm | DirectionalBound, float]]:
    """Second tiers of the third order with their costs, where they may pay.

    Parameters
    ----------
    expansion : KernelExpansion
    form : SeriesForm
        The first tier, not truncated.
    certificate : Certificate
        Its own.
    max_bytes : int
    pays : callable
        Whether a tier of that cost could become the cheapest.
    helps : callable
        Whether knowing the third order would settle rows at all.
    """
    d, k = form.n_features, form.n_outputs
    if expansion.kernel.quadratic:
        return
    held, along = 8 * d**3 * k <= TENSOR_BYTES, min(d, DIRECTIONS)
    if held:
        costs = {
            rank: nanoseconds(cubic_work(d, k, rank))
            for rank in (*(r for r in CUBIC_RANKS if r < d), d)
            if packed_size(rank) * 8 * k <= max_bytes // 2
        }
    else:
        costs = {along: nanoseconds(directional_work(d, k, along))}
    cheapest = min(costs.values(), default=math.inf)
    if not (pays(cheapest) and third_order_fits(certificate) and helps()):
        return
    if held:
        tensors = _tensors(expansion, form.point)
        for rank, cost in costs.items():
            if pays(cost):
                yield cubic_form(tensors, rank), cost
    elif expansion.n_centers**2 * d * k < GRAM_BUDGET:
        grams = [cubic_gram(expansion, form.point, output) for output in range(k)]
        slack = gram_slack(expansion, certificate.rounding)
        yield directional_bound(grams, along, slack), costs[along]


def whole_cubic(expansion: KernelExpansion, point: FloatArray, max_bytes: int) -> CubicForm | None:
    """The third order in full, if it may be had."""
    d, k = expansion.n_features, expansion.n_outputs
    if expansion.kernel.quadratic or 8 * d**3 * k > TENSOR_BYTES:
        return None
    if packed_size(d) * 8 * k > max_bytes // 2:
        return None
    return cubic_form(_tensors(expansion, point), d)


def third_order_fits(certificate: Certificate) -> bool:
    """Whether coefficients are not so large that squares of the third order overflow."""
    return bool(certificate.rounding.moments[3].max(initial=0.0) < LARGEST_TENSOR_ENTRY)


def _tensors(expansion: KernelExpansion, point: FloatArray) -> list[FloatArray]:
    return [cubic_tensor(expansion, point, output) for output in range(expansion.n_outputs)]


# Columns of a truncated form, those of its linear part included.
TRUNCATED_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PREFERRED = 0.9  # of the exact engine's cost, that a form must stay below: it proves less
NARROWING_ROWS = 64  # rows that show how much narrower the second tier's bounds are
MOST_FIRST_TIERS = 4  # first tiers that are tried with a second one
OnProgress: TypeAlias = Callable[[float], None]


class Search:
    """Builds options and costs them on the sample.

    Parameters
    ----------
    expansion : KernelExpansion
    sample : ndarray of shape (m, d)
    criterion : callable of (scores, bounds)
        Which rows the guarantee accepts.
    max_bytes : int
        Options above it are not kept.
    mapped : bool
        Whether rows come through an affine map.
    engine : ExactEngine
        Of the expansion.
    labels : bool
        Whether labels are asked for, which the exact engine finds faster than values.
    forced : bool
        Whether a form is wanted even where the exact engine is cheaper.
    """

    def __init__(
        self,
        expansion: KernelExpansion,
        sample: FloatArray,
        criterion: Criterion,
        max_bytes: int,
        mapped: bool,
        engine: ExactEngine,
        *,
        labels: bool = True,
        forced: bool = False,
    ) -> None:
        self.expansion, self.sample, self.criterion = expansion, sample, criterion
        self.max_bytes, self.mapped = max_bytes, mapped
        self.values = criterion.sufficient_bounds is not None
        self.labels = labels
        self.reached = reached_stages(engine, sample, criterion, labels=labels)
        exact = exact_cost(expansion, labels=labels, reached=self.reached)
        self.exact = math.inf if forced else exact
        self.judged = nanoseconds(voting_work(expansion, VOTES_PER_ROW)) if labels else 0.0
        # Times its own cost, that the exact engine takes for a row that a form left open.
        self.behind = behind_cost(expansion, labels=labels) / self.exact
        self.options: list[Option] = []
        self.notes: list[str] = []
        self.out_of_reach = self.too_dear = False  # why no form was built, where none was
        # By definitions where kernels would have to be compiled first, which takes far longer.
        kernels = provider()
        self.fused = kernels is not None and kernels.family != "numba"
        self.probe = ProofProbe(expansion, sample, criterion, engine)
        self.probe.cheap |= forced

    def about(self, point: FloatArray, where: str, on_progress: OnProgress) -> None:
        """Try forms about `point`: truncated or not, with and without a second tier."""
        d, k = self.expansion.n_features, self.expansion.n_outputs
        if 8 * k * d * d > self.max_bytes:
            needed = 8 * k * d * d
            self.notes.append(f"A form {where} needs {needed:,} bytes, more than `max_bytes`.")
            return
        # What a form costs must be saved by the rows that it settles.
        least = (least_form_cost(d, k) + self.judged) / self.exact
        if least >= PREFERRED:
            self.too_dear = True
            self.notes.append(f"No form {where}: the exact engine is cheaper than any.")
            return
        if not self.probe.left(point, self._must_settle(least)):
            self.out_of_reach = True
            self.notes.append(
                f"No form {where}: its error on the sample says that a proof would leave "
                "too many rows open."
            )
            return
        try:
            certificate = self._certificate(point, least, on_progress)
            if certificate is None:
                self.out_of_reach = True
                self.notes.append(f"No form {where}: the proof would leave too many rows open.")
                return
            form = self.probe.form(point)
        except UnsupportedModelError as error:
            self.notes.append(f"No form {where}: {error}")
            return
        firsts = [
            self._try(f"{cut.name} {where}", Approximation(cut, certificate))
            for cut in self._forms(form)
        ]
        self._second_tiers(firsts, form, certificate)

    def _certificate(
        self, point: FloatArray, least: float, on_progress: OnProgress
    ) -> Certificate | None:
        """The proof about a point, if tiers about it may beat the exact engine."""
        estimated = self.probe.dear and not self.probe.cheap
        if estimated and not self._may_win(point, self.probe.estimate(point), least):
            return None
        found = certify(self.expansion, point, mapped=self.mapped, progress=on_progress)
        return found if self._may_win(point, found, least) else None

    def _may_win(self, point: FloatArray, certificate: Certificate, least: float) -> bool:
        """Whether tiers about a point could beat the exact engine, now that the proof is known.

        Rows that it leaves open go on to the exact engine, or to the full form and its third order.
        Matrices of many features and outputs take far longer to build than a certificate.
        """
        if self.probe.cheap:
            return True
        d, k = self.expansion.n_features, self.expansion.n_outputs
        second, third = self.probe.left_open(point, certificate)
        open_row = quadratic_work(d, k) + open_row_work(k, labels=self.labels)
        full = nanoseconds(open_row) / self.exact
        exactly, by_third = second * self.behind, third * self.behind
        return min(least + exactly, max(least, second * full) + by_third) < PREFERRED

    def _must_settle(self, cost: float) -> float:
        """The share of rows that forms must settle to win, given their share of exact's cost."""
        return 1.0 - (PREFERRED - cost) / self.behind if self.behind else 0.0

    @property
    def _least(self) -> float:
        """The cheapest cost so far, the exact engine's included."""
        return min([option.nanoseconds for option in self.options] + [self.exact])

    def _try(self, name: str, approximation: Approximation) -> Option:
        """Run the forms on the sample, cost them, and keep the option."""
        engine = ApproximationEngine.prepare(approximation, fused=self.fused)
        first, rows, narrowing = engine.first.run(self.sample), len(self.sample), 1.0
        still = np.flatnonzero(~holds(self.criterion, first))
        after_first = after_second = self._expected(len(still))
        if approximation.has_second_form:
            narrowing, by_first = self._narrowing(engine, first), len(still)
            if by_first:
                before = first.rows(still)
                second = engine.second(self.sample[still], before)
                still = still[~(holds(self.criterion, second) & tighter(second, before))]
            after_second *= (len(still) + narrowing) / (by_first + 1.0)
        unseen = unseen_cost(approximation, self.expansion, self._expected(0.0), narrowing)
        cost = tiers_cost(
            approximation,
            self.expansion,
            after_first,
            after_second,
            labels=self.labels,
            after_product=self._after_product(engine, first) if self.values else 1.0,
        )
        option = Option(name, approximation, cost + unseen, len(still) / max(rows, 1), unseen)
        if option.nbytes <= self.max_bytes:
            self.options.append(option)
        return option

    def _after_product(self, engine: ApproximationEngine, first: Bounded) -> float:
        """The share to expect open after a product that stands for the third order; 1: no use."""
        paired = engine.paired
        if paired is None:
            return 1.0
        passed = holds(self.criterion, paired.run(self.sample, first))
        share = self._expected(int(np.count_nonzero(~passed)))
        return share if share < paired.worth else 1.0

    def _narrowing(self, engine: ApproximationEngine, first: Bounded) -> float:
        """How much narrower the second tier's bounds are: so many open rows it will leave open."""
        some = np.arange(0, len(self.sample), -(-len(self.sample) // NARROWING_ROWS) or 1)
        if not len(some):
            return 1.0
        before = first.rows(some)
        after = engine.second(self.sample[some], before)
        assert before.bounds is not None
        assert after.bounds is not None
        wide, narrow = spelled_out(before.bounds), spelled_out(after.bounds)
        ratios = np.divide(narrow, wide, out=np.ones_like(wide), where=wide > 0)
        return float(np.clip(np.nan_to_num(np.median(ratios), nan=1.0), 0.0, 1.0))

    def _expected(self, rows: float) -> float:
        """The share to expect where so many rows of the sample were left open: never quite 0.

        Laplace's rule of succession, so that a second tier stands by for what no sample shows.
        """
        return (rows + 1.0) / (len(self.sample) + 2.0)

    def _forms(self, form: SeriesForm) -> Iterator[SeriesForm]:
        yield form
        d, k = form.n_features, form.n_outputs
        if not form.damped or not (worthwhile := ranks(d, k)):
            return
        eigenpairs = spectrum(form)
        for rank in worthwhile:
            yield truncate(eigenpairs, rank)

    def _second_tiers(
        self, firsts: list[Option], form: SeriesForm, certificate: Certificate
    ) -> None:
        """The first tiers that leave few rows open, followed by the full form and a cubic one."""
        whole = firsts[0]
        # With a second tier to follow, a cheaper first one may do: try the best few.
        firsts = sorted(firsts, key=lambda option: option.nanoseconds)[:MOST_FIRST_TIERS]
        for first in firsts:
            if first.approximation.form is not form and self._may_pay(first, form, 0.0):
                both = replace(first.approximation, full=form)
                self._try(f"{first.name}, then the quadratic form", both)
        cubics = third_order_tiers(
            self.expansion,
            form,
            certificate,
            self.max_bytes,
            lambda cost: any(self._may_pay(first, form, cost) for first in firsts),
            lambda: self._fourth_order_helps(whole),
        )
        in_full = False
        for cubic, cost in cubics:
            in_full = in_full or (cubic.evaluated and cubic.basis is None)
            for first in firsts:
                if self._may_pay(first, form, cost):
                    full = None if first.approximation.form is form else form
                    both = replace(first.approximation, full=full, cubic=cubic)
                    self._try(f"{first.name}, {cubic.name}", both)
        if not in_full:
            self._try_product(whole, certificate)

    def _try_product(self, whole: Option, certificate: Certificate) -> None:
        """A third order too dear to evaluate may pay, if a product mostly stands for it."""
        d, k = self.expansion.n_features, self.expansion.n_outputs
        share = whole.open_share
        alone = tiers_cost(whole.approximation, self.expansion, 0.0, 0.0, labels=self.labels)
        alone += nanoseconds(product_work(d, k))
        probe = self.values and may_pair(d, k) and runs_at_once(None, share) and alone < self._least
        if not (probe and third_order_fits(certificate) and self._fourth_order_helps(whole)):
            return
        point = whole.approximation.form.point
        cubic = whole_cubic(self.expansion, point, self.max_bytes)
        if cubic is not None:
            both = replace(whole.approximation, cubic=cubic)
            engine = ApproximationEngine.prepare(both, fused=self.fused)
            left = self._after_product(engine, engine.first.run(self.sample))
            if alone + left * second_cost(both) < self._least:
                self._try(f"{whole.name}, {cubic.name}", both)

    def _may_pay(self, first: Option, form: SeriesForm, cost: float) -> bool:
        """Whether a second tier of that cost, were it to settle every row, could be cheapest."""
        expansion, share = self.expansion, self._expected(first.open_share * len(self.sample))
        full = None if first.approximation.form is form else form
        alone = tiers_cost(first.approximation, expansion, share, 0.0, labels=self.labels)
        second = cost if full is None else cost + nanoseconds(full.work)
        return alone + share * second < self._least

    def _fourth_order_helps(self, whole: Option) -> bool:
        """Whether rho_4 alone, were the cubic term free and exact, would settle open rows."""
        return self._open(whole.approximation, 3) < 0.9 * whole.open_share

    def _open(self, whole: Approximation, degree: int) -> float:
        """The share of rows that stay open if terms up to that degree are known."""
        assert whole.form.rank is None
        assert whole.certificate is not None
        found = ApproximationEngine.prepare(whole, fused=self.fused).first.run(self.sample)
        assert found.sq_norms is not None
        bounds = whole.certificate.bound(found.sq_norms, found.scores, degree)
        return float((~self.criterion(found.scores, bounds)).mean())


def reached_stages(
    engine: ExactEngine, sample: FloatArray, criterion: Criterion, *, labels: bool
) -> Reached | None:
    """The share of rows that each exact stage is asked for, as some of the sample show."""
    rows = np.ascontiguousarray(sample[:: -(-len(sample) // PROBED_ROWS) or 1])
    if not len(rows) or not engine.expansion.has_series:
        return None
    if labels:
        classes = engine.expansion.voting_classes
        criterion = Proven(criterion, None if classes is None else np.arange(classes))
    cascade = replace(stage_engine(engine).cascade, judge=judged)
    answered = cascade.run(rows, criterion).stage
    engine.forget_fewer_digits()  # before doubles are laid out, which may take twice as much
    assert answered is not None
    found, left = {}, 1.0
    for number, name in enumerate(cascade.names):
        settled = float(np.mean(answered == number))
        if settled:  # else it was declined
            found[name] = left
        left -= settled
    return found


def ranks(d: int, k: int) -> list[int]:
    """Ranks to try for a form of d features and k outputs: those clearly cheaper than the form.

    Directions and outputs together fill vectors of eight, so one more would cost eight more.

    Examples
    --------
    >>> ranks(64, 1), ranks(4, 1)
    ([7, 15], [])
    """
    tried = (width - k % 8 for width in TRUNCATED_WIDTHS)
    return [r for r in tried if d * (r + k % 8) + k * r * r < 0.8 * (k * d * d / 2)]
