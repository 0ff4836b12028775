"""One pass over rows: a quadratic form of one output and its bound.

Of up to 32 features, a thread keeps its rows in registers, four of them so that each number of M
that is read serves four times: 22 features take 253 + 66 multiply-adds, where tiles of tensor cores
would take 1,024. Rows are read in pieces of 16, 8, 4, 2 and 1 columns, by the copy engine of newer
GPUs where their length allows (a multiple of 16 bytes), the next tile while this one is computed.
Of more features, products run on the tensor cores in doubles (exact products, sums rounded as
always). The exponential is a double, the bound a single. What is stored per row: a score and a
bound, 16 bytes. `forms` holds the constants and why the bound is one.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernelite.backends.torch.forms import CHUNK

if TYPE_CHECKING:
    from kernelite.backends.torch.forms import KernelLayout

__all__ = ["FormTiles", "run_form"]


class FormTiles(NamedTuple):
    """Rows, warps and stages of a kernel; programs per multiprocessor that walk over tiles."""

    rows: int
    warps: int
    stages: int
    each: int = 8


NARROW, WIDE = FormTiles(128, 1, 2), FormTiles(64, 4, 3)  # measured by `benchmarks gpu`
LONG = 24  # features of which a thread's registers hold four rows; two of more


def run_form(
    layout: KernelLayout,
    rows: torch.Tensor,
    scores: torch.Tensor,
    bounds: torch.Tensor,
    tiles: FormTiles | None = None,
    *,
    boxed: bool | None = None,
) -> None:
    """Fill scores and bounds, each of shape (m, 1), for contiguous rows of shape (m, d).

    Parameters
    ----------
    boxed : bool, optional
        Whether rows are read by the copy engine; by default, wherever they can be.
    """
    m, d = rows.shape
    if m == 0:
        return
    tiles = tiles or (NARROW if layout.narrow else WIDE)
    tall = tiles.rows // 2 if layout.narrow and d > LONG else tiles.rows
    count = triton.cdiv(m, tall)
    constants = (layout.point, layout.matrix, layout.weights)
    arrays = (layout.doubles, layout.singles, scores, bounds, m, layout.rank)
    options = {"d": d, "BM": tall, "num_warps": tiles.warps}
    if not layout.narrow:
        R = layout.matrix.shape[1]
        options |= {"D": CHUNK, "R": R, "num_stages": tiles.stages}
        _wide_form[(count,)](rows, *constants, *arrays, **options)
        return
    options["TRUNCATED"] = layout.truncated
    if not (_can_box(rows) if boxed is None else boxed):
        _narrow_form[(count,)](rows, *constants, layout.linear, *arrays, **options)
        return
    grid = (min(count, tiles.each * _multiprocessors(rows)),)
    options["STAGES"] = tiles.stages
    _boxed_form[grid](*_boxes(rows, tall), *constants, layout.linear, *arrays, **options)


def _can_box(rows: torch.Tensor) -> bool:
    """Whether the copy engine takes such rows."""
    if not rows.is_cuda or find_spec("triton.tools.tensor_descriptor") is None:
        return False
    aligned = rows.data_ptr() % 16 == 0 and rows.stride(0) * rows.element_size() % 16 == 0
    return aligned and torch.cuda.get_device_capability(rows.device)[0] >= 9


def _boxes(rows: torch.Tensor, tall: int) -> list[Any]:
    """Rows as boxes of 16, 8, 4 and 2 columns, those that make up a row."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    d = rows.shape[1]
    wanted = ((16, d >= 16), (8, d & 8), (4, d & 4), (2, d & 2))
    return [TensorDescriptor.from_tensor(rows, [tall, w]) if has else None for w, has in wanted]


def _multiprocessors(rows: torch.Tensor) -> int:
    if not rows.is_cuda:
        return 1
    return torch.cuda.get_device_properties(rows.device).multi_processor_count


