"""The models of the sweep: generated ones of every size, the board's, the paper's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contestant import Absent
from kernelite.cli.console import note
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, RegressorHead
from kernelite.machine.machine import describe as described
from kernelite.sources import Machine, read

__all__ = ["ROWS", "SAMPLE", "Subject", "subjects"]

FEATURES = (2, 6, 22, 60, 122, 300, 800)
RATIOS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)  # gamma / gamma_max
CENTERS = (100, 500, 2_000, 6_000, 20_000)
SAMPLE, ROWS = 1_000, 2_048  # that ways are built with, and that they are timed on
LONGEST_FIT = 3e9  # products of features that a model is fitted with
MOST_RIDGE, MOST_FITTED = 2_000, 6_000  # rows


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to be laid out in every way, and rows of its kind."""

    name: str
    source: Callable[[], tuple[Machine, np.ndarray]]


def subjects() -> Iterator[Subject]:
    """All models: generated ones first, then the board's and the paper's."""
    shapes = itertools.cycle(("normal", "clusters", "few directions"))
    for turn, (d, ratio) in enumerate(itertools.product(FEATURES, RATIOS)):
        for kind, shift in (("labels", 0), ("values", 1), ("labels", 2), ("values", 4)):
            n, cloud = CENTERS[(turn + shift) % len(CENTERS)], next(shapes)
            name = f"{kind}, {n} rows, {d} features, {ratio:g} gamma_max, {cloud}"
            yield Subject(name, partial(generated, kind, n, d, ratio, cloud))
    for d, ratio in itertools.product((6, 22, 60), (0.1, 1.0)):
        name = f"values, 2000 rows, {d} features, {ratio:g} gamma_max, normal, 4 outputs"
        yield Subject(name, partial(generated, "values", 2_000, d, ratio, "normal", 4))
    for d, ratio in itertools.product((32, 40), (0.1, 0.3)):
        name = f"values, 2000 rows, {d} features, {ratio:g} gamma_max, normal"
        yield Subject(name, partial(generated, "values", 2_000, d, ratio, "normal"))
    for d, kind in itertools.product((2, 3), ("labels", "values")):
        name = f"{kind}, 20000 rows, {d} features, 10000 gamma_max, normal"
        yield Subject(name, partial(generated, kind, 20_000, d, 10_000.0, "normal"))
    yield from _board()


def generated(
    kind: str, n: int, d: int, ratio: float, cloud: str, k: int = 1
) -> tuple[Machine, np.ndarray]:
    """A model fitted to generated rows; of many, all are support vectors at their bounds."""
    rng = np.random.default_rng([n, d, k, int(1000 * ratio)])
    rows = _cloud(rng, n + SAMPLE + ROWS, d, cloud)
    centers, rows = rows[:n], rows[n:]
    gamma = ratio * 0.25 / np.square(rows - rows.mean(axis=0)).sum(axis=1).max()
    slopes = rng.normal(size=(d, k)) / np.sqrt(np.square(centers).sum(axis=1).mean())
    target = np.sin(4.0 * centers @ slopes) + 0.3 * rng.normal(size=(n, k))
    if n <= MOST_FITTED and n * n * d <= LONGEST_FIT:
        return read(_fit(kind, centers, target, gamma)), rows
    weights = np.where(target > np.median(target), 1.0, -1.0)
    order = np.argsort(weights[:, 0] < 0, kind="stable")
    centers, weights = centers[order], weights[order]
    bare = KernelExpansion(centers, weights, np.zeros(1), gamma=gamma)
    expansion = replace(bare, intercept=-np.median(bare.scores(rows[:200]), axis=0))
    two = ClassifierHead(np.array([1, -1]), first_positive=True)
    head: Any = RegressorHead(k) if kind == "values" else two
    return Machine(expansion, head, described("generated", expansion), "libsvm", "c_svc"), rows


def _fit(kind: str, X: np.ndarray, target: np.ndarray, gamma: float) -> Any:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC, SVR

    if kind == "labels":
        return SVC(gamma=gamma).fit(X, target[:, 0] > np.median(target))
    if len(X) <= MOST_RIDGE:
        return KernelRidge(kernel="rbf", gamma=gamma, alpha=1.0).fit(X, target)
    return SVR(gamma=gamma, epsilon=0.05).fit(X, target[:, 0])


def _cloud(rng: np.random.Generator, m: int, d: int, cloud: str) -> np.ndarray:
    if cloud == "normal":
        return rng.normal(size=(m, d))
    if cloud == "clusters":
        return 2.0 * rng.normal(size=(8, d))[rng.integers(8, size=m)] + 0.5 * rng.normal(
            size=(m, d)
        )
    inner = min(d, 8)
    found = rng.normal(size=(m, inner)) @ rng.normal(size=(inner, d)) / np.sqrt(inner)
    return found + 0.1 * rng.normal(size=(m, d))


def _board() -> Iterator[Subject]:
    """The board's models on fewer rows than the board's, and the paper's."""
    from benchmarks.board.cases import SETS, cases_of

    for name in SETS:
        try:
            for case in cases_of(name, 3_000):
                yield Subject(f"board: {case.name}", partial(_fitted, case))
        except Absent as error:
            note(f"{name} does not take part: {error}")


def _fitted(case: Any) -> tuple[Machine, np.ndarray]:
    return read(case.model), np.concatenate([case.train[:SAMPLE], case.rows[:ROWS]])
