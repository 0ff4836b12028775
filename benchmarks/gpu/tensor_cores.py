"""What the proof assumes of the hardware, tried: sums on tensor cores, and exp2 over all inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

__all__ = ["exact_sums", "exp2_errors", "sum_errors"]

SIDE = 64


@triton.jit
def _dot(A, B, C, out, K: tl.constexpr, BK: tl.constexpr, S: tl.constexpr):
    i, j = tl.arange(0, S), tl.arange(0, S)
    acc = tl.load(C + i[:, None] * S + j[None, :])
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(A + i[:, None] * K + k[None, :])
        b = tl.load(B + k[:, None] * S + j[None, :])
        acc = tl.dot(a, b, acc, out_dtype=tl.float32)
    tl.store(out + i[:, None] * S + j[None, :], acc)


@triton.jit
def _exp2(start, x, y, N: tl.constexpr):
    at = start + tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    value = at.to(tl.int32).to(tl.float32, bitcast=True)
    here = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    tl.store(x + here, value)
    tl.store(y + here, tl.exp2(value))


def _product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(c)
    _dot[(1,)](a, b, c, out, K=a.shape[1], BK=min(64, a.shape[1]), S=SIDE, num_warps=4)
    return out


def sum_errors(device: str, tries: int, seed: int = 0) -> dict[str, float]:
    """Largest |error| / (l 2^-22 sum |terms|) of products with an accumulator; 1 is the model."""
    rng = np.random.default_rng(seed)
    worst = {"random": 0.0, "one sign": 0.0, "swamped": 0.0, "wide range": 0.0}
    for _ in range(tries):
        K = int(rng.choice([16, 32, 64, 128, 832]) // 16 * 16)
        K = K if K in (16, 32) else -(-K // 64) * 64
        for kind in worst:
            a, b, c = _hard(rng, kind, K)
            halves = [torch.from_numpy(x.astype(np.float16)).to(device) for x in (a, b)]
            start = torch.from_numpy(c.astype(np.float32)).to(device)
            found = _product(*halves, start).double()
            a64, b64 = (x.double() for x in halves)
            exact = a64 @ b64 + start
            size = a64.abs() @ b64.abs() + start.abs()
            ratio = (found - exact).abs() / (K * 2.0**-22 * size).clamp(min=1e-300)
            worst[kind] = max(worst[kind], float(ratio.max()))
    return worst


def _hard(rng: np.random.Generator, kind: str, K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = rng.normal(size=(SIDE, K)), rng.normal(size=(K, SIDE))
    c = np.zeros((SIDE, SIDE))
    if kind == "one sign":
        a, b = np.abs(a), np.abs(b)
    elif kind == "swamped":
        # Each product just below the last bit that is kept beside the accumulator.
        bit = 2.0 ** -rng.integers(22, 27)
        a, b = np.full((SIDE, K), 2.0**-10 * 1.999), np.full((K, SIDE), bit * 2.0**10 / 1.01)
        c = np.full((SIDE, SIDE), 1.0)
    elif kind == "wide range":
        a *= 2.0 ** rng.integers(-12, 4, size=a.shape)
        b *= 2.0 ** rng.integers(-12, 4, size=b.shape)
        c = rng.normal(size=c.shape)
    return a, b, c


def exact_sums(device: str, tries: int, seed: int = 0) -> int:
    """How many sums of integers within 2^24 were not exact; none, by the model."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(tries):
        K = int(rng.choice([16, 32, 64, 128, 256]))
        bits = (24 - (K - 1).bit_length()) // 2
        most = 2**bits
        if rng.random() < 0.5:
            a, b = (rng.integers(-most, most + 1, size=s) for s in ((SIDE, K), (K, SIDE)))
        else:  # as large as can be
            a, b = (
                np.full((SIDE, K), most),
                np.full((K, SIDE), most) - rng.integers(2, size=(K, SIDE)),
            )
        halves = [torch.from_numpy(x.astype(np.float16)).to(device) for x in (a, b)]
        start = torch.zeros(SIDE, SIDE, device=device)
        wrong += int(
            (_product(*halves, start).double() != halves[0].double() @ halves[1].double()).sum()
        )
    return wrong


def exp2_errors(device: str) -> dict[str, Any]:
    """Over all 2^32 inputs: the largest relative error where 2^x is normal, the largest below."""
    count, block = 1 << 27, 1024
    x = torch.empty(count, dtype=torch.float32, device=device)
    y = torch.empty_like(x)
    relative = below = 0.0
    tried = 0
    for start in range(-(1 << 31), 1 << 31, count):
        _exp2[(count // block,)](start, x, y, N=block)
        keep = torch.isfinite(x) & (x < 127.999) & (x > -1000.0)
        some, value = x[keep].double(), y[keep].double()
        tried += len(some)
        exact = torch.exp2(some)
        normal = exact >= 2.0**-126
        error = ((value - exact).abs() / exact)[normal]
        relative = max(relative, float(error.max()) if len(error) else 0.0)
        below = max(below, float(value[~normal].max()) if (~normal).any() else 0.0)
    return {
        "inputs": tried,
        "largest relative error, in 2^-22": relative * 2.0**22,
        "largest value where 2^x is below 2^-126, in 2^-126": below * 2.0**126,
    }
