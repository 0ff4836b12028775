"""What an attack brings home is judged by ball arithmetic there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.attack import attack
from benchmarks.gpu.samples import judged, load_samples, save_samples
from tests.backends.torch.devices import DEVICE, kernels_run

pytestmark = [kernels_run, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def test_samples_come_home_as_they_were(tmp_path: Path) -> None:
    found = attack(2, 5, DEVICE)
    samples = found["samples"]
    save_samples(tmp_path / "samples.npz", samples)
    back = load_samples(tmp_path / "samples.npz")
    assert [sample.name for sample in back] == [sample.name for sample in samples]
    for one, other in zip(samples, back):
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.expansion.coefficients, other.expansion.coefficients)
    verdict = judged(back)
    assert found["violated"] == verdict["violated"] == 0
    assert verdict["models"] == 2
    broken = [sample._replace(scores=sample.scores + 1e9) for sample in back]
    assert judged(broken)["violated"] > 0
