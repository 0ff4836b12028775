"""Small data sets that the suites fit models on: what scikit-learn ships, and generated ones."""

from __future__ import annotations

import numpy as np
from sklearn import datasets

__all__ = [
    "Table",
    "cancer",
    "diabetes",
    "digits",
    "flat",
    "friedman",
    "generated",
    "half_labelled",
    "iris",
    "linnerud",
    "named_iris",
    "raw_cancer",
    "signs",
    "standard",
    "wine",
    "words",
]

Table = tuple[np.ndarray, np.ndarray]


def standard(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)


def iris() -> Table:
    X, y = datasets.load_iris(return_X_y=True)
    return X[::2], y[::2]


def named_iris() -> Table:
    X, y = iris()
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def wine() -> Table:
    X, y = datasets.load_wine(return_X_y=True)
    return standard(X)[::2], y[::2]


def cancer() -> Table:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return standard(X)[:200], y[:200]


def raw_cancer() -> Table:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X[:150], np.where(y[:150] == 1, "benign", "malignant")


def digits() -> Table:
    X, y = datasets.load_digits(return_X_y=True)
    return X[:400] / 16.0, y[:400]


def diabetes() -> Table:
    X, y = datasets.load_diabetes(return_X_y=True)
    return standard(X)[:150], y[:150] / 100.0


def friedman() -> Table:
    return datasets.make_friedman1(120, n_features=6, noise=0.1, random_state=0)


def words() -> Table:
    """Non-negative, mostly zero, five classes with negative integer labels among them."""
    rng = np.random.default_rng(5)
    y = rng.integers(-2, 3, 150)
    X = rng.poisson(0.15, (150, 40)) * rng.random((150, 40))
    X[np.arange(150), y + 2] += 1.0
    return X, y


def flat() -> Table:
    """Values that never leave the tube, so that no support vector is needed."""
    return np.arange(12.0).reshape(4, 3), np.array([1.0, 1.05, 0.95, 1.0])


def signs() -> Table:
    X, y = cancer()
    return X, y.astype(bool)


def linnerud() -> Table:
    X, Y = datasets.load_linnerud(return_X_y=True)
    return standard(X), Y


def generated() -> Table:
    """20,000 rows: two classes of three clusters each in six features."""
    return datasets.make_classification(
        20_000,
        n_features=6,
        n_informative=5,
        n_redundant=0,
        n_clusters_per_class=3,
        random_state=0,
    )


def half_labelled(table: Table) -> Table:
    """Every other label is taken away, which scikit-learn writes as -1."""
    X, y = table
    return X, np.where(np.arange(len(y)) % 2, -1, y)
