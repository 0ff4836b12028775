"""approx-predict's rows: `LABEL DECISION` or a value, features beyond the model's width dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.model import CompiledModel
from kernelite.rows.inputs import Rows, is_sparse
from kernelite.tables.data import DataSet

__all__ = ["ApproxRows"]


class ApproxRows:
    """A model of one output that answers part after part.

    Parameters
    ----------
    model : CompiledModel
    """

    def __init__(self, model: CompiledModel) -> None:
        if model.head.n_scores != 1:
            raise InputError(
                f"approx-predict takes models of one output, this one has {model.head.n_scores}; "
                "`kernelite predict` takes it."
            )
        self.model = model
        self.rows = self.outside = self.narrowed = 0

    def answer(self, part: DataSet) -> tuple[NDArray[Any], str]:
        """Labels or values of shape (m,), and the lines that say them."""
        rows = self._cut(part)
        scores = self.model.scores(rows, on_invalid="ignore")
        answers = self.model.head.predict(scores)
        self.rows += len(answers)
        self.outside += int(np.count_nonzero(~self.model.valid(rows)))
        if self.model.head.kind == "regressor":
            lines = (f"{value:g}\n" for value in answers.tolist())
        else:
            pairs = zip(answers.tolist(), scores[:, 0].tolist())
            lines = (f"{label} {decision:g}\n" for label, decision in pairs)
        return answers, "".join(lines)

    def notes(self, *, quiet: bool) -> list[str]:
        """What was dropped, and unless `quiet` how many rows are outside the bound."""
        notes = []
        if self.narrowed:
            notes.append(
                f"note: {self.narrowed:,} of {self.rows:,} rows have features beyond the model's "
                f"{self.model.n_features_in_}, which were dropped"
            )
        if self.outside and not quiet:
            notes.append(
                f"warning: {self.outside:,} of {self.rows:,} predictions may be out of "
                "approximation bounds"
            )
        return notes

    def _cut(self, part: DataSet) -> Rows:
        width = self.model.n_features_in_
        rows = part.rows
        if not is_sparse(rows) and rows.shape[1] > width:
            self.narrowed += rows.shape[0]
            return np.ascontiguousarray(rows[:, :width])
        rows, beyond = part.fit_width(width)
        if beyond is not None:
            self.narrowed += int(np.count_nonzero(beyond))
        return rows
