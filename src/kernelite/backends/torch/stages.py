"""Rows through the stages, on the device: what is open is listed there, and the host is not asked.

    form (with its certificate)  ->  fused sums  ->  for values, sums of digits  ->  doubles

In: a block of rows and what is asked of them. Out: `Found`, and a tally for the host: whether rows
are left for it to see to. Nothing here waits for the device, so all of it can be recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernelite.backends.torch.tensors import Formula, Tensor, TensorValue
from kernelite.program.bounded import OPEN, Bounded
from kernelite.program.criteria import Criterion, never
from kernelite.series.rounding import sum_error

if TYPE_CHECKING:
    from kernelite.backends.torch.program import Program

__all__ = [
    "BY_STAGE",
    "DOUBLE",
    "FINE",
    "FORM",
    "FUSED",
    "LISTS",
    "LOW",
    "STRANGE",
    "TALLY_ENTRIES",
    "TO_DO",
    "UNDECIDABLE",
    "Asked",
    "Found",
    "answers_of",
    "fused_pays",
    "lost",
    "run_stages",
    "settler",
    "starting_stage",
    "sums_of",
]

FORM, FUSED, DOUBLE, FINE = 0, 1, 2, 3
"""Stages: a row goes from the form to the fused sums, for values to sums of digits, to doubles."""

TO_DO, STRANGE, BY_STAGE, UNDECIDABLE, LISTS, LOW = 0, 1, slice(2, 6), 6, 7, 10
"""Entries of a tally: rows left to the host, rows with huge or no numbers, rows by stage,
undecidable rows, what is open on the way (three lists), and densities that underflow."""
TALLY_ENTRIES = 11
FEW_PRODUCTS = 1 << 31  # of rows, centers and features: with fewer, fused sums beat a form


class Asked(NamedTuple):
    """What is asked of rows.

    Parameters
    ----------
    name : str, optional
        Which method asks: the same name, the same question. None: the question is not kept.
    rule : Criterion, optional
        What settles a row; None where the form answers all ("none").
    finish : callable, optional
        Of scores: the answers. Labels by default.
    """

    name: str | None
    rule: Criterion | None
    finish: Formula | None = None

    @property
    def labels(self) -> bool:
        """Whether labels are asked for; values of a regressor are its labels."""
        return self.finish is None

    @property
    def keeps_better(self) -> bool:
        """Whether scores with a smaller bound are kept, though their label is open."""
        return self.rule is not None and not self.rule.labels_alone


class Found(NamedTuple):
    """What a block's rows got so far; stages write into it.

    Parameters
    ----------
    scores, bounds : float64 tensors of shape (m, k)
    labels : tensor of shape (m,)
        Or what `Asked.finish` answers.
    stage : int8 tensor of shape (m,)
        What answered a row; `OPEN` where the host has to see to it.
    undecidable : bool tensor of shape (m,)
    """

    scores: Tensor
    bounds: Tensor
    labels: Tensor
    stage: Tensor
    undecidable: Tensor


def run_stages(
    program: Program,
    rows: Tensor,
    asked: Asked,
    count: Tensor | None = None,
    tally: Tensor | None = None,
) -> tuple[Found, Tensor]:
    """What rows get, and the tally, both on the device.

    Parameters
    ----------
    program : Program
    rows : tensor of shape (m, d)
    asked : Asked
    count : int32 tensor of shape (1,), optional
        How many rows there are, where others pad: few rows then.
    tally : int32 tensor of shape (11,), optional
        Zeros, a new one by default.
    """
    if tally is None:
        tally = torch.zeros(TALLY_ENTRIES, dtype=torch.int32, device=rows.device)
    if _votes(program, rows, asked):
        found = _voted(program, rows, tally, count)
    elif _all_there(program, rows, asked, few=count is not None):
        found = _listed(program, rows, asked, tally, count)
    else:
        found = _first(program, rows, asked, tally, count)
    head = program.head
    if head.lowest is not None and asked.labels:
        tally[LOW] = (found.labels < head.lowest).sum()
    return found, tally


def starting_stage(program: Program, rows: Tensor, asked: Asked) -> int:
    """The first stage that can settle anything."""
    if asked.rule is never:
        return DOUBLE
    if program.has_forms:
        return FORM
    return FUSED if fused_pays(program, rows, asked) else DOUBLE


def fused_pays(program: Program, rows: Tensor, asked: Asked) -> bool:
    """Whether fused sums run here, and their bounds can settle anything."""
    settles = not (asked.rule is None or asked.rule is never or by_margin(program, asked.rule))
    return program.has_fused and program._kernels(rows) and settles


def by_margin(program: Program, rule: Criterion | None) -> bool:
    """Whether the form's margin settles rows, which no later stage's bound does ("calibrated")."""
    tested = program.guarantee == "calibrated" and program.has_forms
    return tested and rule is not None and rule is not never


def settler(program: Program, rule: Criterion | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Which rows a rule settles, from their scores and bounds: in the head's own words."""
    if rule is None:
        return program.head.settled
    formula: Any = rule.on_scores if by_margin(program, rule) else rule
    return lambda scores, bounds: formula(TensorValue(scores), TensorValue(bounds)).tensor


