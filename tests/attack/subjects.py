"""Random small models, and what forms, tiers and engines of all kinds say of hard rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from kernelite.cpu.cell import CellEngine
from kernelite.cpu.exact import ExactEngine
from kernelite.cpu.kernels import quadratic_sparse, third_dense
from kernelite.cpu.kernels.bounds import prepare_certificate
from kernelite.cpu.local import LocalEngine
from kernelite.cpu.outside import OutsideRows, damped
from kernelite.cpu.runner import Runner
from kernelite.cpu.tiers import form_stages, forms_alone
from kernelite.machine.expansion import KernelExpansion
from kernelite.series.cells import Approximation, Cell
from kernelite.series.certificate import Certificate, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.directional import cubic_gram, directional_bound, gram_slack
from kernelite.series.local import LocalSums
from kernelite.series.quadratic import QuadraticForm, quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.attack.judge import Judge
from tests.helpers import scores_and_bounds, widened
from tests.random_models import KINDS, POINTS, Case, hard_rows, made_hard, point_of

__all__ = ["Answer", "answers", "made"]

Answer = tuple[str, Judge, np.ndarray, np.ndarray]
LARGE = 0.01  # the share of models that are as large as those of the suite


def made(seed: int, number: int) -> tuple[Case, np.random.Generator]:
    """The model of that number, and a generator for what is done with it."""
    rng = np.random.default_rng([seed, number])
    large = rng.random() < LARGE
    d, n = int(rng.integers(1, 41 if large else 9)), int(rng.integers(1, 201 if large else 13))
    k = int(rng.choice([1, 1, 1, 2, 3]))
    kernel = "poly2" if rng.random() < 0.15 else "rbf"
    gamma = 10.0 ** rng.uniform(-6, 1)
    spread = 10.0 ** rng.uniform(-2, 1.5) / np.sqrt(gamma * d)
    centers = rng.normal(size=(n, d)) * spread
    size = 10.0 ** rng.uniform(-6, 6)
    A = rng.choice([-1.0, 1.0], (n, k)) * size * 10.0 ** rng.uniform(-2, 0, (n, k))
    b = rng.normal(size=k) * rng.choice([0.0, 1e-3, 1.0]) * size
    centers, A = made_hard(str(rng.choice(KINDS)), rng, centers, A, spread, kernel)
    c = float(rng.choice([0.0, 1.0, -0.5])) if kernel == "poly2" else 0.0
    expansion = KernelExpansion(centers, A, b, gamma=gamma, kernel=kernel, coef0=c)  # type: ignore[arg-type]
    point = point_of(str(rng.choice(POINTS)) if kernel == "rbf" else "origin", rng, centers)
    return Case(expansion, point, hard_rows(rng, expansion, point)), rng


def answers(case: Case, rng: np.random.Generator) -> Iterator[Answer]:
    """The exact engine in its precisions, and two other subjects that chance names."""
    judge = Judge(case.expansion, case.rows)
    yield from _exact(case, judge, rng)
    names = [*SUBJECTS] if case.expansion.kernel == "rbf" else ["form", "rank", "rank, full"]
    for name in rng.choice(names, 2, replace=False):
        yield from SUBJECTS[str(name)](case, judge, rng)


def _exact(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    kernel = case.expansion.kernel
    engine = ExactEngine.prepare(case.expansion)
    yield f"exact, {kernel}", judge, *scores_and_bounds(engine.run(case.rows))
    if engine.single is not None and engine.single.ready:
        scores, bounds = engine.single.run(case.rows)
        yield "exact, single precision", judge, scores, _known(bounds)
    if rng.random() < 0.2:
        sparse = replace(case.expansion, centers=csr_array(case.expansion.dense_centers()))
        scores, bounds = scores_and_bounds(ExactEngine.prepare(sparse).run(csr_array(case.rows)))
        yield f"exact, sparse, {kernel}", judge, scores, bounds


def _first(cell: Cell, rows: np.ndarray, fused: bool) -> tuple[np.ndarray, np.ndarray]:
    return _of_cells((cell,), rows, fused)


def _of_cells(
    cells: tuple[Cell, ...], rows: np.ndarray, fused: bool
) -> tuple[np.ndarray, np.ndarray]:
    found = forms_alone(Approximation(cells), fused=fused).run(rows, None)
    scores, bounds = scores_and_bounds(found)
    return scores, _known(bounds)


def _second(cell: Cell, rows: np.ndarray, fused: bool) -> tuple[np.ndarray, np.ndarray]:
    engine = CellEngine.prepare(cell, fused=fused)
    scores, bounds = scores_and_bounds(engine.second(rows, engine.first.run(rows)))
    return scores, _known(bounds)


def _known(bounds: np.ndarray) -> np.ndarray:
    """NaN, where a polynomial overflowed, settles no row; it is as good as infinity."""
    return np.where(np.isnan(bounds), np.inf, bounds)


def _engine(rng: np.random.Generator) -> tuple[bool, str]:
    fused = bool(rng.random() < 0.5)
    return fused, "fused" if fused else "BLAS"


def _both(case: Case) -> tuple[QuadraticForm, Certificate]:
    return quadratic_form(case.expansion, case.point), certify(case.expansion, case.point)


def _form(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    cell = Cell(*_both(case))
    yield f"form, {case.expansion.kernel}, {how}", judge, *_first(cell, case.rows, fused)


def _rank(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    form, certificate = _both(case)
    cut = truncate(spectrum(form), int(rng.integers(case.expansion.n_features + 1)))
    yield f"rank, {how}", judge, *_first(Cell(cut, certificate), case.rows, fused)


def _rank_full(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    form, certificate = _both(case)
    cut = truncate(spectrum(form), int(rng.integers(case.expansion.n_features + 1)))
    yield f"rank, full, {how}", judge, *_second(Cell(cut, certificate, full=form), case.rows, fused)


def _cubic(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    (fused, how), d = _engine(rng), case.expansion.n_features
    form, certificate = _both(case)
    tensors = [cubic_tensor(case.expansion, case.point, j) for j in range(case.expansion.n_outputs)]
    cubic = cubic_form(tensors, int(rng.integers(1, d + 1)))
    first = truncate(spectrum(form), d // 2) if rng.random() < 0.3 else form
    yield f"cubic, {how}", judge, *_second(Cell(first, certificate, cubic=cubic), case.rows, fused)


def _product(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    (fused, how), d = _engine(rng), case.expansion.n_features
    form, certificate = _both(case)
    tensors = [cubic_tensor(case.expansion, case.point, j) for j in range(case.expansion.n_outputs)]
    cell = Cell(form, certificate, cubic=cubic_form(tensors, d))
    engine = CellEngine.prepare(cell, fused=fused)
    if engine.paired is None:
        return
    if engine.paired.fused is not None:
        found = third_dense.scores(engine.paired.fused, case.rows)
    else:
        found = engine.paired.run(case.rows, engine.first.run(case.rows, bounded=False))
    scores, bounds = scores_and_bounds(found)
    yield f"product, {how}", judge, scores, _known(bounds)


def _directional(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    (fused, how), d = _engine(rng), case.expansion.n_features
    form, certificate = _both(case)
    grams = [cubic_gram(case.expansion, case.point, j) for j in range(case.expansion.n_outputs)]
    slack = gram_slack(case.expansion, certificate.rounding)
    bound = directional_bound(grams, int(rng.integers(1, d + 1)), slack)
    cell = Cell(form, certificate, cubic=bound)
    yield f"directional, {how}", judge, *_second(cell, case.rows, fused)


def _cells(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    centers = case.expansion.dense_centers()
    points = [case.point, *centers[rng.integers(len(centers), size=2)]]
    cells = tuple(
        Cell(quadratic_form(case.expansion, p), certify(case.expansion, p)) for p in points
    )
    yield f"several points, {how}", judge, *_of_cells(cells, case.rows, fused)


def _widened(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    beyond = rng.uniform(size=len(case.rows)) * 10.0 ** rng.uniform(-3, 3)
    beyond[:2] = 0.0, 2.0**100
    wider, rows, sq_norms = widened(case.expansion, case.rows, beyond)
    own = Judge(wider, rows)
    outside = OutsideRows(case.rows, sq_norms, 0.0)
    forms = form_stages(Approximation((Cell(*_both(case)),)), fused=fused)
    whole = Runner.with_engine(ExactEngine.prepare(case.expansion), forms).cascade
    stages = damped(whole, case.expansion.gamma, case.expansion.intercept, None).stages
    for number, name in ((0, f"widened, {how}"), (-1, "widened, exact")):
        found = stages[number].run(outside, None)
        assert found is not None
        scores, bounds = scores_and_bounds(found)
        yield name, own, scores, _known(bounds)


def _sparse(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    rows = case.rows.copy()
    rows[rng.random(rows.shape) < 0.6] = 0.0
    form = quadratic_sparse.prepare(quadratic_form(case.expansion, case.point))
    certificate = prepare_certificate(certify(case.expansion, case.point))
    out = quadratic_sparse.scores(form, csr_array(rows), certificate)
    assert out.bounds is not None
    yield "sparse rows", Judge(case.expansion, rows), out.scores, _known(out.bounds)


def _local(case: Case, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    if not LocalEngine.serves(case.expansion):
        return
    left_out = 10.0 ** rng.uniform(-12, 0) * np.abs(case.expansion.coefficients).sum(axis=0)
    engine = LocalEngine.prepare(
        case.expansion, LocalSums(left_out, start=float(rng.uniform(0, 30)))
    )
    yield "near centers", judge, *scores_and_bounds(engine.run(case.rows))


SUBJECTS = {
    "form": _form,
    "rank": _rank,
    "rank, full": _rank_full,
    "cubic": _cubic,
    "product": _product,
    "directional": _directional,
    "several points": _cells,
    "widened": _widened,
    "sparse rows": _sparse,
    "near centers": _local,
}
