"""Compiled models of every kind that the exports know, and rows for them: near, far, extreme."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import kernelite
from kernelite.machine.affine import AffineMap
from kernelite.machine.heads import (
    ArgmaxHead,
    ClassifierHead,
    Head,
    LatentHead,
    OutlierHead,
    TransformHead,
)
from kernelite.machine.preparation import Preparation
from kernelite.model import CompiledModel
from kernelite.series.approximation import Approximation, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.series import quadratic_form
from kernelite.series.spectral import spectrum, truncate
from kernelite.sources import Machine
from tests.helpers import random_expansion
from tests.store.models import HEADS, compiled, proven

__all__ = [
    "CASES",
    "FEATURES",
    "certified_with",
    "constant_bytes",
    "far_away",
    "random_rows",
    "same_scores",
    "usable_rows",
]

FEATURES = 4


def random_rows(seed: int = 0, m: int = 60, d: int = FEATURES) -> np.ndarray:
    """Rows about the centers, a few far away, a few where squares overflow or underflow."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(m, d)) * rng.choice([0.1, 1.0, 3.0], size=(m, 1))
    rows[0] = 0.0
    rows[1] = 1e3
    rows[2] = 1e200
    rows[3] = 1e-200
    return rows


def usable_rows(model: CompiledModel, m: int = 60) -> np.ndarray:
    """Random rows; a polynomial overflows on the farthest, and has no answer there."""
    rows = random_rows(m=m)
    part = model.form if model.expansion is None else model.expansion
    return np.delete(rows, 2, axis=0) if part.kernel_tag == "poly2" else rows


def source_of(head: Head, *, kernel: str = "rbf", seed: int = 0, gamma: float = 0.02) -> Machine:
    """Random centers under a head."""
    rng = np.random.default_rng(seed)
    expansion = random_expansion(rng, n=25, d=FEATURES, k=head.n_scores, gamma=gamma, kernel=kernel)
    # Weights and densities are not negative.
    if head.kind == "density" or (isinstance(head, ArgmaxHead) and head.shares):
        expansion = replace(
            expansion,
            coefficients=np.abs(expansion.coefficients),
            intercept=np.abs(expansion.intercept),
        )
    return Machine(expansion, head, "a test model", "arrays", "KernelExpansion")


def certified_with(
    head: Head, *, rank: int | None = None, third: int | None = None
) -> CompiledModel:
    """A certified model with one kind of form; the plan has no say.

    `third` is the rank of its third order, if it has one.
    """
    source = source_of(head)
    expansion = source.expansion
    point = np.random.default_rng(1).normal(size=FEATURES) * 0.7
    whole = quadratic_form(expansion, point)
    form: Any = whole if rank is None else truncate(spectrum(whole), rank)
    forms = Approximation(form, certify(expansion, point))
    if third is not None:
        tensors = [cubic_tensor(expansion, point, j) for j in range(expansion.n_outputs)]
        full = None if rank is None else whole
        forms = replace(forms, full=full, cubic=cubic_form(tensors, third))
    exact = kernelite.compile(source, guarantee="exact")
    tolerance = None if head.proves_labels else np.full(head.n_values, 1e-3)
    return replace(
        exact,
        guarantee="certified",
        approximation=forms,
        tolerance=tolerance,
    )


def _calibrated(head: Head) -> CompiledModel:
    """By a form, although so few centers are summed in less time."""
    rows = np.random.default_rng(2).normal(size=(400, FEATURES))
    source = source_of(head)
    with patch("kernelite.planner.calibrated.PREFERRED", math.inf):
        return kernelite.compile(
            source, rows, guarantee="calibrated", max_disagreement=0.05, confidence=0.9
        )


def _mapped(model: CompiledModel) -> CompiledModel:
    moved = AffineMap(np.array([2.0, 0.5, 1.0, 0.0]), np.array([0.1, -0.2, 0.0, 3.0]))
    return replace(model, preparation=Preparation.of(moved))


