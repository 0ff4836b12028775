"""What is proven of rows on a GPU, and standard deviations: answered where the rows are.

In: a compiled model and rows on a device. Out: bounds of the errors of what the device answers,
which rows are decided, and the deviations of a Gaussian process.

    variance = k(z, z) - |L^-1 (weights * k)|^2,    as `machine.variance` has it
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernelite.backends.torch.launches import block_rows
from kernelite.backends.torch.stages import Asked, settler
from kernelite.backends.torch.tensors import Formula, Tensor, TensorValue
from kernelite.machine.exactly import UNIT
from kernelite.program.criteria import Criterion, decision_tolerance, label_criterion, never
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.backends.torch.program import Program
    from kernelite.model.compiled import CompiledModel
    from kernelite.model.fields import ModelFields

__all__ = ["deviations"]


def decided(model: ModelFields, program: Program, rows: Tensor) -> Tensor:
    """Rows whose answer is proven, shape (m,): as `CompiledModel.decided`."""
    if model.guarantee == "calibrated":
        raise InputError("guarantee='calibrated' is statistical: no row's answer is proven.")
    if model.guarantee == "none":
        found, _ = program._found(rows, Asked(None, None))
        return program.head.settled(found.scores, found.bounds)
    return ~program.predict(rows).undecidable


def error_bound(model: CompiledModel, program: Program, rows: Tensor) -> Tensor:
    """A bound on the error of decision values, or else of scores: as `CompiledModel.error_bound`.

    Where values are served within a tolerance, it is at least that.
    """
    head: Any = model.head
    decides = "decision_function" in head.offers
    asked = model._for_decisions if decides else label_criterion(head, model.tolerance)
    rule = program.rule_of(asked)
    found, _ = program._found(rows, Asked(None, rule))
    bounds = torch.where(found.bounds.isnan(), math.inf, found.bounds)
    spread = model.tolerance
    if decides:
        formula: Formula = head.answer_bound
        bounds = formula("decision_function", TensorValue(found.scores), TensorValue(bounds)).tensor
        spread = decision_tolerance(head, model.tolerance, model.score_tolerance)  # type: ignore[assignment]
    if spread is not None and rule is not None and rule is not never:
        bounds = _at_least(program, rule, found, bounds, spread)
    return bounds.reshape(-1) if not decides and model._predicts_vectors else bounds


def _at_least(program: Program, rule: Criterion, found: Any, bounds: Tensor, spread: Any) -> Tensor:
    """Bounds, at least the tolerance where the rule holds: any stage may answer such rows."""
    settled = settler(program, rule)(found.scores, found.bounds)
    least = torch.as_tensor(np.max(spread) if bounds.ndim == 1 else spread, device=bounds.device)
    settled = settled if bounds.ndim == 1 else settled[:, None]
    return torch.where(settled, torch.maximum(bounds, least.double()), bounds)


def deviations(model: ModelFields, program: Program, rows: Tensor) -> Tensor:
    """Standard deviations of shape (m,), or (m, k) of several outputs."""
    posterior = model.posterior
    if posterior is None:
        raise InputError(
            "this model has no variance: it is not a Gaussian process, or its support vectors "
            "were not kept (guarantee='none')."
        )
    rows = program._checked(rows)
    factor, inverted = program.factors_of(posterior)
    size = max(1, min(block_rows(rows, program), (1 << 27) // max(len(posterior.weights), 1)))

    def solve(K: Tensor) -> Tensor:
        if inverted:  # one product, which is as good as solving
            return K @ factor.T
        return torch.linalg.solve_triangular(factor, K.T, upper=False).T

    parts = [_variances(program, posterior, solve, part) for part in rows.split(size)]
    variances, prior = (torch.cat(part) for part in zip(*parts))
    _warn(variances, 2.0 * UNIT * (len(posterior.weights) + 16) * prior)
    scales = torch.as_tensor(posterior.output_scales**2, device=rows.device)
    found = (variances.clamp(min=0.0)[:, None] * scales).sqrt()
    return found[:, 0] if len(scales) == 1 else found


def _variances(
    program: Program, posterior: Any, solve: Callable[[Tensor], Tensor], rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Latent variances of a block, and k(z, z), which they are what is left of: shapes (m,)."""
    n = len(posterior.weights)
    through = rows if program.front is None else program.front(rows)
    total = torch.full((len(rows), n), posterior.constant, dtype=torch.float64, device=rows.device)
    prior = torch.full((len(rows),), posterior.diagonal, dtype=torch.float64, device=rows.device)
    for amplitude, part in zip(np.atleast_1d(posterior.amplitude).tolist(), program.parts):
        seen = part.steps(through)
        total += amplitude * part.exact.kernel_values(seen)[:, :n]
        prior += amplitude * part.exact.varying(seen)
    total *= torch.as_tensor(posterior.weights, device=rows.device)
    left = prior - solve(total).square().sum(dim=1)
    return torch.where(torch.isfinite(left), left, prior), prior


def _warn(variances: Tensor, least: Tensor) -> None:
    """Warn of variances that rounding left no digits of; the host waits for their number."""
    lost, negative = torch.stack([variances <= least, variances < 0.0]).sum(dim=1).tolist()
    if lost:
        warnings.warn(
            f"variances of {lost:,} of {len(variances):,} rows have lost all digits to "
            "cancellation, and so have their standard deviations; center the features before "
            "fitting.",
            stacklevel=5,
        )
    if negative:
        warnings.warn(
            "Predicted variances smaller than 0. Setting those variances to 0.", stacklevel=5
        )
