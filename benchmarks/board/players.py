"""Who takes part: scikit-learn, its intelex twin, and kernelite's guarantees, each verified.

In: a case. Out: callables with what their answers are worth: labels must be scikit-learn's, values
within the tolerance that the compiled model states.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

import kernelite as kl
from benchmarks.board.cases import Case
from benchmarks.board.settings import BoardSettings
from kernelite.support.errors import KerneliteError

__all__ = ["MUST_AGREE", "Player", "players", "verify", "warm_up"]

GUARANTEES = ("exact", "certified", "calibrated", "none")
MUST_AGREE = ("exact", "certified", "runner-up")
QUICKEST, LONGEST = 0.5, 40.0  # seconds between which a compilation may be timed again
LARGEST_FORM = 10_000_000  # numbers; making a larger one takes minutes
TIE = 1e-9  # of the sum of |coefficients|: a score so small has no sign in double precision


@dataclass(frozen=True, eq=False)
class Player:
    """A contestant.

    Parameters
    ----------
    name : str
    model : object
        scikit-learn's, intelex's or a compiled one.
    call : callable
        From rows to answers.
    seconds : float
        What it took to compile.
    """

    name: str
    model: Any
    call: Callable[[Any], Any]
    seconds: float = 0.0


def players(case: Case, settings: BoardSettings) -> tuple[dict[str, Player], dict[str, str]]:
    """Those that take part, and why others do not."""
    found = {"scikit-learn": Player("scikit-learn", case.model, getattr(case.model, case.method))}
    absent: dict[str, str] = {}
    if case.intelex is not None:
        call = getattr(case.intelex, case.method)
        found["scikit-learn-intelex"] = Player("scikit-learn-intelex", case.intelex, call)
    for name in GUARANTEES:
        if name == "none" and (size := _form_numbers(case)) > LARGEST_FORM:
            absent[name] = f"its form would hold {size:,} numbers"
            continue
        try:
            found[name] = _compiled(case, name, settings, guarantee=name)
        except KerneliteError as error:
            absent[name] = str(error)
    if (certified := found.get("certified")) and certified.model.plan.others:
        # The second cheapest candidate of the plan, asked for by its name.
        name = min(certified.model.plan.others, key=lambda other: other.nanoseconds).name
        try:
            found["runner-up"] = _compiled(case, "runner-up", settings, plan=name)
        except KerneliteError:
            absent["runner-up"] = f"`{name}` cannot be compiled by its name"
    return found, absent


def verify(case: Case, player: Player, exact: Player | None) -> dict[str, int]:
    """Compare the answers to all rows.

    Returns
    -------
    dict
        Rows; how many differ; how many of these are ties, where either label is right. Values
        differ where they are farther from the exact engine's than the tolerance that the model
        states, or, of the exact engine, farther from scikit-learn's than rounding explains.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = np.asarray(player.call(case.rows))
    if case.group in ("labels", "paper"):
        differ = np.flatnonzero(answers != case.answers)
        ties = int(np.count_nonzero(_is_tie(case.model, case.rows[differ]))) if len(differ) else 0
        return {"rows": len(answers), "differ": len(differ), "ties": ties}
    truth, slack = case.answers, 1e-6 * float(np.abs(case.answers).max())
    if case.group == "density":
        slack = 2e-3  # scikit-learn's own `rtol`, to which it sums
    if player.name in ("certified", "calibrated", "runner-up") and exact is not None:
        truth = np.asarray(exact.call(case.rows))
        tolerance = player.model.tolerance
        slack = 1e-9 * float(np.abs(truth).max()) + (0.0 if tolerance is None else tolerance)
    differ = np.flatnonzero((np.abs(answers - truth) > slack).reshape(len(answers), -1).any(axis=1))
    return {"rows": len(answers), "differ": len(differ), "ties": 0}


def warm_up() -> None:
    """Load the kernels: a first compilation in a process must not pay for all later ones."""
    rng = np.random.default_rng(0)
    from sklearn.svm import SVC, SVR

    X = rng.normal(size=(400, 5))
    for model in (
        SVC().fit(X, X[:, 0] > 0),
        SVC().fit(X, np.digitize(X[:, 0], [-0.5, 0.5])),
        SVC(gamma=1e-3).fit(X, X[:, 0] > 0),
        SVR().fit(X, X[:, 0]),
    ):
        for guarantee in ("exact", "certified"):
            fast = kl.compile(model, X, guarantee=guarantee)
            fast.predict(X)
            fast.predict(X[:1])


def _compiled(case: Case, name: str, settings: BoardSettings, **options: Any) -> Player:
    sample, turns = case.train[: settings.sample_rows], []
    while not turns or (len(turns) < settings.compilations and QUICKEST < turns[0] < LONGEST):
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = kl.compile(case.model, sample, **options)
        turns.append(perf_counter() - start)
    seconds = min(turns)
    method = getattr(model, case.method)
    if options.get("guarantee") == "none":
        return Player(name, model, lambda rows: method(rows, on_invalid="ignore"), seconds)
    return Player(name, model, method, seconds)


def _form_numbers(case: Case) -> int:
    """Numbers in the paper's form: a matrix per pair of classes."""
    classes = max(2, len(getattr(case.model, "classes_", ())))
    return classes * (classes - 1) // 2 * case.rows.shape[1] ** 2


def _is_tie(model: Any, rows: np.ndarray) -> np.ndarray:
    """Rows where some pair's score is zero up to rounding: shape (m,)."""
    pairs = copy.copy(model)
    if hasattr(pairs, "decision_function_shape"):
        pairs.decision_function_shape, pairs.break_ties = "ovo", False
    scores = np.asarray(pairs.decision_function(rows)).reshape(len(rows), -1)
    found: np.ndarray = (np.abs(scores) <= TIE * np.abs(model.dual_coef_).sum()).any(axis=1)
    return found
