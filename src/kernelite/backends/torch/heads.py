"""Heads in torch operations: a table of fast lowerings; all other heads by their own formulas.

In: scores and bounds of shape (m, k). Out: labels or values, and which rows are settled whatever
the errors within the bounds: the rules of `kernelite.machine.heads`, head by head.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from kernelite.backends.torch.fused import SliceSums
from kernelite.backends.torch.kernels import has_triton
from kernelite.backends.torch.tensors import Buffers, Formula, Tensor, TensorValue
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.heads import ClassifierHead, LatentHead, LinearHead
from kernelite.machine.heads.coupling import pair_probabilities
from kernelite.machine.heads.pairwise import pairs
from kernelite.machine.heads.values import SMALLEST_SUM
from kernelite.program.criteria import predict_criterion
from kernelite.support.errors import KerneliteError, UnsupportedModelError

__all__ = ["PairVotes", "Votes", "lower_head"]

COUPLED = 1 << 26  # entries of the matrices that couple probabilities, held at once: 512 MB


class TorchHead(Buffers):
    """What a head does, on tensors. Subclasses say when a row is settled.

    Parameters
    ----------
    head : Head
    tolerance : ndarray of shape (k,), optional
    """

    proves_labels = True  # so that scores need be no better than the labels' proof
    two_sides = False  # of a threshold, which `kernels.rows` tells apart
    lowest: float | None = None  # of a density: where its sum has to be taken in logarithms

    def __init__(self, head: Any, tolerance: FloatArray | None) -> None:
        super().__init__()
        self.formulas = head
        classes = getattr(head, "classes", None)
        if isinstance(classes, np.ndarray) and classes.dtype.kind in "iufb":
            self.hold(classes=classes)

    def settled(self, scores: Tensor, bounds: Tensor) -> Tensor:
        """Rows whose answer is proven, shape (m,)."""
        raise NotImplementedError

    def winners(self, scores: Tensor) -> Tensor:
        """Positions of the labels in `classes`, shape (m,)."""
        raise NotImplementedError

    def margin(self, scores: Tensor) -> Tensor:
        """How far a row is from another label, shape (m,)."""
        return self.formulas.margin(TensorValue(scores)).tensor

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities of shape (m, K)."""
        head, formula = self.formulas, self.formulas.probabilities
        if isinstance(head, ClassifierHead) and head.platt_a is not None and head.coupled:
            if scores.is_cuda and has_triton():
                from kernelite.backends.torch.kernels.votes import run_couple

                return run_couple(_of_pairs(head, scores), head.n_classes)
            parts = scores.split(max(1, COUPLED // head.n_classes**2))
            return torch.cat([formula(TensorValue(part)).tensor for part in parts])
        return formula(TensorValue(scores)).tensor

    def labels(self, scores: Tensor) -> Tensor:
        """Labels where they are numbers, else their positions in `classes_`; or values."""
        winners = self.winners(scores)
        return self.classes[winners] if self.has_numbers else winners

    @property
    def has_numbers(self) -> bool:
        """Whether labels are numbers, which tensors can hold."""
        return hasattr(self, "classes")


def _of_pairs(head: ClassifierHead, scores: Tensor) -> Tensor:
    """Probabilities of the first class of each pair, shape (m, pairs)."""
    sigmoids: Formula = pair_probabilities
    return sigmoids(head.towards_first(TensorValue(scores)), head.platt_a, head.platt_b).tensor  # type: ignore[arg-type]


class TwoClasses(TorchHead):
    """The side of a threshold on which one score lies."""

    def __init__(self, head: Any, tolerance: FloatArray | None) -> None:
        super().__init__(head, tolerance)
        self.threshold = float(getattr(head, "threshold", 0.0))
        self.first_positive = bool(getattr(head, "first_positive", False))
        self.zero_is_first = bool(getattr(head, "zero_is_first", self.at_zero))
        self.hold(limit=np.array([self.threshold]), places=np.arange(2))

    two_sides = True
    at_zero = True  # latent and linear heads give a score of zero to the first class

    def settled(self, scores: Tensor, bounds: Tensor) -> Tensor:
        return (scores[:, 0] - self.threshold).abs() > bounds[:, 0]

    def margin(self, scores: Tensor) -> Tensor:
        return (scores[:, 0] - self.threshold).abs()

    def winners(self, scores: Tensor) -> Tensor:
        score = scores[:, 0] - self.threshold
        first = score > 0 if self.first_positive else score < 0
        if self.zero_is_first:
            first = first | (scores[:, 0] == self.threshold)
        return (~first).long()


class Votes(TorchHead):
    """One-vs-one votes: `winner_decided`, by products with who takes part in which pair."""

    def __init__(self, head: Any, tolerance: FloatArray | None) -> None:
        super().__init__(head, tolerance)
        K = head.n_classes
        first, second = (np.zeros((head.n_scores, K), dtype=np.float32) for _ in range(2))
        for pair, (i, j) in enumerate(pairs(K)):
            first[pair, i] = second[pair, j] = 1.0
        # Among equal votes the earlier class wins: K votes + (K - 1 - class) has no ties.
        self.hold(first=first, second=second, order=np.arange(K, dtype=np.float32)[::-1])
        self.hold(places=np.arange(K))
        self.sign = 1.0 if head.first_positive else -1.0
        self.n_classes = K

    def settled(self, scores: Tensor, bounds: Tensor) -> Tensor:
        wins, loses = self._sure(scores, bounds)
        low = wins @ self.first + loses @ self.second
        high = (1.0 - loses) @ self.first + (1.0 - wins) @ self.second
        ranked = low * self.n_classes + self.order
        mine = ranked.max(dim=1, keepdim=True).values
        # Another class ties or leads if its most votes, with its place, could rank as high.
        rivals = (high * self.n_classes + self.order >= mine).sum(dim=1)
        return rivals <= 1

    def _sure(self, scores: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
        sure, positive = scores.abs() > bounds, self.sign * scores > 0
        return (sure & positive).float(), (sure & ~positive).float()

    def winners(self, scores: Tensor) -> Tensor:
        wins = (self.sign * scores > 0).float()
        votes = wins @ self.first + (1.0 - wins) @ self.second
        return (votes * self.n_classes + self.order).argmax(dim=1)


class Formulas(TorchHead):
    """Any other head: its own formulas, on tensors."""

    def __init__(self, head: Any, tolerance: FloatArray | None) -> None:
        super().__init__(head, tolerance)
        self.proves_labels = head.proves_labels
        self.criterion: Formula = predict_criterion(head, tolerance)
        self.answers: Formula = head.predict
        if head.kind == "density":
            self.lowest = math.log(SMALLEST_SUM) + head.log_scale
        zeros = torch.zeros(1, head.n_scores, dtype=torch.float64)
        try:
            self.settled(zeros, zeros)
            try:
                self.labels(zeros)
            except UnsupportedModelError:  # labels that are text
                self.answers = head.winners
                self.labels(zeros)
        except (KerneliteError, AttributeError, NotImplementedError, TypeError) as error:
            raise _refused(head) from error

    @property
    def has_numbers(self) -> bool:
        return self.answers == self.formulas.predict

    def settled(self, scores: Tensor, bounds: Tensor) -> Tensor:
        return self.criterion(TensorValue(scores), TensorValue(bounds)).tensor

    def labels(self, scores: Tensor) -> Tensor:
        return self.answers(TensorValue(scores)).tensor


LOWERINGS: dict[type, type[TorchHead]] = {LatentHead: TwoClasses}
"""Head -> a lowering of its own; classifiers and linear heads by their number of classes, below."""


def lower_head(head: Any, tolerance: FloatArray | None) -> TorchHead:
    """A head on tensors, or a refusal in one sentence."""
    if "predict" in head.needs_posterior:
        raise _refused(head)
    kind: type[TorchHead] = LOWERINGS.get(type(head), Formulas)
    if isinstance(head, ClassifierHead):
        plain = not (head.labels_by_probability or head.break_ties) and head.n_classes > 1
        kind = (TwoClasses if head.n_classes == 2 else Votes) if plain else Formulas
    elif isinstance(head, LinearHead) and head.n_scores == 1:
        kind = TwoClasses
    return kind(head, tolerance)


def _refused(head: Any) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"what this model makes of its scores ({type(head).__name__}) is not lowered to torch; "
        "pass rows as an array instead of a tensor."
    )


# Votes of all pairs from sums by class: winners that are proven, without spelling scores out.
#
# The score of a pair (i, j) is G_ij + G_ji + b_ij, G_ij what the centers of class i add to it; T_i
# bounds sum |A| K of class i. In single precision, with what that rounds inside the bound:
#
#     bound = (rel + 2^-22) (T_i + T_j) (1 + 2^-8) + fixed + far weight + 2^-22 (|b| + |score|)
#
# rel as in `SliceSums._bounded`, far and weight as in `ExactBound`; `winner_decided` says who wins.


MOST_COUPLED_CLASSES = 32
LARGEST, TINIEST = 1e30, 1e-30  # of a constant, which is held in single precision


class PairVotes(Buffers):
    """Constants of all pairs, as matrices of classes.

    Parameters
    ----------
    fused : SliceSums
    head : Votes
    """

    def __init__(self, fused: SliceSums, head: Votes) -> None:
        super().__init__()
        K = self.n_classes = head.n_classes
        self.sign = head.sign
        tables = np.zeros((4, MOST_COUPLED_CLASSES, MOST_COUPLED_CLASSES))
        listed = (
            fused.factors,
            fused.intercept,
            fused.floors + fused.bound.constant,
            fused.bound.weight,
        )
        for table, values in zip(tables, listed):
            for pair, (i, j) in enumerate(pairs(K)):
                table[i, j] = table[j, i] = values[pair]
        tables[2:] *= 1.0 + 2.0**-20  # rounded up
        self.hold(tables=tables.astype(np.float32))

    @staticmethod
    def serves(fused: SliceSums | None, head: object) -> bool:
        """Whether sums lie class by class, and all constants fit single precision."""
        if not isinstance(head, Votes) or fused is None or not fused.several or fused.fine:
            return False
        largest = max(
            float(part.abs().max()) for part in (fused.factors, fused.intercept, fused.floors)
        )
        fits = float(fused.factors.min()) > TINIEST and largest < LARGEST
        return head.n_classes <= MOST_COUPLED_CLASSES and fused.n_groups == head.n_classes and fits
