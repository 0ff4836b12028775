"""Small compiled models of every kind, whose files are mutated."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelite as kl
from tests.store.models import HEADS, compiled, proven

__all__ = ["METHODS", "answers_of", "models", "with_text"]

METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")


def models() -> list[kl.CompiledModel]:
    """Small models of every kernel, head and step, and every kind of form."""
    heads = [HEADS[name] for name in ("three", "texts", "platt", "objects")]
    found = [compiled(head, exact=i % 2 == 0) for i, head in enumerate(heads)]
    found += [
        proven(),
        compiled(HEADS["three"], exact=True, sparse=True),
        compiled(HEADS["regressor"], exact=True, kernel="poly2"),
        compiled(HEADS["outlier"], names=("a", "b", "c", "d"), notes=("a note",)),
        _pipeline("certified"),
        _pipeline("exact"),
        _several(),
        *_of_other_kernels(),
        *_of_other_heads(),
        *_prepared(),
    ]
    return found


def answers_of(model: kl.CompiledModel) -> tuple[object, ...]:
    """What a model answers for a few rows: compared, where a damaged file is accepted."""
    method = next(name for name in METHODS if name in model.offers)
    found = getattr(model, method)(as_taken(model, rows_for(model.n_features_in_)))
    return tuple(np.asarray(found).ravel().tolist())


def as_taken(model: kl.CompiledModel, rows: np.ndarray) -> Any:
    """Rows as a frame, where a model takes columns by their names alone."""
    first = model.preparation.steps[0] if model.preparation.steps else None
    names = model.origin.feature_names
    if getattr(first, "by_name", False) != "only" or names is None or len(names) != rows.shape[1]:
        return rows
    from pandas import DataFrame

    try:
        return DataFrame(rows, columns=list(names))
    except UnicodeError:  # no frame has half a letter in a name
        return rows


def rows_for(width: int) -> np.ndarray:
    """Some plain rows, shape (6, width)."""
    return np.random.default_rng(5).normal(size=(6, width))


def _iris() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return X[::6], y[::6]


def _pipeline(guarantee: str) -> kl.CompiledModel:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    X, y = _iris()
    fitted = make_pipeline(StandardScaler(), SVC(gamma=0.05)).fit(X, y)
    return kl.compile(fitted, X, guarantee=guarantee, plan="estimate")


def _several() -> kl.CompiledModel:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    X, y = _iris()
    fitted = GaussianProcessRegressor(RBF(3.0) + RBF(30.0), alpha=0.5, optimizer=None).fit(X, y)
    return kl.compile(fitted, X, plan="estimate")


def _of_other_kernels() -> list[kl.CompiledModel]:
    """Kernels without forms, a sum and a product of kernels, variances, a polynomial beside."""
    from scipy.interpolate import RBFInterpolator
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, RationalQuadratic
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC, SVR

    X, y = _iris()
    mixed = RBF(3.0) * DotProduct(1.0) + RationalQuadratic(3.0) + 2.0 * Matern(4.0, nu=0.5)
    fitted = [
        SVC(kernel="linear").fit(X, y),
        SVC(kernel="poly", degree=3, coef0=1.0).fit(X, y == 1),
        SVR(kernel="sigmoid", gamma=0.01).fit(X, y),
        KernelRidge(kernel="laplacian").fit(X, y),
        KernelRidge(kernel="cosine").fit(X, np.column_stack([y, -y])),
        GaussianProcessRegressor(Matern(2.0), alpha=0.1, optimizer=None, normalize_y=True).fit(
            X, y
        ),
        GaussianProcessRegressor(mixed, alpha=0.1, optimizer=None).fit(X, y),
        GaussianProcessClassifier(RBF(2.0), optimizer=None).fit(X, y),
        RBFInterpolator(X + 1e-3 * rows_for(4)[0] * y[:, None], y, kernel="thin_plate_spline"),
    ]
    return [kl.compile(one, X, guarantee="exact") for one in fitted]


def _of_other_heads() -> list[kl.CompiledModel]:
    """Coordinates, densities, several machines."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.decomposition import KernelPCA
    from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier
    from sklearn.neighbors import KernelDensity
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    X, y = _iris()
    svc, scaled = (
        SVC(gamma=0.1),
        TransformedTargetRegressor(SVR(gamma=0.1), transformer=StandardScaler()),
    )
    fitted = [
        KernelPCA(2, kernel="rbf", gamma=0.1).fit(X),
        KernelDensity(bandwidth=0.7).fit(X),
        CalibratedClassifierCV(svc, method="isotonic", cv=2).fit(X, y),
        OneVsRestClassifier(svc).fit(X, y),
        OutputCodeClassifier(svc, code_size=2, random_state=0).fit(X, y),
        scaled.fit(X, y.astype(float)),
    ]
    return [kl.compile(one, X, plan="estimate") for one in fitted]


def with_text() -> kl.CompiledModel:
    """A model of three columns of numbers, a, b and c, and one of text, Größe."""
    return _prepared()[0]


def _prepared() -> list[kl.CompiledModel]:
    """Rows that go through steps first: text, gaps, bins, powers, quantiles, projections."""
    import pandas
    from sklearn import preprocessing as steps
    from sklearn.compose import make_column_transformer
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    X, y = _iris()
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    frame["Größe"] = [("klein", "groß", "\u202e", "")[i % 4] for i in range(len(X))]
    ordinal = steps.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), steps.StandardScaler()), ["a", "b"]),
        (steps.OneHotEncoder(handle_unknown="ignore"), ["Größe"]),
        (ordinal, ["Größe"]),
        (steps.KBinsDiscretizer(3), ["c"]),
    )
    chains = (
        (steps.PowerTransformer(), steps.Normalizer()),
        (steps.QuantileTransformer(n_quantiles=6), steps.PolynomialFeatures(2)),
        (steps.StandardScaler(), PCA(2), steps.MinMaxScaler()),
    )
    models = [(make_pipeline(columns, SVC(gamma=0.1)).fit(frame, y), frame)]
    models += [(make_pipeline(*chain, SVC(gamma=0.1)).fit(X, y), X) for chain in chains]
    return [kl.compile(one, rows, plan="estimate") for one, rows in models]
