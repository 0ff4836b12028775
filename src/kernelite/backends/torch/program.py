"""A compiled model as a torch module: stages in order, each for the rows still open.

    form (with its certificate)  ->  fused sums on tensor cores  ->  sums in doubles

In: rows on the module's device. Out: `Answer`. Open rows are gathered on the device; rows are taken
in blocks, and an out-of-memory error is met by smaller ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from kernelite.backends.torch.buffers import Bounded, Buffers, Tensor, in_blocks
from kernelite.backends.torch.formulas import Formula, Value
from kernelite.backends.torch.heads import PairVotes, lower_head
from kernelite.backends.torch.kernels import has_triton
from kernelite.backends.torch.parts import DOUBLE, FORM, FUSED, Part
from kernelite.series.rounding import sum_error
from kernelite.support.errors import InputError

if TYPE_CHECKING:
    from kernelite.model.fields import ModelFields

__all__ = ["Answer", "Labels", "Program"]

FEW_ROWS = 4096  # whose kernel values are kept at once for their derivatives


class Answer(NamedTuple):
    """What rows got.

    Parameters
    ----------
    scores, bounds : float64 tensors of shape (m, k)
        How far scores may be from the exact model's; zero where nothing is proven ("none").
    stage : int8 tensor of shape (m,)
        What settled a row: 0 the form, 1 the fused sums, 2 sums in doubles.
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


