"""`kernelite xval DATA`: grids of C and gamma, folds, exact against compiled side by side.

First the cross-validation itself: rows, labels and a grid come in, and for each point of the grid
both scores and how often the two predictions differ come out. Every fold is fitted once.

examples:
  kernelite xval train.svm
  kernelite xval train.svm --C 1,10,100 --gamma 0.001:0.1:5 --folds 10
  kernelite xval train.csv --label-column price --type svr --epsilon 0.05
  kernelite xval train.svm --gamma 0.01 --guarantee none --expansion-point origin --json

A grid is numbers with commas between them, or LOW:HIGH:COUNT for a geometric range. Without
--gamma, a quarter, a half, once and twice gamma_max of DATA about its mean are tried. Certified
labels are the exact model's, so only their cost is of interest; --guarantee none shows what the
paper's form alone would give, and compiles in an instant.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.cli.answers import metric_for
from kernelite.cli.arguments import (
    add_compile_options,
    add_data_options,
    add_json,
    compile_options,
    data_options,
    grid,
    positive,
    whole,
)
from kernelite.cli.console import note, print_json, print_table
from kernelite.data.rows.inputs import Rows, is_sparse
from kernelite.support.errors import InputError, require_scikit_learn
from kernelite.support.terminal import Progress

__all__ = [
    "TYPES",
    "Outcome",
    "Problem",
    "compiled_accuracy",
    "configure",
    "cross_validate",
    "grid_points",
    "run",
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("data", metavar="DATA", help="training data with labels")
    parser.add_argument(
        "--type", choices=tuple(TYPES), default="svc", help="kind of SVM (default: svc)"
    )
    parser.add_argument("--C", "--c", type=grid, metavar="GRID", help="cost (default: 1)")
    parser.add_argument("--gamma", type=grid, metavar="GRID", help="width of the kernel")
    parser.add_argument("--nu", type=grid, metavar="GRID", help="of the nu types (default: 0.5)")
    parser.add_argument("--epsilon", type=positive, help="tube of svr (default: 0.1)")
    parser.add_argument("--folds", type=whole(2), default=5, help="(default: 5)")
    parser.add_argument(
        "--shuffle-seed", type=whole(0), default=0, help="of the folds (default: 0)"
    )
    add_json(parser)
    add_compile_options(parser)
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    """Cross-validate every point of the grid."""
    _check_usage(args)
    problem = _problem(args)
    points = grid_points(**_grids(args, problem))
    outcomes: list[Outcome] = []
    with Progress("fits", len(points) * args.folds) as bar:
        for point in points:
            for outcome in cross_validate(problem, point):
                bar.advance()
                if outcome is not None:
                    outcomes.append(outcome)
    _report(args, problem, outcomes)
    return 0


def _check_usage(args: argparse.Namespace) -> None:
    if args.epsilon is not None and args.type != "svr":
        args.usage_error("argument --epsilon: only for --type svr")
    for name in ("C", "nu"):
        if getattr(args, name) is not None and name not in TYPES[args.type][1]:
            args.usage_error(f"argument --{name}: {args.type} has no such parameter")


def _problem(args: argparse.Namespace) -> Problem:
    from kernelite.data.tables.data import read_data

    data = read_data(args.data, **{"labels": "required"} | data_options(args))
    assert data.labels is not None
    labels = data.labels
    if args.type in ("svr", "nu-svr") and labels.dtype.kind != "f":
        raise InputError(f"`{args.data}` has names for labels, but {args.type} needs numbers.")
    if len(labels) < args.folds:
        raise InputError(f"`{args.data}` has {len(labels)} rows, fewer than {args.folds} folds.")
    return Problem(
        args.type,
        data.rows,
        labels,
        folds=args.folds,
        random_state=args.shuffle_seed,
        fixed=(("epsilon", args.epsilon),) if args.epsilon is not None else (),
        compile_options=tuple(compile_options(args).items()),
    )


def _grids(args: argparse.Namespace, problem: Problem) -> dict[str, list[float]]:
    names = TYPES[args.type][1]
    defaults = {"C": [1.0], "nu": [0.5]}
    if args.gamma is None:
        defaults["gamma"] = _around_gamma_max(problem)
    return {name: getattr(args, name) or defaults[name] for name in names}


def _around_gamma_max(problem: Problem) -> list[float]:
    from kernelite.data.gamma import gamma_max

    largest = float(gamma_max(problem.rows, about="mean"))
    if not 0 < largest < float("inf"):
        raise InputError("all rows are the same, so `--gamma` has no default; give it.")
    return [share * largest for share in (0.25, 0.5, 1.0, 2.0)]


def _report(args: argparse.Namespace, problem: Problem, outcomes: list[Outcome]) -> None:
    # Ties go to the smaller C and gamma, which come first.
    choose = min if problem.is_regression else max
    best = outcomes.index(choose(outcomes, key=lambda outcome: outcome.compiled))
    measure = "mean_squared_error" if problem.is_regression else "accuracy"
    if args.json:
        results = [asdict(outcome) | {"best": i == best} for i, outcome in enumerate(outcomes)]
        print_json({"type": args.type, "folds": args.folds, "score": measure, "results": results})
        return
    names = list(outcomes[0].parameters)
    score = "MSE" if problem.is_regression else "accuracy"
    print_table(
        ["best", *names, f"exact {score}", f"compiled {score}", *_DETAILS],
        [_cells(outcome, problem, i == best) for i, outcome in enumerate(outcomes)],
        marked=best,
    )
    note(f"{args.folds} folds, {len(problem.labels):,} rows; * marks the best compiled score")


_DETAILS = ("differ", "outside bound", "exact rows", "SVs")


def _cells(outcome: Outcome, problem: Problem, best: bool) -> list[str]:
    scores: list[Any] = [outcome.exact, outcome.compiled]
    if problem.is_regression:
        shown = [*(f"{value:.6g}" for value in scores), f"{outcome.differ:.3g}"]
    else:
        shown = [*(f"{100 * value:.2f}%" for value in scores), f"{100 * outcome.differ:.3f}%"]
    return [
        "*" if best else "",
        *(f"{value:.6g}" for value in outcome.parameters.values()),
        *shown,
        f"{100 * outcome.outside:.2f}%",
        f"{100 * outcome.fallback:.2f}%",
        f"{outcome.support_vectors:.0f}",
    ]
