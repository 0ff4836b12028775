"""A compiled model as a torch module: stages in order, each for the rows still open.

In: rows on the module's device. Out: `Answer`. `stages` runs on the device, for few rows recorded
once and replayed (`launches`); the host sees to what is left, once per block. Rows are taken in
blocks, and an out-of-memory error is met by smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch

from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.torch.exact import ExactSums, KernelSums
from kernelite.backends.torch.fine import FineSums
from kernelite.backends.torch.forms import FirstForm
from kernelite.backends.torch.fused import SliceSums
from kernelite.backends.torch.heads import PairVotes, TorchHead
from kernelite.backends.torch.kernels import has_triton
from kernelite.backends.torch.launches import SIZES, Graphs, in_blocks
from kernelite.backends.torch.stages import (
    BY_STAGE,
    DOUBLE,
    FORM,
    FUSED,
    LISTS,
    LOW,
    STRANGE,
    TALLY_ENTRIES,
    TO_DO,
    UNDECIDABLE,
    Asked,
    Found,
    answers_of,
    fused_pays,
    lost,
    run_stages,
    settler,
    starting_stage,
    sums_of,
)
from kernelite.backends.torch.tensors import Buffers, Formula, Tensor, TensorValue
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads.pairwise import pairs
from kernelite.machine.preparation import Selection
from kernelite.machine.variance import WELL_CONDITIONED
from kernelite.model.predicting import rule_of
from kernelite.program.bounded import OPEN, Bounded
from kernelite.program.criteria import Criterion, label_criterion, predict_criterion
from kernelite.support.errors import InputError, UnsupportedModelError

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["Answer", "Program"]

FEW_ROWS = 4096  # whose kernel values are kept at once for their derivatives


class Answer(NamedTuple):
    """What rows got.

    Parameters
    ----------
    scores, bounds : float64 tensors of shape (m, k)
        How far scores may be from the exact model's; zero where nothing is proven ("none").
    stage : int8 tensor of shape (m,)
        What settled a row: 0 the form, 1 the fused sums, 2 sums in doubles, 3 sums of digits.
    labels : tensor of shape (m,)
        Labels where they are numbers, else positions in `classes_`; values of a regressor.
    """

    scores: Tensor
    bounds: Tensor
    stage: Tensor
    labels: Tensor


class Labels(NamedTuple):
    """What `Program.predict` finds: labels or values (m,), stages (m,), and undecidable rows (m,).

    Undecidable are rows whose answer lies within the rounding of doubles.
    """

    labels: Tensor
    stage: Tensor
    undecidable: Tensor


class Program(Buffers):
    """The module that `kernelite.torch.module` makes.

    Parameters
    ----------
    model : CompiledModel
    """

    def __init__(self, model: ModelFields) -> None:
        super().__init__()
        self.head = TorchHead(model.head, model.tolerance)
        steps = model.parts and model.preparation.steps
        self.front = RowSteps(model) if steps else None
        whole = [(model, np.arange(model.head.n_scores))]
        parts = [(part.model, part.outputs) for part in model.parts] or whole
        self.parts = torch.nn.ModuleList([PartModule(own, outputs) for own, outputs in parts])
        self.guarantee = model.guarantee
        self.promised = _promised(model)
        self.rule = self.rule_of(predict_criterion(model.head, model.tolerance))
        self.n_features, self.n_outputs = model.n_features_in_, model.head.n_scores
        self.kernels: bool | None = None  # None: where rows lie on a GPU and Triton is there
        self.recorded: bool | None = None  # None: few rows on a GPU, if all their work can be
        self.has_forms = any(part.forms is not None for part in self.parts)
        self.has_fused = any(part.fused is not None for part in self.parts)
        first = self.parts[0].fused
        votes = len(self.parts) == 1 and PairVotes.serves(first, self.head)
        self.votes = PairVotes(first, model.head) if votes else None
        self.graphs = Graphs()
        self.factors: tuple[Tensor, bool] | None = None  # of a posterior, when asked for
        self.probed: dict[str, bool] = {}  # by method: whether fused sums settle enough

    def rule_of(self, criterion: Criterion) -> Criterion | None:
        """What the model's guarantee asks of a row, given what certified would ask."""
        return rule_of(self.promised, criterion)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.graphs.clear()
        return super()._apply(fn, recurse)

    def forward(self, rows: Tensor, *, labels_only: bool = True) -> Answer:
        """Answers of all rows.

        Parameters
        ----------
        rows : tensor of shape (m, d), on the module's device
        labels_only : bool
            Scores need be no better than their labels' proof; if not, those of the fused sums are
            taken only where their bound is not looser than the form's.
        """
        rule = self.rule
        if not labels_only and self.head.formulas.proves_labels:
            rule = self.rule_of(label_criterion(self.head.formulas, None))
        name = "labels and scores" if rule is self.rule else None
        found, _ = self._found(rows, Asked(name, rule))
        scores = found.scores
        if rows.requires_grad and torch.is_grad_enabled():
            scores = _WithGradient.apply(rows, scores, self)
        return Answer(scores, found.bounds, found.stage, found.labels)

    def predict(self, rows: Tensor) -> Labels:
        """Labels alone: votes of several classes need no scores then."""
        found, _ = self._found(rows, Asked("predict", self.rule), Labels._fields)
        return Labels(found.labels, found.stage, found.undecidable)

    def answers(
        self, rows: Tensor, name: str, criterion: Criterion | None, finish: Formula | None
    ) -> tuple[Tensor, list[int]]:
        """What a method answers; how many rows each stage answered, and are undecidable.

        Parameters
        ----------
        rows : tensor of shape (m, d), on the module's device
        name : str
            Of the method: the same name, the same criterion and formula.
        criterion : Criterion, optional
            What a certified row must satisfy; by default that its label is proven.
        finish : callable, optional
            From scores to answers; labels by default.
        """
        rule = self.rule if criterion is None else self.rule_of(criterion)
        found, counts = self._found(rows, Asked(name, rule, finish), ("labels",))
        return found.labels, counts

    def factors_of(self, posterior: Any) -> tuple[Tensor, bool]:
        """L of a posterior on the module's device; or its inverse, if L is well-conditioned."""
        device = self.parts[0].outputs.device
        if self.factors is None or self.factors[0].device != device:
            factor = torch.from_numpy(np.tril(posterior.factor)).to(device)
            unit = torch.eye(len(factor), dtype=torch.float64, device=device)
            inverse = torch.linalg.solve_triangular(factor, unit, upper=False)
            good = float(factor.norm() * inverse.norm()) <= WELL_CONDITIONED
            self.factors = (inverse if good else factor, good)
        return self.factors

    def pulled_back(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The derivative of sum(weights * scores) by the rows, from sums in doubles.

        Parameters
        ----------
        rows : tensor of shape (m, d)
        weights : tensor of shape (m, k)
        """
        if any(part.exact is None for part in self.parts):
            raise InputError(
                "this module holds no support vectors (guarantee='none'), so its scores have no "
                "exact derivatives; compile the model with guarantee='certified' or 'exact'."
            )
        found = []
        for part, weight in zip(rows.split(FEW_ROWS), weights.split(FEW_ROWS)):
            with torch.enable_grad():
                leaf = part.detach().double().requires_grad_()
                through = leaf if self.front is None else self.front(leaf)
                total = torch.zeros((), dtype=torch.float64, device=rows.device)
                for one in self.parts:
                    scores = one.exact(one.steps(through)).scores
                    total = total + (weight[:, one.outputs] * scores).sum()
            found.append(torch.autograd.grad(total, leaf)[0])
        return torch.cat(found) if found else torch.zeros_like(rows)

    def row_bytes(self, rows: Tensor) -> int:
        """What a row of a block takes beside itself, about."""
        kernels = self._kernels(rows) and len(self.parts) == 1
        formed = self.has_forms and kernels and self.parts[0].forms.layout is not None
        outputs = 16 * self.n_outputs if self.votes is not None else 64 * self.n_outputs
        return 64 + outputs + (0 if formed else 24 * self.n_features)

    def _kernels(self, rows: Tensor) -> bool:
        return (rows.is_cuda and has_triton()) if self.kernels is None else self.kernels

    def _checked(self, rows: Tensor) -> Tensor:
        device = self.parts[0].outputs.device
        if not isinstance(rows, torch.Tensor) or rows.layout is not torch.strided:
            kind = type(rows).__name__ if not isinstance(rows, torch.Tensor) else "sparse tensor"
            raise InputError(
                f"a module takes a dense tensor, got a {kind}; make one by `torch.as_tensor(X)` or "
                "`X.to_dense()`."
            )
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            shape = tuple(rows.shape)
            raise InputError(f"`X` has shape {shape}, but this model takes (m, {self.n_features}).")
        if rows.device != device:
            raise InputError(
                f"the rows lie on {rows.device}, but the module on {device}; move one by `.to()`."
            )
        if rows.is_complex():
            raise InputError("`X` must hold real numbers. Complex data not supported.")
        rows = rows.detach()
        return rows if rows.dtype in (torch.float32, torch.float64) else rows.double()

    def _found(
        self, rows: Tensor, asked: Asked, wanted: Sequence[str] = Found._fields
    ) -> tuple[Found, list[int]]:
        """What all rows get, of few rows some fields alone; and counts, as `answers` gives them."""
        rows = self._checked(rows)
        if asked.name is not None and self._is_recorded(rows):
            found, tally = self.graphs(
                asked.name,
                lambda part, count, tally: run_stages(self, part, asked, count, tally)[0],
                rows,
                wanted,
                TALLY_ENTRIES,
            )
            return self._finished(rows, 0, asked, found, tally)
        counts: list[list[int]] = []

        def block(part: Tensor, first: int) -> Found:
            found, tally = run_stages(self, part, asked)
            found, counted = self._finished(part, first, asked, found, tally.tolist())
            counts.append(counted)
            return found

        found = Found(*in_blocks(block, rows, self))
        return found, [sum(one) for one in zip(*counts)]

    def _is_recorded(self, rows: Tensor) -> bool:
        """Few rows, whose work asks the host nothing."""
        wanted = rows.is_cuda if self.recorded is None else self.recorded
        return wanted and self._kernels(rows) and 0 < rows.shape[0] <= SIZES[-1]

    def _finished(
        self, rows: Tensor, first: int, asked: Asked, found: Found, tally: list[int]
    ) -> tuple[Found, list[int]]:
        """The host's part: rows that the device left, and those that it must refuse."""
        if tally[STRANGE]:
            _check_finite(rows, None, first)
        counts = [*tally[BY_STAGE], tally[UNDECIDABLE]]
        if not any(tally[BY_STAGE]) and not tally[TO_DO]:  # votes: who is not open is settled
            counts[DOUBLE] = tally[LISTS]
            counts[FUSED] = rows.shape[0] - tally[LISTS]
        if tally[TO_DO]:
            still = torch.nonzero(found.stage == OPEN)[:, 0]
            self._finish(rows, still, asked, found)
            _check_finite(rows, still, first)
            by_stage = torch.bincount(found.stage.int(), minlength=4).tolist()
            counts = [*by_stage, int(found.undecidable.sum())]
        if tally[LOW] or (tally[TO_DO] and self.head.lowest is not None):
            self._take_logarithms(rows, found.labels)
        return found, counts

    def _finish(self, rows: Tensor, still: Tensor, asked: Asked, found: Found) -> None:
        """Open rows, by the stages after the first; what they get is written to `found`."""
        has_scores = found.scores.shape[1] > 0  # which votes do not know

        def write(places: Tensor, new: Bounded, stage: int) -> None:
            if has_scores:
                found.scores[places], found.bounds[places] = new.scores, new.bounds
            found.stage[places] = stage
            found.labels[places] = answers_of(self, asked, new.scores)

        formed = has_scores and starting_stage(self, rows, asked) == FORM
        if formed and fused_pays(self, rows, asked):
            new: Any = sums_of(self, rows[still], FUSED)
            taken = settler(self, asked.rule)(new.scores, new.bounds)
            if asked.keeps_better:
                taken &= (new.bounds <= found.bounds[still]).all(dim=1)
            write(still[taken], Bounded(new.scores[taken], new.bounds[taken]), FUSED)
            still = still[~taken]
        exact = sums_of(self, rows[still], DOUBLE)
        write(still, exact, DOUBLE)
        found.undecidable[still] = lost(self, asked, exact.scores, exact.bounds)

    def _take_logarithms(self, rows: Tensor, densities: Tensor) -> None:
        """Log-densities whose sums underflow, in place."""
        low = torch.nonzero(densities < self.head.lowest)[:, 0]
        part = self.parts[0]
        logarithms = part.exact is not None and part.exact.has_logarithms
        if len(low) and len(self.parts) == 1 and logarithms:
            sums = part.exact.log_sums(part.steps(rows[low]))
            densities[low] = self.head.formulas.from_logarithms(TensorValue(sums)).tensor


class _WithGradient(torch.autograd.Function):  # type: ignore[misc]
    """Scores as they were found, with derivatives by their rows."""

    @staticmethod
    def forward(context: Any, rows: Tensor, scores: Tensor, program: Program) -> Tensor:
        """The scores."""
        context.save_for_backward(rows)
        context.program = program
        return scores.clone()

    @staticmethod
    def backward(context: Any, weights: Tensor) -> Any:
        """Derivatives by the rows; none by the others."""
        (rows,) = context.saved_tensors
        return context.program.pulled_back(rows, weights).to(rows.dtype), None, None


def _promised(model: ModelFields) -> Any:
    """What `rule_of` asks of a model, without its arrays."""
    return SimpleNamespace(
        guarantee=model.guarantee,
        approximation=None if model.approximation is None else "forms",
        parts=bool(model.parts),
        head=model.head,
        threshold=model.threshold,
    )


def _check_finite(rows: Tensor, which: Tensor | None, first: int) -> None:
    """Refuse NaN and infinity, which no stage settles; `which` rows of the block to look at."""
    part = rows if which is None else rows[which]
    bad = torch.nonzero(~torch.isfinite(part).all(dim=1))[:, 0]
    if len(bad):
        row = int(bad[0] if which is None else which[bad[0]])
        raise InputError(
            f"`X` contains NaN or infinity (first in row {first + row}); impute or drop such rows."
        )


# One machine: the steps of its rows, and what scores them at each stage.


class RowSteps(Buffers):
    """The steps of a model's preparation, in order.

    Parameters
    ----------
    model : CompiledModel
        Or a part of one.
    """

    def __init__(self, model: ModelFields) -> None:
        super().__init__()
        self.formulas: list[Formula] = []
        for step in model.preparation.steps:
            if not isinstance(step, AffineMap | Selection):
                raise UnsupportedModelError(
                    f"this model prepares its rows by a step ({_name(step)}) that is not lowered "
                    "to torch; transform the rows first, or pass them as an array."
                )
            self.formulas.append(step.formula)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows as the forms take them: shape (m, d); as they are where there is no step."""
        for formula in self.formulas:
            rows = formula(TensorValue(rows)).tensor
        return rows


def _name(step: Any) -> str:
    """What messages call a step that is not lowered."""
    return str(getattr(step, "name", type(step).__name__))


class PartModule(Buffers):
    """A machine, and the outputs of the whole that its scores are added to.

    Parameters
    ----------
    model : CompiledModel
        Without parts of its own.
    outputs : ndarray of int
    """

    def __init__(self, model: ModelFields, outputs: Any) -> None:
        super().__init__()
        if model.tail is not None:
            raise UnsupportedModelError(
                "a model with a polynomial beside its kernels is not lowered to torch; pass rows "
                "as an array instead of a tensor."
            )
        self.steps = RowSteps(model)
        self.forms = None if model.approximation is None else FirstForm(model.approximation)
        self.fused = self.fine = self.exact = None
        expansion, mapped = model.expansion, model.preparation.input_map is not None
        if expansion is not None and not expansion.has_series:
            self.exact = KernelSums(expansion, mapped=mapped)
        elif expansion is not None:
            dense = DenseExact.prepare(expansion, mapped=mapped)
            self.exact = ExactSums(dense)
            if SliceSums.serves(dense):
                self.fused = SliceSums(dense, _families(model.head))
            if FineSums.serves(dense):
                self.fine = FineSums(dense)
        self.hold(outputs=np.asarray(outputs))

    def forward(self, rows: Tensor, stage: int, *, kernels: bool) -> Bounded:
        """Scores and bounds at a stage; a part that lacks it answers by its next one."""
        rows = self.steps(rows)
        if stage == FORM and self.forms is not None:
            return self.forms(rows, kernel=kernels)
        if stage <= FUSED and self.fused is not None and kernels:
            return self.fused(rows)
        assert self.exact is not None
        return self.exact(rows, kernel=kernels)


def _families(head: Any) -> list[np.ndarray]:
    """Of a one-vs-one machine: the pairs of each class."""
    if not head.scores_are_pairs or len(head.classes) < 3:
        return []
    of_pair = np.array(list(pairs(len(head.classes))))
    return [np.flatnonzero((of_pair == c).any(axis=1)) for c in range(len(head.classes))]
