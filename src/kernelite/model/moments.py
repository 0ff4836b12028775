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
from kernelite.data.rows.inputs import FloatArray, Rows, check_finite, is_tensor, plain_rows
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.variance import LatentVariance, Posterior
from kernelite.model.serving import of_tensor, part_rows, rows_and_runner
from kernelite.program.criteria import never
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.backends.cpu.moments import JointMoments, RowMoments
    from kernelite.backends.cpu.variance import Variances
    from kernelite.model.fields import ModelFields

__all__ = [
    "joint_answers",
    "latent_answers",
    "mean_and_spread",
    "posterior_of",
    "row_moments_of",
    "samples",
    "spread",
    "spread_bound",
    "variances_of",
]

PROBED_MOMENT_ROWS = 512  # rows that show how many eigenvectors are worth their products
JOINT_WORTH, FEWEST_JOINT = 2.0, 64  # rows per training row, and of a call, for all machines
JOINT_TOLERANCE = 2e-3  # of variances behind probabilities
STEEPEST_PROBABILITY = 0.06  # of a probability in its variance: 0.0488 at most, at a mean of 1.34
SHARES_OFF = 5e-4  # that a class's probability may be off by its variances
# That a thread takes at a time: tiles of variances, enough of them for what each call costs.
LEAST_MOMENT_ROWS_PER_THREAD, MOST_MOMENT_ROWS_PER_THREAD = 96, 480


def spread(model: ModelFields, X: Any, *, joint: bool) -> FloatArray:
    """Standard deviations of shape (m,) or (m, k), or covariances (m, m) or (m, m, k)."""
    if is_tensor(X) and not joint:
        return of_tensor(model, X, "deviations", lambda rows: spread(model, rows, joint=False))
    latent, (rows, runner) = model._latent, rows_and_runner(model, X)
    if not joint:
        return latent.posterior.deviations(_proven_variances(model, rows, runner)[0])
    found = runner.each(rows, lambda *seen: latent.covariance(seen), max(rows.shape[0], 1))
    return latent.posterior.scaled(found)


def mean_and_spread(model: ModelFields, X: Any) -> tuple[FloatArray, FloatArray] | None:
    """What `predict` and `spread` answer for one row, from the same kernel values; None if not.

    Rows that come so must be plain, near and settled: others take the longer way.
    """
    variances = model.__dict__.get("_variances")
    if variances is None or variances.alone is None:
        return None  # it is not worth it yet
    answers = model._row_moments
    row = None if answers is None else plain_rows(X, model.n_features_in_)
    if answers is None or row is None or len(row) != 1:
        return None
    variances.expects(1)
    if (input_map := model.preparation.input_map) is not None:
        row = input_map(row)
    found = answers(row)
    if found is None:
        return None
    scores, variance = found
    return model.head.predict(scores[None]), variances.posterior.deviations(np.array([variance]))


def row_moments_of(model: ModelFields) -> RowMoments | None:
    """What answers one row alone, laid out; None where that takes more than sums and a variance."""
    from kernelite.backends.cpu.moments import RowMoments

    whole = model.parts or model._has_steps or not model.preparation.rowwise
    proven = model.guarantee in ("certified", "exact") and model.head.scores_are_values
    if whole or not proven or model.expansion is None or model.tail is not None:
        return None
    points, rule = model.expansion.dense_centers()[:1], model._for_predict
    most = model._runner.bounds(points, never if model.guarantee == "exact" else rule).min(axis=0)
    if model.guarantee == "certified" and model.tolerance is not None:
        most = np.minimum(most, model.tolerance)
    mapped = model.preparation.input_map is not None
    answers = RowMoments.prepare(model._variances, model.expansion, most, mapped=mapped)
    # Variances are smallest at centers: where digits are lost there, they are lost elsewhere.
    return None if answers is None or answers(points) is None else answers


