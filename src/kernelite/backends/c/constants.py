"""The constants of a C header: which arrays and macros each kind of model needs.

In: what is exported. Out: C text; the templates use the names that are defined here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelite.backends.c.formulas import Writer, kernel_function
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.machine.arithmetic import C
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import CosineKernel
from kernelite.machine.polynomial_term import PolynomialTail
from kernelite.machine.preparation.columns import Selection
from kernelite.machine.preparation.projection import Projection
from kernelite.model.export.selection import packed
from kernelite.series.cells import Approximation
from kernelite.series.certificate import largest_power, rounding_constants, twice_gamma
from kernelite.series.cubic import CubicForm
from kernelite.series.packed import linear_map, packed_degree
from kernelite.series.rounding import SAFETY, hidden_square
from kernelite.series.series import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = [
    "STEPS",
    "bound_constants",
    "exact_text",
    "form_constants",
    "has_third",
    "map_text",
    "polynomial_text",
    "third_constants",
]

MARGIN = 1.0 + 1e-6  # for the rounding of the third order's own bounds


def form_constants(w: Writer, approximation: Approximation) -> str:
    """Points, c, v, M (or its spectrum) and b of all cells."""
    cells = approximation.cells
    forms = [cell.form for cell in cells]
    form = approximation.form
    text = w.define("CELLS", str(len(cells))) + w.define("GAMMA", w.literal(form.gamma))
    damping = "MATH_exp(-NAME_GAMMA * (square))" if form.damped else "1"
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
        return text + w.array("triangle", np.stack([_triangles(f) for f in forms]))
    return text + _spectral(w, forms)  # type: ignore[arg-type]


def bound_constants(w: Writer, approximation: Approximation) -> str:
    """rho, the rounding terms and what a truncated spectrum leaves out."""
    cells, polynomial = approximation.cells, not approximation.form.damped
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
        text += w.array("whole", _triangles(cell.full)) + w.define("WHOLE(k)", "NAME_whole[k]")
    if cubic.basis is None:
        text += w.define("THIRD_START(j)", "u[j]") + w.define("THIRD_SUM", "0")
        text += w.define("THIRD_TERM(i, j)", "0.0")
    else:
        text += w.array("directions", np.ascontiguousarray(cubic.basis.T))
        text += w.define("THIRD_START(j)", "0.0") + w.define("THIRD_SUM", "NAME_WIDTH")
        text += w.define("THIRD_TERM(i, j)", "NAME_directions[j][i] * u[i]")
    hidden = C.worse * hidden_square(d, r)
    text += w.define("HIDDEN", w.literal(hidden))
    text += w.array("rho_4", certificate.rho[1])
    text += w.array("rounding_3", rounding_constants(certificate, 3).absolute)
    return text + w.array("tail", MARGIN * cubic.tail) + w.array("slack", MARGIN * cubic.slack)


def exact_text(w: Writer, expansion: KernelExpansion, *, alone: bool, density: bool = False) -> str:
    """NAME_exact and its constants: weights, a tensor, or support vectors and their kernel.

    `alone`: no form defined b. `density`: in logarithms, so that no sum underflows.
    """
    if packed_degree(expansion) == 1:
        return _linear(w, expansion)
    intercept = w.array("intercept", expansion.intercept) if alone else ""
    tensor = packed(expansion)
    if tensor is not None:
        numbers = tensor if tensor.ndim == 2 else _upper(tensor)
        file = "cubic.h" if tensor.ndim == 2 else "quartic.h"
        return intercept + w.array("tensor", numbers) + "\n" + w.template(file)
    text = w.define("CENTERS", str(expansion.n_centers)) + intercept
    # An array needs a member; a model without support vectors never looks at it.
    some, d = expansion.n_centers > 0, expansion.n_features
    text += w.array("center", expansion.dense_centers() if some else np.zeros((1, d)))
    coefficients = expansion.coefficients if some else np.zeros((1, 1))
    if density:
        with np.errstate(divide="ignore"):
            coefficients = np.log(coefficients)
    text += w.array("coefficient", coefficients)
    file = "density.h" if density else "exact.h"
    return f"{text}\n{kernel_function(w, expansion, logarithm=density)}\n{w.template(file)}"


def _linear(w: Writer, expansion: KernelExpansion) -> str:
    found = linear_map(expansion)
    weights = found.weights
    if found.columns is not None:
        weights = np.zeros((len(weights), expansion.n_features))
        weights[:, found.columns] = found.weights
    text = w.array("intercept", found.intercept) + w.array("weight", weights)
    file = "cosine.h" if isinstance(expansion.kernel, CosineKernel) else "linear.h"
    return f"{text}\n{w.template(file)}"


def map_text(w: Writer, steps: Sequence[Any]) -> str:
    """How a row reaches the form: as it is, or by NAME_map, step by step."""
    if not steps:
        return w.define("ROW(x)", "const REAL *row = x")
    arrays, lines, held = "", "", "x"
    for t, step in enumerate(steps):
        made = f"row_{t}" if t + 1 < len(steps) else "row"
        own, entry, width = STEPS[type(step)](w, step, t, held)
        lines += f"    REAL {made}[{width}];\n" if made != "row" else ""
        entry = entry.replace("TO[", f"{made}[")
        lines += f"    for (i = 0; i < {width}; i++) {{\n        {made}[i] = {entry};\n    }}\n"
        arrays, held = arrays + own, made
    arrays += w.define("ROW(x)", "REAL row[NAME_WIDTH]; NAME_map(x, row)")
    return arrays + "\n" + w.template("map.h").replace("    STEPS\n", w.fill(lines))


def _affine_step(w: Writer, step: AffineMap, t: int, held: str) -> tuple[str, str, int]:
    arrays, low = w.array(f"scale_{t}", step.scale) + w.array(f"shift_{t}", step.shift), "0"
    if step.low is not None:
        arrays, low = arrays + w.array(f"low_{t}", step.low), f"NAME_low_{t}[i]"
    entry = f"(({held}[i] - NAME_shift_{t}[i]) - {low}) * NAME_scale_{t}[i]"
    return arrays, entry, len(step.scale)


def _selection_step(w: Writer, step: Selection, t: int, held: str) -> tuple[str, str, int]:
    arrays = w.array(f"column_{t}", step.columns, "int")
    return arrays, f"{held}[NAME_column_{t}[i]]", step.n_out


def _matrix_step(w: Writer, step: Projection, t: int, held: str) -> tuple[str, str, int]:
    arrays = w.array(f"matrix_{t}", step.matrix) + w.array(f"shift_{t}", step.shift)
    r, d = step.matrix.shape
    entry = (
        f"0;\n        for (int j = 0; j < {d}; j++)\n"
        f"            TO[i] += NAME_matrix_{t}[i][j] * ({held}[j] - NAME_shift_{t}[j])"
    )
    return arrays, entry, r


STEPS: dict[type, Any] = {
    AffineMap: _affine_step,
    Selection: _selection_step,
    Projection: _matrix_step,
}
"""Step -> (its arrays, what is assigned to the i-th feature, how many features come out)."""


def polynomial_text(w: Writer, tail: PolynomialTail | None) -> str:
    """NAME_ADD, which adds the model's polynomial, if it has one."""
    if tail is None:
        return w.define("ADD(x, scores)", "((void)0)")
    text = w.define("TERMS", str(len(tail.powers))) + w.array("power", tail.powers, "int")
    text += w.array("beta", tail.coefficients)
    text += w.array("origin", tail.shift) + w.array("unit", tail.scale)
    return (
        text + w.define("ADD(x, scores)", "NAME_polynomial(x, scores)") + w.template("polynomial.h")
    )


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


def _triangles(form: object) -> FloatArray:
    """One triangle of M of each output, off-diagonals doubled: shape (k, d (d + 1) / 2)."""
    assert isinstance(form, QuadraticForm)
    return _upper(form.quadratic)


def _upper(matrices: FloatArray) -> FloatArray:
    """Upper triangles, row by row, with what stands below the diagonal added to what is above."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    doubled = np.where(rows == columns, 1.0, 2.0)
    return matrices[..., rows, columns] * doubled