@triton.jit
def _certificate(square, rest, score, doubles, singles):
    """The bound of a form's score; `square` is |u|^2 and `rest` |u|^2 - |V'u|^2, or zero."""
    x = tl.minimum(tl.load(doubles + 2) * square, 1e30).to(tl.float32) * 1.000001
    E = tl.exp(-0.5 * x)
    t = tl.minimum(x, 1.0)
    series = tl.full(t.shape, 1.0, tl.float32)
    for j in tl.static_range(12):
        series = 1.0 + series * t * (1.0 / (15 - j))
    small = t * tl.sqrt(t * series * tl.exp(-t) * (1.0 / 6.0))
    T = tl.minimum(tl.maximum(x, 1.0), 100.0)
    large = tl.sqrt(1.0 - tl.exp(-T) * (1.0 + T * (1.0 + 0.5 * T)))
    root = tl.where(x < 1.0, small, large)
    far = tl.minimum(x, 1e4)
    size = tl.load(singles + 1) + tl.load(singles + 2) * tl.sqrt(far) + tl.load(singles + 3) * far
    size *= E * (tl.load(singles + 6) + tl.load(singles + 7) * far)
    left = tl.minimum(tl.load(doubles + 2) * rest, 1e30).to(tl.float32)
    size += E * (tl.load(singles + 4) * tl.minimum(left, 1e4) + tl.load(singles + 5) * far)
    total = (size + tl.load(singles) * root) * 1.0009765625
    bound = total.to(tl.float64) * tl.load(doubles + 3)
    bound += tl.load(doubles + 4) * tl.abs(score) + tl.load(doubles + 5)
    return tl.where(square < float("inf"), bound, float("inf"))


@triton.jit
def _finish(g, square, rest, doubles, singles, scores, bounds, r, m):
    """Score and bound from sums and norms, stored."""
    g += tl.load(doubles + 6) + tl.load(doubles + 7) * square
    E = tl.exp(-tl.load(doubles + 1) * square)
    score = tl.where(E == 0.0, 0.0, g * E) + tl.load(doubles)
    bound = _certificate(square, rest, score, doubles, singles)
    tl.store(scores + r, score, mask=r < m)
    tl.store(bounds + r, bound, mask=r < m)


@triton.jit
def _read(rows, r, m, first: tl.constexpr, d: tl.constexpr, W: tl.constexpr):
    """Some columns of rows, side by side: shape (BM, W)."""
    k = first + tl.arange(0, W)
    return tl.load(rows + r[:, None] * d + k[None, :], mask=(r < m)[:, None], other=0.0)


@triton.jit
def _four(z, BM: tl.constexpr):
    """The columns of (BM, 4), each of shape (BM,): from here on a thread has rows of its own."""
    even, odd = tl.split(tl.reshape(z, (BM, 2, 2)))
    z0, z2 = tl.split(even)
    z1, z3 = tl.split(odd)
    return (z0, z1, z2, z3)


@triton.jit
def _eight(z, BM: tl.constexpr):
    """As `_four`, of (BM, 8)."""
    even, odd = tl.split(tl.reshape(z, (BM, 4, 2)))
    e, o = _four(even, BM), _four(odd, BM)
    return (e[0], o[0], e[1], o[1], e[2], o[2], e[3], o[3])


@triton.jit
def _sixteen(z, BM: tl.constexpr):
    """As `_four`, of (BM, 16)."""
    even, odd = tl.split(tl.reshape(z, (BM, 8, 2)))
    e, o = _eight(even, BM), _eight(odd, BM)
    found = ()
    for i in tl.static_range(8):
        found = found + (e[i], o[i])  # type: ignore[assignment]  # noqa: RUF005
    return found


