"""Sums of parts: how many parts are evaluated exactly before a row is judged again."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.backends.cpu.runner import Runner
from kernelite.backends.cpu.staging import stage_model, stage_parts
from kernelite.backends.cpu.sums import PartRows
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.expansion import KernelExpansion
from kernelite.program.criteria import Within
from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import quadratic_form
from tests.helpers import random_expansion


def _runner(model: KernelExpansion) -> Runner:
    point = model.dense_centers().mean(axis=0)
    cell = Approximation(quadratic_form(model, point), certify(model, point))
    return stage_model(cell, model)


class _Counted(Within):
    """Remembers how many rows it judged: it is called, since it cannot be told in numbers."""

    rule = None

    def __call__(self, scores: FloatArray, bounds: FloatArray) -> np.ndarray:
        self.__dict__.setdefault("judged", []).append(len(scores))
        return super().__call__(scores, bounds)


@pytest.mark.parametrize(("m", "judgements"), [(1, 2), (40, 5)])
def test_parts_go_in_growing_groups_and_for_few_rows_all_at_once(m: int, judgements: int) -> None:
    rng = np.random.default_rng(0)
    models = [random_expansion(rng, n=20, d=3, gamma=0.3) for _ in range(8)]
    outputs, criterion = np.zeros(1, dtype=np.int64), _Counted(np.full(1, 1e-9))
    runner = stage_parts([(_runner(one), outputs, None) for one in models], 1)
    rows = rng.normal(size=(m, 3))
    found, stats = runner.run(PartRows((rows,) * 8), lambda scores: scores, criterion)
    np.testing.assert_allclose(found, sum(one.scores(rows) for one in models), rtol=1e-9, atol=1e-9)
    assert (stats.exact, stats.undecidable) == (m, 0)
    assert criterion.__dict__["judged"] == [m] * judgements
