"""A form made ready to run: on the fused kernel where that pays, else on BLAS.

In: a cell's form and certificate, once; then dense rows. Out: scores, |u|^2, and bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelite.cpu.blas import Evaluated, form_scores
from kernelite.cpu.kernels.compiling import jit_available, ready
from kernelite.rows.inputs import FloatArray
from kernelite.series.cells import Cell
from kernelite.series.certificate import Certificate
from kernelite.series.quadratic import QuadraticForm
from kernelite.series.spectral import SpectralForm

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["FormEngine", "form_bounds"]

# Measured by benchmarks/kernels.py, on one core: 2.9 times NumPy at 22 features, 1.7 times at
# 2,048. BLAS on the triangle alone (`trmm`) would be level at 640, a tenth ahead at 2,048.
FUSED_FEATURES = 2048
GATHER_COST = 3.0  # a row with fewer than d / 3 entries is cheaper by gathers


@dataclass(frozen=True, eq=False)
class FormEngine:
    """Runs one form.

    Parameters
    ----------
    form : QuadraticForm or SpectralForm
    certificate : Certificate, optional
    fused : Fused, optional
        The same laid out for the kernel.
    """

    form: QuadraticForm | SpectralForm
    certificate: Certificate | None
    fused: Fused | None = None

    @classmethod
    def prepare(cls, cell: Cell, *, fused: bool = True) -> FormEngine:
        """Lay out what the kernel needs; `fused=False` asks for BLAS."""
        form = cell.form
        pays = isinstance(form, SpectralForm) or form.n_features <= FUSED_FEATURES
        ready = Fused.prepare(cell) if fused and pays and jit_available() else None
        return cls(form, cell.certificate, ready)

    def takes_sparse(self, rows: csr_array) -> bool:
        """Whether sparse rows had better stay so, because they have few entries."""
        filled = rows.nnz / max(rows.shape[0], 1)
        few = self.fused is not None and GATHER_COST * filled < rows.shape[1]
        return few and ready(_sparse_kernel(self.form))

    def run_sparse(self, rows: csr_array, *, bounded: bool) -> tuple[Evaluated, FloatArray | None]:
        """As `run`, for rows that `takes_sparse` accepts."""
        assert self.fused is not None
        return self.fused.run_sparse(self.form, rows, bounded)

    def run(self, rows: FloatArray, *, bounded: bool) -> tuple[Evaluated, FloatArray | None]:
        """Scores of the rows, and bounds on their errors if `bounded`."""
        if self.fused is not None and ready(self.fused.kernel):
            return self.fused.run(rows, bounded)
        evaluated = form_scores(self.form, rows)
        if not bounded:
            return evaluated, None
        assert self.certificate is not None
        return evaluated, form_bounds(self.form, self.certificate, evaluated)


@dataclass(frozen=True, eq=False)
class Fused:
    """A form and its certificate laid out for the fused kernels."""

    form: Any
    certificate: Any
    run_kernel: Callable[..., tuple[Evaluated, FloatArray | None]]
    kernel: Callable[..., Any]  # what that calls

    @classmethod
    def prepare(cls, cell: Cell) -> Fused:
        """Lay out the cell's first tier."""
        from kernelite.cpu.kernels import bounds as bounds_kernels

        certificate = bounds_kernels.NO_CERTIFICATE
        if cell.certificate is not None:
            certificate = bounds_kernels.prepare_certificate(cell.certificate)
        if isinstance(cell.form, SpectralForm):
            from kernelite.cpu.kernels import spectral_dense

            prepared = spectral_dense.prepare(cell.form)
            return cls(prepared, certificate, spectral_dense.scores, spectral_dense.spectral_kernel)
        from kernelite.cpu.kernels import quadratic_dense

        return cls(
            quadratic_dense.prepare(cell.form),
            certificate,
            _full_scores,
            quadratic_dense.form_kernel,
        )

    def run(self, rows: FloatArray, bounded: bool) -> tuple[Evaluated, FloatArray | None]:
        """As `FormEngine.run`."""
        if bounded:
            return self.run_kernel(self.form, rows, self.certificate)
        return self.run_kernel(self.form, rows)

    def run_sparse(
        self, form: Any, rows: csr_array, bounded: bool
    ) -> tuple[Evaluated, FloatArray | None]:
        """As `FormEngine.run_sparse`."""
        from kernelite.cpu.kernels import bounds as bounds_kernels

        certificate = self.certificate if bounded else bounds_kernels.NO_CERTIFICATE
        if isinstance(form, SpectralForm):
            from kernelite.cpu.kernels import spectral_sparse

            prepared = spectral_sparse.prepare(form, self.form)
            return spectral_sparse.scores(prepared, rows, certificate)
        from kernelite.cpu.kernels import quadratic_sparse

        found = quadratic_sparse.scores(
            quadratic_sparse.prepare(form, self.form), rows, certificate
        )
        return Evaluated(found.scores, found.sq_norms), found.bounds


def _sparse_kernel(form: QuadraticForm | SpectralForm) -> Callable[..., Any]:
    if isinstance(form, SpectralForm):
        from kernelite.cpu.kernels.spectral_sparse import sparse_spectral_kernel

        return sparse_spectral_kernel
    from kernelite.cpu.kernels.quadratic_sparse_tile import sparse_kernel

    return sparse_kernel


def _full_scores(
    form: Any, rows: FloatArray, certificate: Any = None
) -> tuple[Evaluated, FloatArray | None]:
    from kernelite.cpu.kernels import quadratic_dense

    if certificate is None:
        return Evaluated(*quadratic_dense.scores(form, rows)), None
    scores, sq_norms, bounds = quadratic_dense.bounded_scores(form, certificate, rows)
    return Evaluated(scores, sq_norms), bounds


def form_bounds(
    form: QuadraticForm | SpectralForm,
    certificate: Certificate,
    evaluated: Evaluated,
    degree: int = 2,
) -> FloatArray:
    """The certificate of evaluated scores, the truncation of the spectrum included: (m, k)."""
    bounds = certificate.bound(evaluated.sq_norms, evaluated.scores, degree)
    if isinstance(form, SpectralForm) and evaluated.kept is not None:
        bounds += form.truncation_bound(evaluated.sq_norms, evaluated.kept)
    return bounds
