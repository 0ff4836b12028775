"""A contestant: something that predicts, with what is needed to check and to time it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.workloads import Workload

__all__ = ["Absent", "Contestant", "Verdict", "WrongAnswer", "verify"]


class Absent(Exception):
    """A contestant cannot take part here: its library is missing, or it cannot take the model."""


class WrongAnswer(Exception):
    """A contestant that must agree with the exact model does not: nothing of it is timed."""


@dataclass(frozen=True, eq=False)
class Contestant:
    """Something that predicts.

    Parameters
    ----------
    name : str
    kind : {"kernelite", "exact", "approximate"}
        Peers that evaluate every support vector are "exact".
    predict : callable
        Rows, as `convert` made them, to labels.
    must_agree : bool
        Whether a label that differs is an error rather than a figure.
    nbytes : int
        Bytes of the stored model.
    convert : callable
        From dense rows to what `predict` takes; not timed.
    decide : callable, optional
        Decision values, for single rows.
    model : object, optional
        The compiled model, if it is kernelite's.
    prepared : float
        Seconds it took to make.
    note : str
        What a reader must know.
    """

    name: str
    kind: Literal["kernelite", "exact", "approximate"]
    predict: Callable[[Any], Any]
    must_agree: bool
    nbytes: int
    convert: Callable[[np.ndarray], Any] = lambda rows: rows
    decide: Callable[[Any], Any] | None = None
    model: Any = None
    prepared: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """Labels compared with the exact model's: rows, how many differ, how many of those are ties.

    A tie is a row whose score is zero up to rounding: either label is right.
    """

    rows: int
    differences: int
    ties: int


def verify(contestant: Contestant, workload: Workload, rows: int) -> Verdict:
    """Compare the labels of the first `rows` test rows with the reference.

    Raises
    ------
    WrongAnswer
        If the contestant must agree and does not.
    """
    labels = np.asarray(contestant.predict(contestant.convert(workload.rows[:rows])))
    differ = np.flatnonzero(labels != workload.labels[:rows])
    weight = np.abs(workload.expansion.coefficients).sum(axis=0)
    near = np.abs(workload.scores[differ]) <= 1e-9 * weight
    ties = int(np.count_nonzero(near.any(axis=1)))
    if contestant.must_agree and len(differ) > ties:
        raise WrongAnswer(
            f"{contestant.name} on {workload.name}: {len(differ) - ties} of {rows} labels are not "
            "the exact model's"
        )
    return Verdict(rows, len(differ), ties)
