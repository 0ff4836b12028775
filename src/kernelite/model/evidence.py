"""Whether a model's forms are those of its support vectors: what a file says is not yet so.

In: a model with forms and an expansion, perhaps from a file that was changed. Out: sentences about
what disagrees. Forms are compared with the expansion on rows that nobody can foresee, in random
directions from their points: close to a point the bound shrinks like |u|^3, so that a change of any
coefficient shows. `deep` compares more rows, and computes the certificate again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from kernelite.backends.cpu.approximation import ApproximationEngine
from kernelite.backends.cpu.forms import certify
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.model.fields import ModelFields
from kernelite.program.bounded import spelled_out
from kernelite.series.approximation import Approximation
from kernelite.series.certificate import Certificate
from kernelite.series.rounding import UNIT

__all__ = ["disagreements"]

NEARNESS = 0.0, 1e-5, 1e-3, 1e-3, 0.01  # 2 gamma |u|^2 of the rows that loading compares,
DEEP = (*NEARNESS, *np.geomspace(1e-8, 30.0, 60).tolist())  # and that a deep check does
ROUNDED = 1e-6  # relative: sums in another order differ by less


def disagreements(model: ModelFields, *, deep: bool = False) -> Iterator[str]:
    """What contradicts the support vectors, a sentence each; nothing where there are none.

    Parameters
    ----------
    model : CompiledModel
    deep : bool
        Compare many rows, and compute the certificate again: as long as compiling takes.

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> list(disagreements(kernelite.compile(bump, guarantee="exact"), deep=True))
    []
    """
    for part in model.parts:
        yield from disagreements(part.model, deep=deep)
    expansion, approximation = model.expansion, model.approximation
    if expansion is None or approximation is None:
        return
    mapped, rng = model.preparation.input_map is not None, np.random.default_rng()
    if approximation.certificate is None:  # calibrated: tested on rows, never proven
        return
    if not _agrees(expansion, approximation, DEEP if deep else NEARNESS, rng):
        yield "the form disagrees with the support vectors by more than its certificate says"
    elif deep:
        again = certify(expansion, approximation.form.point, mapped=mapped)
        if short := _below(approximation.certificate, again):
            yield f"the certificate of the form is too small: {', '.join(short)}"


def _agrees(
    expansion: KernelExpansion,
    approximation: Approximation,
    nearness: tuple[float, ...],
    rng: np.random.Generator,
) -> bool:
    """Whether both forms are within their bounds on random rows about their point."""
    point = approximation.form.point
    directions = rng.normal(size=(len(nearness), len(point)))
    directions /= np.sqrt(np.square(directions).sum(axis=1, keepdims=True))
    width = 2.0 * expansion.gamma if expansion.kernel.damps else 1.0 / _scale(expansion.squares)
    rows = point + directions * np.sqrt(np.array(nearness) / width)[:, None]
    engine = ApproximationEngine.prepare(approximation, fused=False)
    with np.errstate(all="ignore"):
        found = [engine.first.run(rows)]
        if approximation.has_second_form:
            found.append(engine.second(rows))
        exact, slack = _exact(expansion, rows)
        for each in found:
            assert each.bounds is not None  # there is a certificate
            if (np.abs(each.scores - exact) > spelled_out(each.bounds) + slack).any():
                return False
    return True


def _scale(squares: FloatArray) -> float:
    """The mean of |x|^2, or 1 where that is no size."""
    total = float(squares.sum())
    return total / len(squares) if 0.0 < total < np.inf else 1.0


def _exact(expansion: KernelExpansion, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f and by how much it may be off here, by one product with the centers: each (m, k)."""
    squares, values = expansion.squares, np.asarray(expansion.centers @ rows.T)  # overwritten
    own = np.square(rows).sum(axis=1)
    reach = np.square(np.sqrt(squares.max(initial=0.0)) + np.sqrt(own))
    gamma, units = expansion.gamma, 8.0 * (expansion.n_features + expansion.n_centers + 64)
    if expansion.kernel.damps:
        values *= -2.0
        values += squares[:, None]
        values += own
        values *= -gamma
        np.exp(values, out=values)
        largest = 1.0 + gamma * reach
    else:
        values *= gamma
        values += expansion.coef0
        values *= values
        largest = np.square(gamma * reach + abs(expansion.coef0))
    scores = values.T @ expansion.coefficients + expansion.intercept
    sizes = np.abs(expansion.coefficients).sum(axis=0)
    slack = np.multiply.outer(largest, sizes) + np.abs(expansion.intercept)
    return scores, UNIT * units * slack


def _below(stored: Certificate, again: Certificate) -> list[str]:
    """Names of the stored constants that are smaller than when computed again."""
    pairs: list[tuple[str, Any, Any]] = [("rho", stored.rho, again.rho)]
    for field in fields(again.rounding):
        both = (getattr(one.rounding, field.name) for one in (stored, again))
        pairs.append((field.name, *both))
    return [name for name, had, is_now in pairs if np.any(had < np.multiply(1 - ROUNDED, is_now))]
