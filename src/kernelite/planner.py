"""Planning: candidates are built, costed on a sample of rows, and the cheapest sound one is kept.

In: an expansion, a sample, and what settles a row. Out: an approximation (or None: exact) and the
`Plan` that explains it. Deterministic: costs come from operation counts, not from clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kernelite.approximation.cells import Approximation, Cell, cell_points
from kernelite.approximation.certificate import Certificate, certify
from kernelite.approximation.cubic import CubicForm, cubic_form, cubic_tensor, packed_size
from kernelite.approximation.directional import (
    DirectionalBound,
    cubic_gram,
    directional_bound,
    gram_slack,
)
from kernelite.approximation.quadratic import QuadraticForm, quadratic_form
from kernelite.approximation.spectral import SpectralForm, spectrum, truncate
from kernelite.costs import exact_cost, tiers_cost
from kernelite.criteria import Settles
from kernelite.engines.exact import ExactEngine
from kernelite.engines.tiers import EXACT, FORM, Tiers, evaluate
from kernelite.errors import UnsupportedModelError
from kernelite.expansion import KernelExpansion
from kernelite.inputs import FloatArray
from kernelite.plan import Candidate, Plan
from kernelite.sizes import array_bytes

__all__ = ["Option", "exact_candidate", "form_name", "plan_certified", "truncated_form"]

RANKS = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
CUBIC_RANKS = (16, 32, 64)
CELL_COUNTS = (4, 16)
TENSOR_BYTES = 192 * 2**20  # the most dense third-order tensors may take while compiling
CELLS_WORTH = 0.4  # share of the cost spent in the exact tier from which cells are tried
CELLS_BUDGET = 3e10  # multiply-adds that certifying all cells may cost
FIRST_TIERS = 4  # first tiers that are tried with a second one
LARGEST_CUBIC = 1e100  # entry of a third-order tensor: its square is still far from overflow
OTHERS_SHOWN = 8  # candidates that a plan keeps besides the chosen one
Tell: TypeAlias = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Option:
    """An approximation with what it is expected to cost."""

    name: str
    approximation: Approximation
    nanoseconds: float
    open_share: float

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return array_bytes(self.approximation)

    def candidate(self, verdict: str = "") -> Candidate:
        """Its line in the plan."""
        return Candidate(self.name, self.nanoseconds, self.open_share, self.nbytes, verdict)


Measure: TypeAlias = Callable[
    [list[Option], ExactEngine, FloatArray, Settles], tuple[list[Option], float]
]


def plan_certified(
    expansion: KernelExpansion,
    points: dict[str, FloatArray],
    sample: FloatArray,
    settles: Settles,
    *,
    max_bytes: int,
    mapped: bool = False,
    cells: int | None = None,
    random_state: int = 0,
    choose: Measure | None = None,
    tell: Tell = lambda share: None,
) -> tuple[Approximation | None, Plan]:
    """Choose among points, ranks, cubic tiers, cells and the exact engine.

    Parameters
    ----------
    expansion : KernelExpansion
    points : dict of str to ndarray of shape (d,)
        Expansion points to try, by name.
    sample : ndarray of shape (m, d)
    settles : callable
        Which rows the guarantee accepts.
    max_bytes : int
    mapped : bool
        Whether rows come through an affine map.
    cells : int, optional
        Ask for this many cells instead of letting the plan choose.
    random_state : int
        Seed of the clustering.
    choose : callable, optional
        Replaces estimated costs by measured ones (see `measure`).
    tell : callable
        Told the share of the work that is done.
    """
    search = _Search(expansion, sample, settles, max_bytes, mapped)
    options: list[Option] = []
    if cells is None or cells == 1:
        for index, (name, point) in enumerate(points.items()):
            share = _between(tell, index / (len(points) + 1), (index + 1) / (len(points) + 1))
            options += search.about(point, f"about the {name}", share)
    if cells is not None and cells > 1:
        options += search.cells(cells, random_state, tell)
    elif options and search.cells_may_pay(min(options, key=_cost)):
        for count in CELL_COUNTS:
            options += search.cells(count, random_state, lambda share: None)
    options = [option for option in options if option.nbytes <= max_bytes]
    exact_nanoseconds = exact_cost(expansion)
    if choose is not None and options:
        engine = ExactEngine.prepare(expansion)
        options, exact_nanoseconds = choose(options, engine, sample, settles)
        search.notes.append("Costs were measured on the sample, not estimated.")
    tell(1.0)
    return _choose(expansion, options, exact_nanoseconds, search.notes)


def truncated_form(
    form: QuadraticForm, sample: FloatArray, score_scale: float
) -> QuadraticForm | SpectralForm:
    """For "none": the smallest rank that stays far below the scores, if it is cheaper.

    The median bound on the sample must stay under 0.1% of the standard deviation of the scores.
    """
    d, k = form.n_features, form.n_outputs
    if form.kernel == "poly2" or not len(sample):
        return form
    eigenpairs = None
    for rank in RANKS:
        if not _rank_pays(rank, d, k):
            break
        eigenpairs = eigenpairs or spectrum(form)
        cut = truncate(eigenpairs, rank)
        U = sample - cut.point
        Y = U @ cut.basis
        squares, kept = np.einsum("ij,ij->i", U, U), np.einsum("ij,ij->i", Y, Y)
        bound = np.median(cut.truncation_bound(squares, kept), axis=0).max(initial=0.0)
        if bound <= 1e-3 * score_scale:
            return cut
    return form


def exact_candidate(expansion: KernelExpansion, verdict: str) -> Candidate:
    """The exact engine's line in the plan."""
    return Candidate("exact", exact_cost(expansion), 1.0, expansion.nbytes, verdict)


