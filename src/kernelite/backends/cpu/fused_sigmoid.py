"""Sigmoid kernels in panels of single precision: a fifth of the time of doubles, a wider bound.

With y_i = 2 log2(e) (gamma x_i.z + coef0), a sigmoid is tanh = 1 - 2 / (1 + 2^y), so that

    sum_i a_i k_i = sum_i a_i - 2 sum_{a_i > 0} |a_i| / (1 + 2^y_i) + 2 sum_{a_i < 0} |a_i| / (...)

in panels (`panels`), with v = 2^-24. y = x.w + r is a product of length L, to which r is added:

    |error of y| <= v (|x|' |w|' + 4 |x| |w| + 4 |r|)

counts rounding x, w and r, and the last sum. 1 / (1 + 2^y) has slope ln(2) / 4 at most; the power's
6 v move it by 1.5 v; 1 + 2^y, the quotient and |a| are rounded, 3 v of the value. A block's values
have one sign, so that summing them errs by (panels + 12) v of what is found.
"""

from __future__ import annotations

import math

import numpy as np

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.fused_sums import (
    EXP2_ERROR,
    MOST_LOG,
    MOST_PANEL_NUMBERS,
    Call,
    PanelSums,
)
from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.panels import BLOCK_PANELS, LOG2_E, Layout, Panels
from kernelite.machine.kernels import SigmoidKernel
from kernelite.series.rounding import SAFETY, SINGLE_UNIT, UNIT

__all__ = ["sigmoid_sums"]

SINGLE_NORMS = 1e-15, 1e15  # between these, nothing overflows or is lost in single precision


def sigmoid_sums(exact: DenseExact) -> PanelSums | None:
    """Lay the centers of one output out; None for other kernels, and where numbers do not fit.

    Panels hold 2 log2(e) gamma x_i, with |a_i| instead of exponents. Terms of a block, (B, 4): what
    y errs by, times the chain of a row's entries, once, times |z|; then sum |a_i|.
    """
    kernel, expansion = exact.kernel, exact.expansion
    if not isinstance(kernel, SigmoidKernel) or expansion.n_outputs > 1:
        return None
    if not jit_available() or not expansion.coefficients.any():
        return None
    a = expansion.coefficients[:, 0]
    sizes, shift = np.abs(a), 2.0 * LOG2_E * kernel.coef0
    served = 2.0**-MOST_LOG <= sizes[sizes > 0.0].min() <= sizes.max() <= 2.0**MOST_LOG
    reach = 2.0 * LOG2_E * kernel.gamma * exact.rounding.radius
    ranges = SINGLE_NORMS[0] < kernel.gamma and reach < SINGLE_NORMS[1] > abs(shift)
    if not (served and ranges) or exact.centers.size > MOST_PANEL_NUMBERS:
        return None
    from kernelite.backends.cpu.kernels.exp2 import SINGLE
    from kernelite.backends.cpu.kernels.panel_sums import sigmoid_scores

    layout = Layout.about_origin(exact.centers, kernel.gamma)
    panels, blocks, signs = Panels.by_sign(layout, SINGLE, a)
    terms, chains = np.empty((len(blocks), 4)), layout.chains()
    for number, block in enumerate(blocks):
        x = 2.0 * layout.g * np.array([chains[block].max(), layout.reach(block)])
        own = UNIT * (expansion.n_features + 8) * x[1]
        terms[number] = (
            SINGLE_UNIT * x[0],
            4.0 * SINGLE_UNIT * abs(shift) + 1e-15,  # and what is too small to be held
            4.0 * SINGLE_UNIT * x[1] + own,
            float(sizes[block].sum()),
        )
    lost = 2.0 * 2.0**SINGLE.smallest * (len(a) + float(sizes.sum()))
    constants = (
        *(float(a.sum()), shift, float(expansion.intercept[0])),
        len(a) * UNIT * float(sizes.sum()) + lost,
        SAFETY * (BLOCK_PANELS + 12.0 + 3.0) * SINGLE_UNIT,
        *(SAFETY * math.log(2.0) / 4.0, SAFETY * EXP2_ERROR / 4.0 * SINGLE_UNIT),
        SINGLE_NORMS[1] ** 2,
    )
    terms, fixed = terms * (1.0 + 1e-3), np.array(constants)
    model = layout.order, panels.lines, panels.exponents, panels.starts
    calls = (Call(sigmoid_scores, (*model, signs, terms, fixed)),)
    # Besides: what doubles err by, and whatever moved rows and centers before.
    return PanelSums(panels, signs, terms, fixed, calls, rounding=exact.rounding)