class Found(NamedTuple):
    """What a block's rows got so far; stages write into it."""

    scores: Tensor
    bounds: Tensor
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
        self.head = lower_head(model.head, model.tolerance)
        self.front = _front_of(model)
        whole = [(model, np.arange(model.head.n_scores))]
        parts = [(part.model, part.outputs) for part in model.parts] or whole
        self.parts = torch.nn.ModuleList([Part(own, outputs) for own, outputs in parts])
        self.guarantee, self.threshold = model.guarantee, model.threshold or 0.0
        self.n_features, self.n_outputs = model.n_features_in_, model.head.n_scores
        self.kernels: bool | None = None  # None: where rows lie on a GPU and Triton is there
        self.has_forms = any(part.forms is not None for part in self.parts)
        self.has_fused = any(part.fused is not None for part in self.parts)
        first = self.parts[0].fused
        votes = len(self.parts) == 1 and PairVotes.serves(first, self.head)
        self.votes = PairVotes(first, self.head) if votes else None

    def forward(
        self, rows: Tensor, *, labels_only: bool = True, criterion: Formula | None = None
    ) -> Answer:
        """Answers of all rows.

        Parameters
        ----------
        rows : tensor of shape (m, d), on the module's device
        labels_only : bool
            Scores need be no better than their labels' proof; if not, those of the fused sums are
            taken only where their bound is not looser than the form's.
        criterion : Criterion, optional
            Rows that do not satisfy it are summed in doubles, whatever their labels.
        """
        given, rows = rows, self._checked(rows)
        run = self._block
        found = in_blocks(lambda part, at: run(part, at, labels_only, criterion), rows, self)
        scores, bounds, labels, stage, _ = found
        if given.requires_grad and torch.is_grad_enabled():
            scores = _WithGradient.apply(given, scores, self)
        return Answer(scores, bounds, stage, labels)

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

    def predict(self, rows: Tensor) -> Labels:
        """Labels alone: votes of several classes need no scores then."""
        rows = self._checked(rows)
        proven = self.guarantee in ("certified", "exact")
        if self.votes is not None and proven and self._kernels(rows):
            return Labels(*in_blocks(self._vote, rows, self))
        return Labels(*in_blocks(lambda part, at: self._block(part, at, True)[2:], rows, self))

    def _vote(self, rows: Tensor, first: int) -> Labels:
        """Winners of a block from sums by class; open rows in doubles."""
        from kernelite.backends.torch.kernels.fused import run_several
        from kernelite.backends.torch.kernels.split import run_split

        part, votes = self.parts[0], self.votes
        assert votes is not None
        mapped = part.steps(rows)
        slices = run_split(part.fused, mapped.contiguous())
        winners, proven = votes(part.fused, slices, *run_several(part.fused, slices))
        labels = self.head.classes[winners] if self.head.has_numbers else winners
        stage = torch.where(proven, FUSED, DOUBLE).to(torch.int8)
        undecidable = torch.zeros_like(proven)
        still = torch.nonzero(~proven)[:, 0]
        if len(still):
            exact = part.exact(mapped[still])
            labels[still] = self.head.labels(exact.scores)
            undecidable[still] = ~self.head.settled(*exact)
            _check_finite(rows, still, first)
        return Labels(labels, stage, undecidable)

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

    def _block(
        self, rows: Tensor, first: int, labels_only: bool, criterion: Formula | None = None
    ) -> Found:
        """Scores, bounds and `Labels` of a block whose first row has the number `first`."""
        pays = self._fused_pays(rows, labels_only or criterion is not None)
        start = FORM if self.has_forms else FUSED if pays else DOUBLE
        if start == FUSED and len(self.parts) == 1 and self.parts[0].exact.one_kernel:
            found = self._at_once(rows, first)
        else:
            found = self._in_stages(rows, first, start, labels_only, pays)
        if criterion is not None:
            accepted = criterion(Value(found.scores), Value(found.bounds)).tensor
            still = torch.nonzero(~accepted & (found.stage != DOUBLE))[:, 0]
            if len(still):
                self._finish(rows, still, found)
        if self.head.lowest is not None:
            self._take_logarithms(rows, found.labels)
        return found

    def _at_once(self, rows: Tensor, first: int) -> Found:
        """Fused sums, then doubles where these leave rows open, all under way before any wait."""
        from kernelite.backends.torch.kernels.doubles import LISTED, run_open

        part, head = self.parts[0], self.head
        mapped = part.steps(rows).contiguous()
        scores, bounds = part.fused(mapped)
        stage = torch.full((len(rows),), FUSED, dtype=torch.int8, device=rows.device)
        flags = run_open(part.exact, mapped, head.settled(scores, bounds), scores, bounds, stage)
        undecidable = ~head.settled(scores, bounds)
        found = Found(scores, bounds, head.labels(scores), stage, undecidable)
        opened, strange = flags.tolist()
        if opened > LISTED:
            self._finish(rows, torch.nonzero(undecidable)[:, 0], found)
        if strange or opened > LISTED:
            _check_finite(rows, None, first)
        return found

    def _in_stages(
        self, rows: Tensor, first: int, start: int, labels_only: bool, pays: bool
    ) -> Found:
        """One stage after the other, each for the rows that the one before leaves open."""
        scores, bounds = self._stage(rows, start)
        stage = torch.full((len(rows),), start, dtype=torch.int8, device=rows.device)
        undecidable = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        # Before waiting for what is open: the device is busy.
        found = Found(scores, bounds, self.head.labels(scores), stage, undecidable)
        if self.guarantee == "none":
            _check_finite(rows, None, first)
            return found
        settled = self._settled(scores, bounds, start)
        if start == DOUBLE:
            _check_finite(rows, None, first)
            return found._replace(undecidable=~settled)
        still = torch.nonzero(~settled)[:, 0]
        if start == FORM and len(still) and pays:
            still = self._fuse(rows, still, found, labels_only)
        if len(still):
            self._finish(rows, still, found)
            _check_finite(rows, still, first)
        return found

    def _fuse(self, rows: Tensor, still: Tensor, found: Found, labels_only: bool) -> Tensor:
        """Improve open rows in place by the fused sums; those that are still open."""
        scores, bounds = self._stage(rows[still], FUSED)
        taken = self._settled(scores, bounds, FUSED)
        if not labels_only:
            taken &= (bounds <= found.bounds[still]).all(dim=1)
        labels = self.head.labels(scores)
        # What is not taken is written too, where nobody asks for scores: the next stage follows.
        if labels_only:
            found.scores[still], found.bounds[still], found.labels[still] = scores, bounds, labels
            found.stage[still] = FUSED
            return still[~taken]
        mine = still[taken]
        found.scores[mine], found.bounds[mine] = scores[taken], bounds[taken]
        found.labels[mine], found.stage[mine] = labels[taken], FUSED
        return still[~taken]

    def _finish(self, rows: Tensor, still: Tensor, found: Found) -> None:
        """Answer open rows in place by sums in doubles."""
        scores, bounds = self._stage(rows[still], DOUBLE)
        found.scores[still], found.bounds[still] = scores, bounds
        found.labels[still], found.stage[still] = self.head.labels(scores), DOUBLE
        found.undecidable[still] = ~self._settled(scores, bounds, DOUBLE)

    def _take_logarithms(self, rows: Tensor, densities: Tensor) -> None:
        """Log-densities whose sums underflow, in place."""
        low = torch.nonzero(densities < self.head.lowest)[:, 0]
        part = self.parts[0]
        if len(low) and len(self.parts) == 1 and part.exact is not None:
            sums = part.exact.log_sums(part.steps(rows[low]))
            densities[low] = sums + self.head.log_scale

    def _fused_pays(self, rows: Tensor, labels_only: bool) -> bool:
        """On a GPU, where the bound of the fused sums can settle anything."""
        wanted = self.has_forms or labels_only or not self.head.proves_labels
        return self.has_fused and self._kernels(rows) and wanted and self.guarantee != "calibrated"

    def _settled(self, scores: Tensor, bounds: Tensor, stage: int) -> Tensor:
        if self.guarantee == "calibrated" and stage == FORM:
            return self.head.margin(scores) > self.threshold
        return self.head.settled(scores, bounds)

    def _stage(self, rows: Tensor, stage: int) -> Bounded:
        """Scores and bounds of all parts, added up; adding rounds, and the bounds hold that."""
        kernels = self._kernels(rows)
        if self.front is not None:
            rows = self.front(rows)
        each = [part(rows, stage, kernels=kernels) for part in self.parts]
        if len(each) == 1:
            return each[0]
        shape = (len(rows), self.n_outputs)
        scores, bounds, size = (
            torch.zeros(shape, dtype=torch.float64, device=rows.device) for _ in range(3)
        )
        for part, found in zip(self.parts, each):
            scores[:, part.outputs] += found.scores
            bounds[:, part.outputs] += found.bounds
            size[:, part.outputs] += found.scores.abs()
        unit = sum_error(len(each))
        return Bounded(scores, bounds * (1.0 + unit) + unit * size)


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


def _front_of(model: ModelFields) -> torch.nn.Module | None:
    """The steps before all parts of a model that has several."""
    from kernelite.backends.torch.parts import RowSteps

    return RowSteps(model) if model.parts and model.preparation.steps else None


def _check_finite(rows: Tensor, which: Tensor | None, first: int) -> None:
    """Refuse NaN and infinity, which no stage settles; `which` rows of the block to look at."""
    part = rows if which is None else rows[which]
    bad = torch.nonzero(~torch.isfinite(part).all(dim=1))[:, 0]
    if len(bad):
        row = int(bad[0] if which is None else which[bad[0]])
        raise InputError(
            f"`X` contains NaN or infinity (first in row {first + row}); impute or drop such rows."
        )
