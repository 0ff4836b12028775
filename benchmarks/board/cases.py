"""Cases of the board: fitted models with rows, each fitted once and kept in benchmarks/cache.

What is kept is written and read by joblib: it is this program's own, never anybody else's file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from benchmarks import data, workloads
from benchmarks.board.sets import DataSet, known, load_set, standardised
from benchmarks.contestant import Absent

__all__ = ["SETS", "Case", "Group", "cases_of"]

Group = Literal["labels", "values", "density", "paper"]
SETS = (*known(), "generated", "paper")
"""What `--sets` takes."""

SEARCHED = 2_000  # training rows that a grid search looks at
COSTS, WIDTHS = [1.0, 10.0, 100.0], [0.25, 1.0, 4.0]  # values of C, and of gamma times features
RIDGE, GAUSSIAN, LENGTH = 4_000, 3_000, 600  # training rows; those that fit the length scale
DENSITY = 50_000
PAPER = ("a9a 0.01", "a9a 0.1", "ijcnn1", "mnist1")  # models of ../shared/models

Fit = Callable[[np.ndarray, np.ndarray], Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A model to be measured.

    Parameters
    ----------
    name, set_name : str
    group : {"labels", "values", "density", "paper"}
        What it is judged by.
    train, rows : ndarray of shape (n, d) and (m, d)
        Rows that the model was fitted on, and others to predict.
    target : ndarray of shape (n,), optional
        Labels or values of `train`; None if the model is not fitted here.
    fit : callable
        From `train` and `target` to the fitted scikit-learn estimator.
    stamp : str
        Changes when the content does.
    method : str
        What is timed.
    """

    name: str
    set_name: str
    group: Group
    train: np.ndarray
    target: np.ndarray | None
    rows: np.ndarray
    fit: Fit
    stamp: str
    method: str = "predict"

    @cached_property
    def model(self) -> Any:
        """The fitted scikit-learn estimator."""
        return self._kept("model", lambda: self.fit(self.train, self._target))

    @cached_property
    def answers(self) -> np.ndarray:
        """What scikit-learn says about the rows: shape (m,)."""
        return self._kept("answers", lambda: getattr(self.model, self.method)(self.rows))

    @cached_property
    def intelex(self) -> Any:
        """scikit-learn-intelex's model, fitted on the same rows by the same parameters, or None."""
        try:
            import sklearnex.svm as intelex
        except ImportError:
            return None
        kind = getattr(intelex, type(self.model).__name__, None)
        if kind is None or self.model.get_params().get("probability") is True:
            return None
        made = kind(**self.model.get_params())
        if self.target is None:
            return _rebuilt(made, self.model)
        return self._kept("intelex", lambda: made.fit(self.train, self._target))

    @property
    def _target(self) -> np.ndarray:
        return np.zeros(len(self.train)) if self.target is None else self.target

    def _kept(self, what: str, make: Callable[[], Any]) -> Any:
        """Made now, or as an earlier run kept it."""
        import joblib
        import sklearn

        key = f"{self.name} {len(self.train)} {self.stamp} {sklearn.__version__} {what}"
        name = "".join(c if c.isalnum() else "-" for c in key)
        path = data.cache_path(f"board-{name}.joblib")
        if path.is_file():
            return joblib.load(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of convergence; `probability` is to go
            made = make()
        joblib.dump(made, path, compress=3)
        return made


def cases_of(name: str, most: int | None = None) -> Iterator[Case]:
    """The cases of a set.

    Parameters
    ----------
    name : str
        One of `SETS`, or the path of a CSV file with the label in its last column.
    most : int, optional
        Fewer rows to train on, for a quick look.

    Raises
    ------
    Absent
        If its data are not here.
    """
    if name == "generated":
        yield from _generated(most)
        return
    if name == "paper":
        yield from _paper(few=most is not None)
        return
    found = load_set(name, most)
    if found.is_regression:
        yield from _regressions(found)
        return
    yield _case(found, "default", _default)
    yield _case(found, "tuned", _tuned)
    if name in ("phoneme", "segment"):
        yield _case(found, "probability", _probability)
    if name == "magic":
        # Values of a real set: one of its features from the others.
        train, test = found.train, found.test
        yield from _regressions(
            DataSet("magic", train[:, 1:], train[:, 0], test[:, 1:], found.stamp, True)
        )
    if name in ("magic", "ijcnn1"):
        yield _case(found, "one class", _one_class)


def _default(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.svm import SVC

    return SVC().fit(X, y)


def _probability(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.svm import SVC

    return SVC(probability=True, random_state=0).fit(X, y)


def _tuned(X: np.ndarray, y: np.ndarray) -> Any:
    """An SVC on all rows with the C and gamma that a search on some of them found best."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    some = slice(0, SEARCHED)
    grid = {"C": COSTS, "gamma": ["scale", *(width / X.shape[1] for width in WIDTHS)]}
    found = GridSearchCV(SVC(), grid, cv=3).fit(X[some], y[some])
    return SVC(**found.best_params_).fit(X, y)


def _one_class(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.svm import OneClassSVM

    return OneClassSVM().fit(X)


def _support(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.svm import SVR

    return SVR().fit(X, y)


def _ridge(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(kernel="rbf", alpha=0.1).fit(X[:RIDGE], y[:RIDGE])


def _gaussian(X: np.ndarray, y: np.ndarray) -> Any:
    """A Gaussian process whose length scale was fitted on some of the rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    kernel = 1.0 * RBF(X.shape[1] ** 0.5) + WhiteKernel(0.1)
    found = GaussianProcessRegressor(kernel).fit(X[:LENGTH], y[:LENGTH])
    return GaussianProcessRegressor(found.kernel_, optimizer=None).fit(X[:GAUSSIAN], y[:GAUSSIAN])


def _density(X: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.neighbors import KernelDensity

    return KernelDensity(bandwidth="silverman", rtol=1e-3).fit(X)


def _regressions(found: DataSet, set_name: str | None = None) -> Iterator[Case]:
    y = found.target
    target = (y - y.mean()) / (y.std() or 1.0)
    for title, fit in (("SVR", _support), ("KernelRidge", _ridge), ("GPR", _gaussian)):
        yield Case(
            *(f"{found.name} {title}", set_name or found.name, "values"),
            *(found.train, target, found.test, fit, found.stamp),
        )


def _generated(most: int | None) -> Iterator[Case]:
    """Friedman's function of ten features, one class of normal rows, a density in three."""
    from sklearn.datasets import make_friedman1

    n, m = most or 8_000, 5_000
    X, y = make_friedman1(n + m, 10, noise=0.5, random_state=0)
    train, test = standardised(X[:n], X[n:])
    yield from _regressions(DataSet("friedman", train, y[:n], test, "1", True), "generated")
    rng = np.random.default_rng(0)
    normal, rows = rng.normal(size=(n, 10)), rng.normal(size=(m, 10))
    yield Case(
        *("normal one class", "generated", "labels", normal, np.zeros(n), rows, _one_class, "1")
    )
    points, rows = rng.normal(size=(10 * most if most else DENSITY, 3)), rng.normal(size=(m, 3))
    yield Case(
        *("normal KDE", "generated", "density", points, np.zeros(len(points)), rows),
        *(_density, "1", "score_samples"),
    )


def _paper(few: bool) -> Iterator[Case]:
    """The paper's models, as ../shared has them."""
    here = [name for name in PAPER if name in workloads.available()]
    if not here:
        raise Absent("their files are not in the shared folder")
    for name in here[:1] if few else here:
        work = workloads.load(name, sample_rows=10_000)
        yield Case(
            *(f"{name} as published", "paper", "paper", work.sample, None, work.rows[:5_000]),
            *(_fixed(work.svc), "1"),
        )


def _fixed(model: Any) -> Fit:
    return lambda X, y: model


def _case(found: DataSet, title: str, fit: Fit) -> Case:
    return Case(
        *(f"{found.name} {title}", found.name, "labels", found.train, found.target, found.test),
        *(fit, found.stamp),
    )


def _rebuilt(made: Any, model: Any) -> Any:
    """`made` with the state of a fitted model of two classes."""
    for name, value in vars(model).items():
        setattr(made, name, value)
    # intelex keeps a coefficient and its negative in one place: the public one is the last word.
    made.dual_coef_, made.intercept_ = model.dual_coef_, model.intercept_
    return made
