"""What `kernelite predict` asks of a model, and what it says: how rows were decided, how well.

Metrics are summed over blocks and written as svm-predict writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import Rows, is_sparse
from kernelite.data.scoring.batch import label_text
from kernelite.data.scoring.streams import Block
from kernelite.data.tables.data import DataSet
from kernelite.data.tables.parsing import shortened
from kernelite.model import CompiledModel
from kernelite.program.bounded import Stats
from kernelite.support.errors import InputError

__all__ = [
    "Accuracy",
    "ApproxRows",
    "AskedOutputs",
    "Metric",
    "SquaredError",
    "metric_for",
    "same_labels",
]


class AskedOutputs:
    """A model, the outputs that are asked of it, and words about them.

    Parameters
    ----------
    model : CompiledModel
    more : sequence of {"score", "decided"}
        Outputs after the label.
    probability : bool
        Labels by the largest probability, with the probabilities behind them, as svm-predict's
        `-b 1` does.
    """

    def __init__(
        self, model: CompiledModel, more: Sequence[str] = (), *, probability: bool = False
    ) -> None:
        self.model = model
        self.probability = probability
        chances = False
        if probability:
            chances = "predict_proba" in model.offers
            if not chances and model.head.noise_scale is None:
                raise InputError(
                    "`-b 1` asks for probabilities, but this model was trained without them; train "
                    "it with `-b 1` too."
                )
            self.model = replace(model, head=model.head.labelled_by_probability())
        self.outputs = ("label", *(["probability"] if chances else []), *more)

    def remarks(self) -> list[str]:
        """What svm-predict says about a regressor's probability model."""
        sigma = self.model.head.noise_scale
        if not self.probability or sigma is None:
            return []
        return [
            "Prob. model for test data: target value = predicted value + z,",
            f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={sigma:g}",
        ]

    def notes(self, stats: Stats) -> list[str]:
        """How rows were decided, and a warning about those outside the bound."""
        notes = []
        if self.model.guarantee in ("certified", "calibrated"):
            early = {name: n for name, n in stats.stages.items() if not name.startswith("exact")}
            counts = {f"by the {name}": n for name, n in early.items()}
            counts["from all support vectors"] = stats.exact
            said = ", ".join(f"{count:,} {how}" for how, count in counts.items() if count)
            if said:
                rows = "1 row" if stats.rows == 1 else f"{stats.rows:,} rows"
                notes.append(f"{rows} decided: {said}")
        if self.model.guarantee == "none" and stats.outside_validity:
            share = 100 * stats.outside_validity / stats.rows
            notes.append(
                f"warning: {stats.outside_validity:,} of {stats.rows:,} rows ({share:.2f}%) lie "
                "outside the validity bound of the quadratic form, so what is predicted for them "
                "may differ from the exact model."
            )
        return notes

    def summary(self, stats: Stats) -> dict[str, Any]:
        """The same for machines."""
        return {
            "kind": self.model.head.kind,
            "guarantee": self.model.guarantee,
            "rows": stats.rows,
            "decided_by": dict(stats.stages),
            "undecidable": stats.undecidable,
            "outside_validity": stats.outside_validity,
        }


class Metric(Protocol):
    """Sums over chunks of rows."""

    total: int

    def add(self, truth: NDArray[Any], predicted: NDArray[Any]) -> None:
        """Count a chunk; both of shape (m,)."""
        ...

    def lines(self) -> list[str]:
        """What svm-predict prints."""
        ...

    def notes(self) -> list[str]:
        """What looks wrong."""
        ...

    def summary(self) -> dict[str, Any]:
        """The same for machines."""
        ...


