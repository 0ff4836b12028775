"""Times on one GPU, rows resident unless said otherwise; best of several, by CUDA events."""

# ruff: noqa: B023 (functions made in loops are called at once)

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import kernelite as kl
import kernelite.torch
from benchmarks.gpu.models import compiled, random_expansion, random_pairs
from kernelite.backends.torch.forms import KernelLayout
from kernelite.backends.torch.kernels import fused as kernels
from kernelite.backends.torch.kernels.form import FormTiles, run_form
from kernelite.backends.torch.kernels.rows import run_split
from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate

__all__ = [
    "SIZES",
    "best",
    "forms",
    "fused",
    "several",
    "streaming",
    "tune",
]

SIZES = {
    "ijcnn1": (4793, 22, 1 << 20),
    "letter": (7737, 16, 1 << 20),
    "a9a": (11899, 122, 1 << 18),
    "mnist": (2222, 776, 1 << 17),
}
"""Name -> centers, features, rows: the first probe's."""
TIMES = 4  # more rows, to tell what a call costs from what a row costs


def best(call: Callable[[], Any], turns: int = 5) -> float:
    """Seconds of a call: the best turn, after one to warm up."""
    call()
    torch.cuda.synchronize()
    found = []
    for _ in range(turns):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) * 1e-3)
    return min(found)


def _form_rate(
    cell: Approximation, m: int, d: int, copied: float, dtype: torch.dtype
) -> dict[str, Any]:
    """Rows per second and the share of the bandwidth, of the kernel and of torch operations."""
    layout = KernelLayout(cell).cuda()
    rows = torch.randn(m, d, dtype=dtype, device="cuda") * 0.5
    seconds = best(lambda: layout(rows))
    moved = m * (d * rows.element_size() + 16)
    return {
        "rows": m,
        "features": d,
        "type": str(dtype).removeprefix("torch."),
        "Grow/s": 1e-9 * m / seconds,
        "TB/s": 1e-12 * moved / seconds,
        "share of the copy bandwidth": moved / seconds / copied,
    }


def _copy_rate(numbers: torch.Tensor) -> float:
    """Bytes per second of a copy on the device, those read and those written."""
    return 2 * numbers.numel() * 8 / best(numbers.clone)


def forms() -> dict[str, Any]:
    """The quadratic form of 22 features, and a truncated one of 776, against a copy."""
    copied = _copy_rate(torch.randn(1 << 29, dtype=torch.float64, device="cuda"))
    rng = np.random.default_rng(0)
    small = kl.KernelExpansion(rng.normal(size=(500, 22)), rng.normal(size=500), 0.1, gamma=0.01)
    full = Approximation(quadratic_form(small, np.zeros(22)), certify(small, np.zeros(22)))
    wide = kl.KernelExpansion(rng.normal(size=(300, 776)), rng.normal(size=300), 0.1, gamma=1e-4)
    cut = truncate(spectrum(quadratic_form(wide, np.zeros(776))), 15)
    truncated = Approximation(cut, certify(wide, np.zeros(776)))
    both = (torch.float64, torch.float32)
    return {
        "copy, TB/s": 1e-12 * copied,
        "full": [_form_rate(full, 1 << 26, 22, copied, dtype) for dtype in both],
        "truncated to 15": [_form_rate(truncated, 1 << 20, 776, copied, dtype) for dtype in both],
    }


