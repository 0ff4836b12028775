"""How much to measure for the paper: `FULL` to publish, `QUICK` to look at the page."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper import curves

__all__ = ["FULL", "QUICK", "Effort"]


@dataclass(frozen=True)
class Effort:
    """Sizes of a run.

    Parameters
    ----------
    rounds : int
        Repeats of every timing.
    seconds : float
        A way to predict that would need longer for all rows is timed on fewer.
    command_rounds, command_rows : int
        The same for svm-predict, whose every repeat reads the model.
    sweep_rows, polynomial_rows : int
        Training rows of the models that are trained here.
    solved_rows, most_rows : int, optional
        Of the least-squares SVM.
    ratios : tuple of float
        gamma / gamma_max of the sweep.
    vectors : tuple of int
        Support vectors of the time curve.
    """

    rounds: int = 5
    seconds: float = 0.5
    command_rounds: int = 3
    command_rows: int = 1_000
    sweep_rows: int = 3_000
    polynomial_rows: int = 5_000
    solved_rows: int = 4_000
    most_rows: int | None = None
    ratios: tuple[float, ...] = curves.RATIOS
    vectors: tuple[int, ...] = curves.VECTORS


FULL = Effort()
QUICK = Effort(
    rounds=1,
    seconds=0.05,
    command_rounds=1,
    command_rows=100,
    sweep_rows=300,
    polynomial_rows=300,
    solved_rows=200,
    most_rows=500,
    ratios=(0.5, 5.0),
    vectors=curves.VECTORS[:2],
)
