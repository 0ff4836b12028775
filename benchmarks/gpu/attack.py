"""Bounds under attack: random and adversarial models on the device, `np.longdouble` as judge.

For each model and row, |score - f| / bound of the form, its kernel, the fused sums and the sums in
doubles; none may pass 1. The judge's 64 bits err by 2^-64 per step, far below any bound.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

import kernelite as kl
from benchmarks.gpu.samples import Sample
from benchmarks.gpu.together import in_processes, process_count
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.exact import ExactSums, KernelSums
from kernelite.backends.torch.fine import FineSums
from kernelite.backends.torch.forms import FirstForm
from kernelite.backends.torch.fused import SliceSums
from kernelite.machine.kernels import (
    Laplacian,
    Matern,
    PolynomialKernel,
    RationalQuadratic,
    SigmoidKernel,
)
from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.support.errors import KerneliteError
from tests.backends.torch.twins import sums_of_digits, sums_of_slices

__all__ = ["attack", "attack_together", "hard_rows", "judge", "merged", "random_model"]

SAMPLES = 3  # models of each process that are brought home whatever they show
WIDTHS = (1, 2, 3, 5, 8, 16, 22, 31, 40, 63, 70, 130)  # few, since each is compiled
KINDS = ("plain", "twins", "offset", "few values", "zeros", "one sign", "one direction")


def attack_together(models: int, seed: int, device: str, seconds: float) -> dict[str, Any]:
    """As `attack`, shared out over processes; seeds follow each other from `seed` on."""
    count = process_count(device)
    shares = [
        (models // count + (i < models % count), seed + i, device, seconds) for i in range(count)
    ]
    return merged(in_processes(attack, shares, device))


def merged(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Several attacks as one."""
    names = sorted({name for one in found for name in one["worst"]})
    tried = {name: sum(one["tried"].get(name, 0) for one in found) for name in names}
    known = {
        name: sum(one["finite"].get(name, 0.0) * one["tried"].get(name, 0) for one in found)
        for name in names
    }
    return {
        "models": sum(one["models"] for one in found),
        "seeds": [seed for one in found for seed in one["seeds"]],
        "violated": sum(one["violated"] for one in found),
        "worst": {name: max(one["worst"].get(name, 0.0) for one in found) for name in names},
        "tried": tried,
        "finite": {name: known[name] / max(1, tried[name]) for name in names},
        "samples": [sample for one in found for sample in one.get("samples", [])],
    }


def attack(models: int, seed: int, device: str, seconds: float = 1e9) -> dict[str, Any]:
    """Try so many models, or as many as the time allows: the largest ratios, and counts.

    Samples are the first models and, of each evaluator, the one that came nearest to its bound.
    """
    started = time.monotonic()
    rng = np.random.default_rng(seed)
    worst: dict[str, float] = {}
    known: dict[str, list[float]] = {}
    kept: dict[str, Sample] = {}
    done = violated = 0
    while done < models and time.monotonic() - started < seconds:
        done += 1
        expansion = random_model(rng)
        rows = hard_rows(rng, expansion)
        other = with_another_kernel(rng, expansion)
        for own in (expansion, other):
            truth = judge(own, rows)
            for name, found in _evaluations(rng, own, rows, device):
                scores, bounds = found.scores.cpu().numpy(), found.bounds.cpu().numpy()
                finite = np.isfinite(bounds)
                error = np.abs(scores.astype(np.longdouble) - truth)[finite]
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.where(error > 0, error / bounds[finite], 0.0)
                assert not np.isnan(ratio).any(), f"{name}: a bound without a score"
                violated += int((ratio > 1.0).sum())
                largest = float(ratio.max(initial=0.0))
                keeps = done <= SAMPLES or largest > worst.get(name, 0.0)
                if keeps and own is expansion:  # files of samples hold no other kernels
                    key = f"{name} {done}" if done <= SAMPLES else name
                    kept[key] = Sample(f"{name}: seed {seed}", own, rows, scores, bounds)
                worst[name] = max(worst.get(name, 0.0), largest)
                known.setdefault(name, []).append(float(finite.mean()))
    shares = {name: float(np.mean(found)) for name, found in known.items()}
    tried = {name: len(found) for name, found in known.items()}
    return {
        "models": done,
        "seeds": [seed],
        "violated": violated,
        "worst": worst,
        "tried": tried,
        "finite": shares,
        "samples": list(kept.values()),
    }


