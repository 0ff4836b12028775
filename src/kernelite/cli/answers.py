"""What `kernelite predict` asks of a model, and what it says about how rows were decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernelite.errors import InputError
from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.model import CompiledModel
from kernelite.program.stats import Stats

__all__ = ["Answers"]


class Answers:
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
            libsvms = isinstance(model.head, ClassifierHead | OutlierHead)
            chances = not libsvms and "predict_proba" in model.offers
            if not chances:
                chances = self._prepare_probabilities()
        self.outputs = ("label", *(["probability"] if chances else []), *more)

    def remarks(self) -> list[str]:
        """What svm-predict says about a regressor's probability model."""
        head = self.model.head
        if not (self.probability and isinstance(head, RegressorHead)):
            return []
        return [
            "Prob. model for test data: target value = predicted value + z,",
            f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={head.noise_scale:g}",
        ]

    def notes(self, stats: Stats) -> list[str]:
        """How rows were decided, and a warning about those outside the bound."""
        notes = []
        if self.model.guarantee in ("certified", "calibrated"):
            tiers = {"the form": stats.form, "the cubic tier": stats.cubic, "exactly": stats.exact}
            said = ", ".join(
                f"{count:,} {name if name == 'exactly' else f'by {name}'}"
                for name, count in tiers.items()
                if count
            )
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

    def summary(self, stats: Stats) -> dict[str, Any]:
        """The same for machines."""
        return {
            "kind": self.model.head.kind,
            "guarantee": self.model.guarantee,
            "rows": stats.rows,
            "decided_by": {"form": stats.form, "cubic": stats.cubic, "exact": stats.exact},
            "undecidable": stats.undecidable,
            "outside_validity": stats.outside_validity,
        }

    def _prepare_probabilities(self) -> bool:
        """Whether there are probabilities to write; LIBSVM's regressors have a remark alone."""
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
        return not isinstance(head, RegressorHead)