@triton.jit
def _narrow_form(
    rows, point, matrix, weights, linear, doubles, singles, scores, bounds, m, rank,
    d: tl.constexpr, BM: tl.constexpr, TRUNCATED: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    if d >= 16:  # all pieces are under way before the first is needed
        z16 = _read(rows, r, m, 0, d, 16)
    if d == 32:
        z32 = _read(rows, r, m, 16, d, 16)
    if d & 8:
        z8 = _read(rows, r, m, d & 16, d, 8)
    if d & 4:
        z4 = _read(rows, r, m, d & 24, d, 4)
    if d & 2:
        z2 = _read(rows, r, m, d & 28, d, 2)
    z = ()
    if d >= 16:
        z = z + _sixteen(z16, BM)
    if d == 32:
        z = z + _sixteen(z32, BM)
    if d & 8:
        z = z + _eight(z8, BM)
    if d & 4:
        z = z + _four(z4, BM)
    if d & 2:
        z = z + tl.split(z2)
    if d & 1:
        z = z + (tl.load(rows + r * d + (d - 1), mask=r < m, other=0.0),)  # type: ignore[assignment]  # noqa: RUF005
    _form_of(
        z, point, matrix, weights, linear, doubles, singles, scores, bounds, r, m, rank, d, BM,
        TRUNCATED,
    )  # fmt: skip


@triton.jit
def _boxed_form(
    by16, by8, by4, by2, point, matrix, weights, linear, doubles, singles, scores, bounds, m, rank,
    d: tl.constexpr, BM: tl.constexpr, TRUNCATED: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    count = tl.cdiv(m, BM)
    for tile in tl.range(tl.program_id(0), count, tl.num_programs(0), num_stages=STAGES):
        first = tile * BM
        z = ()
        if d >= 16:
            z = z + _sixteen(by16.load([first, 0]), BM)
        if d == 32:
            z = z + _sixteen(by16.load([first, 16]), BM)
        if d & 8:
            z = z + _eight(by8.load([first, d & 16]), BM)
        if d & 4:
            z = z + _four(by4.load([first, d & 24]), BM)
        if d & 2:
            z = z + tl.split(by2.load([first, d & 28]))
        r = first.to(tl.int64) + tl.arange(0, BM)
        if m > 0:  # always: within, no read of a constant is taken for one to be made ahead
            _form_of(
                z, point, matrix, weights, linear, doubles, singles, scores, bounds, r, m, rank, d,
                BM, TRUNCATED,
            )  # fmt: skip


@triton.jit
def _form_of(
    z, point, matrix, weights, linear, doubles, singles, scores, bounds, r, m, rank,
    d: tl.constexpr, BM: tl.constexpr, TRUNCATED: tl.constexpr,
):  # fmt: skip
    """Scores and bounds of rows whose columns a thread holds, stored."""
    u = ()
    for i in tl.static_range(d):
        u = u + (z[i].to(tl.float64) - tl.load(point + i),)  # type: ignore[assignment]  # noqa: RUF005
    g = tl.zeros((BM,), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    rest = tl.zeros((BM,), tl.float64)
    for i in tl.static_range(d):
        square += u[i] * u[i]
        if m > i - 64:  # always: a block of its own, or all numbers of M would be read before use
            t = tl.load(linear + i)
            if not TRUNCATED:  # the upper triangle of M, what is off its diagonal twice
                for j in tl.static_range(i, d):
                    t += tl.load(matrix + i * d + j) * u[j]
            g += t * u[i]
    if TRUNCATED:
        kept = tl.zeros((BM,), tl.float64)
        for i in range(rank):
            y = tl.zeros((BM,), tl.float64)
            for j in tl.static_range(d):
                y += tl.load(matrix + i * d + j) * u[j]
            g += tl.load(weights + i) * y * y
            kept += y * y
        rest = tl.maximum(square - kept, 0.0)
    _finish(g, square, rest, doubles, singles, scores, bounds, r, m)


@triton.jit
def _wide_form(
    rows, point, matrix, weights, doubles, singles, scores, bounds, m, rank,
    d: tl.constexpr, D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, R)[None, :]
    y = tl.zeros((BM, R), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    for start in range(0, d, D):
        k = start + tl.arange(0, D)
        here = (r < m)[:, None] & (k < d)[None, :]
        z = tl.load(rows + r[:, None] * d + k[None, :], mask=here, other=0.0).to(tl.float64)
        u = tl.where(here, z - tl.load(point + k)[None, :], 0.0)
        square += tl.sum(u * u, 1)
        y = tl.dot(u, tl.load(matrix + k[:, None] * R + c), y, out_dtype=tl.float64)
    # The column after the directions is v.u; those that pad are zero.
    kept = tl.sum(tl.where(c < rank, y * y, 0.0), 1)
    g = tl.sum(y * (y * tl.load(weights + c) + (c == rank).to(tl.float64)), 1)
    _finish(g, square, tl.maximum(square - kept, 0.0), doubles, singles, scores, bounds, r, m)