def random_model(rng: np.random.Generator) -> kl.KernelExpansion:
    """gamma 1e-6 to 10, coefficients 1e-6 to 1e6, up to 300 centers, one output or several."""
    d, n = int(rng.choice(WIDTHS)), int(rng.integers(1, 300))
    k = int(rng.choice([1, 1, 1, 2, 3, 10]))
    gamma = 10.0 ** rng.uniform(-6.0, 1.0)
    spread = 10.0 ** rng.uniform(-2.0, 1.5) / np.sqrt(gamma * d)
    size = 10.0 ** rng.uniform(-6.0, 6.0)
    centers = rng.normal(size=(n, d)) * spread
    A = rng.choice([-1.0, 1.0], (n, k)) * size * 10.0 ** rng.uniform(-2, 0, (n, k))
    kind = rng.choice(KINDS)
    half = n // 2
    if kind == "twins" and half:
        nudge = 10.0 ** rng.uniform(-16, -3)
        centers[half : 2 * half] = centers[:half] * (1.0 + nudge * rng.normal(size=(half, d)))
        A[half : 2 * half] = -A[:half]
    elif kind == "offset":
        centers += 10.0 ** rng.uniform(0, 4) * spread
    elif kind == "few values":
        centers = np.round(centers / spread) * spread
    elif kind == "zeros":
        A[rng.random(A.shape) < 0.7] = 0.0
        A[0] = size
        centers[rng.random(centers.shape) < 0.5] = 0.0
    elif kind == "one sign":
        A, centers = np.abs(A), np.abs(centers)
    elif kind == "one direction":  # all mass in one feature, the others tiny: slices see little
        centers[:, 1:] *= 10.0 ** rng.uniform(-9, -1)
    intercept = rng.normal(size=k) * rng.choice([0.0, 1e-3, 1.0]) * size
    return kl.KernelExpansion(centers, A, intercept, gamma=gamma)


def hard_rows(rng: np.random.Generator, expansion: kl.KernelExpansion) -> np.ndarray:
    """Rows equal to centers, between them, near, far, huge, zero, denormal: (16, d)."""
    centers = expansion.dense_centers()
    d = centers.shape[1]
    some = centers[rng.integers(len(centers), size=6)]
    width = 1.0 / np.sqrt(expansion.gamma * d)
    rows = [
        some[0],
        0.5 * (some[1] + some[2]),
        some[3] + rng.normal(size=d) * width,
        some[4] + rng.normal(size=d) * width * 10.0 ** rng.uniform(-9, 1),
        some[0] * (1.0 + 1e-13 * rng.normal(size=d)),
        rng.normal(size=d) * 20.0 * width,
        rng.choice([-1.0, 1.0], d) * 1e200,
        np.zeros(d),
        rng.normal(size=d) * 1e-310,
        centers.mean(axis=0),
        -some[5],
        some[5] * 2.0,
        np.abs(some[1]),
        np.eye(d)[rng.integers(d)] * width * 3.0,
        some[2] + np.eye(d)[rng.integers(d)] * width * 2.0,
        rng.normal(size=d) * width,
    ]
    return np.array(rows)


def with_another_kernel(
    rng: np.random.Generator, expansion: kl.KernelExpansion
) -> kl.KernelExpansion:
    """The same centers and coefficients, and a kernel without a series in the same scale."""
    length = 1.0 / np.sqrt(expansion.gamma)
    scales, gamma = (float(length),), float(expansion.gamma)
    made = (
        Matern(scales, float(rng.choice([0.5, 1.5, 2.5, 3.5]))),
        RationalQuadratic(scales, float(10.0 ** rng.uniform(-1, 1))),
        Laplacian(float(np.sqrt(gamma))),
        SigmoidKernel(gamma, float(rng.normal())),
        PolynomialKernel(int(rng.integers(3, 6)), gamma, float(rng.normal())),
    )
    kernel = made[rng.integers(len(made))]
    A, b = expansion.coefficients, expansion.intercept
    return kl.KernelExpansion(expansion.dense_centers(), A, b, kernel=kernel)


