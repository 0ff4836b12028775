"""A user's estimator in real arithmetic on its own doubles: the reference of whole pipelines.

In: a fitted scikit-learn estimator (or a model behind an svm-scale range) and rows of doubles. Out:
its scores as balls of 400 bits. It is written from scikit-learn's formulas and knows nothing of
kernelite's sources, which fold scalers, constants and linear layers into other doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.sources import Machine
from kernelite.sources.svm_scale import SvmRange
from tests.oracle import exponential, real

__all__ = ["Known", "Ranged", "squared", "true_outputs"]


@dataclass(frozen=True)
class Ranged:
    """A model whose rows go through svm-scale first."""

    model: Any
    found: SvmRange


@dataclass(frozen=True)
class Known:
    """A source made from arrays, and what it stands for: scores of a row of reals."""

    model: Machine
    outputs: Callable[[list[Any]], list[Any]]


def true_outputs(model: Any, rows: np.ndarray) -> list[list[Any]]:
    """The scores of each row, a list each."""
    return [_outputs(model, [real(z) for z in row]) for row in rows]


def _outputs(step: Any, z: list[Any]) -> list[Any]:
    """What one estimator, transformer or model, makes of a row of reals."""
    return _BY_NAME[type(step).__name__](step, z)


def _pipeline(model: Any, z: list[Any]) -> list[Any]:
    for _, step in model.steps:
        z = _outputs(step, z)
    return z


def _ranged(model: Ranged, z: list[Any]) -> list[Any]:
    found, out = model.found, [real(0.0)] * len(z)
    lower, upper = real(found.lower), real(found.upper)
    for j, low, high in zip(found.columns, found.minimum, found.maximum):
        if high > low:
            share = (z[j] - real(low)) / (real(high) - real(low))
            out[j] = lower + (upper - lower) * share
    values = _outputs(model.model, out)
    if found.target is None:
        return values
    lower, upper, least, most = (real(number) for number in found.target)
    return [least + (most - least) * (value - lower) / (upper - lower) for value in values]


def _divided(z: list[Any], shift: Any, scale: Any) -> list[Any]:
    if shift is not None:
        z = [a - real(b) for a, b in zip(z, shift)]
    return z if scale is None else [a / real(b) for a, b in zip(z, scale)]


def _standard(scaler: Any, z: list[Any]) -> list[Any]:
    return _divided(z, scaler.mean_ if scaler.with_mean else None, scaler.scale_)


def _min_max(scaler: Any, z: list[Any]) -> list[Any]:
    return [a * real(s) + real(b) for a, s, b in zip(z, scaler.scale_, scaler.min_)]


def _principal(model: Any, z: list[Any]) -> list[Any]:
    """PCA and TruncatedSVD."""
    mean = getattr(model, "mean_", np.zeros(len(z)))
    values = _combined([a - real(m) for a, m in zip(z, mean)], model.components_, 0.0)
    if not getattr(model, "whiten", False):
        return values
    least = np.finfo(np.float64).eps  # of a square root, as scikit-learn has it
    roots = [
        real(v).sqrt() if np.sqrt(v) >= least else real(least) for v in model.explained_variance_
    ]
    return [a / root for a, root in zip(values, roots)]


def _products(model: Any, z: list[Any]) -> list[Any]:
    found = []
    for powers in model.powers_:
        term = real(1.0)
        for base, power in zip(z, powers):
            for _ in range(power):
                term *= base
        found.append(term)
    return found


def _branches(model: Any, z: list[Any]) -> list[Any]:
    """A ColumnTransformer of numbers, chosen by place."""
    found = []
    for _, inner, places in model.transformers_:
        mine = [z[j] for j in places]
        found += mine if isinstance(inner, str) else _outputs(inner, mine)
    return found


def _one_hot(model: Any, z: list[Any]) -> list[Any]:
    found = []
    for a, categories in zip(z, model.categories_):
        found += [real(1.0 if a == real(c) else 0.0) for c in categories]
    return found


def _combined(values: list[Any], weights: Any, intercept: Any) -> list[Any]:
    """weights @ values + intercept, of shape (outputs, values)."""
    weights = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(intercept, dtype=np.float64), (len(weights),))
    return [
        sum((real(w) * value for w, value in zip(row, values)), real(b))
        for row, b in zip(weights, intercept)
    ]


def _named(model: Any, centers: Any, z: list[Any]) -> list[Any]:
    """The kernel that `kernel`, `gamma`, `degree` and `coef0` name, of all centers."""
    gamma = getattr(model, "_gamma", getattr(model, "gamma_", model.gamma))
    gamma = real(1.0) / real(len(z)) if gamma is None else real(gamma)
    found = []
    for center in np.asarray(centers):
        x = [real(a) for a in center]
        product = sum((a * b for a, b in zip(x, z)), real(0.0))
        if model.kernel == "rbf":
            found.append(exponential(-gamma * squared(x, z)))
        elif model.kernel == "laplacian":
            found.append(exponential(-gamma * sum((abs(a - b) for a, b in zip(x, z)), real(0.0))))
        elif model.kernel == "linear":
            found.append(product)
        elif model.kernel == "cosine":
            sizes = [sum((a * a for a in one), real(0.0)).sqrt() for one in (x, z)]
            found.append(product / (sizes[0] * sizes[1]))
        else:
            inner = gamma * product + real(1.0 if model.coef0 is None else model.coef0)
            degree = 3 if model.degree is None else int(model.degree)
            found.append(inner.tanh() if model.kernel == "sigmoid" else inner**degree)
    return found


def squared(x: list[Any], z: list[Any]) -> Any:
    """|x - z|^2."""
    return sum(((a - b) * (a - b) for a, b in zip(x, z)), real(0.0))


def _covariance(kernel: Any, x: list[Any], z: list[Any]) -> Any:
    """A kernel of Gaussian processes between two different rows."""
    name = type(kernel).__name__
    if name == "Sum":
        return _covariance(kernel.k1, x, z) + _covariance(kernel.k2, x, z)
    if name == "Product":
        return _covariance(kernel.k1, x, z) * _covariance(kernel.k2, x, z)
    if name == "Exponentiation":
        inner, power = _covariance(kernel.kernel, x, z), float(kernel.exponent)
        return inner ** int(power) if power.is_integer() else inner ** real(power)
    if name == "ConstantKernel":
        return real(kernel.constant_value)
    if name == "WhiteKernel":
        return real(0.0)
    if name == "DotProduct":
        return real(kernel.sigma_0) ** 2 + sum((a * b for a, b in zip(x, z)), real(0.0))
    scales = [real(s) for s in np.broadcast_to(kernel.length_scale, len(x))]
    gaps = [(a - b) / s for a, b, s in zip(x, z, scales)]
    square = sum((gap * gap for gap in gaps), real(0.0))
    if name == "RationalQuadratic":
        alpha = real(kernel.alpha)
        return exponential(-alpha * (1 + square / (2 * alpha)).log())
    if name == "Matern":
        a = real(0.0) if square == 0 else (2 * real(kernel.nu) * square).sqrt()
        front = {0.5: real(1.0), 1.5: 1 + a, 2.5: 1 + a + a * a / 3}[kernel.nu]
        return front * exponential(-a)
    assert name == "RBF"
    return exponential(-square / real(2.0))


def _covariances(kernel: Any, centers: Any, z: list[Any]) -> list[Any]:
    return [_covariance(kernel, [real(a) for a in center], z) for center in np.asarray(centers)]


def _svm(model: Any, z: list[Any]) -> list[Any]:
    values = _named(model, model.support_vectors_, z)
    return _combined(values, model.dual_coef_, model.intercept_)


def _kernel_ridge(model: Any, z: list[Any]) -> list[Any]:
    if isinstance(model.kernel, str):
        values = _named(model, model.X_fit_, z)
    else:
        values = _covariances(model.kernel, model.X_fit_, z)
    return _combined(values, np.reshape(model.dual_coef_, (len(values), -1)).T, 0.0)


def _regressor(model: Any, z: list[Any]) -> list[Any]:
    values = _covariances(model.kernel_, model.X_train_, z)
    sums = _combined(values, np.reshape(model.alpha_, (len(values), -1)).T, 0.0)
    scales = np.broadcast_to(np.ravel(model._y_train_std), len(sums))
    means = np.broadcast_to(np.ravel(model._y_train_mean), len(sums))
    return [real(s) * value + real(m) for s, value, m in zip(scales, sums, means)]


def _classifier(model: Any, z: list[Any]) -> list[Any]:
    inner = model.base_estimator_
    values = _covariances(inner.kernel_, inner.X_train_, z)
    weights = [real(y) - real(p) for y, p in zip(inner.y_train_, inner.pi_)]
    return [sum((w * value for w, value in zip(weights, values)), real(0.0))]


def _nystroem(model: Any, z: list[Any]) -> list[Any]:
    return _combined(_named(model, model.components_, z), model.normalization_, 0.0)


def _kernel_pca(model: Any, z: list[Any]) -> list[Any]:
    values = _named(model, model.X_fit_, z)
    n = len(values)
    mean = sum(values, real(0.0)) / real(n)
    whole = real(float(model._centerer.K_fit_all_))
    centered = [v - real(r) - mean + whole for v, r in zip(values, model._centerer.K_fit_rows_)]
    sums = _combined(centered, model.eigenvectors_.T, 0.0)
    return [
        value / real(root).sqrt() if root else real(0.0)
        for value, root in zip(sums, model.eigenvalues_)
    ]


def _density(model: Any, z: list[Any]) -> list[Any]:
    h, rows = real(model.bandwidth_), np.asarray(model.tree_.data)
    weights = model.tree_.sample_weight
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights)
    total = sum((real(w) for w in weights), real(0.0))
    sums = real(0.0)
    for w, row in zip(weights, rows):
        square = squared([real(a) for a in row], z)
        sums += real(w) * exponential(-square / (real(2.0) * h * h))
    return [sums / total]


def _linear(model: Any, z: list[Any]) -> list[Any]:
    return _combined(z, model.coef_, model.intercept_)


def _target(model: Any, z: list[Any]) -> list[Any]:
    values, scaler = _outputs(model.regressor_, z), model.transformer_
    if type(scaler).__name__ == "MinMaxScaler":
        return [(v - real(b)) / real(s) for v, s, b in zip(values, scaler.scale_, scaler.min_)]
    return [v * real(s) + real(m) for v, s, m in zip(values, scaler.scale_, scaler.mean_)]


def _mean(model: Any, z: list[Any]) -> list[Any]:
    members = [_outputs(member, z)[0] for member in model.estimators_]
    given = getattr(model, "weights", None)
    weights = [real(w) for w in (np.ones(len(members)) if given is None else given)]
    sums = sum((w * value for w, value in zip(weights, members)), real(0.0))
    return [sums / sum(weights, real(0.0))]


def _selected(model: Any, z: list[Any]) -> list[Any]:
    return [z[j] for j in model.get_support(indices=True)]


def _interpolator(model: Any, z: list[Any]) -> list[Any]:
    epsilon, n = real(float(model.epsilon)), len(model.y)
    squares = [epsilon * epsilon * squared([real(a) for a in y], z) for y in model.y]
    shape = {
        "gaussian": lambda s: exponential(-s),
        "thin_plate_spline": lambda s: real(0.0) if s == 0 else s * s.log() / 2,
        "linear": lambda s: real(0.0) if s == 0 else -s.sqrt(),
        "cubic": lambda s: real(0.0) if s == 0 else s * s.sqrt(),
        "multiquadric": lambda s: -(1 + s).sqrt(),
        "inverse_quadratic": lambda s: 1 / (1 + s),
    }[model.kernel]
    values = [shape(s) for s in squares]
    place = [(a - real(b)) / real(c) for a, b, c in zip(z, model._shift, model._scale)]
    for powers in model.powers:
        term = real(1.0)
        for base, power in zip(place, powers):
            for _ in range(power):
                term *= base
        values.append(term)
    assert len(values) == n + len(model.powers)
    return _combined(values, np.asarray(model._coeffs).T, 0.0)


_BY_NAME = {
    "Known": lambda model, z: model.outputs(z),
    "RBFInterpolator": _interpolator,
    "Pipeline": _pipeline,
    "Ranged": _ranged,
    "StandardScaler": _standard,
    "RobustScaler": lambda scaler, z: _divided(z, scaler.center_, scaler.scale_),
    "MaxAbsScaler": lambda scaler, z: _divided(z, None, scaler.scale_),
    "MinMaxScaler": _min_max,
    "SelectKBest": _selected,
    "PCA": _principal,
    "TruncatedSVD": _principal,
    "PolynomialFeatures": _products,
    "ColumnTransformer": _branches,
    "OneHotEncoder": _one_hot,
    "FunctionTransformer": lambda model, z: z,
    "SVC": _svm,
    "SVR": _svm,
    "OneClassSVM": _svm,
    "KernelRidge": _kernel_ridge,
    "GaussianProcessRegressor": _regressor,
    "GaussianProcessClassifier": _classifier,
    "Nystroem": _nystroem,
    "KernelPCA": _kernel_pca,
    "KernelDensity": _density,
    "Ridge": _linear,
    "LinearSVC": _linear,
    "LogisticRegression": _linear,
    "TransformedTargetRegressor": _target,
    "VotingRegressor": _mean,
    "BaggingRegressor": _mean,
}
