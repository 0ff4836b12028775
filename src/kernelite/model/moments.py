"""What a compiled Gaussian process answers besides its mean: variances, and what follows from them.

In: a compiled model with a posterior (or parts that have one each), and rows. Out: exact latent
variances, standard deviations, covariances, probabilities; in blocks of rows, except covariances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.runner import Runner
from kernelite.backends.cpu.threads import thread_count
from kernelite.data.rows.inputs import FloatArray, Rows, check_finite
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.variance import LatentVariance, Posterior
from kernelite.model.serving import part_rows, rows_and_runner
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["joint_answers", "latent_answers", "posterior_of", "samples", "spread"]

SHARED_ROWS = 512  # that a thread takes at a time, at most: with few, solving is slower


def spread(model: ModelFields, X: Any, *, joint: bool) -> FloatArray:
    """Standard deviations of shape (m,) or (m, k), or covariances (m, m) or (m, m, k)."""
    latent, (rows, runner) = model._latent, rows_and_runner(model, X)
    if not joint:
        return latent.posterior.deviations(_variances(latent, rows, runner))
    found = runner.each(rows, lambda *seen: latent.covariance(seen), max(rows.shape[0], 1))
    return latent.posterior.scaled(found)


def samples(mean: FloatArray, covariance: FloatArray, count: int, random_state: Any) -> FloatArray:
    """Draws of shape (m, count), or (m, k, count), in the order of scikit-learn's own."""
    rng = _generator(random_state)
    if mean.ndim == 1:
        return rng.multivariate_normal(mean, covariance, count).T
    outputs = [
        rng.multivariate_normal(mean[:, k], covariance[..., k], count).T
        for k in range(mean.shape[1])
    ]
    return np.stack(outputs, axis=1)


def _generator(random_state: Any) -> Any:
    """What scikit-learn draws from: NumPy's global generator, one with a seed, or the given one."""
    if random_state is None or random_state is np.random:
        return np.random.mtrand._rand
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if isinstance(random_state, Integral):
        return np.random.RandomState(int(random_state))
    raise InputError(
        f"`random_state` must be None, a whole number or a RandomState, got {random_state!r}."
    )


def latent_answers(
    model: ModelFields, X: Any, method: Literal["predict", "predict_proba"], means: FloatArray
) -> NDArray[Any]:
    """Labels (m,) or probabilities (m, K), from exact means (m, machines) and variances."""
    return model.head.from_moments(method, means, _variances_of_all(model, X))


def joint_answers(
    model: ModelFields, X: Any, method: Literal["predict", "predict_proba"]
) -> NDArray[Any]:
    """As `latent_answers` of several machines, whose means need no kernel values of their own."""
    found = []
    for part, rows in zip(model.parts, part_rows(model, X).rows):
        check_finite(rows)
        found.append(_each(part.model._latent, rows, part.model._runner, _moments))
    means, variances, lost = np.stack(found, axis=2).transpose(1, 0, 2)
    _warn_of_lost(lost.any(axis=1))
    return model.head.from_moments(method, means, variances)


def _variances_of_all(model: ModelFields, X: Any) -> FloatArray:
    """Latent variances of all machines, shape (m, machines)."""
    if "predict" not in model.head.needs_posterior:  # one machine, whose sign is the label
        return _variances(model._latent, *rows_and_runner(model, X))[:, None]
    rows_of_parts = part_rows(model, X).rows
    variances = [
        _variances(part.model._latent, rows, part.model._runner)
        for part, rows in zip(model.parts, rows_of_parts)
    ]
    return np.column_stack(variances)


def _variances(latent: LatentVariance, rows: Rows, runner: Runner) -> FloatArray:
    """Shape (m,)."""
    found = _each(latent, rows, runner, _variance)
    _warn_of_lost(found[:, 1])
    return found[:, 0]


def _variance(latent: LatentVariance, seen: Sequence[FloatArray]) -> FloatArray:
    """Variances, and whether their digits are lost: shape (m, 2)."""
    found = latent.variance(seen)
    return np.stack([found, latent.lost(seen, found)], axis=1)


def _moments(latent: LatentVariance, seen: Sequence[FloatArray]) -> FloatArray:
    """Means, variances, and whether the digits of these are lost: shape (m, 3)."""
    means, variances = latent.moments(seen)
    return np.stack([means, variances, latent.lost(seen, variances)], axis=1)


def _warn_of_lost(lost: FloatArray) -> None:
    if lost.any():
        warnings.warn(
            f"variances of {int(np.count_nonzero(lost)):,} of {len(lost):,} rows have lost all "
            "digits to cancellation, and so have what follows from them: standard deviations, "
            "probabilities, labels of three classes; center the features before fitting.",
            stacklevel=5,
        )


def _each(
    latent: LatentVariance,
    rows: Rows,
    runner: Runner,
    answer: Callable[[LatentVariance, Sequence[FloatArray]], FloatArray],
) -> FloatArray:
    """Each thread has rows of its own, whose kernel values it solves with at once."""
    most = latent.posterior.block()
    block = min(most, SHARED_ROWS) if thread_count() > 1 else most
    return runner.each(rows, lambda *seen: answer(latent, seen), block)


def posterior_of(model: ModelFields) -> tuple[Posterior, tuple[KernelExpansion, ...]]:
    """With the expansions whose kernels are added up: one, or that of each part."""
    machines: list[ModelFields] = [part.model for part in model.parts] or [model]
    expansions = tuple(one.expansion for one in machines if one.expansion is not None)
    if model.posterior is None or len(expansions) < len(machines):
        raise InputError(
            "this model has no variance: it is not a Gaussian process, or its support vectors "
            "were not kept (guarantee='none')."
        )
    return model.posterior, expansions
