"""Small compiled models for the tests of model files, made without any source."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from kernelite.data.rows.inputs import is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, Head, OutlierHead, RegressorHead
from kernelite.model import CompiledModel, Origin
from kernelite.planner.plan import Candidate, Plan
from kernelite.series.approximation import Approximation, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.directional import cubic_gram, directional_bound
from kernelite.series.series import QuadraticForm, quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.helpers import random_expansion


def binary_head(labels: Any = (1, -1), **options: Any) -> ClassifierHead:
    """Two classes, positive first."""
    return ClassifierHead(np.array(labels), **options)


def one_form(form: QuadraticForm) -> Approximation:
    """An approximation with that form alone."""
    return Approximation(form)


def compiled(
    head: Head | None = None,
    *,
    seed: int = 0,
    d: int = 4,
    n: int = 12,
    exact: bool = False,
    sparse: bool = False,
    kernel: str = "rbf",
    at_origin: bool = True,
    type_name: str = "c_svc",
    names: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> CompiledModel:
    """A model of random centers with that head, as a form or exactly."""
    rng = np.random.default_rng(seed)
    head = binary_head() if head is None else head
    expansion = random_expansion(rng, n=n, d=d, k=head.n_scores, kernel=kernel)
    if sparse:
        centers = np.where(rng.random((n, d)) < 0.5, expansion.centers, 0.0)
        expansion = KernelExpansion(
            csr_array(centers), expansion.coefficients, expansion.intercept, expansion.gamma
        )
    point = np.zeros(d) if at_origin else rng.normal(size=d)
    form = None if exact else quadratic_form(expansion, point)
    chosen = Candidate("exact" if exact else "quadratic form", 1.5, 0.0, 8 * d)
    guarantee = "exact" if exact else "none"
    return CompiledModel(
        head=head,
        approximation=None if form is None else one_form(form),
        expansion=expansion if exact else None,
        guarantee=guarantee,  # type: ignore[arg-type]
        plan=Plan(guarantee, chosen, (), 12.5, notes),
        origin=Origin("a test model", "arrays", type_name, n, names),
        on_invalid="ignore",
    )


def proven(kind: int = 1, seed: int = 0, d: int = 3, n: int = 8) -> CompiledModel:
    """A certified model: a form alone, or with all behind it; then a third order on few directions.

    2 evaluates the third order on few directions, 3 bounds it.
    """
    model = compiled(ClassifierHead(np.array([3, 1, 2])), seed=seed, d=d, n=n, exact=True)
    expansion, point = model.expansion, np.random.default_rng(seed).normal(size=d)
    assert expansion is not None
    form = quadratic_form(expansion, point)
    tensors = [cubic_tensor(expansion, point, output) for output in range(3)]
    grams = [cubic_gram(expansion, point, output) for output in range(3)]
    cubics = (
        *(None, cubic_form(tensors, d), cubic_form(tensors, d - 1)),
        directional_bound(grams, d - 1, np.zeros(3)),
    )
    approximation = Approximation(
        form=truncate(spectrum(form), d - 1) if kind == 1 else form,
        certificate=certify(expansion, point),
        full=form if kind == 1 else None,
        cubic=cubics[kind],
    )
    return replace(model, guarantee="certified", approximation=approximation)


HEADS: dict[str, Head] = {
    "integers": binary_head((1, -1)),
    "second positive": binary_head((0, 1), first_positive=False),
    "floats": binary_head((0.5, -2.25)),
    "truth values": binary_head((False, True)),
    "texts": binary_head(("nein", "já")),
    "objects": ClassifierHead(np.array(["no", "yes"], dtype=object)),
    "three": ClassifierHead(np.array([3, 1, 2]), shape="ovr", break_ties=True),
    "platt": binary_head(platt_a=np.array([-1.5]), platt_b=np.array([0.25])),
    "regressor": RegressorHead(noise_scale=0.125),
    "outputs": RegressorHead(3),
    "outlier": OutlierHead(offset=0.5, density_marks=np.linspace(-1, 1, 10)),
}


def assert_same(a: Any, b: Any) -> None:
    """Equal to the last bit: types, dtypes, shapes, values."""
    assert type(a) is type(b)
    if is_dataclass(a):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    elif is_sparse(a):
        assert a.shape == b.shape
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(a, part), getattr(b, part))
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            assert_same(one, other)
    else:
        assert a == b or (a != a and b != b)
