"""Tensors: as buffers of modules, and in formulas, by the operations of `kernelite.machine.ops`.

Heads, criteria, forms, certificates and kernels are written once, in these operations. A
`TensorValue` is a tensor that they work on; arrays beside it become constants on its device, and
every real number is a double.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Self, TypeAlias
from weakref import ref

import numpy as np
import torch

from kernelite.backends.torch.kernels import has_triton
from kernelite.machine.ops import slopes_between
from kernelite.support.errors import InputError, UnsupportedModelError

__all__ = [
    "Buffers",
    "Formula",
    "Tensor",
    "TensorValue",
    "TorchOps",
    "constants_used",
    "known_device",
]

Tensor: TypeAlias = "torch.Tensor"

Formula = Callable[..., Any]  # of a head or a criterion: typed for arrays, written for values too


class Buffers(torch.nn.Module):
    """A module whose buffers move between devices and never change their type.

    Bounds are proven for the types that the arrays have; so `.half()` and `.to(torch.float32)`
    move nothing and round nothing.
    """

    def hold(self, **arrays: Any) -> None:
        """Register arrays as buffers, numbers too: all that a run needs lies on the device."""
        for name, array in arrays.items():
            held = array if isinstance(array, torch.Tensor) else torch.from_numpy(_own(array))
            self.register_buffer(name, held)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def moved(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found if found.dtype == tensor.dtype else tensor.to(found.device)

        return super()._apply(moved, recurse)


def _own(array: Any) -> np.ndarray[Any, Any]:
    """A contiguous copy that torch may keep."""
    return np.array(array, order="C")


def known_device(device: Any) -> torch.device:
    """The device of that name, or a refusal; proofs need doubles."""
    try:
        found = torch.device(device)
        torch.empty(1, dtype=torch.float64, device=found)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError):
        there = "'cuda' or 'cpu'" if torch.cuda.is_available() else "'cpu', since torch sees no GPU"
        raise InputError(
            f"`device` {str(device)!r} is not there, or has no doubles; it can be {there}."
        ) from None
    return found


# Formulas.


def _operator(
    function: Any, *, turned: bool = False, truth: bool = False, whole: bool = True
) -> Any:
    """An operator: truth values count as reals unless `truth`, whole numbers unless `whole`."""

    def operate(self: TensorValue, other: Any) -> TensorValue:
        one, two = _alike(self.tensor, self._other(other), truth=truth, whole=whole)
        return TensorValue(function(two, one) if turned else function(one, two))

    return operate


class TensorValue:
    """A tensor, rows first, with the operators and columns that formulas use."""

    __array_ufunc__ = None  # so that arrays leave operators to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __array_namespace__(self) -> TorchOps:
        return TorchOps(self.tensor.device)

    def _other(self, other: Any) -> Any:
        return TorchOps(self.tensor.device).operand(other)

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """As of an array."""
        return self.tensor.ndim

    def __len__(self) -> int:
        return len(self.tensor)

    def reshape(self, *shape: int) -> TensorValue:
        """As of an array."""
        return TensorValue(self.tensor.reshape(*shape))

    def __getitem__(self, key: tuple[slice, Any]) -> TensorValue:
        """Columns: `x[:, 3]`, `x[:, [2, 0]]`, `x[:, 1:]`, `x[:, ::-1]`; `x[:, None]`: an axis."""
        rows, columns = key
        if isinstance(columns, slice) and (columns.step or 1) < 0:
            columns = list(range(*columns.indices(self.tensor.shape[1])))
        if columns is not None and np.ndim(columns):  # a constant: copies cannot be recorded
            columns = self._other(np.asarray(columns, dtype=np.int64))
        return TensorValue(self.tensor[rows, columns])

    __add__ = __radd__ = _operator(operator.add)
    __sub__, __rsub__ = _operator(operator.sub), _operator(operator.sub, turned=True)
    __mul__ = __rmul__ = _operator(operator.mul)
    __truediv__ = _operator(operator.truediv, whole=False)
    __rtruediv__ = _operator(operator.truediv, turned=True, whole=False)
    __matmul__ = _operator(operator.matmul, whole=False)
    __gt__, __ge__ = _operator(operator.gt, truth=True), _operator(operator.ge, truth=True)
    __lt__, __le__ = _operator(operator.lt, truth=True), _operator(operator.le, truth=True)
    __eq__, __ne__ = _operator(operator.eq, truth=True), _operator(operator.ne, truth=True)
    __and__, __or__ = _operator(operator.and_, truth=True), _operator(operator.or_, truth=True)

    @property
    def T(self) -> TensorValue:
        """Columns as rows."""
        return TensorValue(self.tensor.T)

    def __pow__(self, exponent: float) -> TensorValue:
        return TensorValue(self.tensor**exponent)

    def __neg__(self) -> TensorValue:
        return TensorValue(-self.tensor)

    def __invert__(self) -> TensorValue:
        return TensorValue(~self.tensor)


def _alike(one: Any, two: Any, *, truth: bool = True, whole: bool = True) -> tuple[Any, Any]:
    """Two tensors of one type: truth values, whole numbers or doubles, as far as these will do.

    One of them may be a number of Python's: it goes along with a launch, and needs none itself.
    """
    if isinstance(one, int | float):
        return _alike(two, one, truth=truth, whole=whole)[::-1]
    if isinstance(two, int | float):
        kept = one.dtype is torch.int64 and isinstance(two, int) and whole
        return one if kept else one.double(), two
    types = {one.dtype, two.dtype}
    if types == {torch.bool} and truth:
        return one, two
    if types == {torch.int64} and whole:
        return one, two
    return one.double(), two.double()


def _by_axis(function: Any) -> Any:
    def reduce(self: TorchOps, x: TensorValue, axis: int, keepdims: bool = False) -> TensorValue:
        return TensorValue(function(x.tensor, dim=axis, keepdim=keepdims))

    return reduce


def _each(function: Any) -> Any:
    def apply(self: TorchOps, x: TensorValue) -> TensorValue:
        return TensorValue(function(x.tensor))

    return apply


KINDS = {"b": torch.bool, "i": torch.int64, "u": torch.int64, "f": torch.float64}


# Constants stay on a device, since a copy waits for all that is under way: small ones by their
# content, since formulas make them anew, large ones as long as the model's own array lives.

LARGE, MOST_SMALL = 1 << 14, 4096  # bytes, and how many small ones are kept
_large: dict[tuple[int, torch.device], tuple[ref[Any], Tensor]] = {}
_used: ContextVar[list[Tensor] | None] = ContextVar("_used", default=None)


@lru_cache(maxsize=MOST_SMALL)
def _small(held: bytes, dtype: str, shape: tuple[int, ...], device: torch.device) -> Tensor:
    return _copied(np.frombuffer(held, dtype).reshape(shape), device)


def _copied(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(array.copy()).to(device, KINDS[array.dtype.kind])


def _constant(array: Any, device: torch.device) -> Tensor:
    """An array on a device."""
    if array.nbytes < LARGE:
        return _small(array.tobytes(), array.dtype.str, array.shape, device)
    key = (id(array), device)
    if key not in _large or _large[key][0]() is not array:
        _large[key] = ref(array, lambda _: _large.pop(key, None)), _copied(array, device)
    return _large[key][1]


@contextmanager
def constants_used() -> Iterator[list[Tensor]]:
    """The constants of formulas that run meanwhile: what is recorded needs them to stay."""
    found: list[Tensor] = []
    before = _used.set(found)
    try:
        yield found
    finally:
        _used.reset(before)


class TorchOps:
    """What a formula may use, as torch has it; `kernelite.machine.ops` says what each does.

    Parameters
    ----------
    device : torch.device
        Of what is made anew.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def tensor(self, x: Any) -> Tensor:
        """A tensor of truth values, whole numbers or doubles, on the device."""
        if isinstance(x, TensorValue):
            return x.tensor
        array = np.asarray(x)
        if array.dtype.kind not in KINDS:
            raise UnsupportedModelError("labels that are no numbers have no place in a tensor.")
        if not array.ndim:  # filled there: a copy would wait for all that is under way
            kind = KINDS[array.dtype.kind]
            return torch.full((), array.item(), dtype=kind, device=self.device)
        found = _constant(array, self.device)
        if (used := _used.get()) is not None:
            used.append(found)
        return found

    def operand(self, x: Any) -> Any:
        """A number of Python's as it is, anything else as a tensor."""
        plain = isinstance(x, int | float) and not isinstance(x, bool)
        return x if plain else self.tensor(x)

    abs, sign, isnan, isinf = (_each(f) for f in (torch.abs, torch.sign, torch.isnan, torch.isinf))
    exp, log, expit = (_each(f) for f in (torch.exp, torch.log, torch.sigmoid))
    all, any = _by_axis(torch.all), _by_axis(torch.any)
    max, min = _by_axis(torch.amax), _by_axis(torch.amin)

    def sum(self, x: TensorValue, axis: int, keepdims: bool = False) -> TensorValue:
        """Sums along an axis; truth values are counted."""
        return TensorValue(x.tensor.double().sum(dim=axis, keepdim=keepdims))

    def argmax(self, x: TensorValue, axis: int = 1) -> TensorValue:
        """The first of the largest, which torch's own need not be; 0 where one is no number."""
        best = x.tensor == x.tensor.amax(dim=1, keepdim=True)
        places = best.long().cumsum(dim=1).eq(0).sum(dim=1)
        return TensorValue(torch.where(places < x.tensor.shape[1], places, 0))

    def sqrt(self, x: TensorValue) -> TensorValue:
        """The root; where derivatives are asked for, that at zero counts as zero."""
        if not x.tensor.requires_grad:
            return TensorValue(x.tensor.sqrt())
        positive = x.tensor > 0.0
        return TensorValue(torch.where(positive, torch.where(positive, x.tensor, 1.0).sqrt(), 0.0))

    def squared_norms(self, x: TensorValue) -> TensorValue:
        """|x|^2 of each row, shape (m,)."""
        return TensorValue((x.tensor * x.tensor).sum(dim=1))

    def contract(self, x: TensorValue, matrices: Any) -> TensorValue:
        """x'M_j x of each row and matrix: (m, r) and (k, r, r) to (m, k)."""
        each = [((x.tensor @ matrix) * x.tensor).sum(dim=1) for matrix in self.tensor(matrices)]
        return TensorValue(torch.stack(each, dim=1))

    def squared_distances(self, rows: TensorValue, centers: Any) -> TensorValue:
        """|x - z|^2 of all pairs, by differences: (m, d) and (n, d) to (m, n)."""
        return self._distances(rows, centers, city=False)

    def city_distances(self, rows: TensorValue, centers: Any) -> TensorValue:
        """|x - z|_1 of all pairs, likewise."""
        return self._distances(rows, centers, city=True)

    def _distances(self, rows: TensorValue, centers: Any, *, city: bool) -> TensorValue:
        z, x = rows.tensor.double(), self.tensor(centers)
        if z.is_cuda and has_triton() and not z.requires_grad:
            from kernelite.backends.torch.kernels.doubles import run_distances

            return TensorValue(run_distances(z, x, city=city))
        total = torch.zeros(len(z), len(x), dtype=torch.float64, device=self.device)
        for feature in range(z.shape[1]):
            gap = z[:, feature, None] - x[:, feature]
            total = total + (gap.abs() if city else gap.square())
        return TensorValue(total)

    def clip(self, x: TensorValue, low: float, high: float) -> TensorValue:
        """Brought into [low, high]."""
        return TensorValue(x.tensor.clamp(low, high))

    def maximum(self, x: Any, y: Any) -> TensorValue:
        """The larger of two."""
        one, two = _alike(self.tensor(x), self.operand(y))
        return TensorValue(one.clamp(min=two))

    def minimum(self, x: Any, y: Any) -> TensorValue:
        """The smaller of two."""
        one, two = _alike(self.tensor(x), self.operand(y))
        return TensorValue(one.clamp(max=two))

    def nextafter(self, x: TensorValue, towards: float) -> TensorValue:
        """The next double in a direction."""
        return TensorValue(torch.nextafter(x.tensor, self.tensor(towards)))

    def where(self, condition: TensorValue, x: Any, y: Any) -> TensorValue:
        """`x` where the condition holds, else `y`."""
        own = self.tensor(x) if isinstance(y, int | float) else self.operand(x)
        return TensorValue(torch.where(condition.tensor, *_alike(own, self.operand(y))))

    def concat(self, parts: Sequence[TensorValue], axis: int = 0) -> TensorValue:
        """Tensors one after another along an axis."""
        return TensorValue(torch.cat([part.tensor for part in parts], dim=axis))

    def stack(self, parts: Sequence[TensorValue], axis: int = 0) -> TensorValue:
        """On a new axis."""
        return TensorValue(torch.stack([part.tensor for part in parts], dim=axis))

    def full(self, shape: tuple[int, ...], value: Any) -> TensorValue:
        """A number in every entry."""
        return TensorValue(self.tensor(value).expand(shape).clone())

    def full_like(self, x: TensorValue, value: Any) -> TensorValue:
        """A number in every entry, in the shape and type of `x`."""
        return TensorValue(torch.full_like(x.tensor, value))

    def take_along_axis(self, x: TensorValue, index: TensorValue, axis: int) -> TensorValue:
        """One entry per row."""
        return TensorValue(x.tensor.gather(axis, index.tensor))

    def astype(self, x: TensorValue, dtype: Any) -> TensorValue:
        """Truth values, whole numbers or doubles."""
        kinds = {"b": torch.bool, "i": torch.int64, "u": torch.int64}
        return TensorValue(x.tensor.to(kinds.get(np.dtype(dtype).kind, torch.float64)))

    def iterates(self, running: TensorValue) -> bool:
        """Whether an iteration goes on."""
        return bool(running.tensor.any())

    def take(self, constants: Any, index: TensorValue) -> TensorValue:
        """Entries of a constant array, labels among them."""
        return TensorValue(self.tensor(constants)[index.tensor])

    def top_two(self, x: TensorValue, width: int) -> tuple[TensorValue, TensorValue]:
        """The largest and the second largest of each row, each of shape (m,)."""
        top = torch.topk(x.tensor, 2, dim=1).values
        return TensorValue(top[:, 0]), TensorValue(top[:, 1])

    def iterate(
        self, step: Any, state: TensorValue, given: Sequence[TensorValue], most: int
    ) -> TensorValue:
        """Rows of `state`, each changed by `step` while it says so, `most` times at most."""
        for _ in range(most):
            new, running = step(state, *given)
            if not bool(running.tensor.any()):
                break
            state = self.where(running[:, None], new, state)
        return state

    def function(self, name: str, x: TensorValue) -> TensorValue:
        """An elementary function by NumPy's name."""
        if name == "cbrt":
            return TensorValue(x.tensor.sign() * x.tensor.abs().pow(1.0 / 3.0))
        found: Any = getattr(torch, name, None)
        if found is None:
            raise UnsupportedModelError(f"torch has no function {name}.")
        return TensorValue(found(x.tensor))

    def interp(self, x: TensorValue, places: Any, values: Any) -> TensorValue:
        """Linear between the places, constant outside: as `numpy.interp`."""
        if len(places) == 1:
            return self.full_like(x, float(values[0]))
        tables = places, values, slopes_between(places, values)
        at, of, slope = (self.tensor(table) for table in tables)
        t = x.tensor.clamp(float(places[0]), float(places[-1]))
        before = (torch.searchsorted(at, t.contiguous(), right=True) - 1).clamp(0, len(at) - 1)
        return TensorValue(of[before] + slope[before] * (t - at[before]))
