"""Sums over centers of a kernel's values and derivatives, with bounds: what is laid out once.

In: an expansion, rows as it sees them. Out: values (m, k), derivatives (m, k, d), and how far each
may be off. `gradients` has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernelite.backends.cpu.runner import Runner
from kernelite.backends.cpu.staging import stage_model
from kernelite.backends.cpu.threads import for_each_chunk
from kernelite.data.rows.inputs import FloatArray, row_blocks
from kernelite.explain.slopes import Slope, factors_of, slope_of
from kernelite.machine.exactly import UNIT
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.bounded import spelled_out
from kernelite.program.criteria import never

__all__ = ["Centers", "Derived", "Placed"]

MOST_OUTPUTS_PER_PASS = 256  # outputs that the engine's kernel sums in one pass
SUMS_PER_BLOCK = 1 << 18  # sums of a block of rows: 2 MB
PAIRS_AT_ONCE = 1 << 16  # rows times centers of a block: half a megabyte an array
LOST_BY_UNDERFLOW = 1e-280  # more than all that underflows


@dataclass(frozen=True, eq=False)
class Derived:
    """Scores and their derivatives: (m, k) and (m, k, d), and how far each may be off."""

    values: FloatArray
    gradients: FloatArray
    value_bounds: FloatArray
    bounds: FloatArray


@dataclass(frozen=True, eq=False)
class Centers:
    """The centers of an expansion about their middle, where that changes no kernel.

    Parameters
    ----------
    expansion : KernelExpansion
    point : ndarray of shape (d,)
        The middle, or zeros.
    about : ndarray of shape (n, d)
        Centers less the point.
    far : ndarray of shape (d,)
        The largest of their sizes.
    moves : ndarray of shape (d,)
        How far a center's coordinate may be off, and what taking the point away rounds of it.
    """

    expansion: KernelExpansion
    point: FloatArray
    about: FloatArray
    far: FloatArray
    moves: FloatArray

    @classmethod
    def of(cls, expansion: KernelExpansion) -> Centers:
        """Lay out the centers of one machine."""
        centers, known = expansion.dense_centers(), expansion.known
        moves = 1.01 * known.centers * np.abs(centers).max(axis=0, initial=0.0)
        if not (expansion.kernel.damps and len(centers)):
            far = np.abs(centers).max(axis=0, initial=0.0)
            return cls(expansion, np.zeros(centers.shape[1]), centers, far, moves)
        point = centers.mean(axis=0)
        about = centers - point
        far = np.abs(about).max(axis=0)
        return cls(expansion, point, about, far, moves + UNIT * far)

    def derived(self, rows: FloatArray, moves: FloatArray, *, bounds: bool) -> Derived:
        """Scores, without the intercept, and derivatives of rows (m, d) that may be off by `moves`.

        Without `bounds` neither of them is to be used.
        """
        (m, d), k = rows.shape, self.expansion.n_outputs
        shapes = ((m, k), (m, k, d), (m, k), (m, k, d))
        placed = Placed.of(self, rows, moves)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self._sums is not None:
                out = Derived(*(np.empty(shape) for shape in shapes))
                self._sums.fill(rows, placed, out, bounds)
            else:
                out = Derived(*(np.zeros(shape) for shape in shapes))
                step = max(8, PAIRS_AT_ONCE // max(self.expansion.n_centers, 1))
                for_each_chunk(lambda part: placed.add(part, out, bounds), m, step, blas=True)
            # A sum with NaN is NaN: one number tells of all.
            if bounds and np.isnan(out.bounds.sum() + out.gradients.sum()):
                out.bounds[np.isnan(out.bounds) | np.isnan(out.gradients)] = np.inf
            if bounds and np.isnan(out.value_bounds.sum() + out.values.sum()):
                out.value_bounds[np.isnan(out.value_bounds) | np.isnan(out.values)] = np.inf
        return out

    @cached_property
    def _sums(self) -> _EngineSums | None:
        k, d = self.expansion.n_outputs, self.expansion.n_features
        served = self.expansion.kernel.damps and self.expansion.n_centers > 0
        if not served or not 0 < k * (d + 1) <= MOST_OUTPUTS_PER_PASS:
            return None
        return _EngineSums.of(self)


@dataclass(frozen=True, eq=False)
class _EngineSums:
    """Sums of an RBF kernel by the exact engine: values and derivatives in one pass.

    With s_i = x_i - p, T_0 = sum_i A_i K_i and T_l = sum_i A_i s_il K_i,

        grad_l f(z) = -2 gamma ((z - p)_l T_0 - T_l).

    The engine bounds both sums for the centers and rows that it is given, the errors of the new
    coefficients included: two roundings each, and what is not known of A_i and x_i. A row that is
    off by eta moves K by at most eta sqrt(2 gamma / e), the steepest slope there is.

    Parameters
    ----------
    runner : Runner
        Of k (d + 1) outputs.
    sizes : ndarray of shape (k, d + 1)
        Their coefficients' sizes, added up.
    expansion : KernelExpansion
    """

    runner: Runner
    sizes: FloatArray
    expansion: KernelExpansion

    @classmethod
    def of(cls, laid_out: Centers) -> _EngineSums:
        """Lay the sums out."""
        expansion, known, about = laid_out.expansion, laid_out.expansion.known, laid_out.about
        centers, A = expansion.dense_centers(), expansion.coefficients
        (n, d), k = centers.shape, A.shape[1]
        columns = np.concatenate([A[:, :, None], A[:, :, None] * about[:, None, :]], axis=2)
        sizes = np.abs(columns).sum(axis=0)
        lost = np.empty((k, d + 1))
        lost[:, :1] = known.coefficients[:, None]
        lost[:, 1:] = 4.0 * UNIT * sizes[:, 1:] + 1.01 * known.coefficients[:, None] * laid_out.far
        lost[:, 1:] += 1.01 * known.centers * (np.abs(A).T @ np.abs(centers))
        none = np.zeros(k * (d + 1))
        moved = replace(
            expansion,
            coefficients=columns.reshape(n, -1),
            intercept=none,
            uncertainty=replace(known, coefficients=lost.ravel(), intercept=none),
        )
        return cls(stage_model(None, moved), sizes, expansion)

    def fill(self, rows: FloatArray, placed: Placed, out: Derived, bounds: bool) -> None:
        """Fill `out`; its bounds only where they are asked for."""
        (m, d), k = rows.shape, self.expansion.n_outputs
        for kept in row_blocks(m, max(64, SUMS_PER_BLOCK // (k * (d + 1)))):
            found = self.runner.evaluate(rows, kept, never)
            T = found.scores.reshape(-1, k, d + 1)
            z, T0 = placed.rows[kept][:, None, :], T[:, :, :1]
            out.values[kept] = T[:, :, 0]
            slopes = np.multiply(z, T0, out=out.gradients[kept])
            slopes -= T[:, :, 1:]
            slopes *= -2.0 * self.expansion.gamma
            if bounds:
                assert found.bounds is not None
                self._bound(kept, T, spelled_out(found.bounds), placed, out)

    def _bound(
        self, kept: slice, T: FloatArray, off: FloatArray, placed: Placed, out: Derived
    ) -> None:
        gamma = self.expansion.gamma
        steep = math.sqrt(2.0 * gamma / math.e) * 1.001 * placed.moved[kept]
        wide = off.reshape(T.shape) + steep[:, :, None] * self.sizes
        z, sizes = np.abs(placed.rows[kept])[:, None, :], np.abs(T)
        out.value_bounds[kept] = wide[:, :, 0] + LOST_BY_UNDERFLOW
        # |z| off_0 + moves |T_0| + off_l + units (|z| (|T_0| + off_0) + |T_l|)
        units = 8.0 * UNIT + 1.01 * self.expansion.known.gamma
        total = np.multiply(z, (1.0 + units) * wide[:, :, :1] + units * sizes[:, :, :1])
        total += placed.moves[kept][:, None, :] * sizes[:, :, :1]
        total += wide[:, :, 1:]
        sizes *= units
        total += sizes[:, :, 1:]
        total *= 2.1 * gamma
        total += LOST_BY_UNDERFLOW
        out.bounds[kept] = total


@dataclass(frozen=True, eq=False)
class Placed:
    """Rows about the point that centers are about."""

    rows: FloatArray
    moved: FloatArray  # (m, 1): how far a row and a center may be off, together
    moves: FloatArray  # (m, d): likewise, of each coordinate
    laid_out: Centers

    @classmethod
    def of(cls, laid_out: Centers, rows: FloatArray, moves: FloatArray) -> Placed:
        """Place rows as an expansion sees them; they may be off by `moves`."""
        expansion, moves = laid_out.expansion, moves + laid_out.moves
        if expansion.kernel.damps:
            rows = rows - laid_out.point
            moves += UNIT * np.abs(rows)
        with np.errstate(over="ignore"):
            moved = 1.01 * np.sqrt(np.einsum("ij,ij->i", moves, moves))[:, None]
            if gamma := expansion.known.gamma:  # moves a row away from each center by half of it
                norms = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
                spread = laid_out.far.max(initial=0.0) * np.sqrt(rows.shape[1])
                moved = moved + 0.505 * gamma * (norms + spread)
        return cls(rows, moved, moves, laid_out)

    def add(self, part: slice, out: Derived, bounds: bool) -> None:
        """Add values and derivatives of some rows, and their bounds where these are asked for."""
        Z = self.rows[part]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for amplitude, kernels in factors_of(self.laid_out.expansion):
                each = [slope_of(one, Z, self.laid_out.about, self.moved[part]) for one in kernels]
                for output in range(out.values.shape[1]):
                    A = amplitude * self.laid_out.expansion.coefficients[:, output]
                    out.values[part, output] += _value(each) @ A
                    for one, factors in _derived(each):
                        out.gradients[part, output] += self._sum(part, one, _value(factors) * A)
                    if bounds:
                        self._bound(part, out, output, amplitude, each)

    def weighted(
        self, part: slice, weights: FloatArray, off: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """sum_i W_i grad k(x_i, z) for weights of each row's own, (m, n), and its error: (m, d).

        `off`, of shape (m, 1), is how far a row's weights may be off, by their norm; None where no
        error is asked for.
        """
        Z, C = self.rows[part], self.laid_out.about
        found, error = np.zeros_like(Z), np.zeros_like(Z)
        for amplitude, kernels in factors_of(self.laid_out.expansion):
            mine = amplitude * weights
            for one, factors in _derived([slope_of(k, Z, C, self.moved[part]) for k in kernels]):
                slope = _value(factors)
                found += self._sum(part, one, mine * slope)
                if off is None:
                    continue
                lost = _error(factors)
                size = np.abs(slope) + lost
                bound = np.abs(mine) * (lost + self._units * size)
                error += 1.05 * self._sum_error(part, one, mine * slope, bound)
                error += amplitude * off * self._length(part, one, size) + LOST_BY_UNDERFLOW
        return found, error

    @property
    def _units(self) -> float:
        """What a sum over centers rounds, and a rate that is not quite known."""
        known = self.laid_out.expansion.known
        return UNIT * (len(self.laid_out.about) + 10.0) + known.gamma

    def _bound(
        self, part: slice, out: Derived, output: int, amplitude: float, each: list[Slope]
    ) -> None:
        A = np.abs(amplitude * self.laid_out.expansion.coefficients[:, output])
        lost = 1.01 * amplitude * float(self.laid_out.expansion.known.coefficients[output])
        value, error = np.abs(_value(each)), _error(each)
        sizes = (error + self._units * value) @ A
        farthest = (value + error).max(axis=1, initial=0.0)
        out.value_bounds[part, output] += 1.05 * sizes + lost * farthest + LOST_BY_UNDERFLOW
        for one, factors in _derived(each):
            slope, off = np.abs(_value(factors)), _error(factors)
            size = slope + off
            grown = self._sum_error(part, one, slope * A, (off + self._units * size) * A)
            out.bounds[part, output] += 1.05 * grown + LOST_BY_UNDERFLOW
            if lost:
                most = lost * size.max(axis=1, initial=0.0)
                out.bounds[part, output] += most[:, None] * self._reach(part, one)

    def _reach(self, part: slice, one: Slope) -> FloatArray:
        """The most that a derivative's vector is, coordinate by coordinate."""
        far = self.laid_out.far
        if one.shape == "dot":
            return far[None, :]
        if one.shape == "sign":
            return np.ones((1, len(far)))
        return (np.abs(self.rows[part]) + far) * one.inverse

    def _length(self, part: slice, one: Slope, sizes: FloatArray) -> FloatArray:
        """The root of sum_i (h_i (z - x_i)_l)^2, at most, where |h_i| are `sizes`: (m, d)."""
        squares = np.square(sizes)
        if one.shape != "gap":
            return 1.01 * np.sqrt(squares.sum(axis=1, keepdims=True)) * self._reach(part, one)
        Z, C = np.abs(self.rows[part]) + self.moves[part], self.laid_out.about
        both = np.square(Z) * squares.sum(axis=1, keepdims=True) + squares @ np.square(C)
        return 1.01 * np.sqrt(2.0 * both) * one.inverse

    def _sum(self, part: slice, one: Slope, weights: FloatArray) -> FloatArray:
        """sum_i W_i times z - x_i, x_i or sign(z - x_i): shape (m, d)."""
        Z, C = self.rows[part], self.laid_out.about
        if one.shape == "dot":
            return weights @ C
        if one.shape == "gap":
            return (Z * weights.sum(axis=1, keepdims=True) - weights @ C) * one.inverse
        return np.stack([w @ np.sign(z - C) for z, w in zip(Z, weights)])

    def _sum_error(
        self, part: slice, one: Slope, weights: FloatArray, bound: FloatArray
    ) -> FloatArray:
        """How far such a sum may be off, where each weight may be by `bound`: shape (m, d)."""
        Z, C, moves = self.rows[part], self.laid_out.about, self.moves[part]
        sizes = np.abs(weights).sum(axis=1, keepdims=True)
        if one.shape == "dot":
            return bound @ np.abs(C) + sizes * moves
        if one.shape == "gap":
            grown = np.abs(Z) * bound.sum(axis=1, keepdims=True) + bound @ np.abs(C)
            return (grown + sizes * moves) * one.inverse
        grown = np.repeat(bound.sum(axis=1, keepdims=True), Z.shape[1], axis=1)
        for row in range(len(Z)):
            kinks = (np.abs(Z[row] - C) <= moves[row]) & (weights[row] != 0.0)[:, None]
            grown[row][kinks.any(axis=0)] = np.inf
        return grown


def _derived(each: list[Slope]) -> Iterator[tuple[Slope, list[Slope]]]:
    """The product rule: each factor with the factors of the product that has its derivative."""
    for place, one in enumerate(each):
        yield one, [one.as_value(), *each[:place], *each[place + 1 :]]


def _value(each: list[Slope]) -> FloatArray:
    """The product of values."""
    value = each[0].value
    for one in each[1:]:
        value = value * one.value
    return value


def _error(each: list[Slope]) -> FloatArray:
    """How far the product of values may be off."""
    value, error = each[0].value, each[0].value_error
    for one in each[1:]:
        grown = error * (np.abs(one.value) + one.value_error) + np.abs(value) * one.value_error
        value = value * one.value
        error = grown + UNIT * np.abs(value)
    return error