def answers_of(program: Program, asked: Asked, scores: Tensor) -> Tensor:
    """Labels, or what is asked for instead."""
    return program.head.labels(scores) if asked.finish is None else asked.finish(scores)


def lost(program: Program, asked: Asked, scores: Tensor, bounds: Tensor) -> Tensor:
    """Which rows doubles cannot decide: shape (m,)."""
    if asked.rule is never:
        return ~torch.isfinite(bounds).all(dim=1)
    if by_margin(program, asked.rule):
        return ~program.head.settled(scores, bounds)
    return ~settler(program, asked.rule)(scores, bounds)


# All stages on the device: one machine, whose last stage is a kernel that takes a list.


def _all_there(program: Program, rows: Tensor, asked: Asked, *, few: bool) -> bool:
    """Whether every stage takes a list."""
    part, rule = program.parts[0], asked.rule
    if rule is None or by_margin(program, rule) or len(program.parts) > 1:
        return False
    if not program._kernels(rows) or part.exact is None or not part.exact.has_kernel:
        return False
    return program.n_outputs == 1 or (few and starting_stage(program, rows, asked) != FORM)


def _stages_of(program: Program, rows: Tensor, asked: Asked, *, few: bool) -> list[int]:
    """The stages of a call, in order; doubles are the last."""
    part = program.parts[0]
    if asked.rule is never:
        return [DOUBLE]
    stages = [FORM] if part.forms is not None else []
    values = program.n_outputs == 1 and part.fine is not None and asked.keeps_better
    if fused_pays(program, rows, asked):
        width = part.fused.width * len(part.fused.shifts)
        if few and len(rows) * width <= FEW_PRODUCTS:
            stages = []
        if not values or _settles_half(program, asked):
            stages.append(FUSED)
    if values:
        stages.append(FINE)
    return [*stages, DOUBLE]


def _settles_half(program: Program, asked: Asked) -> bool:
    """Whether the fused sums settle half of some centers, which stand for rows; asked once."""
    if asked.name is None or asked.name not in program.probed:
        part = program.parts[0]
        found = part.fused(part.exact.some)
        settled = settler(program, asked.rule)(found.scores, found.bounds)
        program.probed[asked.name or ""] = float(settled.double().mean()) >= 0.5
    return program.probed[asked.name or ""]


