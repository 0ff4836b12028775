"""The constants of a C header: which arrays and macros each kind of model needs.

In: what is exported. Out: C text; the templates use the names that are defined here.
"""

from __future__ import annotations

import numpy as np

from kernelite.errors import UnsupportedModelError
from kernelite.export.bounds import largest_power, rounding_constants, twice_gamma
from kernelite.export.c_arrays import Writer
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.rows.inputs import FloatArray
from kernelite.series.cells import Approximation
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.rounding import SAFETY
from kernelite.series.spectral import SpectralForm

__all__ = [
    "bound_constants",
    "exact_constants",
    "form_constants",
    "map_constants",
    "triangles",
]


def form_constants(w: Writer, approximation: Approximation) -> str:
    """Points, c, v, M (or its spectrum) and b of all cells."""
    cells = approximation.cells
    forms = [cell.form for cell in cells]
    form = approximation.form
    text = w.define("CELLS", str(len(cells))) + _kernel(w, form.gamma, form.kernel)
    damping = "NAME_EXP(-NAME_GAMMA * (square))" if form.kernel == "rbf" else "1"
    text += w.define("DAMPING(square)", damping)
    text += w.array("point", approximation.points)
    if len(cells) > 1:
        halves = 0.5 * np.einsum("ij,ij->i", approximation.points, approximation.points)
        text += w.array("half_square", halves)
    text += w.define("CELL(x)", "NAME_cell(x)" if len(cells) > 1 else "0")
    text += w.array("constant", np.stack([f.constant for f in forms]))
    text += w.array("linear", np.stack([f.linear.T for f in forms]))
    text += w.array("intercept", form.intercept)
    if all(isinstance(f, QuadraticForm) for f in forms):
        return text + w.array("triangle", np.stack([triangles(f) for f in forms]))
    if not all(isinstance(f, SpectralForm) for f in forms):
        raise UnsupportedModelError("the cells of this model hold forms of different kinds.")
    return text + _spectral(w, forms)  # type: ignore[arg-type]


def bound_constants(w: Writer, approximation: Approximation) -> str:
    """rho, the rounding terms and what a truncated spectrum leaves out."""
    cells, polynomial = approximation.cells, approximation.form.kernel == "poly2"
    certificates = [cell.certificate for cell in cells]
    terms = [rounding_constants(c) for c in certificates if c is not None]
    text = w.define("RELATIVE", w.literal(terms[0].relative))
    if not polynomial:
        largest = max(twice_gamma(c) for c in certificates if c is not None)
        text += w.define("TWICE_GAMMA", w.literal(largest))
    text += w.array("rho", np.stack([c.rho[0] for c in certificates if c is not None]))
    absolute = np.stack([t.absolute for t in terms])
    spectral = isinstance(approximation.form, SpectralForm)
    if spectral:
        forms: list[SpectralForm] = [cell.form for cell in cells]  # type: ignore[misc]
        reach = 0.0 if polynomial else SAFETY * largest_power(2, approximation.form.gamma)
        absolute = absolute + reach * np.stack([f.leftover for f in forms])
        text += w.array("spread", SAFETY * np.stack([f.spread for f in forms]))
        text += w.array("twice_cross", 2.0 * SAFETY * np.stack([f.cross for f in forms]))
    text += w.array("rounding", absolute)
    rounding = "NAME_rounding[cell][k]"
    if polynomial:
        square = np.stack([t.square for t in terms])
        if spectral:
            square = square + SAFETY * np.stack([f.leftover for f in forms])
        text += w.array("rounding_linear", np.stack([t.linear for t in terms]))
        text += w.array("rounding_square", square)
        rounding = (
            f"({rounding} + NAME_rounding_linear[cell][k] * sqrt(square) \\\n"
            "    + NAME_rounding_square[cell][k] * (square))"
        )
    text += w.define("ROUNDING(cell, k, square)", rounding)
    remainder = "0.0" if polynomial else "NAME_remainder(square)"
    return text + w.define("REMAINDER(square)", remainder)


def exact_constants(w: Writer, expansion: KernelExpansion, *, alone: bool) -> str:
    """Support vectors, coefficients and b; `alone`, if no form defined the last."""
    text = _kernel(w, expansion.gamma, str(expansion.kernel)) if alone else ""
    text += w.define("CENTERS", str(expansion.n_centers))
    if expansion.kernel == "rbf":
        term, kernel = "((a) - (b)) * ((a) - (b))", "NAME_EXP(-NAME_GAMMA * (s))"
    else:
        text += w.define("COEF0", w.literal(expansion.coef0))
        inner = "(NAME_GAMMA * (s) + NAME_COEF0)"
        term, kernel = "(a) * (b)", f"({inner} * {inner})"
    text += w.define("TERM(a, b)", f"({term})") + w.define("KERNEL(s)", kernel)
    # An array needs a member; a model without support vectors never looks at it.
    centers = expansion.dense_centers() if expansion.n_centers else np.zeros((1, _width(expansion)))
    coefficients = expansion.coefficients if expansion.n_centers else np.zeros((1, 1))
    text += w.array("center", centers)
    text += w.array("coefficient", coefficients)
    return text + (w.array("intercept", expansion.intercept) if alone else "")


def map_constants(w: Writer, mapped: AffineMap | None) -> str:
    """How a row reaches the form: as it is, or through an affine map."""
    if mapped is None:
        return w.define("ROW(x)", "const REAL *row = x")
    text = w.array("scale", mapped.scale) + w.array("shift", mapped.shift)
    text += "" if mapped.low is None else w.array("low", mapped.low)
    text += w.define("LOW(i)", "0" if mapped.low is None else "NAME_low[i]")
    return text + w.define("ROW(x)", "REAL row[NAME_FEATURES]; NAME_map(x, row)")


def _spectral(w: Writer, forms: list[SpectralForm]) -> str:
    """Bases and cores, filled up with zeros to the largest rank."""
    rank = max(1, *(form.rank for form in forms))
    d, k = forms[0].n_features, forms[0].n_outputs
    basis, cores = np.zeros((len(forms), d, rank)), np.zeros((len(forms), k, rank, rank))
    for index, form in enumerate(forms):
        basis[index, :, : form.rank] = form.basis
        cores[index, :, : form.rank, : form.rank] = form.cores
    text = w.define("RANK", str(rank)) + w.array("basis", basis)
    text += w.array("core", _upper(cores))
    return text + w.array("mid", np.stack([form.mid for form in forms]))


def triangles(form: object) -> FloatArray:
    """One triangle of M of each output, off-diagonals doubled: shape (k, d (d + 1) / 2)."""
    assert isinstance(form, QuadraticForm)
    return _upper(form.quadratic)


def _upper(matrices: FloatArray) -> FloatArray:
    """Upper triangles, row by row, with what stands below the diagonal added to what is above."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    doubled = np.where(rows == columns, 1.0, 2.0)
    return matrices[..., rows, columns] * doubled


def _kernel(w: Writer, gamma: float, kernel: str) -> str:
    text = w.define("GAMMA", w.literal(gamma))
    if kernel == "rbf":
        text += w.define("EXP", "expf" if w.dtype == "float32" else "exp")
    return text


def _width(expansion: KernelExpansion) -> int:
    return max(1, expansion.n_features)
