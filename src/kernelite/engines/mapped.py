"""Rows behind an affine map that is applied piece by piece, just before a form reads them.

A whole mapped block would travel to memory and back; a piece stays in a core's own cache, so that
a folded scaler costs little. The arithmetic is that of `AffineMap`, or rounds once less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.affine import AffineMap
from kernelite.approximation.quadratic import QuadraticForm
from kernelite.engines.blas import Evaluated
from kernelite.engines.forms import FormEngine, Fused
from kernelite.engines.jit_support import jit_available
from kernelite.engines.threads import for_each_chunk
from kernelite.inputs import FloatArray

__all__ = ["MappedRows"]

PIECE = 1 << 17  # entries: a megabyte


@dataclass(frozen=True, eq=False)
class MappedRows:
    """What `input_map` makes of dense rows of shape (m, d), when it is asked for.

    Examples
    --------
    >>> rows = MappedRows(np.array([[3.0, 5.0], [1.0, 2.0]]), AffineMap([2.0, 1.0], [1.0, 0.0]))
    >>> rows[[1]]
    array([[0., 2.]])
    """

    rows: FloatArray
    input_map: AffineMap

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return len(self.rows), self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> FloatArray:
        """Some rows, mapped."""
        return self._mapped(self.rows[index])

    def run(self, engine: FormEngine, *, bounded: bool) -> tuple[Evaluated, FloatArray | None]:
        """As `FormEngine.run`; the full form maps rows as it reads them, others take pieces."""
        m, d = self.shape
        if engine.fused is not None and isinstance(engine.form, QuadraticForm):
            return self._run_fused(engine.fused, bounded)
        piece = max(64, PIECE // max(d, 1) // 64 * 64)
        if m <= piece:
            return engine.run(self[:], bounded=bounded)
        k = engine.form.n_outputs
        scores, sq_norms, bounds = np.empty((m, k)), np.empty(m), np.empty((m, k))
        kept = np.empty(m)
        several = {"kept": True}

        def part(block: slice) -> None:
            evaluated, own = engine.run(self[block], bounded=bounded)
            scores[block], sq_norms[block] = evaluated.scores, evaluated.sq_norms
            if evaluated.kept is None:
                several["kept"] = False
            else:
                kept[block] = evaluated.kept
            if own is not None:
                bounds[block] = own

        for_each_chunk(part, m, piece)
        found = Evaluated(scores, sq_norms, kept if several["kept"] else None)
        return found, bounds if bounded else None

    def _run_fused(self, fused: Fused, bounded: bool) -> tuple[Evaluated, FloatArray | None]:
        from kernelite.engines.jit import mapped_scores
        from kernelite.engines.jit_bounds import NO_CERTIFICATE

        certificate = fused.certificate if bounded else NO_CERTIFICATE
        *found, bounds = mapped_scores(fused.form, certificate, self.rows, self.input_map)
        return Evaluated(*found), bounds

    def _mapped(self, rows: FloatArray) -> FloatArray:
        if not jit_available():
            return self.input_map(rows)
        from kernelite.engines.jit_maps import map_rows

        return map_rows(self.input_map, rows)
