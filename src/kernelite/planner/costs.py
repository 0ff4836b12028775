"""The fixed cost table: what a row costs, in nanoseconds on two cores, from operation counts.

The plan compares candidates by these numbers, so only their ratios matter; they were measured once
with `benchmarks/` on an AVX-512 machine. Where they are close, `measure` decides instead.
"""

from __future__ import annotations

from kernelite.cpu.exact_dense import EXPONENTIAL, WIDEST
from kernelite.cpu.exact_sparse import DENSER
from kernelite.cpu.tiers import MOSTLY
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.pairs import n_classes
from kernelite.series.cells import Approximation, Cell
from kernelite.series.cubic import CubicForm, packed_size
from kernelite.series.packed import packed_degree, packed_numbers
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = [
    "cells_cost",
    "cubic_cost",
    "directional_cost",
    "exact_cost",
    "form_cost",
    "least_form_cost",
    "local_cost",
    "open_row_cost",
    "product_cost",
    "runs_at_once",
    "second_cost",
    "tiers_cost",
]

PRODUCT = 1 / 45  # a multiply-add inside a matrix product
ENTRY = DENSER * PRODUCT  # a multiply-add of two entries of sparse vectors
LOOP = 1 / 30  # a multiply-add inside a fused kernel
WEIGHED = 1 / 50  # one whose sum stays in a register: the third order's
MADE = 1 / 17  # a product of two features that the third order of all outputs shares
LOAD = 1 / 10  # an entry of a row: read, shifted, transposed, squared
VALUE = EXPONENTIAL * PRODUCT  # one kernel value: exponential and weighted sum
ROW = 6.0  # a row's exponential, its scores written and turned into an answer
BOXES = 40.0  # a group of 32 boxes: distances and exponentials
CERTIFY = 4.0  # the bound of a row and output, and the decision
SINGLE, DOUBLE = 1 / 96, 1 / 48  # a multiply-add of the exact engines, in a register
SINGLE_VALUE, DOUBLE_VALUE = 7, 14  # multiply-adds in the time of one of their kernel values
WINNER = 15  # multiply-adds per center in which a one-vs-one label is found, once values are there
GATHER = 60.0  # picking an open row out and putting its result back


def exact_cost(expansion: KernelExpansion, *, labels: bool = False) -> float:
    """A row on the exact engine; `labels`: where single precision mostly suffices."""
    if not expansion.has_series:
        return _pointwise_cost(expansion)
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    classes = n_classes(k)  # of a one-vs-one machine, most likely
    pairs = classes is not None
    if expansion.kernel == "poly2" or d > WIDEST:
        exponents = min(n * d * PRODUCT, expansion.meeting_entries * ENTRY)
        return exponents + n * (k * PRODUCT + VALUE) + ROW
    if labels and (k == 1 or pairs):
        return n * (d + SINGLE_VALUE + (WINNER if pairs else 0)) * SINGLE + ROW
    weights = 0 if k == 1 else k if classes is None else classes - 1
    dense = n * ((d + DOUBLE_VALUE) * DOUBLE + weights * PRODUCT)
    sparse = expansion.meeting_entries * ENTRY + n * (k * PRODUCT + VALUE)
    return min(dense, sparse) + ROW