class _Search:
    """Builds options and costs them on the sample."""

    def __init__(
        self,
        expansion: KernelExpansion,
        sample: FloatArray,
        settles: Settles,
        max_bytes: int,
        mapped: bool,
    ) -> None:
        self.expansion, self.sample, self.settles = expansion, sample, settles
        self.max_bytes, self.mapped = max_bytes, mapped
        self.notes: list[str] = []

    def about(self, point: FloatArray, where: str, tell: Tell) -> list[Option]:
        """All options with one cell about `point`."""
        d, k = self.expansion.n_features, self.expansion.n_outputs
        if 8 * k * d * d > self.max_bytes:
            needed = 8 * k * d * d / 2**20
            self.notes.append(f"A form {where} needs {needed:,.0f} MB, more than `max_bytes`.")
            return []
        try:
            form = quadratic_form(self.expansion, point)
            certificate = certify(self.expansion, point, mapped=self.mapped, progress=tell)
        except UnsupportedModelError as error:
            self.notes.append(f"No form {where}: {error}")
            return []
        options = []
        for cut in self._forms(form):
            name = f"{form_name(cut)} {where}"
            options.append(self.option(name, [Cell(cut, certificate)]))
        return options + self._with_second_tier(options, form, certificate)

    def _with_second_tier(
        self, options: list[Option], form: QuadraticForm, certificate: Certificate
    ) -> list[Option]:
        """The first tiers that leave few rows open, followed by the full form and a cubic one."""
        whole = options[0]
        cubics = list(self._cubics(whole, form.point, certificate))
        found = []
        # With a second tier to follow, a cheaper first one may do: try the best few.
        for first in sorted(options, key=_cost)[:FIRST_TIERS]:
            truncated = first.approximation.form is not form
            cell = replace(first.approximation.cells[0], full=form if truncated else None)
            if truncated and first.open_share > 0.0:
                found.append(self.option(f"{first.name}, then full", [cell]))
            for name, cubic in cubics:
                found.append(self.option(f"{first.name}, {name}", [replace(cell, cubic=cubic)]))
        return found

    def option(self, name: str, cells: list[Cell]) -> Option:
        """Run the tiers on the sample and cost them."""
        approximation = Approximation(tuple(cells))
        tier = evaluate(
            Tiers.prepare(approximation, fused=False), None, self.sample, self.settles
        ).tier
        left = np.bincount(tier, minlength=3) / max(len(tier), 1)
        cost = tiers_cost(
            approximation, self.expansion, 1.0 - float(left[FORM]), float(left[EXACT])
        )
        return Option(name, approximation, cost, float(left[EXACT]))

    def cells_may_pay(self, best: Option) -> bool:
        """Whether the exact tier dominates the cost, and certifying cells is affordable."""
        exact = best.open_share * exact_cost(self.expansion)
        work = self.expansion.n_centers**2 * self.expansion.n_features / 2 * sum(CELL_COUNTS)
        return exact > CELLS_WORTH * best.nanoseconds and work < CELLS_BUDGET

    def cells(self, count: int, random_state: int, tell: Tell) -> list[Option]:
        """Options with `count` cells: the form alone, and with the second tier that suits it."""
        d, k = self.expansion.n_features, self.expansion.n_outputs
        if 8 * k * d * d * count > self.max_bytes or self.expansion.kernel == "poly2":
            return []
        points = cell_points(self.sample, count, random_state)
        try:
            return self._cells(points, tell)
        except UnsupportedModelError as error:
            self.notes.append(f"No cells: {error}")
            return []

    def _cells(self, points: FloatArray, tell: Tell) -> list[Option]:
        d, k = self.expansion.n_features, self.expansion.n_outputs
        plain, cubics = [], []
        with_cubic = packed_size(d) * k * 8 * len(points) <= self.max_bytes // 2
        with_cubic = with_cubic and 8 * d**3 * k <= TENSOR_BYTES
        for index, point in enumerate(points):
            share = _between(tell, index / len(points), (index + 1) / len(points))
            form = quadratic_form(self.expansion, point)
            certificate = certify(self.expansion, point, mapped=self.mapped, progress=share)
            cell = Cell(form, certificate)
            plain.append(cell)
            with_cubic = with_cubic and _third_order_fits(certificate)
            if with_cubic:
                rank = d if d <= CUBIC_RANKS[-1] else CUBIC_RANKS[-1]
                cubic = cubic_form(self._tensors(point), rank)
                cubics.append(replace(cell, cubic=cubic))
        name = f"{len(points)} cells, {form_name(plain[0].form)}"
        options = [self.option(name, plain)]
        if with_cubic:
            options.append(self.option(f"{name}, {_cubic_name(cubics[0].cubic)}", cubics))
        return options

    def _forms(self, form: QuadraticForm) -> Iterator[QuadraticForm | SpectralForm]:
        yield form
        d, k = form.n_features, form.n_outputs
        if not _rank_pays(RANKS[0], d, k) or form.kernel == "poly2":
            return
        eigenpairs = spectrum(form)
        for rank in RANKS:
            if _rank_pays(rank, d, k):
                yield truncate(eigenpairs, rank)

    def _cubics(
        self, whole: Option, point: FloatArray, certificate: Certificate
    ) -> Iterator[tuple[str, CubicForm | DirectionalBound]]:
        if whole.open_share == 0.0 or self.expansion.kernel == "poly2":
            return
        if not (_third_order_fits(certificate) and self._fourth_order_could_settle(whole)):
            return
        d, k = self.expansion.n_features, self.expansion.n_outputs
        grams: list[FloatArray] = []
        if 8 * d**3 * k <= TENSOR_BYTES:
            tensors = self._tensors(point)
            for rank in (*(r for r in CUBIC_RANKS if r < d), d):
                if packed_size(rank) * 8 * k <= self.max_bytes // 2:
                    cubic = cubic_form(tensors, rank)
                    yield _cubic_name(cubic), cubic
            grams = [t.reshape(d, -1) @ t.reshape(d, -1).T for t in tensors]
        elif self.expansion.n_centers**2 * d * k < CELLS_BUDGET:
            grams = [cubic_gram(self.expansion, point, output) for output in range(k)]
        if grams:
            slack = gram_slack(self.expansion, certificate.rounding)
            bound = directional_bound(grams, min(d, CUBIC_RANKS[1]), slack)
            yield "directional bound", bound

    def _fourth_order_could_settle(self, best: Option) -> bool:
        """Whether rho_4 alone, were the cubic term free and exact, would settle an open row."""
        cell = best.approximation.cells[0]
        probe = evaluate(Tiers.prepare(best.approximation, fused=False), None, self.sample, None)
        assert cell.certificate is not None
        with np.errstate(over="ignore"):
            U = self.sample - cell.form.point
            sq_norms = np.einsum("ij,ij->i", U, U)
        bounds = cell.certificate.bound(sq_norms, probe.scores, 3)
        still = ~self.settles(probe.scores, bounds)
        return float(still.mean()) < 0.9 * best.open_share

    def _tensors(self, point: FloatArray) -> list[FloatArray]:
        outputs = range(self.expansion.n_outputs)
        return [cubic_tensor(self.expansion, point, output) for output in outputs]


