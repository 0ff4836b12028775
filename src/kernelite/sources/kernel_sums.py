"""A model whose kernel is a sum of RBF kernels: an expansion for each, with the same coefficients.

    k = sum_p amplitude_p k_p + constant
    sum_i alpha_i k(x_i, z) = sum_p [sum_i amplitude_p alpha_i k_p(x_i, z)] + constant sum_i alpha_i

In: alpha of a fitted estimator, and its kernel reduced to a `Covariance`. Out: a source of one
expansion, or of a part for each kernel, with its own gamma and its own map of the inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelite.expansion import KernelExpansion
from kernelite.head import Head
from kernelite.inputs import FloatArray
from kernelite.sources.gaussian_process_kernels import Covariance
from kernelite.sources.parts import CompositeExpansion, Part
from kernelite.sources.sklearn_common import sklearn_source
from kernelite.sources.source import Source

__all__ = ["kernel_source"]


def kernel_source(
    model: Any,
    type_name: str,
    kernel: Covariance,
    head: Head,
    *,
    rows: Any,
    alphas: FloatArray,
    intercept: FloatArray,
    **more: Any,
) -> Source:
    """The source of an estimator with a kernel of scikit-learn's Gaussian processes.

    Parameters
    ----------
    model : estimator
    type_name : str
    kernel : Covariance
    head : Head
    rows : array-like of shape (n, d)
        x_i.
    alphas : ndarray of shape (n, k)
    intercept : ndarray of shape (k,)
        b, without what the kernel's constant adds.
    more
        Further fields of the `Source`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from kernelite.sources import read
    >>> ridge = KernelRidge(kernel=RBF(1.0) + 2.0 * RBF(5.0)).fit([[0.0], [1.0]], [1.0, 3.0])
    >>> source = read(ridge)
    >>> [part.source.expansion.gamma for part in source.expansion.parts]
    [0.5, 0.02]
    >>> bool(np.allclose(source.scores([[0.5]])[:, 0], ridge.predict([[0.5]])))
    True
    """
    rows = np.asarray(rows, dtype=np.float64)
    machines: list[Source] = []
    for amplitude, (input_map, gamma) in zip(kernel.amplitudes, kernel.scalings()):
        centers = rows if input_map is None else input_map(rows)
        # What is constant is added once, by the first.
        own = intercept * 0.0 if machines else intercept + kernel.constant * alphas.sum(axis=0)
        expansion = KernelExpansion(centers, amplitude * alphas, own, gamma=gamma)
        machines.append(
            sklearn_source(model, type_name, expansion, head, input_map=input_map, **more)
        )
    first = machines[0]
    if len(machines) == 1:
        return first
    outputs = np.arange(head.n_scores)
    # The variance is one of all kernels together, so that no part has it.
    parts = tuple(Part(replace(machine, posterior=None), outputs) for machine in machines)
    whole = CompositeExpansion(parts, rows.shape[1], head.n_scores)
    description = (
        f"scikit-learn {type_name} with a sum of {len(parts)} RBF kernels, {len(rows)} support "
        "vectors"
    )
    return replace(first, expansion=whole, input_map=None, description=description)
