"""The fixed cost table: what a row costs, in nanoseconds on two cores, from operation counts.

The plan compares candidates by these numbers, so only their ratios matter; they were measured once
with `benchmarks/` on an AVX-512 machine. A plan is thereby the same on every machine.
"""

from __future__ import annotations

from kernelite.approximation.cells import Approximation, Cell
from kernelite.approximation.cubic import CubicForm
from kernelite.approximation.spectral import SpectralForm
from kernelite.expansion import KernelExpansion

__all__ = ["exact_cost", "form_cost", "second_cost", "tiers_cost"]

PRODUCT = 1 / 45  # a multiply-add inside a matrix product
LOOP = 1 / 18  # a multiply-add inside a compiled loop over a tile of rows
EXPONENTIAL = 0.55  # one kernel value: exponential, shift and weighted sum
ROW = 4.0  # reading a row, its norm and exponential, writing its scores
CERTIFY = 12.0  # the bound of a row and output, and the decision
GATHER = 60.0  # picking an open row out and putting its result back
LOOPS_UP_TO = 64  # features up to which the compiled loop beats the matrix product


def exact_cost(expansion: KernelExpansion) -> float:
    """A row on the exact engine."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    return n * ((d + k) * PRODUCT + EXPONENTIAL) + ROW


def form_cost(form: object, d: int, k: int) -> float:
    """A row of a form, bounds aside."""
    if isinstance(form, SpectralForm):
        r = form.rank
        return ROW + (d * (r + k + 2) + k * r * r) * PRODUCT
    if d <= LOOPS_UP_TO:
        return ROW + k * d * (d + 3) / 2 * LOOP
    return ROW + k * d * (d + 2) * PRODUCT


def second_cost(cell: Cell) -> float:
    """A row of the second tier."""
    if not cell.has_second_tier:
        return 0.0
    d, k, cubic = cell.form.n_features, cell.form.n_outputs, cell.cubic
    cost = GATHER + CERTIFY * k
    if cell.full is not None:
        cost += form_cost(cell.full, d, k)
    if isinstance(cubic, CubicForm):
        project = 0.0 if cubic.basis is None else d * cubic.rank * PRODUCT
        cost += project + cubic.packed.size * LOOP
    elif cubic is not None:
        r = cubic.basis.shape[1]
        cost += (d * r + k * r * r) * PRODUCT
    return cost


def tiers_cost(
    approximation: Approximation,
    expansion: KernelExpansion,
    after_first: float,
    after_second: float,
) -> float:
    """A row on average, given the shares left open by the first and by the second tier."""
    cell = approximation.cells[0]
    d, k = cell.form.n_features, cell.form.n_outputs
    count = len(approximation.cells)
    cost = form_cost(cell.form, d, k)
    if count > 1:
        cost += count * d * PRODUCT + GATHER
    if cell.certificate is not None:
        cost += CERTIFY * k
    cost += after_first * second_cost(cell)
    return cost + after_second * (exact_cost(expansion) + GATHER)
