"""Every kernel in ball arithmetic, from its formula: what their bounds are checked against."""

from __future__ import annotations

from functools import singledispatch
from math import prod
from typing import Any

from flint import arb, ctx

from kernelite.machine import kernels as kl

__all__ = ["real_kernel"]


@singledispatch
def real_kernel(kernel: Any, x: list[Any], z: list[Any]) -> Any:
    """k(x, z) for vectors of balls."""
    raise NotImplementedError(type(kernel).__name__)


def _scaled_square(scales: tuple[float, ...], x: list[Any], z: list[Any]) -> Any:
    each = scales * len(x) if len(scales) == 1 else scales
    return sum((((a - b) / arb(s)) ** 2 for a, b, s in zip(x, z, each)), arb(0))


def _shaped_square(kernel: Any, x: list[Any], z: list[Any]) -> Any:
    return arb(kernel.epsilon) ** 2 * sum(((a - b) ** 2 for a, b in zip(x, z)), arb(0))


def _product(x: list[Any], z: list[Any]) -> Any:
    return sum((a * b for a, b in zip(x, z)), arb(0))


def _root(value: Any) -> Any:
    return arb(0) if value == 0 else value.sqrt()


@real_kernel.register
def _(kernel: kl.Rbf, x: list[Any], z: list[Any]) -> Any:
    return (-_scaled_square(kernel.length_scale, x, z) / 2).exp()


@real_kernel.register
def _(kernel: kl.Gaussian, x: list[Any], z: list[Any]) -> Any:
    return (-arb(kernel.gamma) * _scaled_square((1.0,), x, z)).exp()


@real_kernel.register
def _(kernel: kl.Matern, x: list[Any], z: list[Any]) -> Any:
    a = _root(_scaled_square(kernel.length_scale, x, z) * 2 * arb(kernel.nu))
    polynomial = {0.5: arb(1), 1.5: 1 + a, 2.5: 1 + a + a * a / 3}[kernel.nu]
    return polynomial * (-a).exp()


@real_kernel.register
def _(kernel: kl.RationalQuadratic, x: list[Any], z: list[Any]) -> Any:
    v = _scaled_square(kernel.length_scale, x, z) / (2 * arb(kernel.alpha))
    return (-arb(kernel.alpha) * (1 + v).log()).exp()


@real_kernel.register
def _(kernel: kl.ExpSineSquared, x: list[Any], z: list[Any]) -> Any:
    before, ctx.prec = ctx.prec, 1600  # sines of angles up to 1e204
    r = _root(_scaled_square((1.0,), x, z))
    wave = (arb.pi() * r / arb(kernel.periodicity)).sin() / arb(kernel.length_scale)
    ctx.prec = before
    return (-2 * wave * wave).exp()


@real_kernel.register
def _(kernel: kl.Multiquadric, x: list[Any], z: list[Any]) -> Any:
    return -(1 + _shaped_square(kernel, x, z)).sqrt()


@real_kernel.register
def _(kernel: kl.InverseMultiquadric, x: list[Any], z: list[Any]) -> Any:
    return 1 / (1 + _shaped_square(kernel, x, z)).sqrt()


@real_kernel.register
def _(kernel: kl.InverseQuadratic, x: list[Any], z: list[Any]) -> Any:
    return 1 / (1 + _shaped_square(kernel, x, z))


@real_kernel.register
def _(kernel: kl.ThinPlateSpline, x: list[Any], z: list[Any]) -> Any:
    square = _shaped_square(kernel, x, z)
    return arb(0) if square == 0 else square * square.log() / 2


@real_kernel.register
def _(kernel: kl.PowerSpline, x: list[Any], z: list[Any]) -> Any:
    sign = {1: -1, 3: 1, 5: -1}[kernel.power]
    return sign * _root(_shaped_square(kernel, x, z)) ** kernel.power


@real_kernel.register
def _(kernel: kl.Laplacian, x: list[Any], z: list[Any]) -> Any:
    return (-arb(kernel.gamma) * sum((abs(a - b) for a, b in zip(x, z)), arb(0))).exp()


def _chi_squared(x: list[Any], z: list[Any]) -> Any:
    return sum(((a - b) ** 2 / (a + b) for a, b in zip(x, z) if a + b != 0), arb(0))


@real_kernel.register
def _(kernel: kl.ChiSquared, x: list[Any], z: list[Any]) -> Any:
    return (-arb(kernel.gamma) * _chi_squared(x, z)).exp()


@real_kernel.register
def _(kernel: kl.AdditiveChiSquared, x: list[Any], z: list[Any]) -> Any:
    return -_chi_squared(x, z)


@real_kernel.register
def _(kernel: kl.PolynomialKernel, x: list[Any], z: list[Any]) -> Any:
    return (arb(kernel.gamma) * _product(x, z) + arb(kernel.coef0)) ** kernel.degree


@real_kernel.register
def _(kernel: kl.SigmoidKernel, x: list[Any], z: list[Any]) -> Any:
    return (arb(kernel.gamma) * _product(x, z) + arb(kernel.coef0)).tanh()


@real_kernel.register
def _(kernel: kl.CosineKernel, x: list[Any], z: list[Any]) -> Any:
    sizes = _product(x, x), _product(z, z)
    if any(size == 0 for size in sizes):
        return arb(0)
    return _product(x, z) / (sizes[0].sqrt() * sizes[1].sqrt())


@real_kernel.register
def _(kernel: kl.ProductKernel, x: list[Any], z: list[Any]) -> Any:
    return prod((real_kernel(one, x, z) for one in kernel.kernels), start=arb(1))


@real_kernel.register
def _(kernel: kl.SumKernel, x: list[Any], z: list[Any]) -> Any:
    pairs = zip(kernel.amplitudes, kernel.kernels)
    return sum((arb(a) * real_kernel(one, x, z) for a, one in pairs), arb(0))