def _listed(
    program: Program, rows: Tensor, asked: Asked, tally: Tensor, count: Tensor | None
) -> Found:
    """One stage after the other, each for the rows that a list names."""
    from kernelite.backends.torch.kernels.doubles import run_doubles

    part = program.parts[0]
    mapped = part.steps(rows).contiguous()
    first, *later = _stages_of(program, rows, asked, few=count is not None)
    if first == DOUBLE:
        begun = part.exact(mapped, kernel=True, tally=tally)
    else:
        form = partial(part.forms, kernel=True) if part.forms is not None else None
        begun = {FORM: form, FUSED: part.fused, FINE: part.fine}[first](mapped)
    scores, bounds = begun.scores, begun.bounds
    found = _room(program, asked, scores, bounds, first)
    judge, still = _Judge(program, asked, found, count), None
    for place, stage in enumerate(later):
        still = judge((first, stage), tally[LISTS + place : LISTS + place + 1], still)
        if stage == DOUBLE:
            run_doubles(part.exact, mapped, tally, into=(scores, bounds), still=still)
        else:
            sums = part.fused if stage == FUSED else part.fine
            sums(mapped, into=(scores, bounds), still=still, keep=asked.keeps_better)
        first = stage
    return judge.answered(tally)


def _room(program: Program, asked: Asked, scores: Tensor, bounds: Tensor, stage: int) -> Found:
    """What rows get, with room for what kernels write."""
    m, device = len(scores), scores.device
    if not _Judge.has_kernels(program, asked):
        stages = torch.full((m,), stage, dtype=torch.int8, device=device)
        return Found(scores, bounds, scores, stages, stages == OPEN)
    stages, undecidable = torch.empty(2, m, dtype=torch.int8, device=device)
    if stage == DOUBLE:
        stages.fill_(DOUBLE)
    labels = _empty_labels(program, m, device)
    return Found(scores, bounds, labels, stages, undecidable.view(torch.bool))


def _empty_labels(program: Program, m: int, device: torch.device) -> Tensor:
    return torch.empty(m, dtype=program.head.kinds.dtype, device=device)


class _Judge:
    """Lists what a stage leaves open: in one kernel for two classes, else by the head's rules."""

    def __init__(self, program: Program, asked: Asked, found: Found, count: Tensor | None) -> None:
        self.program, self.asked, self.found, self.count = program, asked, found, count
        self.fast = self.has_kernels(program, asked)
        self.settles = settler(program, asked.rule)

    @staticmethod
    def has_kernels(program: Program, asked: Asked) -> bool:
        """Whether labels of two classes are asked for, and no more."""
        two = program.head.sign is not None and asked.rule is program.rule
        return two and asked.labels and asked.rule is not never

    def __call__(self, stages: tuple[int, int], counter: Tensor, within: Any = None) -> Any:
        """The open rows; `stages` are this one, and the one that answers these."""
        from kernelite.backends.torch.kernels.rows import list_open, run_judge

        found = self.found
        if self.fast:
            head = self.program.head
            return run_judge(head, found, stages, counter, within, self.count)
        settled = self.settles(found.scores, found.bounds)
        if self.count is not None:
            settled |= _beyond(settled, self.count)
        here = found.stage == stages[0]
        found.stage.add_((here & ~settled).to(torch.int8) * (stages[1] - stages[0]))
        return list_open(settled, counter, within)

    def answered(self, tally: Tensor) -> Found:
        """With labels and what is undecidable; rows are counted."""
        found = self.found
        if self.fast:
            from kernelite.backends.torch.kernels.rows import run_labels

            run_labels(self.program.head, found, tally, self.count)
            return found
        return _answered(self.program, self.asked, found, tally, self.count)


def _beyond(like: Tensor, count: Tensor) -> Tensor:
    """Rows that pad: shape (m,)."""
    return torch.arange(len(like), device=like.device) >= count


def _answered(
    program: Program, asked: Asked, found: Found, tally: Tensor, count: Tensor | None
) -> Found:
    """With labels and what is undecidable, of rows that are not open; rows are counted."""
    scores, stage = found.scores, found.stage
    gone = (stage == DOUBLE) & lost(program, asked, scores, found.bounds)
    by_stage = stage[:, None] == torch.arange(4, device=stage.device)
    if count is not None:
        pads = _beyond(stage, count)
        gone, by_stage = gone & ~pads, by_stage & ~pads[:, None]
    tally[BY_STAGE] = by_stage.sum(dim=0)
    tally[UNDECIDABLE] = gone.sum()
    return found._replace(labels=answers_of(program, asked, scores), undecidable=gone)


