"""One more feature, in which every center is zero.

A row of a LIBSVM file may have features beyond the model's width; they count in |x - z|^2, for all
centers alike. Their joint norm is one more coordinate of the row; here it enters the model. What
is proven is proven for that coordinate as the double that it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernelite.machine.expansion import KernelExpansion
from kernelite.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.series.cells import Approximation, Cell
from kernelite.series.certificate import Certificate
from kernelite.series.cubic import CubicForm
from kernelite.series.directional import DirectionalBound
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm

__all__ = ["widen", "widen_expansion", "with_column"]


def with_column(rows: Rows, column: FloatArray) -> Rows:
    """`rows` with one more column."""
    if is_sparse(rows):
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([rows, csr_array(column[:, None])]))
    return np.column_stack([rows, column])


def widen_expansion(expansion: KernelExpansion) -> KernelExpansion:
    """The same centers with a zero more each."""
    zeros = np.zeros(expansion.n_centers)
    return replace(expansion, centers=with_column(expansion.centers, zeros))


def widen(approximation: Approximation) -> Approximation:
    """The same forms on rows with one more feature."""
    return Approximation(tuple(_widen_cell(cell) for cell in approximation.cells))


def _widen_cell(cell: Cell) -> Cell:
    d = cell.form.n_features
    return Cell(
        _widen_form(cell.form),
        None if cell.certificate is None else _widen_certificate(cell.certificate),
        None if cell.full is None else _widen_form(cell.full),  # type: ignore[arg-type]
        None if cell.cubic is None else _widen_cubic(cell.cubic, d),
    )


def _widen_form(form: QuadraticForm | SpectralForm) -> QuadraticForm | SpectralForm:
    point, linear = np.append(form.point, 0.0), _zero_row(form.linear)
    if isinstance(form, SpectralForm):
        # The new feature joins the basis, so that mid |u|^2 is taken back along it.
        basis = np.pad(form.basis, ((0, 1), (0, 1)))
        basis[-1, -1] = 1.0
        cores = np.pad(form.cores, ((0, 0), (0, 1), (0, 1)))
        cores[:, -1, -1] = -form.mid
        # One more feature and direction: less than twice the rounding.
        leftover = 2.0 * form.leftover
        return replace(
            form, point=point, linear=linear, basis=basis, cores=cores, leftover=leftover
        )
    quadratic = np.pad(form.quadratic, ((0, 0), (0, 1), (0, 1)))
    return replace(form, point=point, linear=linear, quadratic=quadratic)


def _widen_certificate(certificate: Certificate) -> Certificate:
    terms = certificate.rounding
    # Lengths of sums grow by one; so does sqrt(d) (d + 5), by less than 2 sqrt(d) + 8.
    grown = replace(
        terms, sums=terms.sums + 8.0 * terms.per_square, per_square=terms.per_square + 1
    )
    return replace(certificate, rounding=grown)


def _widen_cubic(cubic: CubicForm | DirectionalBound, d: int) -> CubicForm | DirectionalBound:
    # |v| now counts the new feature, in which T is zero: still an upper bound.
    basis = np.eye(d) if cubic.basis is None else cubic.basis
    return replace(cubic, basis=_zero_row(basis), slack=2.0 * cubic.slack)


def _zero_row(array: FloatArray) -> FloatArray:
    return np.vstack([array, np.zeros((1, array.shape[1]))])