def _choose(
    expansion: KernelExpansion,
    options: list[Option],
    exact_nanoseconds: float,
    notes: list[str],
) -> tuple[Approximation | None, Plan]:
    exact = replace(exact_candidate(expansion, ""), nanoseconds=exact_nanoseconds)
    ranked = sorted(options, key=_cost)
    if ranked and ranked[0].nanoseconds < exact.nanoseconds:
        winner = ranked[0]
        chosen = winner.candidate("cheapest")
        others = [
            option.candidate(_why_lost(option, winner)) for option in ranked[1 : OTHERS_SHOWN + 1]
        ]
        others.append(replace(exact, verdict="evaluates every support vector"))
        plan = Plan("certified", chosen, tuple(others), exact.nanoseconds, tuple(notes))
        return winner.approximation, plan
    verdict = "no form is cheaper"
    if ranked and min(option.open_share for option in ranked) > 0.5:
        verdict = "the proof does not reach"
        best = min(option.open_share for option in ranked)
        notes.append(
            f"Gamma is too large for a proof: the best bound leaves {100 * best:.0f}% of the rows "
            "open. guarantee='calibrated' gives a measured, statistical guarantee instead."
        )
    others = [option.candidate(_why_lost(option, None)) for option in ranked[:OTHERS_SHOWN]]
    chosen = replace(exact, verdict=verdict)
    return None, Plan("certified", chosen, tuple(others), exact.nanoseconds, tuple(notes))


