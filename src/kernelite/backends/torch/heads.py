"""Heads in torch operations, by their own formulas; and what kernels have to know of them.

In: scores and bounds of shape (m, k). Out: labels or values, and which rows are settled whatever
the errors within the bounds.
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
from kernelite.machine.heads import Head
from kernelite.machine.heads.coupling import couple, pair_probabilities
from kernelite.machine.heads.pairwise import pairs
from kernelite.machine.heads.values import SMALLEST_SUM
from kernelite.program.criteria import predict_criterion
from kernelite.support.errors import KerneliteError, UnsupportedModelError

__all__ = ["PairVotes", "TorchHead"]

COUPLED = 1 << 26  # entries of the matrices that couple probabilities, held at once: 512 MB


class TorchHead(Buffers):
    """What a head does, on tensors.

    Parameters
    ----------
    head : Head
    tolerance : ndarray of shape (k,), optional
    """

    def __init__(self, head: Any, tolerance: FloatArray | None) -> None:
        super().__init__()
        self.formulas: Any = head.coupled_by(_coupled, pair_probabilities)
        self.criterion: Formula = predict_criterion(self.formulas, tolerance)
        self.answers: Formula = self.formulas.predict
        self.told_apart = False
        self.lowest = None  # of a density: where its sum has to be taken in logarithms
        if head.kind == "density":
            self.lowest = math.log(SMALLEST_SUM) + head.log_scale
        zeros = torch.zeros(1, head.n_scores, dtype=torch.float64)
        try:
            if "predict" in head.needs_posterior:
                raise UnsupportedModelError("tensors have no variances.")
            self.settled(zeros, zeros)
            try:
                self.labels(zeros)
            except UnsupportedModelError:  # labels that are text
                self.answers = self.formulas.winners
                self.labels(zeros)
        except (KerneliteError, AttributeError, NotImplementedError, TypeError) as error:
            raise UnsupportedModelError(
                f"what this model makes of its scores ({type(head).__name__}) is not lowered to "
                "torch; pass rows as an array instead of a tensor."
            ) from error
        # What kernels tell apart: the sides of a threshold, or classes by their votes.
        self.sign = head.by_sign
        self.votes = head.scores_are_pairs and head.told_by_pairs("predict")
        self.told_apart = self.votes or self.sign is not None
        if self.told_apart:
            kinds = head.classes if self.sign is None else self.sign.labels
            if not self.has_numbers:
                classes = head.classes.tolist()
                kinds = np.array([classes.index(label) for label in kinds.tolist()])
            self.hold(kinds=kinds, limit=np.array([self.sign.threshold if self.sign else 0.0]))

    @property
    def has_numbers(self) -> bool:
        """Whether labels are numbers, which tensors can hold."""
        return self.answers == self.formulas.predict

    def settled(self, scores: Tensor, bounds: Tensor) -> Tensor:
        """Rows whose answer is proven, shape (m,)."""
        return self.criterion(TensorValue(scores), TensorValue(bounds)).tensor

    def labels(self, scores: Tensor) -> Tensor:
        """Labels where they are numbers, else their positions in `classes_`; or values."""
        found: Tensor = self.answers(TensorValue(scores)).tensor
        return found.to(self.kinds.dtype) if self.told_apart else found

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities of shape (m, K)."""
        return self.formulas.probabilities(TensorValue(scores)).tensor


def _coupled(
    first: TensorValue, n_classes: int, moved: TensorValue | None
) -> tuple[TensorValue, TensorValue | None]:
    """As `couple`: by a kernel if it serves, else so many rows at a time that they fit."""
    rows = first.tensor
    formula: Formula = couple
    if moved is not None:
        return formula(first, n_classes, moved)
    if rows.is_cuda and has_triton():
        from kernelite.backends.torch.kernels.votes import run_couple

        return TensorValue(run_couple(rows, n_classes)), None
    parts = rows.split(max(1, COUPLED // n_classes**2))
    found = [formula(TensorValue(part), n_classes, None)[0].tensor for part in parts]
    return TensorValue(torch.cat(found)), None


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
    head : Head
        Whose votes of pairs tell the label.
    """

    def __init__(self, fused: SliceSums, head: Head) -> None:
        super().__init__()
        K = self.n_classes = len(head.classes)
        self.sign = 1.0 if head.first_positive else -1.0  # type: ignore[attr-defined]
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
    def serves(fused: SliceSums | None, head: TorchHead) -> bool:
        """Whether sums lie class by class, and all constants fit single precision."""
        if not head.votes or fused is None or not fused.several or fused.fine:
            return False
        classes = len(head.kinds)
        largest = max(
            float(part.abs().max()) for part in (fused.factors, fused.intercept, fused.floors)
        )
        fits = float(fused.factors.min()) > TINIEST and largest < LARGEST
        return classes <= MOST_COUPLED_CLASSES and fused.n_groups == classes and fits