def judge(expansion: kl.KernelExpansion, rows: np.ndarray) -> np.ndarray:
    """f of rows in extended precision, by differences: shape (m, k)."""
    X, Z = (part.astype(np.longdouble) for part in (expansion.dense_centers(), rows))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        K = _kernel_values(expansion.kernel, X, Z)
        return K @ expansion.coefficients.astype(np.longdouble) + expansion.intercept


def _kernel_values(kernel: Any, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """k of all pairs in extended precision, each formula written out: shape (m, n)."""
    gaps = Z[:, None, :] - X[None, :, :]
    squares = np.square(gaps).sum(axis=2)
    if isinstance(kernel, PolynomialKernel | SigmoidKernel):
        argument = np.longdouble(kernel.gamma) * (Z @ X.T) + np.longdouble(kernel.coef0)
        return np.tanh(argument) if isinstance(kernel, SigmoidKernel) else argument**kernel.degree
    if isinstance(kernel, Laplacian):
        return np.exp(-np.longdouble(kernel.gamma) * np.abs(gaps).sum(axis=2))
    if isinstance(kernel, RationalQuadratic):
        alpha = np.longdouble(kernel.alpha)
        scaled = squares / np.longdouble(kernel.length_scale[0]) ** 2
        return np.exp(-alpha * np.log1p(scaled / (2 * alpha)))
    if isinstance(kernel, Matern):
        a = np.sqrt(2 * kernel.nu * squares) / np.longdouble(kernel.length_scale[0])
        powers = {0.5: [1], 1.5: [1, 1], 2.5: [1, 1, (1, 3)], 3.5: [1, 1, (2, 5), (1, 15)]}
        total = np.zeros_like(a)
        for power, share in enumerate(powers[kernel.nu]):
            over, under = share if isinstance(share, tuple) else (share, 1)
            total += np.minimum(a, 12000.0) ** power * (np.longdouble(over) / under)
        return total * np.exp(-a)
    return np.exp(-np.longdouble(kernel.gamma) * squares)


def _evaluations(
    rng: np.random.Generator, expansion: kl.KernelExpansion, rows: np.ndarray, device: str
) -> list[tuple[str, Any]]:
    there = torch.from_numpy(rows).to(device)
    if not expansion.has_series:
        sums = KernelSums(expansion, mapped=False).to(device)
        return [(f"doubles, {expansion.kernel_name.partition(',')[0]}", sums(there))]
    dense = DenseExact.prepare(expansion)
    exact = ExactSums(dense).to(device)
    found = [("doubles", exact(there))]
    if exact.has_kernel:
        found.append(("doubles, kernel", exact(there, kernel=True)))
    if SliceSums.serves(dense):
        fused = SliceSums(dense).to(device)
        name = "fused, several outputs" if fused.several else "fused"
        found += [(name, fused(there)), (f"{name}, definition", sums_of_slices(fused, there))]
    if FineSums.serves(dense):
        fine = FineSums(dense).to(device)
        found += [("digits", fine(there)), ("digits, definition", sums_of_digits(fine, there))]
    try:
        point = expansion.dense_centers().mean(axis=0)
        form, certificate = quadratic_form(expansion, point), certify(expansion, point)
        cells = {"form": Approximation(form, certificate)}
        if form.n_features > 2:
            cut = truncate(spectrum(form), int(rng.integers(1, form.n_features)))
            cells["truncated form"] = Approximation(cut, certificate)
    except KerneliteError:
        return found
    for name, cell in cells.items():
        lowered = FirstForm(cell).to(device)
        found.append((f"{name}, operations", lowered(there)))
        if lowered.layout is not None:
            found.append((f"{name}, kernel", lowered.layout(there)))
    return found