def far_away(model: CompiledModel) -> tuple[CompiledModel, np.ndarray]:
    """A model of rows where doubles are 4 apart, and such rows: its map's shift has two words."""
    far, low = np.full(FEATURES, 2.0**54), np.array([0.5, -1.2, 1.9, 0.3])
    rows = far + 4.0 * np.random.default_rng(0).integers(-2, 3, size=(40, FEATURES))
    return replace(
        model, preparation=Preparation.of(AffineMap(np.full(FEATURES, 0.1), far, low))
    ), rows


THREE = ClassifierHead(np.array([3, 1, 2]))
OVR = ClassifierHead(np.array(["red", "green", "blue"]), shape="ovr")

CASES: dict[str, CompiledModel] = {
    **{f"form, {name}": compiled(head, at_origin=False) for name, head in HEADS.items()},
    **{f"exact, {name}": compiled(head, exact=True) for name, head in HEADS.items()},
    "form, polynomial": compiled(THREE, kernel="poly2"),
    "exact, polynomial": compiled(THREE, kernel="poly2", exact=True),
    "exact, sparse centers": compiled(THREE, exact=True, sparse=True),
    "form, transform": compiled(TransformHead(2), at_origin=False),
    "form, argmax": compiled(ArgmaxHead(np.array([5, 4, 9])), at_origin=False),
    "form, latent": compiled(LatentHead(np.array(["no", "yes"])), at_origin=False),
    "form, threshold": compiled(
        ClassifierHead(np.array([1, -1]), threshold=0.25, zero_is_first=True)
    ),
    "form, mapped": _mapped(compiled(THREE, at_origin=False)),
    **{f"certified, kind {kind}": proven(kind, d=FEATURES) for kind in range(4)},
    "certified, binary": certified_with(HEADS["integers"]),
    "certified, platt": certified_with(HEADS["platt"]),
    "certified, three": certified_with(THREE),
    "certified, ovr": certified_with(OVR),
    "certified, break ties": certified_with(replace(OVR, break_ties=True)),
    "certified, argmax": certified_with(ArgmaxHead(np.array([5, 4, 9]))),
    "certified, shares": certified_with(ArgmaxHead(np.array([5, 4, 9]), shares=True)),
    "certified, outlier": certified_with(OutlierHead(density_marks=np.linspace(-1, 1, 10))),
    "certified, regressor": certified_with(HEADS["regressor"]),
    "certified, outputs": certified_with(HEADS["outputs"], rank=3),
    "certified, spectral": certified_with(HEADS["integers"], rank=2),
    "certified, spectral, three": certified_with(THREE, rank=3),
    "certified, third": certified_with(HEADS["integers"], third=FEATURES),
    "certified, third of a regressor": certified_with(HEADS["regressor"], third=FEATURES),
    "certified, third on directions": certified_with(THREE, rank=2, third=2),
    "certified, mapped": _mapped(certified_with(HEADS["integers"])),
    "certified, by probability": certified_with(
        replace(HEADS["platt"], labels_by_probability=True)
    ),
    "calibrated, binary": _calibrated(HEADS["integers"]),
    "calibrated, three": _calibrated(THREE),
    "calibrated, argmax": _calibrated(ArgmaxHead(np.array([5, 4, 9]))),
}


def same_scores(got: np.ndarray, want: np.ndarray) -> None:
    """Equal to 1e-12 of the largest."""
    scale = np.abs(want).max(initial=1e-300)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * scale)


def constant_bytes(text: str) -> int:
    """Bytes of all `static const` arrays of numbers in generated text."""
    total = 0
    for kind, shape in re.findall(r"^static const (\w+) \w+((?:\[\d+\])+) =", text, re.MULTILINE):
        lengths = [int(length) for length in re.findall(r"\d+", shape)]
        total += {"double": 8, "float": 4, "long": 8}.get(kind, 0) * int(np.prod(lengths))
    return total
