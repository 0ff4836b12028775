"""What this machine could do: GFLOP/s by a matrix product, GB/s by a triad; and how near we come.

    a row takes at least max(flops / peak, bytes / bandwidth) seconds

The operations of a compiled model are counted from its plan: exponentials count as nothing, so
the share reached is understated where they dominate (the exact engine).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from kernelite.backends.cpu.threads import thread_count
from kernelite.model import CompiledModel
from kernelite.program.bounded import FIRST, Stats
from kernelite.series.cubic import CubicForm
from kernelite.series.spectral import SpectralForm

__all__ = ["Roofline", "measure", "work_a_row"]


@dataclass(frozen=True)
class Roofline:
    """Peak of a machine.

    Examples
    --------
    >>> Roofline(gflops=100.0, gbytes=20.0).floor(flops=1e3, bytes_moved=100)  # 10 ns, 5 ns
    1e-08
    """

    gflops: float
    gbytes: float

    def floor(self, flops: float, bytes_moved: float) -> float:
        """Least seconds."""
        return max(flops / (self.gflops * 1e9), bytes_moved / (self.gbytes * 1e9))


def measure(gemm_size: int, triad_megabytes: int, tries: int = 5) -> Roofline:
    """Peak by DGEMM of `gemm_size` squared, bandwidth by a = b + s c on arrays of that size."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, gemm_size, gemm_size))
    C = A @ B
    product = min(_seconds(lambda: np.matmul(A, B, out=C)) for _ in range(tries))
    return Roofline(2 * gemm_size**3 / product / 1e9, _bandwidth(triad_megabytes, tries))


def work_a_row(model: CompiledModel, stats: Stats) -> tuple[float, float]:
    """Floating point operations and bytes of memory traffic of an average row.

    Parameters
    ----------
    model : CompiledModel
    stats : Stats
        Of the rows in question: which stage decided how many.
    """
    d = model.n_features_in_
    k = model.head.n_scores
    moved = 8.0 * (d + 1)  # the row in, its answer out
    n = model.origin.n_centers
    exact = 2.0 * n * (d + k)
    if model.approximation is None:
        return exact, moved
    rows = max(stats.rows, 1)
    forms = model.approximation
    flops = _form(forms.form, d, k)
    second = 0.0 if forms.full is None else _form(forms.full, d, k)
    if isinstance(forms.cubic, CubicForm):
        second += 2.0 * forms.cubic.packed.size
        second += 0.0 if forms.cubic.basis is None else 2.0 * d * forms.cubic.rank
    elif forms.cubic is not None:
        rank = forms.cubic.basis.shape[1]
        second += 2.0 * (d * rank + k * rank * rank)
    after_first = stats.rows - stats.stages.get(FIRST, 0)
    flops += second * after_first / rows + exact * stats.exact / rows
    return flops, moved


def _form(form: Any, d: int, k: int) -> float:
    """Shift, norm, linear and quadratic part; one triangle of M."""
    if isinstance(form, SpectralForm):
        return 2.0 * d * (form.rank + k + 1) + 2.0 * k * form.rank
    return 3.0 * d + k * (2.0 * d + d * (d + 1))


def _bandwidth(megabytes: int, tries: int) -> float:
    from numba import njit

    @njit(nogil=True)
    def triad(a, b, c, s):  # type: ignore[no-untyped-def]
        for i in range(a.shape[0]):
            a[i] = b[i] + s * c[i]

    threads = thread_count()
    size = max(1, megabytes * 2**20 // 8 // 3 // threads)
    arrays = [tuple(np.ones((3, size))) for _ in range(threads)]
    triad(*(part[:8] for part in arrays[0]), 3.0)
    with ThreadPoolExecutor(threads) as pool:

        def run() -> None:
            list(pool.map(lambda part: triad(*part, 3.0), arrays))

        run()
        best = min(_seconds(run) for _ in range(tries))
    return 3 * 8 * size * threads / best / 1e9


def _seconds(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start