def spread_bound(model: ModelFields, X: Any) -> FloatArray:
    """How far standard deviations of `spread` may be off, in their shape."""
    from kernelite.backends.cpu.factors import deviation_bound

    rows, runner = rows_and_runner(model, X)
    for given in rows.rows if hasattr(rows, "rows") else (rows,):
        check_finite(given)
    found = _proven_variances(model, rows, runner, proven=True)
    bounds, tolerance = deviation_bound(*found), model._variances.tolerance
    if tolerance is not None:
        # Which rows an inverse answers depends on those before: each is within the tolerance.
        bounds = np.where(bounds <= tolerance, tolerance, bounds)
    scales = model._latent.posterior.output_scales
    every = np.multiply.outer(bounds, np.abs(scales) * (1.0 + 1e-12))
    return every[..., 0] if len(scales) == 1 else every


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
    given = part_rows(model, X).rows
    for rows in given:
        check_finite(rows)
    joint = _joint_moments(model, given)
    if joint is None:
        return _by_definition(model, given, method)
    runner, count = model.parts[0].model._runner, len(model.parts)

    def answer(seen: FloatArray) -> FloatArray:
        return np.hstack(joint(seen))

    block = _block(model.parts[0].model._latent, given[0].shape[0])
    found = runner.each(given[0], answer, block)
    means, variances, errors = (found[:, i * count : (i + 1) * count] for i in range(3))
    answers, still = _settled_answers(model, method, means, variances, errors)
    if len(still):
        answers[still] = _by_definition(model, [rows[still] for rows in given], method)
    return answers


def _by_definition(
    model: ModelFields, given: Sequence[Any], method: Literal["predict", "predict_proba"]
) -> NDArray[Any]:
    """The same, with the mean and variance of each machine computed by itself."""
    each = zip(model.parts, given)
    found = [_each(part.model._latent, rows, part.model._runner, _moments) for part, rows in each]
    means, variances, lost = np.stack(found, axis=2).transpose(1, 0, 2)
    _warn_of_lost(lost.any(axis=1))
    return model.head.from_moments(method, means, variances)


