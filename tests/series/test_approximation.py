"""An approximation: its parts fit each other."""

from __future__ import annotations

import numpy as np
import pytest

from kernelite.series.approximation import Approximation, certify
from kernelite.series.series import quadratic_form
from kernelite.support.errors import InputError
from tests.helpers import random_expansion


def test_parts_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(3)
    small = random_expansion(rng, d=2)
    two = random_expansion(rng, d=2, k=2)
    with pytest.raises(InputError, match="outputs"):
        Approximation(quadratic_form(small, np.zeros(2)), certify(two, np.zeros(2)))
    form = quadratic_form(small, np.zeros(2))
    with pytest.raises(InputError, match="same point"):
        Approximation(form, certify(small, np.zeros(2)), full=quadratic_form(small, np.ones(2)))
