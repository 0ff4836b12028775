"""A form made ready to run: by the kernel for the layout of the rows, else by its definition.

In: a form and its certificate, once; then rows, dense, sparse or behind an affine map. Out: a
`Bounded` with |u|^2. `certify` computes certificates on kernels and threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from threading import Lock
from typing import Any, NamedTuple

from kernelite.backends.cpu.kernels.compiling import jit_available
from kernelite.backends.cpu.rows import MappedRows
from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import Bounded
from kernelite.series import approximation
from kernelite.series.approximation import Certificate
from kernelite.series.remainder import BLOCK, Remainders, block_sums, remainders, total
from kernelite.series.series import QuadraticForm, SeriesForm
from kernelite.series.spectral import SpectralForm
from kernelite.support.records import dataclass

__all__ = ["FormEngine", "certify"]

# Measured by benchmarks/kernels.py, on one core: 2.9 times NumPy at 22 features, 1.7 times at
# 2,048. BLAS on the triangle alone (`trmm`) would be level at 640, a tenth ahead at 2,048.
FUSED_FEATURES = 2048
GATHER_COST = 3.0  # a row with fewer than d / 3 entries is cheaper by gathers


class Kernels(NamedTuple):
    """The kernels of one kind of form: modules with `prepare` and `scores`, per layout of rows."""

    dense: Any  # also for rows behind a map
    sparse: Any


def _quadratic_kernels() -> Kernels:
    from kernelite.backends.cpu.kernels import quadratic_dense, quadratic_sparse

    return Kernels(quadratic_dense, quadratic_sparse)


def _spectral_kernels() -> Kernels:
    from kernelite.backends.cpu.kernels import spectral_dense, spectral_sparse

    return Kernels(spectral_dense, spectral_sparse)


KERNELS: dict[type[SeriesForm], Callable[[], Kernels]] = {
    QuadraticForm: _quadratic_kernels,
    SpectralForm: _spectral_kernels,
}
"""Which kernels serve which form, if any; their modules are loaded when first needed."""


@dataclass(frozen=True, eq=False)
class FormEngine:
    """Runs one form.

    Parameters
    ----------
    form : QuadraticForm or SpectralForm
    certificate : Certificate, optional
        With it, bounds are computed.
    fused : bool
        Whether kernels are used, where they can be had and pay; else the definition.
    """

    form: SeriesForm
    certificate: Certificate | None
    fused: bool = True

    @cached_property
    def kernels(self) -> Kernels | None:
        """For this form; None where its definition runs."""
        # A matrix of many features goes faster by BLAS; a truncated form has few directions.
        pays = type(self.form) is not QuadraticForm or self.form.n_features <= FUSED_FEATURES
        found = KERNELS.get(type(self.form))
        if found is None or not (self.fused and pays and jit_available()):
            return None
        return found()

    @cached_property
    def _dense(self) -> Any:
        assert self.kernels is not None
        return self.kernels.dense.prepare(self.form)

    @cached_property
    def _sparse(self) -> Any:
        assert self.kernels is not None
        return self.kernels.sparse.prepare(self._dense)

    @cached_property
    def _numbers(self) -> tuple[Any, Any]:
        """For the kernels: no certificate, and this form's, if it has one."""
        from kernelite.backends.cpu.kernels.bounds import NO_CERTIFICATE, prepare_certificate

        own = self.certificate
        return NO_CERTIFICATE, NO_CERTIFICATE if own is None else prepare_certificate(own)

    def lay_out(self) -> FormEngine:
        """Now what would else be done when the first row comes."""
        if self.kernels is not None:
            _ = self._dense, self._numbers
        return self

    def takes_sparse(self, rows: Rows) -> bool:
        """Whether sparse rows should stay so, because they have few entries."""
        if self.kernels is None:
            return False
        filled = rows.nnz / max(rows.shape[0], 1)  # type: ignore[union-attr]
        return GATHER_COST * filled < rows.shape[1]

    def run(self, rows: Any, *, bounded: bool = True) -> Bounded:
        """Scores, |u|^2, and bounds if there is a certificate; rows that `takes_sparse` accepts.

        Parameters
        ----------
        rows : ndarray, csr_array or MappedRows of shape (m, d)
        bounded : bool
            False: bounds are not asked for.
        """
        kernels = self.kernels
        if is_sparse(rows):
            assert kernels is not None
            return kernels.sparse.scores(self._sparse, rows, self._numbers[bounded])
        if kernels is None:
            return self._defined(rows[:] if isinstance(rows, MappedRows) else rows, bounded)
        if isinstance(rows, MappedRows):
            numbers, input_map = self._numbers[bounded], rows.input_map
            return kernels.dense.scores(self._dense, rows.rows, numbers, input_map)
        return kernels.dense.scores(self._dense, rows, self._numbers[bounded])

    def one_pass(self, input_map: AffineMap | None) -> tuple[Any, ...] | None:
        """What a pass that judges dense rows calls: None where no kernel serves them.

        The kernel, what it takes after the rows, what it takes after the answers, rows that are
        worth a thread, and whether there are bounds.
        """
        if self.kernels is None or self.form.n_outputs != 1:
            return None
        numbers = self._numbers[1]
        found = self.kernels.dense.judged_pass(self._dense, numbers, input_map)
        return *found, self._dense.least_rows, len(numbers.numbers) > 0

    def _defined(self, rows: FloatArray, bounded: bool) -> Bounded:
        found = self.form.evaluate(rows)
        if not bounded or self.certificate is None:
            return Bounded(found.scores, None, found.sq_norms, found.kept)
        bounds = self.form.bounds(self.certificate, found)
        return Bounded(found.scores, bounds, found.sq_norms, found.kept)


# Certificates: the sum over pairs of centers on all threads, by a kernel.


def certify(
    expansion: KernelExpansion,
    point: FloatArray,
    *,
    mapped: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Certificate:
    """As `series.approximation.certify`, ten times faster where kernels can be had."""
    each = partial(for_each_chunk, blas=True)
    return approximation.certify(
        expansion, point, mapped=mapped, progress=progress, sums=_sums, each=each
    )


def _sums(
    S: FloatArray,
    A: FloatArray,
    exponents: FloatArray,
    progress: Callable[[float], None] | None,
    *,
    order: int = 3,
) -> FloatArray:
    """As `series.remainder.double_sums`: blocks of centers side by side, in any order."""
    n, done, lock = len(A), 0, Lock()
    kernel: Remainders = remainders
    if jit_available():
        from kernelite.backends.cpu.kernels.bounds import remainders as fast

        kernel = fast
    parts: list[FloatArray] = []

    def part(left: slice) -> None:
        nonlocal done
        found = block_sums(S, A, exponents, left, kernel, order)
        with lock:
            parts.extend(found)
            done += left.stop**2 - left.start**2
            if progress is not None:
                progress(done / n**2)

    for_each_chunk(part, n, BLOCK, blas=True)
    return total(parts)
