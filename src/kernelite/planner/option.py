"""An approximation that could be chosen, with what it costs and what the plan calls it."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from kernelite.backends.cpu.blocks import BLOCK_ELEMENTS
from kernelite.backends.cpu.threads import thread_count
from kernelite.backends.cpu.tiers import runs_at_once
from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.costs import exact_cost, judging_cost
from kernelite.planner.plan import Candidate
from kernelite.series.approximation import Approximation
from kernelite.series.directional import product_cost
from kernelite.series.series import GATHER
from kernelite.support.records import dataclass

__all__ = [
    "Option",
    "array_bytes",
    "behind_cost",
    "judged_cost",
    "tiers_cost",
    "unseen_cost",
]

JUDGED = 5.0  # nanoseconds of one thread that a row's label takes, of one output behind a form
VOTED, COUNTED = 2.0, 0.4  # times `judging_cost`, of votes that bounds must leave sure, or need not
FETCHED = 0.03  # and each byte of the arrays that a block's first open row brings from memory


@dataclass(frozen=True, eq=False)
class Option:
    """An approximation with what it is expected to cost per row, in nanoseconds of one core.

    `unseen` is the part of that which no sample shows, so that no timing has it.
    """

    name: str
    approximation: Approximation
    nanoseconds: float
    open_share: float
    unseen: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return array_bytes(self.approximation)

    def on_all_threads(self) -> Option:
        """With what it is expected to cost here, where several threads share the rows."""
        count = thread_count()
        return replace(self, nanoseconds=self.nanoseconds / count, unseen=self.unseen / count)

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
    d, k = approximation.form.n_features, approximation.form.n_outputs
    cost = approximation.first_cost + judged_cost(expansion, labels, proven=approximation.certified)
    third = approximation.cubic is not None and approximation.cubic.evaluated
    at_once = values and third and runs_at_once(approximation.full, after_first)
    if at_once and after_product < 1.0:
        cost += product_cost(d, k) + after_product * approximation.second_cost()
    else:
        cost += (1.0 if at_once else after_first) * approximation.second_cost(at_once=at_once)
    return cost + after_second * behind_cost(expansion, labels)


def judged_cost(expansion: KernelExpansion, labels: bool, *, proven: bool = True) -> float:
    """What a row's answer costs behind a form: labels from scores, and from bounds if `proven`."""
    if not labels:
        return 0.0
    votes = VOTED if proven else COUNTED
    factor = votes if expansion.voting_classes is not None else 1.0
    return factor * judging_cost(expansion, JUDGED)


def behind_cost(expansion: KernelExpansion, labels: bool) -> float:
    """What the exact engine costs for a row that a form left open.

    Behind a form, a winner's pairs alone are not looked for.
    """
    return exact_cost(expansion, labels=labels and expansion.n_outputs == 1) + GATHER


def unseen_cost(
    approximation: Approximation, expansion: KernelExpansion, share: float, narrowing: float
) -> float:
    """What open rows cost besides, that are too rare for a sample to show: few in each block.

    Such a row shares what brings the second tier's arrays, or all centers, from memory with none.

    Parameters
    ----------
    approximation : Approximation
    expansion : KernelExpansion
    share : float
        Of all rows, that the sample would not have shown.
    narrowing : float
        Of these, those that the second tier leaves open too.
    """
    second = array_bytes(approximation.full) + array_bytes(approximation.cubic)
    block = BLOCK_ELEMENTS / max(expansion.n_features, 4 * expansion.n_outputs, 1)
    fetched = -math.expm1(-share * block) * second
    fetched -= math.expm1(-share * narrowing * block) * expansion.nbytes
    return FETCHED * fetched / block * thread_count()


def array_bytes(value: Any) -> int:
    """Bytes of all arrays inside nested dataclasses and tuples.

    Examples
    --------
    >>> array_bytes((np.zeros(4), np.zeros((2, 3))))
    80
    """
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_sparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, tuple | list):
        return sum(array_bytes(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(array_bytes(getattr(value, field.name)) for field in fields(value))
    return 0
