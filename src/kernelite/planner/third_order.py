"""Second forms of the third order: cubic forms of several ranks.

In: an expansion and its form about a point. Out: tiers with their costs; only those that may pay
are built, since their tensors have d^3 entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm, cubic_cost, cubic_form, cubic_tensor, packed_size
from kernelite.series.series import QuadraticForm

__all__ = ["third_order_fits", "third_order_tiers", "whole_cubic"]

RANKS = (16, 32, 64)
TENSOR_BYTES = 192 * 2**20  # the most dense third-order tensors may take while compiling
LARGEST = 1e100  # entry of a third-order tensor: its square is still far from overflow


def third_order_tiers(
    expansion: KernelExpansion,
    form: QuadraticForm,
    certificate: Certificate,
    max_bytes: int,
    pays: Callable[[float], bool],
    helps: Callable[[], bool],
) -> Iterator[tuple[CubicForm, float]]:
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
    costs = {
        rank: cubic_cost(d, k, rank)
        for rank in (*(r for r in RANKS if r < d), d)
        if packed_size(rank) * 8 * k <= max_bytes // 2
    }
    held = not expansion.kernel.quadratic and 8 * d**3 * k <= TENSOR_BYTES and bool(costs)
    if not (held and pays(min(costs.values())) and third_order_fits(certificate) and helps()):
        return
    tensors = _tensors(expansion, form.point)
    for rank, cost in costs.items():
        if pays(cost):
            yield cubic_form(tensors, rank), cost


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
