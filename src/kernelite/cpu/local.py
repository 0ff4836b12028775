"""The local engine: sums over the centers near a row, and a bound on all that was left out.

    |computed f - f| <= left out + u (n / 32 + (d + 8) 745 + 96) sum_i |A_i| K_i + 4u (|b| + |f|)

over the centers that were summed. gamma |x - z|^2 is computed from differences, so it errs by
(d + 5) u relatively, and it is at most 745 where its exponential is not zero. The distance to a
box errs alike, which the factor 1 + 1e-9 on what was left out covers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.cpu.kernels.compiling import jit_available, ready
from kernelite.cpu.leaves import LEAF, Leaves, sort_into_leaves
from kernelite.cpu.threads import for_each_chunk
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import Bounded
from kernelite.program.cascade import Block
from kernelite.program.criteria import Criterion, never
from kernelite.program.stats import NEAR
from kernelite.rows.inputs import FloatArray
from kernelite.series.local import LocalSums
from kernelite.series.rounding import ABOVE, GAMMA_RANGE, SAFETY, TINY, UNIT, folding
from kernelite.series.series import LOOP, ROW

__all__ = ["LocalEngine", "NearCenters", "Visits"]

CHUNK = 128  # rows handed to a thread at a time
MOST_FEATURES = 8
BOXES = 80.0  # nanoseconds of a group of 32 boxes: distances and exponentials
VALUE = 1.0  # and of a kernel value


@dataclass(frozen=True)
class Visits:
    """What a row cost on average: boxes looked at in groups, leaves summed."""

    groups: float
    leaves: float
    threshold: float


@dataclass(frozen=True, eq=False)
class LocalEngine:
    """An expansion sorted into boxes, ready to run.

    Examples
    --------
    >>> x = np.linspace(0.0, 9.0, 500)[:, None]
    >>> bumps = KernelExpansion(x, np.ones(500), [0.0], gamma=50.0)
    >>> engine = LocalEngine.prepare(bumps, LocalSums(np.array([1e-3])))
    >>> found = engine.run(np.array([[4.0]]))
    >>> bool(abs(found.scores - bumps.scores([[4.0]])) <= found.bounds)
    True
    >>> bool(found.bounds <= 1e-3 + 1e-9)
    True
    """

    expansion: KernelExpansion
    settings: LocalSums
    leaves: Leaves
    width: int
    absolute: FloatArray

    @staticmethod
    def serves(expansion: KernelExpansion) -> bool:
        """Whether there is a kernel for this expansion."""
        narrow = 0 < expansion.n_features <= MOST_FEATURES and expansion.n_centers > 0
        ordinary = GAMMA_RANGE[0] <= expansion.gamma <= GAMMA_RANGE[1]
        return expansion.kernel == "rbf" and narrow and ordinary and jit_available()

    @classmethod
    def prepare(
        cls, expansion: KernelExpansion, settings: LocalSums, *, mapped: bool = False
    ) -> LocalEngine:
        """Sort the centers into boxes.

        Parameters
        ----------
        expansion : KernelExpansion
            One that `serves` accepts.
        settings : LocalSums
        mapped : bool
            Whether rows come through an affine map, whose rounding then counts.
        """
        from kernelite.cpu.kernels.local import WIDTHS

        width = min(w for w in WIDTHS if w >= expansion.n_features)
        centers = expansion.dense_centers()
        weight = np.abs(expansion.coefficients).sum(axis=0)
        reach = float(np.sqrt(np.einsum("ij,ij->i", centers, centers)).max(initial=0.0))
        absolute = TINY * (1.0 + weight) + folding(expansion, weight, reach, mapped=mapped)
        leaves = sort_into_leaves(centers, expansion.coefficients, width)
        return cls(expansion, settings, leaves, width, absolute)

    @property
    def ready(self) -> bool:
        """Whether its kernel is compiled; if not, that is begun."""
        from kernelite.cpu.kernels.local import local_kernel

        return ready(local_kernel(self.width))

    def run(self, rows: FloatArray) -> Bounded:
        """Scores and bounds."""
        sums, sizes, left_out, _ = self._sums(rows)
        expansion = self.expansion
        scores = sums + expansion.intercept
        n, d = expansion.n_centers, expansion.n_features
        relative = n / LEAF + (d + 8) * 745.0 + 96.0
        rounding = relative * sizes + 4.0 * (np.abs(expansion.intercept) + np.abs(scores))
        bounds = left_out * ABOVE + SAFETY * UNIT * rounding + self.absolute
        return Bounded(scores, bounds)

    def visits(self, rows: FloatArray) -> Visits:
        """What these rows cost, on average."""
        counts = self._sums(rows)[3]
        groups, leaves, threshold = counts.mean(axis=0) if len(rows) else np.zeros(3)
        return Visits(float(groups), float(leaves), float(threshold))

    def cost(self, visits: Visits) -> float:
        """Nanoseconds of one core per row that looks at so many groups of boxes and leaves."""
        n, d, k = self.expansion.n_centers, self.expansion.n_features, self.expansion.n_outputs
        boxes = (visits.groups + n / 1024) * BOXES
        return ROW + LEAF * visits.leaves * ((d + 2 * k) * LOOP + VALUE) + boxes

    def _sums(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        from kernelite.cpu.kernels.local import local_kernel

        m, k = len(rows), self.expansion.n_outputs
        sums, sizes, left_out = (np.empty((m, k)) for _ in range(3))
        counts = np.empty((m, 3))
        kernel, leaves, settings = local_kernel(self.width), self.leaves, self.settings

        def part(block: slice) -> None:
            padded = np.zeros((block.stop - block.start, self.width))
            padded[:, : rows.shape[1]] = rows[block]
            kernel(
                padded,
                leaves.centers,
                leaves.coefficients,
                leaves.low,
                leaves.high,
                leaves.weight,
                leaves.group_low,
                leaves.group_high,
                leaves.group_weight,
                self.expansion.gamma,
                settings.absolute,
                settings.relative,
                settings.start,
                sums[block],
                sizes[block],
                left_out[block],
                counts[block],
            )

        for_each_chunk(part, m, CHUNK)
        return sums, sizes, left_out, counts


@dataclass(frozen=True, eq=False)
class NearCenters:
    """Sums over near centers as a stage, where a criterion says what is good enough."""

    engine: LocalEngine
    name = NEAR
    accepts_all = False

    def run(
        self,
        rows: Block,
        criterion: Criterion | None,
        previous: Bounded | None = None,
        into: FloatArray | None = None,
    ) -> Bounded | None:
        """Scores and bounds of dense rows."""
        if criterion is None or criterion is never or not self.engine.ready:
            return None
        return self.engine.run(rows)

    def bound(self, rows: Block, criterion: Criterion | None) -> FloatArray:
        """What is left out depends on the row, so it is run."""
        return self.engine.run(rows).bounds  # type: ignore[return-value]
