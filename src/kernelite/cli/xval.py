"""`kernelite xval DATA`: grids of C and gamma, folds, exact against compiled side by side."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

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
from kernelite.support.errors import InputError
from kernelite.support.terminal import Progress

if TYPE_CHECKING:
    from kernelite.cli.crossval import Outcome, Problem

__all__ = ["configure", "run"]

EXAMPLES = """\
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    from kernelite.cli.crossval import TYPES

    parser.epilog = EXAMPLES
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
    from kernelite.cli.crossval import cross_validate, grid_points

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
    from kernelite.cli.crossval import TYPES

    if args.epsilon is not None and args.type != "svr":
        args.usage_error("argument --epsilon: only for --type svr")
    for name in ("C", "nu"):
        if getattr(args, name) is not None and name not in TYPES[args.type][1]:
            args.usage_error(f"argument --{name}: {args.type} has no such parameter")


def _problem(args: argparse.Namespace) -> Problem:
    from kernelite.cli.crossval import Problem
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
    from kernelite.cli.crossval import TYPES

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