def _settled_answers(
    model: ModelFields,
    method: Literal["predict", "predict_proba"],
    means: FloatArray,
    variances: FloatArray,
    errors: FloatArray,
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Answers, and the rows whose variances are not known well enough for them."""
    each = model.head.machine_probabilities(means, variances)  # type: ignore[attr-defined]
    off = STEEPEST_PROBABILITY * errors
    if method == "predict":
        low = (each - off).max(axis=1)
        open_ = np.count_nonzero(each + off >= low[:, None], axis=1) > 1
        return model.head.from_moments(method, means, variances), np.flatnonzero(open_)
    total, lost = each.sum(axis=1), off.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = each / np.where(total != 0.0, total, 1.0)[:, None]
        off = (off + np.abs(shares) * lost[:, None]) / (total - lost)[:, None]
    settled = (total > lost) & (off <= SHARES_OFF).all(axis=1)
    return shares, np.flatnonzero(~settled)


def _joint_moments(model: ModelFields, given: Sequence[Any]) -> JointMoments | None:
    """What answers all machines at once, where that is worth it and the guarantee allows it."""
    if model.guarantee != "certified" or "predict_proba" not in model.head.offers:
        return None  # pairs of classes have no probabilities
    latent = model.parts[0].model._latent
    asked = model.__dict__.setdefault("_rows_asked", [0])
    asked[0] += given[0].shape[0]
    worth = JOINT_WORTH * len(latent.posterior.weights)
    if "_joint" not in model.__dict__ and asked[0] >= worth and given[0].shape[0] >= FEWEST_JOINT:
        from kernelite.backends.cpu.moments import JointMoments

        some = slice(0, min(given[0].shape[0], PROBED_MOMENT_ROWS))
        seen = model.parts[0].model._runner.dense(given[0], some)[0]
        machines = [part.model for part in model.parts]
        model.__dict__["_joint"] = JointMoments.prepare(
            [one._latent for one in machines],
            [one.preparation.input_map is not None for one in machines],
            seen,
            JOINT_TOLERANCE,
        )
    found: JointMoments | None = model.__dict__.get("_joint")
    return found


def _variances_of_all(model: ModelFields, X: Any) -> FloatArray:
    """Latent variances of all machines, shape (m, machines)."""
    if "predict" not in model.head.needs_posterior:  # one machine, whose sign is the label
        return _proven_variances(model, *rows_and_runner(model, X))[0][:, None]
    rows_of_parts = part_rows(model, X).rows
    variances = [
        _variances(part.model._latent, rows, part.model._runner)
        for part, rows in zip(model.parts, rows_of_parts)
    ]
    return np.column_stack(variances)


def _variances(latent: LatentVariance, rows: Rows, runner: Runner) -> FloatArray:
    """Latent variances of one machine, shape (m,)."""
    found = _each(latent, rows, runner, _variance)
    _warn_of_lost(found[:, 1])
    return found[:, 0]


def _proven_variances(
    model: ModelFields, rows: Rows, runner: Runner, *, proven: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Variances and how far they may be off, shape (m,) each."""
    variances, latent = model._variances, model._latent
    count = rows.shape[0]
    if variances.expects(count, proven=proven):
        variances.expect(count, runner.dense(rows, slice(0, min(count, PROBED_MOMENT_ROWS))))

    if count <= (block := _block(latent, count)):
        seen = runner.dense(rows, slice(0, count))
        found, errors = variances(seen)
        _warn_of_lost(latent.lost(seen, found))
        return found, errors

    def answer(*seen: FloatArray) -> FloatArray:
        found, errors = variances(seen)
        return np.stack([found, errors, latent.lost(seen, found)], axis=1)

    found = runner.each(rows, answer, block)
    _warn_of_lost(found[:, 2])
    return found[:, 0], found[:, 1]


def _variance(latent: LatentVariance, seen: Sequence[FloatArray]) -> FloatArray:
    """Variances, and whether their digits are lost: shape (m, 2)."""
    found = latent.variance(seen)
    return np.stack([found, latent.lost(seen, found)], axis=1)


def _moments(latent: LatentVariance, seen: Sequence[FloatArray]) -> FloatArray:
    """Means, variances, and whether the digits of these are lost: shape (m, 3)."""
    means, variances = latent.moments(seen)
    return np.stack([means, variances, latent.lost(seen, variances)], axis=1)


def _warn_of_lost(lost: NDArray[Any]) -> None:
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
    """Ask for blocks of rows; each thread solves with the kernel values of one at once."""
    return runner.each(rows, lambda *seen: answer(latent, seen), _block(latent, rows.shape[0]))


def _block(latent: LatentVariance, n_rows: int) -> int:
    """Rows that a thread takes at a time: its share, unless that is very few or very many."""
    most, threads = latent.posterior.block(), thread_count()
    if threads <= 1:
        return most
    share = max(-(-n_rows // (8 * threads)) * 8, LEAST_MOMENT_ROWS_PER_THREAD)
    return min(most, share, MOST_MOMENT_ROWS_PER_THREAD)


def variances_of(model: ModelFields) -> Variances:
    """The engine of a model's latent variances, laid out."""
    from kernelite.backends.cpu.variance import Variances

    machines: list[ModelFields] = [part.model for part in model.parts] or [model]
    mapped = [one.preparation.input_map is not None for one in machines]
    tolerance, latent = None, model._latent
    if model.guarantee == "certified" and model.tolerance is not None:
        scales = np.abs(latent.posterior.output_scales)
        if (scales > 0).all():
            tolerance = float((model.tolerance / scales).min()) * (1.0 - 1e-9)
    return Variances(latent, mapped, tolerance)


def posterior_of(model: ModelFields) -> tuple[Posterior, tuple[KernelExpansion, ...]]:
    """The posterior, and the expansions whose kernels are added up: one, or that of each part."""
    machines: list[ModelFields] = [part.model for part in model.parts] or [model]
    expansions = tuple(one.expansion for one in machines if one.expansion is not None)
    if model.posterior is None or len(expansions) < len(machines):
        raise InputError(
            "this model has no variance: it is not a Gaussian process, or its support vectors "
            "were not kept (guarantee='none')."
        )
    return model.posterior, expansions