# Votes from sums by class: labels without scores.


def _votes(program: Program, rows: Tensor, asked: Asked) -> bool:
    """Whether labels alone are asked for, and votes prove them."""
    proven = program.guarantee in ("certified", "exact")
    mine = asked.labels and asked.rule is program.rule
    return program.votes is not None and proven and mine and program._kernels(rows)


def _voted(program: Program, rows: Tensor, tally: Tensor, count: Tensor | None) -> Found:
    """Winners of a block; open rows in doubles, by the host if rows are many."""
    from kernelite.backends.torch.kernels.doubles import run_doubles
    from kernelite.backends.torch.kernels.fused import run_several
    from kernelite.backends.torch.kernels.rows import run_split
    from kernelite.backends.torch.kernels.votes import run_pair_labels, run_votes

    part, votes, head, m = program.parts[0], program.votes, program.head, len(rows)
    assert votes is not None
    here = count is not None and part.exact.has_kernel
    mapped = part.steps(rows).contiguous()
    slices = run_split(part.fused, mapped)
    shape = (2, m, program.n_outputs if here else 0)
    scores, bounds = torch.empty(shape, dtype=torch.float64, device=rows.device)
    stage, undecidable = torch.zeros(2, m, dtype=torch.int8, device=rows.device)
    labels = _empty_labels(program, m, rows.device)
    found = Found(scores, bounds, labels, stage, undecidable.view(torch.bool))
    sums = run_several(part.fused, slices)
    stages = (FUSED, DOUBLE if here else OPEN)
    counter = tally[LISTS : LISTS + 1] if here else tally[TO_DO : TO_DO + 1]
    still = run_votes(votes, head, part.fused, slices, sums, found, stages, counter, count)
    if here:
        run_doubles(part.exact, mapped, tally, into=(scores, bounds), still=still)
        run_pair_labels(votes, head, found, still, tally[UNDECIDABLE : UNDECIDABLE + 1])
    return found


# Any model: the first stage on the device, what it leaves open is the host's.


def _first(
    program: Program, rows: Tensor, asked: Asked, tally: Tensor, count: Tensor | None
) -> Found:
    """The first stage, for all rows."""
    start = starting_stage(program, rows, asked)
    begun = sums_of(program, rows, start)
    scores, bounds = begun.scores, begun.bounds
    stage = torch.full((len(rows),), start, dtype=torch.int8, device=rows.device)
    if start == DOUBLE or asked.rule is None:
        strange = ~torch.isfinite(rows).all(dim=1)
        tally[STRANGE] = (strange if count is None else strange & ~_beyond(strange, count)).sum()
    else:
        settled = settler(program, asked.rule)(scores, bounds)
        if count is not None:
            settled |= _beyond(settled, count)
        stage.masked_fill_(~settled, OPEN)
        tally[TO_DO] = (stage == OPEN).sum()
    found = Found(scores, bounds, scores, stage, stage == OPEN)
    return _answered(program, asked, found, tally, count)


def sums_of(program: Program, rows: Tensor, stage: int) -> Bounded:
    """Scores and bounds of all parts, added up; adding rounds, and the bounds hold that."""
    kernels = program._kernels(rows)
    if program.front is not None:
        rows = program.front(rows)
    each = [part(rows, stage, kernels=kernels) for part in program.parts]
    if len(each) == 1:
        return each[0]
    shape = (len(rows), program.n_outputs)
    scores, bounds, size = (
        torch.zeros(shape, dtype=torch.float64, device=rows.device) for _ in range(3)
    )
    for part, found in zip(program.parts, each):
        scores[:, part.outputs] += found.scores
        bounds[:, part.outputs] += found.bounds
        size[:, part.outputs] += found.scores.abs()
    unit = sum_error(len(each))
    return Bounded(scores, bounds * (1.0 + unit) + unit * size)
