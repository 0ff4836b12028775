"""Whether a compiled model holds together, and whether its forms are those of its support vectors.

First whether scores can overflow, then whether fields contradict each other or the guarantee; they
may come from a file. Last, forms are compared with the expansion on rows that nobody can foresee,
in random directions from their points: close to a point the bound shrinks like |u|^3, so that a
change of any coefficient shows. `deep` compares more rows, and computes the certificate again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelite.backends.cpu.approximation import ApproximationEngine
from kernelite.backends.cpu.forms import certify
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import Reach
from kernelite.program.bounded import spelled_out
from kernelite.series.approximation import Approximation, Certificate
from kernelite.series.rounding import UNIT
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["check_model", "disagreements"]

# Whether a model's numbers can overflow: scores would be infinite, and their differences NaN.

LARGEST_SCORE = 1e290  # leaves room for heads to add, scale and square a little


def check_overflow(model: ModelFields) -> None:
    """Refuse a model of which a score could overflow, and a density that could be negative.

    |f(z)| is at most sum_i |A_i| + |b| for an RBF kernel. Polynomial kernels grow with the row,
    whatever the coefficients: there it is for rows of norm 1, and a longer row whose scores
    overflow is undecidable.
    """
    expansion = model.expansion
    with np.errstate(over="ignore", invalid="ignore"):
        if expansion is not None:
            if expansion.kernel.shifts and not np.isfinite(expansion.squares).all():
                # Of a row that steps make infinite, nobody could say how far it is from them.
                raise InputError("the support vectors are so large that distances overflow.")
            known = expansion.kernel.proven and not expansion.kernel.damps
            largest = _largest_values(expansion) if known else 1.0
            total = (np.abs(expansion.coefficients) * largest).sum(axis=0)
            total += np.abs(expansion.intercept)
            _check(total, "coefficients and intercept of the expansion")
        for name, array in _of_forms(model):
            _check(np.abs(array).sum(), f"`{name}` of a form")
    if expansion is not None and model.head.kind == "density":
        if (expansion.coefficients < 0).any():
            raise InputError("a density has no negative coefficients.")
        if not expansion.kernel.peaks:
            raise InputError("a density is a sum of bumps, such as RBF kernels, not of others.")


def _largest_values(expansion: KernelExpansion) -> FloatArray:
    """(gamma |x_i| + |coef0|)^2 of a polynomial kernel, shape (n, 1): for rows of norm 1."""
    if not expansion.has_series:
        return _largest_of(expansion)
    # |x_i| by absolute values: their squares would overflow for centers that are served.
    norms = np.asarray(abs(expansion.centers).sum(axis=1)).reshape(-1, 1)
    return (expansion.gamma * norms + abs(expansion.coef0)) ** 2


def _largest_of(expansion: KernelExpansion) -> FloatArray:
    """Of any other kernel, for rows of norm 1: shape (1, 1)."""
    radius = float(np.sqrt(expansion.squares.max(initial=0.0)))
    reach = Reach(np.ones(1), radius, 0.0, expansion.n_features)
    return expansion.kernel.largest(reach)[:, None]


def _of_forms(model: ModelFields) -> Iterator[tuple[str, FloatArray]]:
    """What forms sum up, beside the coordinates of rows."""
    if model.approximation is None:
        return
    for form in (model.approximation.form, model.approximation.full):
        yield from () if form is None else form.terms.items()


def _check(total: FloatArray, what: str) -> None:
    if not (total <= LARGEST_SCORE).all():
        raise InputError(f"the {what} are so large that scores overflow; scale the targets down.")


# Whether fields contradict each other, or the guarantee.


def check_model(model: ModelFields) -> None:
    """Refuse a model whose fields contradict each other, or its guarantee."""
    if model.parts:
        _check_parts(model)
        _check_tolerance(model)
        return
    if model.approximation is None and model.expansion is None:
        raise InputError("a compiled model needs a form or the exact expansion; both are None.")
    _check_shapes(model)
    _check_inputs(model)
    check_overflow(model)
    if model.guarantee != "none" and model.expansion is None:
        raise InputError(f"a {model.guarantee} model must carry its support vectors.")
    if model.guarantee == "calibrated" and model.approximation and model.threshold is None:
        raise InputError("a calibrated model needs a `threshold`.")
    if model.guarantee == "certified" and model.approximation:
        if not model.approximation.certified:
            raise InputError("a certified model needs a certificate of its form.")
        if model.tolerance is None and not model.head.proves_labels:
            raise InputError("a certified regressor needs a `tolerance`.")


def _check_shapes(model: ModelFields) -> None:
    d, k = expected = model._served.n_features, model.head.n_scores
    for name, part in (("form", model.form), ("expansion", model.expansion)):
        if part is not None and (part.n_features, part.n_outputs) != expected:
            raise InputError(
                f"the {name} has {part.n_features} features and {part.n_outputs} outputs, but "
                f"the model has {d} and its head wants {k}."
            )
    if model.local is not None and len(model.local.absolute) != k:
        raise InputError(f"`absolute` of local sums must hold {k} numbers.")
    tail = model.tail
    if tail is not None and (tail.n_features, tail.n_outputs) != expected:
        raise InputError("the polynomial has other features or outputs than the model.")
    plain = model.head.kind == "regressor" and model.head.judged_by("predict") == "bounds"
    if tail is not None and (not plain or model.origin.width_is_open):
        # It is added once a row is settled, and to rows of the model's own width.
        raise InputError("a polynomial goes with the plain values of a regressor only.")
    if model.posterior is not None:
        model.posterior.check_belongs(model.expansion)
    _check_tolerance(model)


def _check_tolerance(model: ModelFields) -> None:
    _check_score_tolerance(model)
    count, tolerance = model.head.n_values, model.tolerance
    if tolerance is not None and not (tolerance.shape == (count,) and (tolerance > 0).all()):
        raise InputError(f"`tolerance` must hold {count} positive numbers, one an output.")


def _check_score_tolerance(model: ModelFields) -> None:
    spread = model.score_tolerance
    if spread is None:
        return
    columns = np.asarray(model.head.decision(np.zeros((1, model.head.n_scores)))).size
    if spread.shape != (columns,) or not (spread > 0).all():
        raise InputError(f"`score_tolerance` must hold {columns} positive numbers, one per column.")


def _check_inputs(model: ModelFields) -> None:
    """What stands before the machine makes rows of its width."""
    d = model._served.n_features
    width = model.preparation.n_out
    if width is not None and width != d:
        raise InputError(f"the preparation makes {width} features, but the model has {d}.")
    names = model.origin.feature_names
    if names is not None and len(names) != model.n_features_in_:
        raise InputError(f"{len(names)} feature names for {model.n_features_in_} features.")


def _check_parts(model: ModelFields) -> None:
    own = model.approximation or model.expansion or model.preparation.input_map
    if own or model.threshold is not None:
        raise InputError("a model of several parts has forms and maps in its parts only.")
    if any(part.model.tail is not None for part in model.parts):
        raise InputError("the parts of a model cannot have polynomials.")
    widths = {part.model.n_features_in_ for part in model.parts}
    made = model.preparation.n_out
    if made is not None:
        widths.add(made)
    if len(widths) > 1:
        raise InputError("the parts of a model must take rows of one width.")
    reached = {int(output) for part in model.parts for output in part.outputs}
    count = model.head.n_scores  # from a file: any number, so nothing of that size is made
    if len(reached) != count or (reached and (min(reached), max(reached)) != (0, count - 1)):
        raise InputError("the parts do not reach each score that the head wants.")
    if model.posterior is not None:
        model.posterior.check_belongs(*(part.model.expansion for part in model.parts))
    if any(part.model.guarantee != model.guarantee for part in model.parts):
        raise InputError("the parts of a model must have its guarantee.")
    if model.guarantee == "calibrated":
        raise InputError("a model of several parts cannot be calibrated.")


NEARNESS = 0.0, 1e-5, 1e-3, 1e-3, 0.01  # 2 gamma |u|^2 of the rows that loading compares
DEEP = (*NEARNESS, *np.geomspace(1e-8, 30.0, 60).tolist())  # of those that a deep check compares
SUM_ORDER_TOLERANCE = 1e-6  # relative: sums in another order differ by less


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
    return [
        name
        for name, had, is_now in pairs
        if np.any(had < np.multiply(1 - SUM_ORDER_TOLERANCE, is_now))
    ]
