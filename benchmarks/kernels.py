"""Micro benchmark: compiled kernels against the same work in NumPy, SciPy or Python.

    python benchmarks/kernels.py [--features 4,22,64] [--outputs 1] [--repeat 30] [--threads 1]
    python benchmarks/kernels.py --parts cubic,sparse,text

Answers are compared before anything is timed. Times are the best of several rounds in which the
contenders take turns, so that a busy machine hurts all alike; ratios are to blocked NumPy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.sparse import csr_array

from kernelite.backends.cpu.approximation import ApproximationEngine
from kernelite.backends.cpu.kernels import quadratic_dense, quadratic_sparse
from kernelite.backends.cpu.kernels.densify import dense_rows
from kernelite.backends.cpu.threads import limit_threads, thread_count
from kernelite.data.rows.inputs import row_blocks
from kernelite.data.tables import libsvm_data
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.approximation import Approximation, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.rounding import damped, damping
from kernelite.series.series import QuadraticForm, quadratic_form

FEATURES = (4, 8, 14, 22, 32, 48, 64, 96, 128, 192, 256, 384, 512)
WORK = 1e8  # multiply-adds of a full product for one timing, by default
Scores = Callable[[], np.ndarray]


def random_form(rng: np.random.Generator, d: int, k: int) -> QuadraticForm:
    M = rng.normal(size=(k, d, d))
    return QuadraticForm(
        point=rng.normal(size=d),
        constant=rng.normal(size=k),
        linear=rng.normal(size=(d, k)),
        quadratic=M + M.transpose(0, 2, 1),
        intercept=rng.normal(size=k),
        gamma=0.3 / d,
        max_sq_norm=1.0,
    )


def numpy_blocked(form: QuadraticForm, rows: np.ndarray, out: np.ndarray, block: int) -> np.ndarray:
    for part in row_blocks(len(rows), block):
        out[part] = form.evaluate(rows[part])[0]
    return out


def triangle_blocked(
    form: QuadraticForm, triangles: list[np.ndarray], rows: np.ndarray, out: np.ndarray, block: int
) -> np.ndarray:
    """u'Mu through `trmm`: half the multiply-adds of a full product."""
    for part in row_blocks(len(rows), block):
        U = rows[part] - form.point
        sq_norms = np.einsum("ij,ij->i", U, U)
        g = U @ form.linear + form.constant
        for output, triangle in enumerate(triangles):
            # Column-major: (T U')' = U T', and U' is U's own memory.
            g[:, output] += np.einsum("ij,ij->i", dtrmm(1.0, triangle, U.T).T, U)
        out[part] = damped(g, damping(sq_norms, form.gamma)) + form.intercept
    return out


