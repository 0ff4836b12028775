"""Which stages rows go through, in which order: laid out once, for a runner.

In: forms, an expansion, an exact engine, or machines whose scores are added up. Out: a `Runner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.approximation import FirstForms, FormStages, form_stages
from kernelite.backends.cpu.exact import DoublePrecision, ExactEngine, FewerDigits
from kernelite.backends.cpu.fused_pairs import WinnersPairs
from kernelite.backends.cpu.heads import judge_here
from kernelite.backends.cpu.local import LocalEngine, NearCenters
from kernelite.backends.cpu.parts import PartsLayout, PartStages, sum_stages, together_stages
from kernelite.backends.cpu.runner import Runner
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.machine import PolynomialTail
from kernelite.machine.preparation import NO_STEPS, Preparation
from kernelite.program.cascade import Cascade, Stage
from kernelite.program.criteria import Criterion
from kernelite.series.approximation import Approximation, LocalSums

__all__ = ["stage_engine", "stage_model", "stage_parts"]


def stage_model(
    approximation: Approximation | None,
    expansion: KernelExpansion | None,
    preparation: Preparation = NO_STEPS,
    local: LocalSums | None = None,
    tail: PolynomialTail | None = None,
) -> Runner:
    """Forms, near centers, single precision, doubles: those of them that a model has."""
    mapped = preparation.input_map is not None
    if expansion is None:
        assert approximation is not None
        stages, form = form_stages(approximation), approximation.form
        cascade = Cascade(stages, False, form.farthest, judge_here())
        first = stages[0]
        return Runner(cascade, form.n_outputs, None, preparation, tail, forms=first, first=first)
    forms = () if approximation is None else form_stages(approximation)
    near = None
    if local is not None and LocalEngine.serves(expansion):
        near = NearCenters(LocalEngine.prepare(expansion, local, mapped=mapped))
    engine = ExactEngine.prepare(expansion, mapped=mapped)
    return stage_engine(engine, forms, near, preparation, tail)


def stage_engine(
    engine: ExactEngine,
    forms: FormStages | tuple[()] = (),
    near: NearCenters | None = None,
    preparation: Preparation = NO_STEPS,
    tail: PolynomialTail | None = None,
) -> Runner:
    """Stages that the exact engine follows."""
    formed = replace(forms[0], shown=engine.shown) if forms else None
    stages: list[Stage] = [] if formed is None else [formed, *forms[1:]]
    if near is not None:
        stages.append(near)
    k = engine.expansion.n_outputs
    first: FirstForms | FewerDigits | None = formed
    if k == 1:
        values = not stages and tail is None
        single, quick = (FewerDigits(engine, quick, values) for quick in (False, True))
        first = first if stages else single
        stages += [single, quick]
    pairs = None
    if k > 1 and not stages and tail is None and engine.expansion.voting_classes is not None:
        pairs = WinnersPairs(engine)
        stages.append(pairs)
    if k > 1 and not forms and near is None and tail is None:
        stages.append(FewerDigits(engine, quick=False, values=True))
    farthest = np.inf if formed is None else formed.engine.approximation.form.farthest
    cascade = Cascade((*stages, DoublePrecision(engine)), True, farthest, judge_here())
    near = None if forms else near
    return Runner(cascade, k, engine, preparation, tail, (), formed, first, near, pairs)


def stage_parts(
    parts: Sequence[tuple[Runner, NDArray[np.int64], Criterion | None]],
    n_outputs: int,
    preparation: Preparation = NO_STEPS,
) -> Runner:
    """Machines whose scores are added up: each at its outputs, with what it has to decide.

    Blocks of rows come behind the `preparation` of the whole, a single row before it.
    """
    stages = [
        PartStages.of(
            *(runner.cascade, outputs, criterion),
            has_exact=runner.exact is not None,
            first=runner.forms,
            near=runner.near,
        )
        for runner, outputs, criterion in parts
    ]
    runners = tuple(runner for runner, _, _ in parts)
    together = together_stages(_together(runners, [one for _, one, _ in parts], n_outputs))
    exact = all(runner.exact_alone for runner in runners)
    first = together if exact else ()  # forms are faster, but not for one row
    cascade = Cascade((*first, *sum_stages(tuple(stages), n_outputs)), judge=judge_here())
    return Runner(cascade, n_outputs, preparation=preparation, parts=runners, together=together)


def _together(
    runners: Sequence[Runner], outputs: Sequence[NDArray[np.int64]], n_outputs: int
) -> PartsLayout | None:
    """Parts that see the same rows laid out together; None where they do not, or cannot be."""
    first = runners[0].preparation
    for runner in runners:
        plain = runner.exact is not None and runner.tail is None and not runner.exact.takes_sparse
        if not plain or not runner.preparation.same_as(first) or first.before_map.steps:
            return None
    return PartsLayout.of([runner.exact for runner in runners], outputs, n_outputs)
