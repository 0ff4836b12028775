"""Random small models, and what forms, tiers and engines of all kinds say of hard rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from kernelite.backends.cpu.approximation import ApproximationEngine, form_stages, forms_alone
from kernelite.backends.cpu.exact import ExactEngine
from kernelite.backends.cpu.exact_dense import DenseExact
from kernelite.backends.cpu.factors import (
    Eigenvectors,
    InverseFactor,
    deviation_bound,
)
from kernelite.backends.cpu.kernels import quadratic_dense, quadratic_sparse, third_dense
from kernelite.backends.cpu.kernels.bounds import prepare_certificate
from kernelite.backends.cpu.local import LocalEngine
from kernelite.backends.cpu.parts import PartRows, PartStages, sum_stages
from kernelite.backends.cpu.rows import OutsideRows, damped
from kernelite.backends.cpu.short_rest import BASIS_COLUMNS, ShortRest, leading_columns
from kernelite.backends.cpu.staging import stage_engine
from kernelite.backends.cpu.variance import Variances
from kernelite.machine.expansion import KernelExpansion, kernel_values
from kernelite.machine.heads import ClassifierHead
from kernelite.machine.kernels import Gaussian, Radial
from kernelite.machine.pairs import columns_of_class
from kernelite.machine.variance import Posterior
from kernelite.program.cascade import Cascade
from kernelite.series.approximation import Approximation, Certificate, LocalSums, certify
from kernelite.series.cubic import cubic_form, cubic_tensor
from kernelite.series.directional import cubic_gram, directional_bound, gram_slack
from kernelite.series.series import QuadraticForm, quadratic_form
from kernelite.series.spectral import spectrum, truncate
from tests.attack.chances import chances
from tests.attack.judge import (
    DeviationJudge,
    ElectionJudge,
    Judge,
    LeadJudge,
    VarianceJudge,
    VoteJudge,
)
from tests.helpers import scores_and_bounds, widened
from tests.machine.kernels.test_kernel_bounds import GROWING, KERNELS
from tests.random_models import KINDS, POINTS, Case, hard_rows, made_hard, point_of

__all__ = ["FAMILIES", "Answer", "answers", "chance_answers", "made"]

Answer = tuple[str, Judge, np.ndarray, np.ndarray]
LARGE = 0.01  # the share of models that are as large as those of the suite
FAMILIES = {"rbf": 0.72, "poly2": 0.12, "pairs": 0.08, "named": 0.08}
"""Kinds of models and their shares; "named" are all other kernels, which cost the judge most."""
MOST_CLASSES = 5
CHANCES = 0.1  # the share of models whose scores become probabilities, too
DEVIATIONS = 0.25  # the share of models whose centers a Gaussian process is made of, too
MOST_TRAINED = 20  # rows of a Gaussian process, with which ball arithmetic solves


@dataclass(frozen=True, eq=False)
class Model(Case):
    """A model of a family; of a named kernel, which one. What several subjects ask for is kept."""

    family: str
    kind: str

    @cached_property
    def engine(self) -> ExactEngine:
        """The exact engine."""
        return ExactEngine.prepare(self.expansion)

    @cached_property
    def form(self) -> QuadraticForm:
        """The form about the point."""
        return quadratic_form(self.expansion, self.point)

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of that form."""
        return certify(self.expansion, self.point)

    @property
    def cell(self) -> Approximation:
        """Both."""
        return Approximation(self.form, self.certificate)


def made(seed: int, number: int) -> tuple[Model, np.random.Generator]:
    """The model of that number, and a generator for what is done with it."""
    rng = np.random.default_rng([seed, number])
    family = str(rng.choice([*FAMILIES], p=[*FAMILIES.values()]))
    if family == "named":
        return _named(rng), rng
    kernel = "poly2" if family == "poly2" else "rbf"
    large = rng.random() < LARGE
    d, n = int(rng.integers(1, 41 if large else 9)), int(rng.integers(1, 201 if large else 13))
    gamma = 10.0 ** rng.uniform(-6, 1)
    spread = 10.0 ** rng.uniform(-2, 1.5) / np.sqrt(gamma * d)
    centers = rng.normal(size=(n, d)) * spread
    size = 10.0 ** rng.uniform(-6, 6)
    A = (
        _of_pairs(rng, n)
        if family == "pairs"
        else _of_any(rng, n, int(rng.choice((1, 1, 1, 2, 3))))
    )
    b = rng.normal(size=A.shape[1]) * rng.choice([0.0, 1e-3, 1.0]) * size
    centers, A = made_hard(str(rng.choice(KINDS)), rng, centers, size * A, spread, kernel)
    c = float(rng.choice([0.0, 1.0, -0.5])) if kernel == "poly2" else 0.0
    expansion = KernelExpansion(centers, A, b, gamma=gamma, kernel=kernel, coef0=c)  # type: ignore[arg-type]
    point = point_of(str(rng.choice(POINTS)) if kernel == "rbf" else "origin", rng, centers)
    return Model(expansion, point, hard_rows(rng, expansion, point), family, kernel), rng


