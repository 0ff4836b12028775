"""A form made ready to run: on the fused kernel where that pays, else on BLAS.

In: a cell's form and certificate, once; then dense rows. Out: scores, |u|^2, and bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelite.approximation.cells import Cell
from kernelite.approximation.certificate import Certificate
from kernelite.approximation.quadratic import QuadraticForm
from kernelite.approximation.spectral import SpectralForm
from kernelite.engines.blas import Evaluated, form_scores
from kernelite.engines.jit_support import jit_available
from kernelite.inputs import FloatArray

__all__ = ["FormEngine", "form_bounds"]

FUSED_FEATURES = 256  # from here on BLAS is faster; measured by benchmarks/kernels.py


@dataclass(frozen=True, eq=False)
class FormEngine:
    """Runs one form.

    Parameters
    ----------
    form : QuadraticForm or SpectralForm
    certificate : Certificate, optional
    fused : tuple, optional
        The form and the certificate laid out for the kernel.
    """

    form: QuadraticForm | SpectralForm
    certificate: Certificate | None
    fused: tuple[object, object] | None = None

    @classmethod
    def prepare(cls, cell: Cell, *, fused: bool = True) -> FormEngine:
        """Lay out what the kernel needs; `fused=False` asks for BLAS."""
        form, certificate = cell.form, cell.certificate
        suits = isinstance(form, QuadraticForm) and form.n_features <= FUSED_FEATURES
        if not (fused and suits and jit_available()):
            return cls(form, certificate)
        from kernelite.engines import jit, jit_bounds

        assert isinstance(form, QuadraticForm)
        bounds = jit_bounds.NO_CERTIFICATE
        if certificate is not None:
            bounds = jit_bounds.prepare_certificate(certificate)
        return cls(form, certificate, (jit.prepare(form), bounds))

    def run(self, rows: FloatArray, *, bounded: bool) -> tuple[Evaluated, FloatArray | None]:
        """Scores of the rows, and bounds on their errors if `bounded`."""
        if self.fused is None:
            evaluated = form_scores(self.form, rows)
            return evaluated, self.bounds(evaluated) if bounded else None
        from kernelite.engines import jit

        form, certificate = self.fused
        if not bounded:
            return Evaluated(*jit.scores(form, rows)), None  # type: ignore[arg-type]
        scores, sq_norms, bounds = jit.bounded_scores(form, certificate, rows)  # type: ignore[arg-type]
        return Evaluated(scores, sq_norms), bounds

    def bounds(self, evaluated: Evaluated) -> FloatArray:
        """The certificate of scores of this form."""
        assert self.certificate is not None
        return form_bounds(self.form, self.certificate, evaluated)


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
