"""approx-predict's rows: `LABEL DECISION` or a value, features beyond the model's width dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.model import CompiledModel
from kernelite.program.bounded import Stats
from kernelite.rows.inputs import Rows, is_sparse
from kernelite.scoring.streams import Block
from kernelite.tables.data import DataSet

__all__ = ["ApproxRows"]


class ApproxRows:
    """A model of one output that answers block after block.

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

    def blocks(self, parts: Iterator[DataSet]) -> Iterator[Block]:
        """Parts of a file at the model's width."""
        for part in parts:
            yield Block(self._cut(part), truth=part.labels)

    def answer(self, rows: Rows, _: object = None) -> tuple[list[NDArray[Any]], Stats]:
        """Labels or values, and decision values, of shape (m,) each."""
        scores = self.model.scores(rows, on_invalid="ignore")
        answers = self.model.head.predict(scores)
        self.rows += len(answers)
        self.outside += int(np.count_nonzero(~self.model.valid(rows)))
        return [answers, scores[:, 0]], Stats()

    def sink(self, file: IO[str]) -> _Lines:
        """The original's lines."""
        return _Lines(file, values=self.model.head.kind == "regressor")

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


class _Lines:
    """`LABEL DECISION`, or the value of a regressor, with six digits."""

    def __init__(self, file: IO[str], *, values: bool) -> None:
        self._file, self._values = file, values

    def write(self, block: Block, answers: Sequence[NDArray[Any]]) -> None:
        labels, decisions = (column.tolist() for column in answers)
        if self._values:
            self._file.writelines(f"{value:g}\n" for value in labels)
        else:
            pairs = zip(labels, decisions)
            self._file.writelines(f"{label} {decision:g}\n" for label, decision in pairs)