@dataclass
class Accuracy:
    """Share of labels that are right.

    Parameters
    ----------
    classes : ndarray, optional
        The labels that the model gives, if they are known.

    Examples
    --------
    >>> metric = Accuracy()
    >>> metric.add(np.array([1, -1, 1]), np.array([1, -1, -1]))
    >>> metric.lines()
    ['Accuracy = 66.6667% (2/3) (classification)']
    """

    correct: int = 0
    total: int = 0
    classes: NDArray[Any] | None = None
    stranger: Any = None  # a label that is none of the model's; None once one of them was seen
    familiar: bool = False

    def add(self, truth: NDArray[Any], predicted: NDArray[Any]) -> None:
        """Count a chunk."""
        self.correct += int(np.count_nonzero(same_labels(truth, predicted)))
        self.total += len(truth)
        if self.classes is not None and not self.familiar and len(truth):
            self.familiar = any(
                same_labels(truth, self.classes[c : c + 1]).any() for c in range(len(self.classes))
            )
            self.stranger = truth[0]

    def notes(self) -> list[str]:
        """A warning where no label in the data is one of the model's."""
        if self.classes is None or self.familiar or not self.total:
            return []
        ours = ", ".join(shortened(label_text(label)) for label in self.classes[:5].tolist())
        ours += ", ..." if len(self.classes) > 5 else ""
        return [
            f"warning: no label in the data is one of the model's ({ours}); the first one is "
            f"{shortened(label_text(_scalar(self.stranger)))}, so no prediction can be right"
        ]

    def lines(self) -> list[str]:
        """The accuracy, in one line."""
        share = 100 * self.correct / self.total if self.total else float("nan")
        return [f"Accuracy = {share:g}% ({self.correct}/{self.total}) (classification)"]

    def summary(self) -> dict[str, Any]:
        """Share, and what it was counted from."""
        share = self.correct / self.total if self.total else float("nan")
        return {"accuracy": share, "correct": self.correct, "labelled": self.total}


@dataclass
class SquaredError:
    """Mean squared error and squared correlation of values.

    Examples
    --------
    >>> metric = SquaredError()
    >>> metric.add(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0]))
    >>> metric.lines()[0]
    'Mean squared error = 0.333333 (regression)'
    """

    total: int = 0
    error: float = 0.0
    sums: tuple[float, ...] = (0.0,) * 5  # of p, t, pp, tt, pt

    def add(self, truth: NDArray[Any], predicted: NDArray[Any]) -> None:
        """Count a chunk."""
        if truth.dtype.kind not in "biuf":
            raise InputError(
                "the labels are names, but this model predicts numbers; leave the column out with "
                "`--label-column none`, or name another."
            )
        p, t = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
        self.total += len(t)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is reported as such
            self.error += float(((p - t) ** 2).sum())
            terms = p.sum(), t.sum(), p @ p, t @ t, p @ t
        self.sums = tuple(old + float(new) for old, new in zip(self.sums, terms))

    def notes(self) -> list[str]:
        """No note: whatever the values are, they can be compared."""
        return []

    @property
    def mean(self) -> float:
        """Mean squared error."""
        return self.error / self.total if self.total else float("nan")

    @property
    def correlation(self) -> float:
        """Squared correlation coefficient; NaN when either side is constant."""
        p, t, pp, tt, pt = self.sums
        n = self.total
        shared, spread = n * pt - p * t, (n * pp - p * p) * (n * tt - t * t)
        return shared * shared / spread if spread > 0 else float("nan")

    def lines(self) -> list[str]:
        """Error and correlation, a line each."""
        return [
            f"Mean squared error = {self.mean:g} (regression)",
            f"Squared correlation coefficient = {self.correlation:g} (regression)",
        ]

    def summary(self) -> dict[str, Any]:
        """Both numbers, and how many labels they were counted from."""
        return {
            "mean_squared_error": self.mean,
            "squared_correlation": self.correlation,
            "labelled": self.total,
        }


def metric_for(kind: str, classes: Any = None) -> Metric:
    """The metric of a head's kind: values for a regressor, labels for the others.

    Parameters
    ----------
    kind : str
    classes : ndarray, optional
        The labels that the model gives; a list of several such tells nothing.
    """
    if kind == "regressor":
        return SquaredError()
    if kind == "outlier":
        classes = np.array([-1, 1])
    return Accuracy(classes=classes if isinstance(classes, np.ndarray) else None)


def same_labels(truth: NDArray[Any], predicted: NDArray[Any]) -> NDArray[np.bool_]:
    """Where labels agree; numbers and names never do, save for a name that writes the number."""
    if (truth.dtype.kind in "biuf") == (predicted.dtype.kind in "biuf"):
        return np.asarray(truth == predicted, dtype=np.bool_)
    texts = (
        [label_text(float(label)) for label in side.tolist()] if side.dtype.kind in "biuf" else side
        for side in (truth, predicted)
    )
    left, right = (np.asarray(side, dtype=object) for side in texts)
    return np.asarray(left == right, dtype=np.bool_)


def _scalar(label: Any) -> Any:
    """A label as Python has it."""
    return label.item() if isinstance(label, np.generic) else label


# approx-predict's rows: `LABEL DECISION` or a value, features beyond the model's width dropped.


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

    def sink(self, file: IO[str]) -> _ApproxLines:
        """The original's lines."""
        return _ApproxLines(file, values=self.model.head.kind == "regressor")

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


class _ApproxLines:
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
