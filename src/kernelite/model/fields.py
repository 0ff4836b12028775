"""What a compiled model is made of, what follows from that, and the engines laid out for it.

First where a model came from (`Origin`) and the machines of one with several (`ModelPart`).
Threads may share a model: its fields do not change, but for the names of features and the container
of answers, which scikit-learn's functions set.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.heads import chances_of_pairs, couple_rows, decisions_of
from kernelite.backends.cpu.one_pass import Finish, labels_of
from kernelite.backends.cpu.runner import Runner
from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.machine.kernels import POLY2, RBF
from kernelite.machine.machine import PolynomialTail
from kernelite.machine.preparation import NO_STEPS, Preparation
from kernelite.machine.variance import LatentVariance, Posterior
from kernelite.model.checks import check_model
from kernelite.model.serving import OnInvalid, runner_of
from kernelite.planner.costs import array_bytes
from kernelite.planner.plan import Plan
from kernelite.program.criteria import (
    PROBABILITY_TOLERANCE,
    Criterion,
    decision_criterion,
    label_criterion,
    predict_criterion,
    probability_criterion,
    transform_criterion,
)
from kernelite.series.approximation import Approximation, LocalSums
from kernelite.series.series import SeriesForm
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

if TYPE_CHECKING:
    from kernelite.backends.cpu.moments import RowMoments
    from kernelite.backends.cpu.variance import Variances
    from kernelite.explain.centers import Centers
    from kernelite.model.compiled import CompiledModel

__all__ = ["Guarantee", "ModelFields", "ModelPart", "Origin"]

# What a model came from, what it promises, and its parts where it has several.

Guarantee: TypeAlias = Literal["certified", "calibrated", "none", "exact"]


@dataclass(frozen=True)
class Origin:
    """Where a compiled model came from.

    Parameters
    ----------
    description : str
        One line for people.
    family, type_name : str
        E.g. "libsvm", "c_svc".
    n_centers : int
        Support vectors of the exact model; 0 where that is not known.
    feature_names : tuple of str, optional
    width_is_open : bool
        Whether rows of a file may carry features beyond the model's width (LIBSVM).
    ignores_beyond : bool
        Whether such features are dropped instead of counting in |z|^2 (behind svm-scale).
    """

    description: str
    family: str
    type_name: str
    n_centers: int
    feature_names: tuple[str, ...] | None = None
    width_is_open: bool = False
    ignores_beyond: bool = False


@dataclass(frozen=True, eq=False)
class ModelPart:
    """One machine of a model that is made of several.

    Parameters
    ----------
    model : CompiledModel
        The machine compiled by itself.
    outputs : array of int
        The scores of the whole that its own are added to.
    """

    model: CompiledModel
    outputs: NDArray[np.int64]

    def __post_init__(self) -> None:
        outputs = np.asarray(self.outputs, dtype=np.int64)
        if outputs.shape != (self.model.head.n_scores,) or self.model.parts:
            raise InputError("a part is one machine, with a place for each of its scores.")
        object.__setattr__(self, "outputs", outputs)


# The model itself.


@dataclass(frozen=True, eq=False, repr=False)
class ModelFields:
    """The fields of a compiled model, checked.

    Parameters
    ----------
    head : Head
    approximation : Approximation, optional
        The forms; None when the plan is exact.
    expansion : KernelExpansion, optional
        The exact model, for rows that fall back; None with guarantee "none".
    guarantee : {"certified", "calibrated", "none", "exact"}
    plan : Plan
    origin : Origin
    tolerance : ndarray of shape (k,), optional
        How far certified values may be from the exact ones.
    threshold : float, optional
        The margin below which a calibrated model asks the exact one.
    on_invalid : {"warn", "raise", "ignore"}
    preparation : Preparation
        What rows go through before; what follows is all in the coordinates that come out.
    local : LocalSums, optional
        Where the plan is exact: leave far centers out, as far as the guarantee allows.
    tail : PolynomialTail, optional
        A polynomial of the rows that is added to the scores.
    posterior : Posterior, optional
        Of a Gaussian process: what its variance is computed from.
    score_tolerance : ndarray of shape (columns,), optional
        How far certified decision values may be from the exact ones, per column; None where a
        tolerance was given, or decision values are not certified.
    parts : tuple of ModelPart
        Machines whose kernels or inputs differ, each with its own approximation; their scores are
        added up for `head`. A model with parts has no approximation or expansion of its own.
    """

    head: Head
    approximation: Approximation | None
    expansion: KernelExpansion | None
    guarantee: Guarantee
    plan: Plan
    origin: Origin
    tolerance: FloatArray | None = None
    threshold: float | None = None
    on_invalid: OnInvalid = "warn"
    preparation: Preparation = NO_STEPS
    posterior: Posterior | None = None
    parts: tuple[ModelPart, ...] = ()
    local: LocalSums | None = None
    tail: PolynomialTail | None = None
    score_tolerance: FloatArray | None = None

    def __post_init__(self) -> None:
        check_model(self)

    @cached_property
    def n_features_in_(self) -> int:
        """d, the width of a row."""
        if self.preparation.steps:
            return self.preparation.width
        return self.parts[0].model.n_features_in_ if self.parts else self._served.n_features

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of a classifier."""
        classes: NDArray[Any] | None = self.head.classes
        if classes is None:
            raise AttributeError(f"a {self.head.kind} has no `classes_`")
        return classes

    @cached_property
    def offers(self) -> frozenset[str]:
        """Names of the predicting methods this model has: those of its source."""
        names = self.head.offers
        if self.posterior is None and not any(part.model.posterior for part in self.parts):
            names = names - self.head.needs_posterior
        if self.head.kind in ("classifier", "regressor", "density"):
            names |= {"score"}
        if self.head.kind == "regressor" and self.posterior is not None:
            names |= {"sample_y"}
        if self.head.kind == "density" and self.origin.family == "scipy":
            names |= {"evaluate", "pdf", "logpdf"}
        if self.head.kind == "transform":
            names |= {"get_feature_names_out", "set_output"}
        return names

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Column names seen at fit time."""
        if self.origin.feature_names is None:
            raise AttributeError("this model was fitted without feature names")
        return np.array(self.origin.feature_names, dtype=object)

    @property
    def gamma(self) -> float:
        """The kernel's width."""
        if self.parts:
            raise AttributeError("the parts of this model have a `gamma` each")
        if self._served.kernel_tag not in (RBF, POLY2):
            raise AttributeError("the kernel of this model has parameters of its own")
        return self._served.gamma

    @property
    def form(self) -> SeriesForm | None:
        """The form; None when the plan is exact."""
        return None if self.approximation is None else self.approximation.form

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays this model holds."""
        return array_bytes(self)

    # Engines, laid out when first needed ------------------------------------------------------

    @property
    def _served(self) -> Any:
        """The form, or the expansion where the plan is exact: they share names."""
        return self.expansion if self.form is None else self.form

    @cached_property
    def _for_predict(self) -> Criterion:
        """What certified asks of a row's scores: kept, because a single row takes microseconds."""
        return predict_criterion(self.head, self.tolerance)

    @cached_property
    def _labels(self) -> Finish:
        """What makes labels or values of scores."""
        return labels_of(self.head)

    @cached_property
    def _decisions(self) -> Finish:
        """What makes decision values of scores."""
        return decisions_of(self.head)

    @cached_property
    def _for_decisions(self) -> Criterion:
        return decision_criterion(self.head, self.tolerance, self.score_tolerance)

    @cached_property
    def _for_transform(self) -> Criterion:
        return transform_criterion(self.head, self.tolerance)

    @cached_property
    def _for_scores(self) -> Criterion:
        return label_criterion(self.head, self.tolerance)

    @cached_property
    def _of_probabilities(self) -> Head:
        """The head, with the compiled loop where it couples pairs of classes."""
        return self.head.coupled_by(couple_rows, chances_of_pairs)

    @cached_property
    def _for_probabilities(self) -> Criterion:
        return probability_criterion(self._of_probabilities, PROBABILITY_TOLERANCE)

    @cached_property
    def _runner(self) -> Runner:
        return runner_of(self)

    @cached_property
    def _has_steps(self) -> bool:
        """Whether rows go through anything but an affine map before the engines."""
        return bool(self.preparation.before_map.steps)

    @cached_property
    def _latent(self) -> LatentVariance:
        """The variance of a Gaussian process; other models are refused."""
        from kernelite.model.moments import posterior_of

        posterior, expansions = posterior_of(self)
        return posterior.laid_out(expansions)

    @cached_property
    def _variances(self) -> Variances:
        """What computes the variances of `_latent`."""
        from kernelite.model.moments import variances_of

        return variances_of(self)

    @cached_property
    def _row_moments(self) -> RowMoments | None:
        """What answers mean and deviation of one row."""
        from kernelite.model.moments import row_moments_of

        return row_moments_of(self)

    @cached_property
    def _centers(self) -> Centers:
        """The centers as derivatives want them."""
        from kernelite.explain.centers import Centers

        assert self.expansion is not None
        return Centers.of(self.expansion)

    def __pack__(self) -> dict[str, Any]:
        """What a file holds: it splits the preparation into steps and the map behind them."""
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        before, input_map = self.preparation.before_map, self.preparation.input_map
        del stored["preparation"]
        return stored | {"front": before if before.steps else None, "input_map": input_map}

    @staticmethod
    def __stored__(stored: dict[str, Any]) -> dict[str, Any]:
        """The fields, from those of a file."""
        if "preparation" in stored or not {"front", "input_map"} <= stored.keys():
            raise InputError("a model must have `front` and `input_map`.")
        front, input_map = stored.pop("front"), stored.pop("input_map")
        known = isinstance(front, Preparation | None) and isinstance(input_map, AffineMap | None)
        if not known:
            raise InputError("`front` must be steps, and `input_map` an affine map, or null.")
        steps = () if front is None else front.steps
        return stored | {"preparation": Preparation.of(*steps, input_map)}

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: engines hold compiled code, and are laid out again when needed."""
        kept = [*(field.name for field in fields(self)), "_container"]
        return {name: self.__dict__[name] for name in kept if name in self.__dict__}
