"""Cross-validation of SVMs, exact and compiled side by side: every fold is fitted once.

In: rows, labels, a grid of parameters. Out: for each point of the grid, both scores and how often
the two predictions differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cli.answers import metric_for
from kernelite.data.rows.inputs import Rows, is_sparse
from kernelite.support.errors import InputError
from kernelite.support.scikit_learn import require_scikit_learn

__all__ = [
    "TYPES",
    "Outcome",
    "Problem",
    "compiled_accuracy",
    "cross_validate",
    "grid_points",
]

TYPES = {
    "svc": ("SVC", ("C", "gamma")),
    "nu-svc": ("NuSVC", ("nu", "gamma")),
    "svr": ("SVR", ("C", "gamma")),
    "nu-svr": ("NuSVR", ("C", "nu", "gamma")),
    "one-class": ("OneClassSVM", ("nu", "gamma")),
}
"""Name on the command line -> scikit-learn's class and the parameters that span its grid."""

_DENSE_BYTES = 256 * 2**20  # LIBSVM trains several times faster on dense rows

Parameters = dict[str, float]


@dataclass(frozen=True)
class Problem:
    """What is to be learnt: a type of `TYPES`, rows (n, d), labels (n,), how to split, compile."""

    type: str
    rows: Rows
    labels: NDArray[Any]
    folds: int = 5
    random_state: int = 0
    fixed: tuple[tuple[str, Any], ...] = ()
    compile_options: tuple[tuple[str, Any], ...] = ()

    @property
    def is_regression(self) -> bool:
        """Whether labels are values, and scores errors."""
        return self.type in ("svr", "nu-svr")


@dataclass(frozen=True)
class Outcome:
    """Scores of one grid point over all folds.

    Parameters
    ----------
    parameters : dict
    exact, compiled : float
        Accuracy, or mean squared error of a regressor.
    differ : float
        Share of rows whose label differs; root mean square difference of a regressor's values.
    outside, fallback : float
        Share of rows outside the validity bound, and of rows that the exact model decided.
    support_vectors : float
        Mean over the folds.
    """

    parameters: Parameters
    exact: float
    compiled: float
    differ: float
    outside: float
    fallback: float
    support_vectors: float


def grid_points(**grids: list[float]) -> list[Parameters]:
    """All combinations, the last name changing fastest.

    Examples
    --------
    >>> grid_points(C=[1.0, 2.0], gamma=[0.5])
    [{'C': 1.0, 'gamma': 0.5}, {'C': 2.0, 'gamma': 0.5}]
    """
    return [dict(zip(grids, values)) for values in product(*grids.values())]


def cross_validate(problem: Problem, parameters: Parameters) -> Iterator[Outcome | None]:
    """Score one grid point; yields None after each fold but the last, then the outcome."""
    exact, compiled = (
        metric_for("regressor" if problem.is_regression else "classifier") for _ in range(2)
    )
    rows = _trainable(problem.rows)
    outside = fallback = total = vectors = 0
    difference = 0.0
    splits = _splits(problem)
    for done, (train, test) in enumerate(splits, start=1):
        svm = _fitted(problem, parameters, rows[train], problem.labels[train])
        truth, there = problem.labels[test], rows[test]
        fast, stats = _compiled(problem, svm, rows[train], there)
        slow = svm.predict(there)
        exact.add(truth, slow)
        compiled.add(truth, fast)
        vectors += len(svm.support_)
        total += len(truth)
        outside += stats.outside_validity
        fallback += stats.exact
        if problem.is_regression:
            difference += float(((slow - fast) ** 2).sum())
        else:
            difference += np.count_nonzero(slow != fast)
        if done < len(splits):
            yield None
    share = difference / total
    yield Outcome(
        parameters,
        _score(exact.summary()),
        _score(compiled.summary()),
        float(np.sqrt(share)) if problem.is_regression else share,
        outside / total,
        fallback / total,
        vectors / len(splits),
    )


def compiled_accuracy(
    problem: Problem, parameters: Parameters, advance: Callable[[], None]
) -> float:
    """Accuracy of the compiled models alone; `advance` is called after each fold."""
    rows = _trainable(problem.rows)
    correct = 0
    for train, test in _splits(problem):
        svm = _fitted(problem, parameters, rows[train], problem.labels[train])
        labels, _ = _compiled(problem, svm, rows[train], rows[test])
        correct += int(np.count_nonzero(labels == problem.labels[test]))
        advance()
    return correct / len(problem.labels)


def _score(summary: dict[str, Any]) -> float:
    return float(summary["accuracy" if "accuracy" in summary else "mean_squared_error"])


def _trainable(rows: Rows) -> Any:
    """Dense where that is affordable; scikit-learn wants 32-bit indices else."""
    if not is_sparse(rows):
        return rows
    if 8 * rows.shape[0] * rows.shape[1] <= _DENSE_BYTES:
        return rows.toarray()
    from scipy.sparse import csr_matrix

    return csr_matrix(rows)


def _splits(problem: Problem) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    require_scikit_learn("training needs")
    from sklearn.model_selection import KFold, StratifiedKFold

    stratified = problem.type in ("svc", "nu-svc")
    splitter = (StratifiedKFold if stratified else KFold)(
        problem.folds, shuffle=True, random_state=problem.random_state
    )
    try:
        return list(splitter.split(np.zeros(len(problem.labels)), problem.labels))
    except ValueError as error:
        raise InputError(f"{problem.folds} folds cannot be made: {error}") from None


def _fitted(problem: Problem, parameters: Parameters, rows: Any, labels: NDArray[Any]) -> Any:
    require_scikit_learn("training needs")
    import sklearn.svm

    svm_class = getattr(sklearn.svm, TYPES[problem.type][0])
    svm = svm_class(**parameters, **dict(problem.fixed))
    try:
        return svm.fit(rows, labels)
    except ValueError as error:
        at = ", ".join(f"{name} {value:g}" for name, value in parameters.items())
        raise InputError(f"training at {at} failed: {error}") from None


def _compiled(problem: Problem, svm: Any, sample: Any, rows: Any) -> tuple[NDArray[Any], Any]:
    from kernelite.model.compiler import compile

    model = compile(svm, sample, **dict(problem.compile_options))
    return model.predict(rows, on_invalid="ignore", return_stats=True)
