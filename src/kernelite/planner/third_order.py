"""Second tiers of the third order: cubic forms of several ranks, or a bound on directions.

In: an expansion and its form about a point. Out: tiers with their costs; only those that may pay
are built, since their tensors have d^3 entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm, cubic_cost, cubic_form, cubic_tensor, packed_size
from kernelite.series.directional import (
    DirectionalBound,
    cubic_gram,
    directional_bound,
    directional_cost,
    gram_slack,
)
from kernelite.series.series import QuadraticForm

__all__ = ["third_order_fits", "third_order_tiers", "whole_cubic"]

RANKS = (16, 32, 64)
TENSOR_BYTES = 192 * 2**20  # the most dense third-order tensors may take while compiling
GRAM_BUDGET = 3e10  # multiply-adds that Gram matrices may cost where tensors are too large to hold
LARGEST = 1e100  # entry of a third-order tensor: its square is still far from overflow


def third_order_tiers(
    expansion: KernelExpansion,
    form: QuadraticForm,
    certificate: Certificate,
    max_bytes: int,
    pays: Callable[[float], bool],
    helps: Callable[[], bool],
) -> Iterator[tuple[CubicForm | DirectionalBound, float]]:
    """Second tiers of the third order with their costs, where they may pay.

    Parameters
    ----------
    expansion : KernelExpansion
    form : QuadraticForm
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
    along = min(d, RANKS[1])
    along_cost = directional_cost(d, k, along)
    costs = {
        rank: cubic_cost(d, k, rank)
        for rank in (*(r for r in RANKS if r < d), d)
        if packed_size(rank) * 8 * k <= max_bytes // 2
    }
    held = 8 * d**3 * k <= TENSOR_BYTES
    cheapest = min([along_cost, *(costs.values() if held else ())])
    if expansion.kernel.quadratic or not (
        pays(cheapest) and third_order_fits(certificate) and helps()
    ):
        return
    grams: list[FloatArray] = []
    if held:
        tensors = _tensors(expansion, form.point)
        for rank, cost in costs.items():
            if pays(cost):
                yield cubic_form(tensors, rank), cost
        grams = [t.reshape(d, -1) @ t.reshape(d, -1).T for t in tensors]
    elif expansion.n_centers**2 * d * k < GRAM_BUDGET:
        grams = [cubic_gram(expansion, form.point, output) for output in range(k)]
    if grams and pays(along_cost):
        slack = gram_slack(expansion, certificate.rounding)
        yield directional_bound(grams, along, slack), along_cost


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
    return bool(certificate.rounding.moments[3].max(initial=0.0) < LARGEST)


def _tensors(expansion: KernelExpansion, point: FloatArray) -> list[FloatArray]:
    return [cubic_tensor(expansion, point, output) for output in range(expansion.n_outputs)]