def fused(turns: int = 5) -> list[dict[str, Any]]:
    """Proven labels of the probe's random models, against torch eager in single and double."""
    found = []
    for name, (n, d, m) in SIZES.items():
        expansion = random_expansion(n, d)
        head = kl.ClassifierHead(np.array([1, -1]))
        fast = compiled(expansion, head, expansion.dense_centers()[:100])
        program = kernelite.torch.module(fast).cuda()
        torch.manual_seed(0)
        rows = torch.randn(m, d, dtype=torch.float64, device="cuda")
        answer = program.predict(rows)
        reference = program.parts[0].exact(rows[: 1 << 14]).scores[:, 0]
        labels = torch.where(reference > 0, 1, -1)
        line = {
            "model": name,
            "centers": n,
            "features": d,
            "rows": m,
            "labels that differ from doubles": int((labels != answer.labels[: 1 << 14]).sum()),
            "share settled by the fused sums": float((answer.stage == 1).double().mean()),
            "ns per row, certified": _per_row(program.predict, rows, turns),
            "ns per row, certified, float32 rows": _per_row(program.predict, rows.float(), turns),
            "ns per row, fused sums alone": _per_row(program.parts[0].fused, rows, turns),
            "ns per row, doubles alone": _per_row(_in_doubles(program), rows[: m // 8], 2),
        }
        more = torch.randn(TIMES * m, d, dtype=torch.float64, device="cuda")
        line["rows, more"] = len(more)
        line["ns per row, certified, more rows"] = _per_row(program.predict, more, turns)
        line |= _eager(expansion, rows)
        line["times eager float32"] = (
            line["ns per row, eager float32"] / line["ns per row, certified"]
        )
        found.append(line)
        print(line, flush=True)
    return found


def _per_row(call: Callable[[torch.Tensor], Any], rows: torch.Tensor, turns: int) -> float:
    """Nanoseconds per row of a call."""
    return 1e9 * best(lambda: call(rows), turns) / len(rows)


def _in_doubles(program: Any) -> Callable[[torch.Tensor], Any]:
    return lambda rows: program.parts[0].exact(rows, kernel=True)


def _eager(expansion: Any, rows: torch.Tensor) -> dict[str, float]:
    """What torch takes without us: a product, exp and a sum, in blocks."""
    m, found = len(rows), {}
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, dtype, block in (
        ("float32", torch.float32, 1 << 15),
        ("float64", torch.float64, 1 << 14),
    ):
        X = torch.from_numpy(expansion.dense_centers()).to("cuda", dtype)
        a = torch.from_numpy(expansion.coefficients[:, 0]).to("cuda", dtype)
        Z, g = rows.to(dtype), expansion.gamma
        part = Z if dtype is torch.float32 else Z[: m // 8]
        norms, squares = (X * X).sum(1), (part * part).sum(1)

        def eager() -> None:
            for i in range(0, len(part), block):
                z = part[i : i + block]
                torch.exp(-g * (squares[i : i + block, None] + norms - 2 * z @ X.T)) @ a

        found[f"ns per row, eager {name}"] = 1e9 * best(eager, 3) / len(part)
    return found


def several(turns: int = 5) -> dict[str, Any]:
    """26 classes, all 325 pairs, 7,737 centers of 16 features: proven winners."""
    expansion, head = random_pairs(7737, 16, 26)
    fast = compiled(expansion, head, expansion.dense_centers()[:100])
    program = kernelite.torch.module(fast).cuda()
    m = 1 << 19
    rng = np.random.default_rng(1)
    rows = torch.from_numpy(rng.normal(size=(m, 16)) * 1.4).cuda()
    answer = program.predict(rows)
    check = program.head.labels(program.parts[0].exact(rows[: 1 << 13]).scores)
    sums = program.parts[0].fused
    slices = run_split(sums, rows)
    return {
        "rows": m,
        "labels that differ from doubles": int((check != answer.labels[: 1 << 13]).sum()),
        "share settled by the fused sums": float((answer.stage == 1).double().mean()),
        "ns per row, certified": 1e9 * best(lambda: program.predict(rows), turns) / m,
        "ns per row, fused sums alone": 1e9 * best(lambda: sums(rows), turns) / m,
        "ns per row, kernel alone": 1e9
        * best(lambda: kernels.run_several(sums, slices), turns)
        / m,
    }


def streaming(gigabytes: float = 6.0) -> list[dict[str, Any]]:
    """Rows in host memory: against a plain copy of the same memory."""
    rng = np.random.default_rng(0)
    small = kl.KernelExpansion(rng.normal(size=(500, 22)), rng.normal(size=500), 0.1, gamma=0.01)
    head = kl.ClassifierHead(np.array([1, -1]))
    fast = compiled(small, head, rng.normal(size=(200, 22)) * 0.5, "certified")
    m = int(gigabytes * 1e9 / 176)
    found = []
    pageable = torch.empty(m, 22, dtype=torch.float64)
    pageable.copy_(torch.randn(m, 22, dtype=torch.float64, device="cuda") * 0.5)
    there = torch.empty(m, 22, dtype=torch.float64, device="cuda")
    for kind in ("pageable", "pinned"):
        rows = pageable if kind == "pageable" else pageable.pin_memory()
        copied = rows.numel() * 8 / best(lambda: there.copy_(rows, non_blocking=True), 3)
        taken = []
        for _ in range(3):
            begin = time.perf_counter()
            labels = kernelite.torch.predict(fast, rows)
            taken.append(time.perf_counter() - begin)
        assert len(labels) == m
        rate = rows.numel() * 8 / min(taken)
        found.append(
            {
                "memory": kind,
                "copy, GB/s": copied / 1e9,
                "predict, GB/s": rate / 1e9,
                "share": rate / copied,
            }
        )
        print(found[-1], flush=True)
    return found


def tune() -> list[str]:
    """Times of the fused kernels by tile, for choosing `tiles_for`; printed, not kept."""
    lines = _tune_forms()
    for name, (n, d, m) in SIZES.items():
        expansion = random_expansion(n, d)
        head = kl.ClassifierHead(np.array([1, -1]))
        fast = compiled(expansion, head, expansion.dense_centers()[:100])
        sums = kernelite.torch.module(fast).cuda().parts[0].fused
        rows = torch.randn(m, d, dtype=torch.float64, device="cuda")
        slices = run_split(sums, rows)
        lines.append(f"{name}: split {1e9 * best(lambda: run_split(sums, rows), 3) / m:.2f} ns")
        for tiles in _candidates():
            try:
                seconds = best(lambda: kernels.run_one(sums, slices, tiles), 3)
                lines.append(f"{name} {tuple(tiles)}: {1e9 * seconds / m:.2f} ns")
            except Exception as error:
                lines.append(f"{name} {tuple(tiles)}: {type(error).__name__} {str(error)[:60]}")
            print(lines[-1], flush=True)
    expansion, head = random_pairs(7737, 16, 26)
    fast = compiled(expansion, head, expansion.dense_centers()[:100])
    sums = kernelite.torch.module(fast).cuda().parts[0].fused
    rows = torch.randn(1 << 19, 16, dtype=torch.float64, device="cuda")
    slices = run_split(sums, rows)
    for tiles in ((64, 64, 4, 2), (128, 64, 8, 2), (64, 32, 4, 2), (64, 64, 4, 3), (128, 64, 8, 3)):
        try:
            seconds = best(lambda: kernels.run_several(sums, slices, kernels.TileShape(*tiles)), 3)
            lines.append(f"several {tiles}: {1e9 * seconds / (1 << 19):.2f} ns")
        except Exception as error:
            lines.append(f"several {tiles}: {type(error).__name__} {str(error)[:60]}")
        print(lines[-1], flush=True)
    return lines


def _tune_forms() -> list[str]:
    rng = np.random.default_rng(0)
    small = kl.KernelExpansion(rng.normal(size=(500, 22)), rng.normal(size=500), 0.1, gamma=0.01)
    cell = Approximation(quadratic_form(small, np.zeros(22)), certify(small, np.zeros(22)))
    layout = KernelLayout(cell).cuda()
    rows = torch.randn(1 << 25, 22, dtype=torch.float64, device="cuda")
    scores = torch.empty(len(rows), 1, dtype=torch.float64, device="cuda")
    bounds, lines = torch.empty_like(scores), []
    for shape in ((64, 1, 2, 16), (128, 1, 2, 8), (128, 2, 2, 8), (256, 2, 2, 4)):
        for boxed in (True, False):
            seconds = best(
                lambda: run_form(layout, rows, scores, bounds, FormTiles(*shape), boxed=boxed), 3
            )
            lines.append(f"form {shape}, {boxed}: {1e-9 * len(rows) / seconds:.2f} Grow/s")
            print(lines[-1], flush=True)
    return lines


def _candidates() -> list[kernels.TileShape]:
    shapes = ((128, 64, 8), (128, 128, 8), (64, 64, 4), (64, 128, 4))
    return [kernels.TileShape(*shape, stages) for shape in shapes for stages in (2, 3)]
