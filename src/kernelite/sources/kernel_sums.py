"""Models with a kernel of scikit-learn's algebra: of RBF kernels alone, or of any others.

A sum of RBF kernels is an expansion for each, with the same coefficients.

    k = sum_p amplitude_p k_p + constant
    sum_i alpha_i k(x_i, z) = sum_p [sum_i amplitude_p alpha_i k_p(x_i, z)] + constant sum_i alpha_i

In: alpha of a fitted estimator, and its kernel as a `KernelTree`. Out: a machine of one expansion,
or of a part for each RBF kernel, with its own gamma and its own map of the inputs. Where there are
other kernels, it is one expansion with a sum of products as its kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.exactly import UNIT, nearest
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.machine.machine import Machine, MachinePart, SumOfMachines
from kernelite.machine.preparation import NO_STEPS, Preparation
from kernelite.sources.common import scaled_outputs, sklearn_machine
from kernelite.sources.kernel_trees import KernelTree

__all__ = ["DualWeights", "kernel_machine"]


@dataclass(frozen=True, eq=False)
class DualWeights:
    """What stands before the kernel: scale (sum_i alpha_i k(x_i, z)) + shift, output by output.

    Parameters
    ----------
    alphas : ndarray of shape (n, k)
    sums : k fractions
        sum_i alpha_i, of alphas without any rounding.
    scales, shifts : k fractions each
        1 and 0 by default.
    units : float
        Relative roundings of each alpha.
    """

    alphas: FloatArray
    sums: list[Fraction]
    scales: list[Fraction] = field(default_factory=list)
    shifts: list[Fraction] = field(default_factory=list)
    units: float = 0.0

    def __post_init__(self) -> None:
        for name, default in (("scales", Fraction(1)), ("shifts", Fraction(0))):
            object.__setattr__(self, name, getattr(self, name) or [default] * len(self.sums))

    @property
    def scaled_sums(self) -> list[Fraction]:
        """scale sum_i alpha_i."""
        return [scale * total for scale, total in zip(self.scales, self.sums)]

    def constants(self, kernel: KernelTree) -> list[Fraction]:
        """shift + constant scale sum_i alpha_i: where alphas cancel, a large constant tells."""
        pairs = zip(self.scaled_sums, self.shifts)
        return [kernel.exact_constant * total + shift for total, shift in pairs]


def kernel_machine(
    model: Any,
    type_name: str,
    kernel: KernelTree,
    head: Head,
    *,
    rows: Any,
    weights: DualWeights,
    **more: Any,
) -> Machine:
    """The machine of an estimator with a kernel of scikit-learn's Gaussian processes.

    Parameters
    ----------
    model : estimator
    type_name : str
    kernel : KernelTree
    head : Head
    rows : array-like of shape (n, d)
        x_i.
    weights : DualWeights
    more
        Further fields of the `Machine`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from kernelite.sources import read
    >>> ridge = KernelRidge(kernel=RBF(1.0) + 2.0 * RBF(5.0)).fit([[0.0], [1.0]], [1.0, 3.0])
    >>> machine = read(ridge)
    >>> [part.machine.expansion.gamma for part in machine.expansion.parts]
    [0.5, 0.02]
    >>> bool(np.allclose(machine.scores([[0.5]])[:, 0], ridge.predict([[0.5]])))
    True
    """
    rows = np.asarray(rows, dtype=np.float64)
    if kernel.kernels:
        expansion = _tree_expansion(kernel, rows, weights)
        return sklearn_machine(model, type_name, expansion, head, **more)
    k = weights.alphas.shape[1]
    machines: list[Machine] = []
    for amplitude, scaling in zip(kernel.amplitudes, kernel.scalings()):
        centers = rows if scaling.input_map is None else scaling.input_map(rows)
        expansion = KernelExpansion(
            centers, amplitude * weights.alphas, np.zeros(k), gamma=scaling.gamma
        ).rounded(
            # alpha's own roundings, the amplitude's, and the product's.
            units=weights.units + kernel.units + 1.0,
            gamma=scaling.error,
            centers=0.0 if scaling.input_map is None else UNIT,
        )
        if machines:  # what is constant is added once, by the first
            expansion = scaled_outputs(expansion, weights.scales, [Fraction(0)] * k)
        else:
            expansion = _with_constants(expansion, kernel, weights)
        own = Preparation.of(scaling.input_map)
        machines.append(sklearn_machine(model, type_name, expansion, head, preparation=own, **more))
    first = machines[0]
    if len(machines) == 1:
        return first
    outputs = np.arange(head.n_scores)
    # The variance is one of all kernels together, so that no part has it.
    parts = tuple(MachinePart(replace(machine, posterior=None), outputs) for machine in machines)
    whole = SumOfMachines(parts, rows.shape[1], head.n_scores)
    description = (
        f"scikit-learn {type_name} with a sum of {len(parts)} RBF kernels, {len(rows)} support "
        "vectors"
    )
    return replace(first, expansion=whole, preparation=NO_STEPS, description=description)


def _tree_expansion(kernel: KernelTree, rows: FloatArray, weights: DualWeights) -> KernelExpansion:
    """One expansion; a single kernel's amplitude goes into the coefficients."""
    k = weights.alphas.shape[1]
    alphas, units = weights.alphas, weights.units
    if kernel.amplitude != 1.0:
        alphas, units = kernel.amplitude * alphas, units + 1.0
    units += kernel.units
    made = KernelExpansion(rows, alphas, np.zeros(k), kernel=kernel.kernel).rounded(units=units)
    return _with_constants(made, kernel, weights)


def _with_constants(
    expansion: KernelExpansion, kernel: KernelTree, weights: DualWeights
) -> KernelExpansion:
    """The expansion scaled as the weights are, with all constants in its intercept."""
    made = scaled_outputs(expansion, weights.scales, weights.constants(kernel))
    if not kernel.constant_error:
        return made
    lost = [nearest(abs(total)) * kernel.constant_error for total in weights.scaled_sums]
    return made.rounded(intercept=lost)