def contenders(form: QuadraticForm, rows: np.ndarray) -> dict[str, Scores]:
    m, k = len(rows), form.n_outputs
    triangles = [np.asfortranarray(np.triu(M) + np.triu(M, 1)) for M in form.quadratic]
    prepared = quadratic_dense.prepare(form)
    outs = [np.empty((m, k)) for _ in range(3)]
    block = max(256, (1 << 17) // form.n_features)
    return {
        "numpy": lambda: numpy_blocked(form, rows, outs[0], block),
        "trmm": lambda: triangle_blocked(form, triangles, rows, outs[1], block),
        "jit": lambda: quadratic_dense.scores(prepared, rows, out=outs[2]).scores,
    }


def best_times(runs: dict[str, Scores], repeat: int) -> dict[str, float]:
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", default="dense,cubic,sparse,text")
    parser.add_argument("--features", default=",".join(map(str, FEATURES)))
    parser.add_argument("--outputs", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--threads", type=int, default=-1)
    parser.add_argument("--work", type=float, default=WORK, help="smaller on a busy machine")
    options = parser.parse_args()
    parts = {"dense": dense, "cubic": cubic, "sparse": sparse, "text": text}
    with limit_threads(options.threads):
        print(f"{thread_count()} threads")
        for name in options.parts.split(","):
            parts[name](options)


def dense(options: argparse.Namespace) -> None:
    """The quadratic form of dense rows, by width."""
    rng = np.random.default_rng(0)
    print(f"dense rows, {options.outputs} outputs; million rows a second")
    print(f"{'d':>5} {'rows':>8} {'numpy':>8} {'trmm':>8} {'jit':>8}   jit / numpy, jit / trmm")
    for d in map(int, options.features.split(",")):
        form = random_form(rng, d, options.outputs)
        m = int(min(1e6, max(512, options.work / (d * d * options.outputs))))
        rows = form.point + rng.normal(size=(m, d))
        runs = contenders(form, rows)
        answers = [run() for run in runs.values()]
        scale = np.abs(answers[0]).max()
        for answer in answers[1:]:
            np.testing.assert_allclose(answer, answers[0], rtol=0, atol=1e-11 * scale)
        best = best_times(runs, options.repeat)
        speed = {name: m / seconds / 1e6 for name, seconds in best.items()}
        ratios = speed["jit"] / speed["numpy"], speed["jit"] / speed["trmm"]
        shown = " ".join(f"{speed[name]:8.2f}" for name in ("numpy", "trmm", "jit"))
        print(f"{d:5d} {m:8d} {shown}   {ratios[0]:5.2f}x {ratios[1]:5.2f}x")


def cubic(options: argparse.Namespace) -> None:
    """Scores of third order with their bounds, by number of features."""
    rng = np.random.default_rng(1)
    print("third order, bounded; million rows a second\n    d     rows    numpy      jit   ratio")
    for d in (8, 16, 22, 32, 48):
        expansion = KernelExpansion(rng.normal(size=(50, d)), rng.normal(size=50), 0.0, gamma=0.1)
        point = np.zeros(d)
        third = cubic_form([cubic_tensor(expansion, point, 0)], d)
        cell = Approximation(
            quadratic_form(expansion, point), certify(expansion, point), cubic=third
        )
        rows = rng.normal(size=(int(max(512, options.work / d**3)), d))
        ready = {
            name: ApproximationEngine.prepare(cell, fused=name == "jit")
            for name in ("numpy", "jit")
        }
        runs: dict[str, Scores] = {
            name: lambda engine=engine, rows=rows: engine.second(rows).scores
            for name, engine in ready.items()
        }
        two_columns(f"{d:5d} {len(rows):8d}", runs, len(rows) / 1e6, options.repeat)


def sparse(options: argparse.Namespace) -> None:
    """The quadratic form of rows with few entries: gathers, or made dense first."""
    rng = np.random.default_rng(2)
    print("sparse rows; million rows a second\n    d  entries    dense      jit   jit / dense")
    for d, filled in ((123, 14), (123, 40), (123, 80), (780, 20), (780, 150)):
        form = random_form(rng, d, 1)
        m = int(max(512, options.work / (d * d)))
        columns = np.sort(rng.random((m, d)).argsort(axis=1)[:, :filled], axis=1)
        indptr = np.arange(0, filled * m + 1, filled, dtype=np.int32)
        entries = rng.random(filled * m), columns.astype(np.int32).ravel()
        rows = csr_array((*entries, indptr), shape=(m, d))
        prepared = quadratic_sparse.prepare(quadratic_dense.prepare(form))
        runs: dict[str, Scores] = {
            "dense": lambda f=prepared, rows=rows: (
                quadratic_dense.scores(f.dense, dense_rows(rows)).scores
            ),
            "jit": lambda f=prepared, rows=rows: quadratic_sparse.scores(f, rows).scores,
        }
        two_columns(f"{d:5d} {filled:8d}", runs, m / 1e6, options.repeat)


def text(options: argparse.Namespace) -> None:
    """LIBSVM text, short and long numbers."""
    rng = np.random.default_rng(3)
    print("LIBSVM text; megabytes a second\ndigits        careful      jit   jit / careful")
    for digits in (1, 6, 17):
        lines = [
            "+1 " + " ".join(f"{j}:{x:.{digits}g}" for j, x in enumerate(row, 1))
            for row in rng.normal(size=(2000, 20)).tolist()
        ]
        block = "\n".join(lines).encode()
        numbered = list(enumerate(lines, 1))
        runs: dict[str, Scores] = {
            "careful": lambda lines=numbered: libsvm_data.parse_block(lines, True, print).values,
            "jit": lambda block=block: libsvm_data.read_block(block).rows.values,
        }
        two_columns(f"{digits:6d}        ", runs, len(block) / 1e6, options.repeat)


def two_columns(what: str, runs: dict[str, Scores], amount: float, repeat: int) -> None:
    slow, fast = (run() for run in runs.values())
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-11 * np.abs(slow).max())
    first, second = (amount / seconds for seconds in best_times(runs, repeat).values())
    print(f"{what} {first:8.2f} {second:8.2f}   {second / first:5.2f}x")


if __name__ == "__main__":
    main()