def _of_any(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], (n, k)) * 10.0 ** rng.uniform(-2, 0, (n, k))


def _of_pairs(rng: np.random.Generator, n: int) -> np.ndarray:
    """Coefficients of one-vs-one: a center has those of its own class's pairs."""
    K = int(rng.integers(3, MOST_CLASSES + 1))
    A = np.zeros((n, K * (K - 1) // 2))
    for i, c in enumerate(rng.integers(0, K, size=n)):
        signs = np.where(np.delete(np.arange(K), c) > c, 1.0, -1.0)
        A[i, columns_of_class(K, c)] = signs * 10.0 ** rng.uniform(-2, 0, K - 1)
    return A


def _named(rng: np.random.Generator) -> Model:
    """A small model with one of the other kernels."""
    kind = str(rng.choice([*KERNELS]))
    d, n, k = int(rng.integers(1, 6)), int(rng.integers(1, 6)), int(rng.choice((1, 1, 2)))
    width, size = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-4, 4)
    spread = width * 10.0 ** rng.uniform(-2, 1.5) / np.sqrt(d)
    growing = kind in GROWING or "spline" in kind or "plate" in kind
    centers, A = made_hard(
        *(str(rng.choice(KINDS)), rng, rng.normal(size=(n, d)) * spread, size * _of_any(rng, n, k)),
        *(spread, "poly2" if growing else "rbf"),
    )
    b = rng.normal(size=k) * rng.choice([0.0, 1.0]) * size
    model = KernelExpansion(centers, A, b, kernel=KERNELS[kind](rng, d, width))
    like = KernelExpansion(centers, A, b, gamma=1.0 / width**2)
    point = np.zeros(d)
    return Model(model, point, hard_rows(rng, like, point), "named", kind)


def answers(case: Model, rng: np.random.Generator) -> Iterator[Answer]:
    """The exact engine in its precisions, and other subjects that chance names."""
    judge = Judge(case.expansion, case.rows)
    if case.family == "named":
        yield from _pointwise(case, judge)
        if isinstance(case.expansion.kernel, Radial):
            yield from _variances(case, judge, rng)
        return
    yield from _exact(case, judge, rng)
    if case.family == "pairs":
        yield from _pairs(case, rng)
        yield from _chances(case, rng)
        return
    if case.family == "rbf" and rng.random() < CHANCES:
        yield from _chances(case, rng)
    names = [*SUBJECTS] if case.family == "rbf" else ["form", "rank", "rank, full"]
    for name in rng.choice(names, 2, replace=False):
        yield from SUBJECTS[str(name)](case, judge, rng)
    if case.family == "rbf" and rng.random() < DEVIATIONS:
        yield from _variances(case, judge, rng)


def _pointwise(case: Model, judge: Judge) -> Iterator[Answer]:
    """Another kernel: as the engine serves it, in single precision, by tiles and by loops."""
    engine = case.engine
    yield f"kernel, {case.kind}", judge, *scores_and_bounds(engine.run(case.rows))
    if engine.single is not None:
        yield f"kernel, single precision, {case.kind}", judge, *engine.single.run(case.rows)
    if engine.takes_sparse:
        scores, bounds = scores_and_bounds(engine.run(csr_array(case.rows)))
        yield f"kernel, sparse rows, {case.kind}", judge, scores, bounds
    plain = DenseExact.by_values(case.expansion)  # also where a polynomial collapses
    bounds = plain.rounding.bounds(plain.squares(case.rows))
    ways = {"tiles": plain.add_tiles}
    if plain.loops is not None:
        ways["loops"] = plain.loops.add
    for how, add in ways.items():
        sums = np.zeros((len(case.rows), case.expansion.n_outputs))
        with np.errstate(all="ignore"):
            add(case.rows, sums)
        yield f"kernel, {how}, {case.kind}", judge, sums + case.expansion.intercept, bounds


def _variances(case: Model, _judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    """Variances of a Gaussian process on some of the centers: by each kind of product."""
    centers = case.expansion.dense_centers()[:MOST_TRAINED]
    n = len(centers)
    expansion = replace(
        case.expansion,
        centers=centers,
        coefficients=np.zeros((n, 1)),
        intercept=np.zeros(1),
        uncertainty=None,
    )
    with np.errstate(all="ignore"):
        K = kernel_values(expansion, centers)
    amplitude, noise = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-12, 1)
    weights = rng.uniform(0.05, 0.5, n) if rng.random() < 0.3 else np.ones(n)
    try:
        factor = np.linalg.cholesky(amplitude * (K + noise * np.eye(n)))
    except np.linalg.LinAlgError:
        return
    own = float(kernel_values(expansion, centers[:1])[0, 0])  # of any row with itself
    diagonal = amplitude * (own + noise)
    posterior = Posterior(factor, weights, amplitude, 0.0, diagonal, np.ones(1))
    judge, rows = VarianceJudge(posterior, expansion, case.rows), (case.rows,)
    deviations = DeviationJudge(judge)
    engine = Variances(posterior.laid_out((expansion,)), [False], 1e-3)
    if engine.covariances is None:
        return
    inverse = InverseFactor.of(factor, engine.covariances.width)
    every = Eigenvectors.all_of(factor, engine.covariances.width)
    ways: dict[str, Any] = {} if inverse is None else {"inverse": inverse}
    if every is not None and n > 1:
        leading = every.leading(int(rng.integers(1, n))).kept()
        ways["eigenvectors"] = leading
    if inverse is not None:
        basis = leading_columns(factor, int(rng.integers(0, min(n, BASIS_COLUMNS) + 1)))
        if (short := ShortRest.of(inverse, basis)) is not None:
            ways["short rest"] = short
    for how, factors in ways.items():
        with np.errstate(all="ignore"):
            found, errors = engine._by(factors, rows)
        errors = np.where(np.isfinite(found) & np.isfinite(errors), errors, np.inf)
        yield f"variances, {how}", judge, found[:, None], errors[:, None]
        with np.errstate(all="ignore"):
            alone = _alone(engine, factors, case.rows)
        yield f"variances, {how}, each row alone", judge, *alone
        with np.errstate(all="ignore"):
            roots, off = np.sqrt(np.maximum(found, 0.0)), deviation_bound(found, errors)
        roots, off = np.where(np.isfinite(off), roots, 0.0), _known(off)
        yield f"deviations, {how}", deviations, roots[:, None], off[:, None]


def _alone(engine: Variances, factors: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances and bounds of rows that come one by one, shape (m, 1)."""
    found = []
    for i in range(len(rows)):
        x, moved = engine._inputs((rows[i : i + 1],))
        found.append(engine._left(*factors.square(x[0], moved.item())))
    variances, errors = np.array(found).T
    errors = np.where(np.isfinite(variances) & np.isfinite(errors), errors, np.inf)
    return variances[:, None], errors[:, None]


def chance_answers(case: Model, rng: np.random.Generator) -> Iterator[Answer]:
    """Probabilities and standard deviations alone."""
    if case.family != "named":
        yield from _chances(case, rng)
    if case.expansion.kernel.shifts and case.expansion.kernel.proven:
        yield from _variances(case, Judge(case.expansion, case.rows), rng)


def _chances(case: Model, rng: np.random.Generator) -> Iterator[Answer]:
    """Probabilities of a head, from scores in doubles, in single precision, of a form."""
    engine, (fused, how) = case.engine, _engine(rng)
    found = {"exact": scores_and_bounds(engine.run(case.rows))}
    if engine.single is not None:
        scores, bounds = engine.single.run(case.rows)
        found["single precision"] = scores, _known(bounds)
    found[f"form, {how}"] = _first(case.cell, case.rows, fused)
    pairs = case.family == "pairs"
    yield from chances(case.expansion, case.rows, found, pairs=pairs, rng=rng)


def _pairs(case: Model, rng: np.random.Generator) -> Iterator[Answer]:
    """Winners of one-vs-one, and decision values of shape "ovr" from the form and exactly."""
    engine = case.engine
    k = case.expansion.n_outputs
    K = (1 + round((1 + 8 * k) ** 0.5)) // 2
    if engine.pairs is not None:
        first = bool(rng.random() < 0.5)
        winners, leads = engine.pairs.winners(case.rows, ties_to_first=first)
        elected = np.where((winners >= 0) & (leads == 0.0), winners, np.nan)[:, None]
        election = ElectionJudge(case.expansion, case.rows, ties_to_first=first)
        yield "winners by votes", election, elected, elected
        claims = np.full((len(case.rows), k), np.nan)
        for i in np.flatnonzero((winners >= 0) & (leads > 0.0)):
            c = int(winners[i])
            signs = np.where(np.delete(np.arange(K), c) > c, 1.0, -1.0)
            claims[i, columns_of_class(K, c)] = signs * leads[i]
        yield "winners of pairs", LeadJudge(case.expansion, case.rows), claims, claims
    judge = VoteJudge(case.expansion, case.rows)
    head = ClassifierHead(np.arange(K), shape="ovr")
    fused, how = _engine(rng)
    for name, (scores, bounds) in {
        "decision values, exact": scores_and_bounds(engine.run(case.rows)),
        f"decision values, form, {how}": _first(case.cell, case.rows, fused),
    }.items():
        yield name, judge, *_decisions(head, scores, bounds)


def _decisions(
    head: ClassifierHead, scores: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Decision values and how far they may be off, as `error_bound` says it."""
    with np.errstate(all="ignore"):
        decision = head.decision(scores)
        low, high = head.decision_range(scores, bounds)
        off = np.maximum(high - decision, decision - low)
    return decision, _known(off)


def _exact(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    kernel = type(case.expansion.kernel).__name__
    engine = case.engine
    yield f"exact, {kernel}", judge, *scores_and_bounds(engine.run(case.rows))
    if engine.single is not None:
        scores, bounds = engine.single.run(case.rows)
        yield "exact, single precision", judge, scores, _known(bounds)
    if engine.several is not None:
        scores, bounds = engine.several.run(case.rows)
        yield "exact, several tangents", judge, scores, _known(bounds)
    for sums, name in ((engine.quick, "quick"), (engine.quickest, "quickest")):
        if sums is not None:
            scores, bounds = sums.run(case.rows)
            yield f"exact, {name} exponentials", judge, scores, _known(bounds)
    if rng.random() < 0.2:
        sparse = replace(case.expansion, centers=csr_array(case.expansion.dense_centers()))
        scores, bounds = scores_and_bounds(ExactEngine.prepare(sparse).run(csr_array(case.rows)))
        yield f"exact, sparse, {kernel}", judge, scores, bounds


def _first(cell: Approximation, rows: np.ndarray, fused: bool) -> tuple[np.ndarray, np.ndarray]:
    found = forms_alone(cell, fused=fused).run(rows, None)
    scores, bounds = scores_and_bounds(found)
    return scores, _known(bounds)


def _second(cell: Approximation, rows: np.ndarray, fused: bool) -> tuple[np.ndarray, np.ndarray]:
    engine = ApproximationEngine.prepare(cell, fused=fused)
    scores, bounds = scores_and_bounds(engine.second(rows, engine.first.run(rows)))
    return scores, _known(bounds)


def _known(bounds: np.ndarray) -> np.ndarray:
    """NaN, where a polynomial overflowed, settles no row; it is as good as infinity."""
    return np.where(np.isnan(bounds), np.inf, bounds)


def _engine(rng: np.random.Generator) -> tuple[bool, str]:
    fused = bool(rng.random() < 0.5)
    return fused, "fused" if fused else "BLAS"


def _form(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    kernel = type(case.expansion.kernel).__name__
    yield f"form, {kernel}, {how}", judge, *_first(case.cell, case.rows, fused)


def _rank(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    form, certificate = case.form, case.certificate
    cut = truncate(spectrum(form), int(rng.integers(case.expansion.n_features + 1)))
    yield f"rank, {how}", judge, *_first(Approximation(cut, certificate), case.rows, fused)


def _rank_full(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    form, certificate = case.form, case.certificate
    cut = truncate(spectrum(form), int(rng.integers(case.expansion.n_features + 1)))
    yield (
        f"rank, full, {how}",
        judge,
        *_second(Approximation(cut, certificate, full=form), case.rows, fused),
    )


def _cubic(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    (fused, how), d = _engine(rng), case.expansion.n_features
    form, certificate = case.form, case.certificate
    tensors = [cubic_tensor(case.expansion, case.point, j) for j in range(case.expansion.n_outputs)]
    cubic = cubic_form(tensors, int(rng.integers(1, d + 1)))
    first = truncate(spectrum(form), d // 2) if rng.random() < 0.3 else form
    yield (
        f"cubic, {how}",
        judge,
        *_second(Approximation(first, certificate, cubic=cubic), case.rows, fused),
    )


def _product(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    (fused, how), d = _engine(rng), case.expansion.n_features
    form, certificate = case.form, case.certificate
    tensors = [cubic_tensor(case.expansion, case.point, j) for j in range(case.expansion.n_outputs)]
    cell = Approximation(form, certificate, cubic=cubic_form(tensors, d))
    engine = ApproximationEngine.prepare(cell, fused=fused)
    if engine.paired is None:
        return
    if engine.paired.fused is not None:
        found = third_dense.scores(engine.paired.fused, case.rows)
    else:
        found = engine.paired.run(case.rows, engine.first.run(case.rows, bounded=False))
    scores, bounds = scores_and_bounds(found)
    yield f"product, {how}", judge, scores, _known(bounds)


def _directional(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    (fused, how), d = _engine(rng), case.expansion.n_features
    form, certificate = case.form, case.certificate
    grams = [cubic_gram(case.expansion, case.point, j) for j in range(case.expansion.n_outputs)]
    slack = gram_slack(case.expansion, certificate.rounding)
    bound = directional_bound(grams, int(rng.integers(1, d + 1)), slack)
    forms = Approximation(form, certificate, cubic=bound)
    yield f"directional, {how}", judge, *_second(forms, case.rows, fused)


def _widened(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    fused, how = _engine(rng)
    beyond = rng.uniform(size=len(case.rows)) * 10.0 ** rng.uniform(-3, 3)
    beyond[:2] = 0.0, 2.0**100
    wider, rows, sq_norms = widened(case.expansion, case.rows, beyond)
    own = Judge(wider, rows)
    outside = OutsideRows(case.rows, sq_norms, 0.0)
    forms = form_stages(case.cell, fused=fused)
    whole = stage_engine(case.engine, forms).cascade
    stages = damped(whole, case.expansion.gamma, case.expansion.intercept, None).stages
    for number, name in ((0, f"widened, {how}"), (-1, "widened, exact")):
        found = stages[number].run(outside, None)
        assert found is not None
        scores, bounds = scores_and_bounds(found)
        yield name, own, scores, _known(bounds)


def _sparse(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    rows = case.rows.copy()
    rows[rng.random(rows.shape) < 0.6] = 0.0
    form = quadratic_sparse.prepare(quadratic_dense.prepare(case.form))
    certificate = prepare_certificate(case.certificate)
    out = quadratic_sparse.scores(form, csr_array(rows), certificate)
    assert out.bounds is not None
    yield "sparse rows", Judge(case.expansion, rows), out.scores, _known(out.bounds)


def _sum(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
    """Two machines added up: their forms, then one of them exactly, then both."""
    fused, how = _engine(rng)
    other = replace(
        case.expansion,
        kernel=Gaussian(float(case.expansion.gamma * 10.0 ** rng.uniform(-2, 2))),
        coefficients=case.expansion.coefficients * rng.choice([-1.0, 1e-3, 1e3]),
    )
    both = replace(case, expansion=other)
    parts, outputs = [], np.arange(other.n_outputs)
    for one in (case, both):
        forms = form_stages(one.cell, fused=fused)
        whole = stage_engine(one.engine, forms).cascade
        parts.append(PartStages(Cascade(forms, answers_all=False), whole, outputs, None, True))
    own, found = Judge(case.expansion, case.rows, other), None
    for number, stage in enumerate(sum_stages(tuple(parts), len(outputs))):
        better = stage.run(PartRows((case.rows, case.rows)), None, found)
        if better is None:  # of few rows, all parts at once, by the last stage
            continue
        found = better
        scores, bounds = scores_and_bounds(found)
        yield f"sum of parts, {number} exact, {how}", own, scores, _known(bounds)


def _local(case: Model, judge: Judge, rng: np.random.Generator) -> Iterator[Answer]:
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
    "widened": _widened,
    "sparse rows": _sparse,
    "near centers": _local,
    "sum of parts": _sum,
}
