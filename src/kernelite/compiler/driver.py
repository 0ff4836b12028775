"""compile(): the only place that orders the passes.

source -> KernelExpansion -> sample, expansion points -> plan -> CompiledModel
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelite.approximation.cells import Approximation, Cell
from kernelite.approximation.certificate import certify
from kernelite.approximation.quadratic import QuadraticForm, quadratic_form
from kernelite.approximation.spectral import SpectralForm, spectrum, truncate
from kernelite.compiler.composite import compile_composite
from kernelite.engines.blas import form_scores
from kernelite.engines.exact import ExactEngine
from kernelite.errors import InputError, UnsupportedModelError
from kernelite.expansion import KernelExpansion
from kernelite.head import DensityHead
from kernelite.heads.criteria import label_settles
from kernelite.inputs import FloatArray, Rows, check_rows, dense_block, fit_width
from kernelite.model import CompiledModel, Origin
from kernelite.model.validity import OnInvalid, check_on_invalid
from kernelite.planning.calibrated import calibrated_plan
from kernelite.planning.costs import exact_cost, tiers_cost
from kernelite.planning.local import local_candidate
from kernelite.planning.measure import measured_plan
from kernelite.planning.plan import Candidate, Plan
from kernelite.planning.planner import exact_candidate, plan_certified, truncated_form
from kernelite.planning.search import form_name
from kernelite.planning.tolerances import default_tolerance, density_tolerance, given_tolerance
from kernelite.progress import progress_bar
from kernelite.sizes import array_bytes
from kernelite.sources import Source, read
from kernelite.sources.parts import CompositeExpansion
from kernelite.sources.svm_scale import with_range

__all__ = ["GUARANTEES", "compile"]

GUARANTEES = ("certified", "calibrated", "none", "exact")
MAX_BYTES = 256 * 2**20
SAMPLE_ROWS = 4000  # rows that the plan is costed on


def compile(
    model: Any,
    X: Any = None,
    /,
    *,
    guarantee: str = "certified",
    expansion_point: Any = "auto",
    tolerance: Any = None,
    max_disagreement: float = 1e-3,
    confidence: float = 0.99,
    cells: int | None = None,
    rank: int | str = "auto",
    certificate: bool = False,
    plan: str = "estimate",
    max_bytes: int = MAX_BYTES,
    random_state: int = 0,
    on_invalid: OnInvalid = "warn",
    input_range: Any = None,
) -> CompiledModel:
    """Compile a fitted kernel machine into a fast predictor.

    Parameters
    ----------
    model : scikit-learn estimator, path of a LIBSVM model, KernelExpansion or Source
    X : array-like of shape (m, d), optional
        A sample of rows like those to come; no labels needed. Without it the support vectors
        serve, which are harder rows than most. "calibrated" requires it.
    guarantee : {"certified", "calibrated", "none", "exact"}
        "certified": labels proven equal to the exact model's, values within `tolerance`; rows that
        the proof leaves open are evaluated exactly. "calibrated": labels differ on at most
        `max_disagreement` of the rows like `X`, with `confidence`. "none": the paper's form alone,
        without support vectors. "exact": the exact model on kernelite's engine.
    expansion_point : {"auto", "mean", "origin"} or array of shape (d,)
        Where the series is taken: the mean of `X` (of the support vectors without `X`), the
        origin as in the paper, or a point. "auto" lets a certified plan choose between the means
        of `X` and of the support vectors; otherwise it is "mean".
    tolerance : float or array of shape (k,), optional
        For "certified" values (regression, transforms) and, if given, decision values: the largest
        absolute error. Values default to 1e-3 of the standard deviation of the exact outputs on
        the sample. Of densities it is the error of the logarithm, hence the relative error of the
        density; by default the estimator's own `rtol`, or 1e-3.
    max_disagreement, confidence : float
        For "calibrated".
    cells : int, optional
        The number of expansion points; chosen by the plan if not given.
    rank : int, "auto" or "full"
        With "none": directions that the quadratic part is cut to. "auto" cuts where that is
        cheaper and the median error stays under 0.1% of the standard deviation of the scores.
    certificate : bool
        With "none": compute the certificate too, so that `error_bound` works.
    plan : {"estimate", "measure"}
        Cost candidates by counting operations, or time the best of them on the sample.
    max_bytes : int
        The most that the compiled forms may take.
    random_state : int
        Seed of sampling and clustering.
    on_invalid : {"warn", "raise", "ignore"}
        What "none" does about rows outside the validity bound.
    input_range : path or SvmRange, optional
        The `svm-scale` range file that the training data were scaled by: the compiled model then
        takes rows, `X` among them, as they were before.

    Returns
    -------
    CompiledModel

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> svc = SVC(gamma=0.01).fit(X, y)
    >>> fast = compile(svc, X)
    >>> bool((fast.predict(X) == svc.predict(X)).all())
    True
    """
    if guarantee not in GUARANTEES:
        raise InputError(f"`guarantee` must be one of {', '.join(GUARANTEES)}, got {guarantee!r}.")
    if plan not in ("estimate", "measure"):
        raise InputError(f"`plan` must be 'estimate' or 'measure', got {plan!r}.")
    if cells is not None and cells < 1:
        raise InputError(f"`cells` must be at least 1, got {cells}.")
    check_on_invalid(on_invalid)
    source = read(model)
    if input_range is not None:
        source = with_range(source, input_range)
    if guarantee == "none" and "predict" in getattr(source.head, "needs_posterior", ()):
        raise UnsupportedModelError(
            f"the labels of this {source.type_name} depend on its variance, which is computed from "
            "the training rows, and guarantee='none' keeps none; use 'certified' or 'exact'."
        )
    if isinstance(source.expansion, CompositeExpansion):
        options = {
            "guarantee": guarantee,
            "expansion_point": expansion_point,
            "cells": cells,
            "rank": rank,
            "certificate": certificate,
            "plan": plan,
            "max_bytes": max_bytes // len(source.expansion.parts),
            "random_state": random_state,
        }
        return compile_composite(
            source,
            X,
            tolerance,
            lambda part, rows, limit: compile(
                part, rows, tolerance=limit, on_invalid="ignore", **options
            ),
            guarantee=guarantee,
            origin=_origin(source),
            on_invalid=on_invalid,
        )
    given = None
    if X is not None:
        given = _sample_rows(source, X)
    task = _Task(source, given, expansion_point, max_bytes, random_state, cells)
    passes = {
        "exact": lambda: task.exact(),
        "none": lambda: task.none(rank, certificate),
        "certified": lambda: task.certified(tolerance, plan == "measure"),
        "calibrated": lambda: task.calibrated(max_disagreement, confidence),
    }
    parts = passes[guarantee]()
    return CompiledModel(
        head=source.head,
        guarantee=guarantee,  # type: ignore[arg-type]
        origin=_origin(source),
        on_invalid=on_invalid,
        input_map=source.input_map,
        # The variance is computed from the support vectors, which "none" does not keep.
        posterior=None if guarantee == "none" else source.posterior,
        front=source.front,
        tail=source.tail,
        **parts,
    )


@dataclass(frozen=True, eq=False)
class _Task:
    """What all passes of one compilation share."""

    source: Source
    given: Rows | None
    wanted_point: Any
    max_bytes: int
    random_state: int
    cells: int | None

    @property
    def expansion(self) -> KernelExpansion:
        return self.source.single

    @property
    def mapped(self) -> bool:
        """Whether rows come through an affine map."""
        return self.source.input_map is not None

    def exact(self) -> dict[str, Any]:
        chosen = exact_candidate(self.expansion, "asked for")
        return {
            "approximation": None,
            "expansion": self.expansion,
            "plan": Plan("exact", chosen, (), chosen.nanoseconds),
        }

    def none(self, rank: int | str, certificate: bool) -> dict[str, Any]:
        _warn_about_few_centers(self.expansion)
        (point,) = self.points(alternatives=False).values()
        self._refuse_large_form()
        form = quadratic_form(self.expansion, point)
        cut = self._cut(form, rank)
        proof = certify(self.expansion, point, mapped=self.mapped) if certificate else None
        approximation = Approximation((Cell(cut, proof),))
        chosen = Candidate(
            form_name(cut),
            tiers_cost(approximation, self.expansion, 0.0, 0.0),
            0.0,
            array_bytes(approximation),
            "asked for",
        )
        plan = Plan("none", chosen, (), exact_cost(self.expansion))
        return {"approximation": approximation, "expansion": None, "plan": plan}

    def certified(self, tolerance: Any, measure: bool) -> dict[str, Any]:
        sample = self.sample()
        tolerances = self._tolerances(tolerance, sample)
        settles = label_settles(self.source.head, tolerances)
        with progress_bar("certifying") as tell:
            approximation, plan = plan_certified(
                self.expansion,
                self.points(alternatives=True),
                sample,
                settles,
                max_bytes=self.max_bytes,
                mapped=self.mapped,
                cells=self.cells,
                random_state=self.random_state,
                choose=measured_plan if measure else None,
                values=self.source.head.kind not in ("classifier", "outlier"),
                tell=tell,
            )
        local = None
        if self.cells is None:
            found = local_candidate(
                *(self.expansion, self.source.head, sample, settles, tolerances),
                mapped=self.mapped,
                measure=measure,
            )
            if found is not None and found[1].nanoseconds < plan.chosen.nanoseconds:
                approximation, (local, candidate) = None, found
                plan = plan.choosing(candidate)
        return {
            "approximation": approximation,
            "expansion": self.expansion,
            "plan": plan.noting(self._sample_note(sample)),
            "tolerance": tolerances,
            "local": local,
        }

    def calibrated(self, max_disagreement: float, confidence: float) -> dict[str, Any]:
        if self.given is None:
            raise InputError(
                "guarantee='calibrated' needs `X`, rows like those to come, to test on."
            )
        self._refuse_large_form()
        ((name, point),) = self.points(alternatives=False).items()
        approximation, threshold, plan = calibrated_plan(
            self.expansion,
            self.source.head,
            self.given,
            None if name == "mean of X" else point,
            max_disagreement=max_disagreement,
            confidence=confidence,
            cells=self.cells,
            max_bytes=self.max_bytes,
            random_state=self.random_state,
        )
        return {
            "approximation": approximation,
            "expansion": self.expansion,
            "plan": plan,
            "threshold": threshold,
        }

    def _cut(self, form: QuadraticForm, rank: int | str) -> QuadraticForm | SpectralForm:
        if isinstance(rank, int):
            if not 1 <= rank <= form.n_features:
                raise InputError(f"`rank` must lie between 1 and {form.n_features}, got {rank}.")
            return truncate(spectrum(form), rank)
        if rank not in ("auto", "full"):
            raise InputError(f"`rank` must be a number, 'auto' or 'full', got {rank!r}.")
        sample = self.sample()
        if rank == "full" or not len(sample):
            return form
        return truncated_form(form, sample, float(form_scores(form, sample).scores.std()))

    def sample(self) -> FloatArray:
        """At most 4,000 rows of `X`, or of the support vectors, drawn by `random_state`."""
        rows = self.expansion.centers if self.given is None else self.given
        if rows.shape[0] <= SAMPLE_ROWS:
            return dense_block(rows, slice(None))
        rng = np.random.default_rng(self.random_state)
        drawn = np.sort(rng.choice(rows.shape[0], SAMPLE_ROWS, replace=False))
        return dense_block(rows, drawn)

    def points(self, *, alternatives: bool) -> dict[str, FloatArray]:
        """Expansion points to try, by name."""
        wanted, d = self.wanted_point, self.expansion.n_features
        if not isinstance(wanted, str):
            return {"given point": self._checked_point(wanted)}
        if wanted not in ("auto", "mean", "origin"):
            raise InputError(
                f"`expansion_point` must be 'auto', 'mean', 'origin' or an array, got {wanted!r}."
            )
        if wanted == "origin" or self.expansion.kernel == "poly2":
            return {"origin": np.zeros(d)}
        of_centers = {"mean of the support vectors": _mean(self.expansion.centers)}
        if self.given is None or not self.given.shape[0]:
            return of_centers
        of_rows = {"mean of X": _mean(self.given)}
        return {**of_rows, **of_centers} if wanted == "auto" and alternatives else of_rows

    def _checked_point(self, wanted: Any) -> FloatArray:
        source, d = self.source, self.source.n_features
        point = np.array(wanted, dtype=np.float64).reshape(-1)
        if point.shape != (d,) or not np.isfinite(point).all():
            raise InputError(
                f"`expansion_point` must hold {d} finite numbers, one a feature, got shape "
                f"{np.shape(wanted)}."
            )
        if source.front is not None:
            point = dense_block(check_rows(source.front(point[None, :])), slice(None))[0]
        if source.input_map is not None:
            point = source.input_map(point[None, :])[0]
        if self.expansion.kernel == "poly2" and point.any():
            raise InputError("a degree-2 polynomial kernel is compiled about the origin only.")
        return point

    def _refuse_large_form(self) -> None:
        d, k = self.expansion.n_features, self.expansion.n_outputs
        if 8 * k * d * d > self.max_bytes:
            raise InputError(
                f"the quadratic form of {k} outputs at {d} features needs "
                f"{8 * k * d * d / 2**20:,.0f} MB, more than `max_bytes` "
                f"({self.max_bytes / 2**20:,.0f} MB); raise `max_bytes` or use guarantee='exact'."
            )

    def _tolerances(self, tolerance: Any, sample: FloatArray) -> FloatArray | None:
        head = self.source.head
        if tolerance is not None:
            return given_tolerance(head, tolerance)
        if head.kind in ("classifier", "outlier"):
            return None
        if isinstance(head, DensityHead):
            return density_tolerance(head)
        scores = ExactEngine.prepare(self.expansion).run(sample)[0]
        tail = self.source.tail
        return default_tolerance(head, scores if tail is None else scores + tail.values(sample)[0])

    def _sample_note(self, sample: FloatArray) -> str:
        kind = "support vectors (no `X` was given)" if self.given is None else "rows of `X`"
        return f"Shares were measured on {len(sample):,} {kind}."


def _sample_rows(source: Source, X: Any) -> Rows:
    d, names = source.single.n_features, source.feature_names
    if source.front is not None:
        rows = check_rows(source.front(X, names), n_features=d)
    elif source.width_is_open:
        # Features beyond the width are constant zeros in the model, so a sample may lose them.
        rows = fit_width(check_rows(X, feature_names=names), d)[0]
    else:
        rows = check_rows(X, n_features=d, feature_names=names)
    return rows if source.input_map is None else source.input_map(rows)


def _origin(source: Source) -> Origin:
    return Origin(
        source.description,
        source.family,
        source.type_name,
        source.expansion.n_centers,
        source.feature_names,
        source.width_is_open,
        source.ignores_beyond,
    )


def _mean(rows: Rows) -> FloatArray:
    if not rows.shape[0]:
        return np.zeros(rows.shape[1])
    return np.asarray(rows.mean(axis=0), dtype=np.float64).reshape(-1)


def _warn_about_few_centers(expansion: KernelExpansion) -> None:
    n, d = expansion.n_centers, expansion.n_features
    if 0 < n <= d:
        warnings.warn(
            f"the model has only {n} support vectors in {d} features: the compiled matrix gives "
            "away the space they span (with one, the vector itself). It is not a way to hide them.",
            stacklevel=4,
        )
