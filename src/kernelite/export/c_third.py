"""The second tier in C: whether a model has one that can be written, and its constants.

In: an approximation. Out: C text for templates/third.h, which says what is computed.
"""

from __future__ import annotations

import numpy as np

from kernelite.export.bounds import FOREIGN, rounding_constants
from kernelite.export.c_arrays import Writer
from kernelite.export.c_constants import triangles
from kernelite.series.cells import Approximation
from kernelite.series.cubic import CubicForm
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.rounding import hidden_square

__all__ = ["has_third", "third_constants"]

_MARGIN = 1.0 + 1e-6  # for the rounding of the terms themselves


def has_third(approximation: Approximation) -> bool:
    """Whether there is one cell, with an evaluated third order on top of a whole form."""
    cell = approximation.cells[0]
    return (
        len(approximation.cells) == 1
        and isinstance(cell.cubic, CubicForm)
        and isinstance(cell.form if cell.full is None else cell.full, QuadraticForm)
    )


def third_constants(w: Writer, approximation: Approximation) -> str:
    """T, its basis, rho_4, and what rounding and the directions left out may add."""
    cell = approximation.cells[0]
    cubic, certificate = cell.cubic, cell.certificate
    assert isinstance(cubic, CubicForm)
    assert certificate is not None
    d, r = cubic.n_features, cubic.rank
    text = w.define("THIRD_RANK", str(r)) + w.array("cubic", cubic.packed)
    if cell.full is None:
        text += w.define("WHOLE(k)", "NAME_triangle[0][k]")
    else:
        text += w.array("whole", triangles(cell.full)) + w.define("WHOLE(k)", "NAME_whole[k]")
    if cubic.basis is None:
        text += w.define("THIRD_START(j)", "u[j]") + w.define("THIRD_SUM", "0")
        text += w.define("THIRD_TERM(i, j)", "0.0")
    else:
        text += w.array("directions", np.ascontiguousarray(cubic.basis.T))
        text += w.define("THIRD_START(j)", "0.0") + w.define("THIRD_SUM", "NAME_WIDTH")
        text += w.define("THIRD_TERM(i, j)", "NAME_directions[j][i] * u[i]")
    hidden = FOREIGN * hidden_square(d, r)
    text += w.define("HIDDEN", w.literal(hidden))
    text += w.array("rho_4", certificate.rho[1])
    text += w.array("rounding_3", rounding_constants(certificate, 3).absolute)
    return text + w.array("tail", _MARGIN * cubic.tail) + w.array("slack", _MARGIN * cubic.slack)
