"""Why a plan is the exact engine, and what would pay instead, in a sentence or two.

In: what the search found. Out: the verdict on the exact engine and a note for the plan.
"""

from __future__ import annotations

import numpy as np

from kernelite.cpu.threads import thread_count
from kernelite.machine.expansion import KernelExpansion
from kernelite.planner.option import Option, tiers_cost
from kernelite.planner.search import Search
from kernelite.rows.inputs import FloatArray

__all__ = ["why_exact"]

MOST_OPEN = 0.5  # of the rows, from which it is the proof that does not reach
FAR = 3.0  # times gamma_max, up to which most rows are proven


def why_exact(
    search: Search,
    points: dict[str, FloatArray],
    options: list[Option],
    exact: float,
    /,
    *,
    values: bool,
) -> tuple[str, str]:
    """The verdict, and the note; no note where the search has said it all.

    Parameters
    ----------
    search : Search
    points : dict of str to ndarray of shape (d,)
        Expansion points that were tried, by name.
    options : list of Option
        The forms that lost.
    exact : float
        Nanoseconds of the exact engine per row.
    values : bool
        Whether the model answers values within a tolerance, not labels.
    """
    count = f"{search.expansion.n_centers:,}"
    best = min((option.open_share for option in options), default=float(search.out_of_reach))
    # Even if it proved all rows, a form would have to be cheaper than the exact engine.
    alone = [tiers_cost(form.approximation, search.expansion, 0.0, 0.0) for form in options]
    if min(alone, default=0.0) >= exact * thread_count() or (search.too_dear and not options):
        return "no form is cheaper", (
            f"Nothing need be done: summing {count} support vectors is the fastest way."
        )
    rbf = search.expansion.kernel == "rbf"
    if best > MOST_OPEN and rbf:
        left = f"the best bound leaves {100 * best:.0f}%" if options else "it would leave most"
        other = "a larger `tolerance`" if values else "guarantee='calibrated', which is statistical"
        gamma = _smaller_gamma(search.expansion, points, search.sample)
        return "the proof does not reach", (
            f"Gamma is too large for a proof: {left} of the rows open. {gamma}, or {other}, "
            "may pay."
        )
    if not options:
        return "no form is cheaper", ""
    note = f"Summing {count} support vectors costs less than a form and the rows it leaves open."
    if rbf and best > 0.0:
        gamma = _smaller_gamma(search.expansion, points, search.sample)
        note += f" {gamma} leaves fewer of them."
    return "no form is cheaper", note


def _smaller_gamma(
    expansion: KernelExpansion, points: dict[str, FloatArray], sample: FloatArray
) -> str:
    """Which gamma would be served by a form, as the beginning of a sentence."""
    name, point = next(iter(points.items()))
    with np.errstate(over="ignore", divide="ignore"):
        farthest = np.square(sample - point).sum(axis=1).max(initial=0.0)
        limit = float(1.0 / np.float64(4.0 * farthest))
        times = float(np.float64(expansion.gamma) / limit)
    if not FAR < times < np.inf:
        return f"A gamma below this one ({expansion.gamma:.3g})"
    return (
        f"A gamma up to a few times gamma_max about the {name}, {limit:.3g} (this one is "
        f"{times:,.0f} times that)"
    )
