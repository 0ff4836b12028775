"""Parts of a data file in, lines of predictions out, as svm-predict writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import InputError
from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.model import CompiledModel
from kernelite.program.stats import Stats
from kernelite.rows.inputs import FloatArray, Rows
from kernelite.tables.data import DataSet

__all__ = ["Answerer", "label_text"]


class Answerer:
    """A model that answers part after part and remembers how its rows were decided.

    Parameters
    ----------
    model : CompiledModel
    probability : bool
        Labels by the largest probability, with the probabilities behind them.
    """

    def __init__(self, model: CompiledModel, *, probability: bool = False) -> None:
        self.model = model
        self.stats = Stats()
        self.probability = probability
        if probability:
            self._prepare_probabilities()

    def header(self) -> str:
        """The first line of svm-predict's `-b 1`, or nothing."""
        if not self.probability or isinstance(self.model.head, RegressorHead):
            return ""
        if isinstance(self.model.head, OutlierHead):
            return "labels normal outlier\n"
        return " ".join(["labels", *map(label_text, self.model.classes_.tolist())]) + "\n"

    def answer(self, part: DataSet) -> tuple[NDArray[Any], str]:
        """Labels or values of shape (m,), and the lines that say them."""
        rows, beyond = self.fit(part)
        answers, stats = self.model.predict(
            rows, beyond=beyond, on_invalid="ignore", return_stats=True
        )
        self.stats += stats
        if not self.header():
            return answers, _lines(answers)
        lines = [label_text(answer) for answer in answers.tolist()]
        chances = self.model.predict_proba(rows, beyond=beyond, on_invalid="ignore")
        said = (" ".join(f"{chance:g}" for chance in row) for row in chances.tolist())
        return answers, "".join(f"{line} {more}\n" for line, more in zip(lines, said))

    def fit(self, part: DataSet) -> tuple[Rows, FloatArray | None]:
        """The part's rows at the model's width, and the squared norms beyond it."""
        origin = self.model.origin
        if None not in (part.feature_names, origin.feature_names):
            _check_names(part, origin.feature_names)
        rows, beyond = part.fit_width(self.model.n_features_in_)
        if beyond is not None and not origin.width_is_open:
            row = part.first_row + int(np.flatnonzero(beyond)[0])
            raise InputError(
                f"row {row + 1} of `{part.path}` has a feature beyond the "
                f"{self.model.n_features_in_} that this model was fitted on."
            )
        return rows, beyond

    def remarks(self) -> list[str]:
        """What svm-predict says about a regressor's probability model."""
        head = self.model.head
        if not (self.probability and isinstance(head, RegressorHead)):
            return []
        return [
            "Prob. model for test data: target value = predicted value + z,",
            f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={head.noise_scale:g}",
        ]

    def notes(self) -> list[str]:
        """How rows were decided, and a warning about those outside the bound."""
        stats, notes = self.stats, []
        if self.model.guarantee in ("certified", "calibrated"):
            early = {name: n for name, n in stats.stages.items() if not name.startswith("exact")}
            counts = {f"by {name}": n for name, n in early.items()} | {"exactly": stats.exact}
            said = ", ".join(f"{count:,} {how}" for how, count in counts.items() if count)
            if said:
                notes.append(f"{stats.rows:,} rows decided: {said}")
        if self.model.guarantee == "none" and stats.outside_validity:
            share = 100 * stats.outside_validity / stats.rows
            notes.append(
                f"warning: {stats.outside_validity:,} of {stats.rows:,} rows ({share:.2f}%) lie "
                "outside the validity bound of the quadratic form, so what is predicted for them "
                "may differ from the exact model."
            )
        return notes

    def summary(self) -> dict[str, Any]:
        """The same for machines."""
        stats = self.stats
        return {
            "kind": self.model.head.kind,
            "guarantee": self.model.guarantee,
            "rows": stats.rows,
            "decided_by": dict(stats.stages),
            "undecidable": stats.undecidable,
            "outside_validity": stats.outside_validity,
        }

    def _prepare_probabilities(self) -> None:
        head = self.model.head
        known = {
            "classifier": getattr(head, "platt_a", None),
            "outlier": getattr(head, "density_marks", None),
            "regressor": getattr(head, "noise_scale", None),
        }
        if known.get(head.kind) is None:
            raise InputError(
                "`-b 1` asks for probabilities, but this model was trained without them; train it "
                "with `-b 1` too."
            )
        if isinstance(head, ClassifierHead):
            self.model = replace(self.model, head=replace(head, labels_by_probability=True))


def label_text(label: Any) -> str:
    """A label or value with all its digits, as svm-predict's %.17g.

    Examples
    --------
    >>> label_text(1.0), label_text(0.1), label_text("yes")
    ('1', '0.10000000000000001', 'yes')
    """
    return f"{label:.17g}" if isinstance(label, float) else str(label)


def _lines(answers: NDArray[Any]) -> str:
    """A line an answer. Labels are few, so each one's text is made once."""
    values = answers.tolist()
    if answers.dtype.kind == "f" and len(values) > 64 and len(set(values)) > len(values) // 4:
        return "".join([f"{value:.17g}\n" for value in values])
    text = {value: f"{label_text(value)}\n" for value in set(values)}
    return "".join(map(text.__getitem__, values))


def _check_names(part: DataSet, expected: tuple[str, ...] | None) -> None:
    if part.feature_names != expected:
        raise InputError(
            f"the columns of `{part.path}` are not those that the model was fitted on, in that "
            f"order: {', '.join((expected or ())[:5])}, ..."
        )
