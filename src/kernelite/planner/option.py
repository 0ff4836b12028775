"""An approximation that could be chosen, with what it costs and what the plan calls it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelite.cpu.exact import exact_cost, judging_cost
from kernelite.cpu.threads import thread_count
from kernelite.cpu.tiers import runs_at_once
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.plan import Candidate
from kernelite.series.cells import Approximation
from kernelite.series.directional import product_cost
from kernelite.series.series import GATHER
from kernelite.support.sizes import array_bytes

__all__ = ["Option", "tiers_cost"]

JUDGED = 5.0  # nanoseconds of one thread that a row's label takes, of one output behind a form


@dataclass(frozen=True, eq=False)
class Option:
    """An approximation with what it is expected to cost per row, in nanoseconds of one core."""

    name: str
    approximation: Approximation
    nanoseconds: float
    open_share: float

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return array_bytes(self.approximation)

    def on_all_threads(self) -> Option:
        """With what it is expected to cost here, where several threads share the rows."""
        return replace(self, nanoseconds=self.nanoseconds / thread_count())

    def candidate(self, verdict: str = "") -> Candidate:
        """Its line in the plan."""
        return Candidate(self.name, self.nanoseconds, self.open_share, self.nbytes, verdict)


def tiers_cost(
    approximation: Approximation,
    expansion: KernelExpansion,
    after_first: float,
    after_second: float,
    *,
    labels: bool = True,
    values: bool = False,
    after_product: float = 1.0,
) -> float:
    """Nanoseconds of one core per row, given the shares left open by the first and second tier.

    `labels`: what the exact engine is asked for. `values`: what settles a row are tolerances of
    its outputs, nothing else. There a product may stand for the third order and leave the share
    `after_product` to the second tier. What does not run on all threads counts as often as there
    are threads.
    """
    cell, count = approximation.cells[0], len(approximation.cells)
    d, k = cell.form.n_features, cell.form.n_outputs
    cost = approximation.first_cost
    if labels:
        cost += judging_cost(expansion, JUDGED)
    third = cell.cubic is not None and cell.cubic.evaluated
    at_once = values and third and count == 1 and runs_at_once(cell.full, after_first)
    if at_once and after_product < 1.0:
        cost += product_cost(d, k) + after_product * cell.second_cost()
    else:
        cost += (1.0 if at_once else after_first) * cell.second_cost(at_once=at_once)
    # Behind a form, a winner's pairs alone are not looked for.
    return cost + after_second * (exact_cost(expansion, labels=labels and k == 1) + GATHER)