def _why_lost(option: Option, winner: Option | None) -> str:
    if winner is None:
        return f"{100 * option.open_share:.0f}% of rows stay open"
    if option.open_share > 2 * winner.open_share + 0.001:
        return "more rows stay open"
    return f"{option.nanoseconds / winner.nanoseconds:.2g}x the cost"


def form_name(form: QuadraticForm | SpectralForm) -> str:
    """What the plan calls a form."""
    if isinstance(form, SpectralForm):
        return f"rank {form.rank} form"
    return "quadratic form"


def _cubic_name(cubic: object) -> str:
    if isinstance(cubic, CubicForm):
        return "cubic" if cubic.basis is None else f"cubic on {cubic.rank} directions"
    return "directional bound"


def _third_order_fits(certificate: Certificate) -> bool:
    """Whether coefficients are not so large that squares of the third order overflow."""
    return bool(certificate.rounding.moments[3].max(initial=0.0) < LARGEST_CUBIC)


def _rank_pays(rank: int, d: int, k: int) -> bool:
    """Whether a form of this rank costs clearly less than the full one."""
    return d * rank + k * rank * rank < 0.8 * (k * d * d / 2)


def _cost(option: Option) -> float:
    return option.nanoseconds


def _between(tell: Tell, start: float, stop: float) -> Tell:
    return lambda share: tell(start + share * (stop - start))