def _pointwise_cost(expansion: KernelExpansion) -> float:
    """A row of the engine for any kernel: one dot product, a packed polynomial, or all centers."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    degree = packed_degree(expansion)
    if degree == 1:
        return ROW + d * (LOAD + k * PRODUCT)
    if degree is not None:
        return ROW + d * LOAD + packed_numbers(d, degree) * k * WEIGHED
    return ROW + n * (d * LOOP + k * PRODUCT + 2.0 * VALUE)


def local_cost(groups: float, leaves: float, expansion: KernelExpansion) -> float:
    """A row on the local engine: groups of boxes looked at, leaves of 32 centers summed."""
    n, d, k = expansion.n_centers, expansion.n_features, expansion.n_outputs
    boxes = (groups + n / 1024) * BOXES
    return ROW + 32 * leaves * ((d + 2 * k) * LOOP + VALUE) + boxes


def least_form_cost(d: int, k: int) -> float:
    """A row of the cheapest form there could be, with its bound: truncated, or in full."""
    full = k * d * (d + 3) / 2 * LOOP
    return ROW + d * LOAD + min(full, d * 8 * PRODUCT + 36 * k * LOOP) + CERTIFY * k


def form_cost(form: QuadraticForm | SpectralForm) -> float:
    """A row of a form, bounds aside."""
    d, k = form.n_features, form.n_outputs
    if isinstance(form, SpectralForm):
        r = form.rank
        columns = (r + k + 7) // 8 * 8  # taken by vectors
        return ROW + d * LOAD + d * columns * PRODUCT + k * r * (r + 1) / 2 * LOOP
    return ROW + d * LOAD + k * d * (d + 3) / 2 * LOOP


def second_cost(cell: Cell, *, at_once: bool = False) -> float:
    """A row of the second tier; `at_once`: in one pass with the first."""
    if not cell.has_second_tier:
        return 0.0
    d, k, cubic = cell.form.n_features, cell.form.n_outputs, cell.cubic
    cost = open_row_cost(cell.full, k, at_once=at_once)
    if isinstance(cubic, CubicForm):
        cost += cubic_cost(d, k, cubic.rank)
    elif cubic is not None:
        cost += directional_cost(d, k, cubic.basis.shape[1])
    return cost


def open_row_cost(full: QuadraticForm | None, k: int, *, at_once: bool = False) -> float:
    """What an open row costs in a second tier besides the third order."""
    form = 0.0 if full is None else form_cost(full)
    return (0.0 if at_once else GATHER) + CERTIFY * k + form


def runs_at_once(full: QuadraticForm | None, share: float) -> bool:
    """Whether values get the third order in one pass with the first tier, as tiers.py does it."""
    return full is None and share > MOSTLY


def cubic_cost(d: int, k: int, rank: int) -> float:
    """A row of the third order, in full where the rank is d."""
    project = d * rank * PRODUCT if rank < d else 0.0
    return project + rank * (rank + 1) / 2 * MADE + k * packed_size(rank) * WEIGHED


def product_cost(d: int, k: int) -> float:
    """A row of the product that may stand for the third order, and its bound."""
    return CERTIFY * k + (d * (d + 1) / 2 + k * d) * LOOP


def directional_cost(d: int, k: int, rank: int) -> float:
    """A row of the directional bound."""
    return (d * rank + k * rank * rank) * PRODUCT


def cells_cost(d: int, k: int, count: int) -> float:
    """What a row of `count` cells with full forms costs before any second tier."""
    form = ROW + d * LOAD + k * d * (d + 3) / 2 * LOOP
    return form + count * d * PRODUCT + GATHER + CERTIFY * k


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
    """A row on average, given the shares left open by the first and by the second tier.

    `labels`: what the exact engine is asked for. `values`: what settles a row are tolerances of
    its outputs, nothing else. There a product may stand for the third order and leave the share
    `after_product` to the second tier.
    """
    cell = approximation.cells[0]
    d, k = cell.form.n_features, cell.form.n_outputs
    count = len(approximation.cells)
    cost = form_cost(cell.form)
    if count > 1:
        cost += count * d * PRODUCT + GATHER
    if cell.certificate is not None:
        cost += CERTIFY * k
    third = isinstance(cell.cubic, CubicForm)
    at_once = values and third and count == 1 and runs_at_once(cell.full, after_first)
    if at_once and after_product < 1.0:
        cost += product_cost(d, k) + after_product * second_cost(cell)
    else:
        cost += (1.0 if at_once else after_first) * second_cost(cell, at_once=at_once)
    # Behind forms, doubles answer what several outputs leave open.
    last = exact_cost(expansion, labels=labels and expansion.n_outputs == 1)
    return cost + after_second * (last + GATHER)
