"""What of a compiled model is exported, and what may be said of it afterwards.

In: a model and what the caller wants. Out: an `ExportSelection`, or a refusal with the reason. An
export is never weaker than the model, unless the caller chose so by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, is_sparse
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.machine.preparation import Kept
from kernelite.machine.preparation.columns import Columns
from kernelite.machine.preparation.projection import Projection
from kernelite.model import CompiledModel, require_compiled
from kernelite.series.approximation import Approximation
from kernelite.series.packed import packed_degree, packed_tensor
from kernelite.support.errors import InputError, KerneliteError, UnsupportedModelError

__all__ = [
    "Dtype",
    "ExportSelection",
    "Part",
    "Piece",
    "about_their_mean",
    "check_size",
    "needs_variances",
    "packed",
    "plain_reach",
    "require_deviations",
    "require_kernels",
    "require_label_variances",
    "select",
    "text_columns",
    "unwritten",
    "with_probabilities",
]

Part: TypeAlias = Literal["all", "approximation", "exact"]
Dtype: TypeAlias = Literal["float64", "float32"]
PARTS = ("all", "approximation", "exact")
EXPORT_DTYPES = ("float64", "float32")
TRIED = 8  # features on which a formula is tried
MOST_EXPORTED_NUMBERS = {"ONNX": 2**28, "JavaScript": 2**25, "C": 2**26}
"""Of a file: a protobuf message has less than 2 GB, a text in a browser half of that; and compilers
do not take headers of more than about a gigabyte."""
LEAST = 1e-250  # that the largest number of a tensor must be above


@dataclass(frozen=True, eq=False)
class Piece:
    """One machine: the whole model, or one of its parts.

    Parameters
    ----------
    model : CompiledModel
        The machine compiled by itself; what its rows go through is there.
    outputs : ndarray of int
        The scores of the whole that its own are added to.
    approximation : Approximation, optional
    expansion : KernelExpansion, optional
        With both, rows that the approximation leaves open are evaluated exactly.
    """

    model: CompiledModel
    outputs: NDArray[np.int64]
    approximation: Approximation | None
    expansion: KernelExpansion | None


@dataclass(frozen=True, eq=False)
class ExportSelection:
    """The parts of a model that go into an export.

    Parameters
    ----------
    model : CompiledModel
    pieces : tuple of Piece
        Whose scores are added up: one, or several where kernels or inputs differ.
    decided : bool
        Whether the export says which rows are proven.
    dtype : {"float64", "float32"}
    promise : str
        One sentence about the answers, for the file's own documentation.
    """

    model: CompiledModel
    pieces: tuple[Piece, ...]
    decided: bool
    dtype: Dtype
    promise: str

    @property
    def head(self) -> Head:
        """What is made of the scores."""
        return self.model.head

    @property
    def approximation(self) -> Approximation | None:
        """The first machine's."""
        return self.pieces[0].approximation

    @property
    def expansion(self) -> KernelExpansion | None:
        """The first machine's."""
        return self.pieces[0].expansion

    @property
    def scores(self) -> str:
        """What the raw scores beside labels are worth: one sentence."""
        if all(piece.approximation is None for piece in self.pieces):
            return f"Scores are the exact model's, up to the rounding of {self.dtype}."
        if not self.falls_back:
            bound = ", off by at most `score_bound`" if self.decided else ""
            return f"Scores are the form's{bound}."
        if self.model.guarantee == "certified" and self.model.tolerance is not None:
            return "Scores are within the tolerance, and have the label of the exact ones."
        return (
            "Scores may be inaccurate; only the resulting label is guaranteed. Export the exact "
            "model for values to rank by."
        )

    @property
    def falls_back(self) -> bool:
        """Whether the exact model stands behind the approximation."""
        return _falls_back(self.pieces)


def select(
    model: CompiledModel, part: Part = "all", *, decided: bool = False, dtype: Dtype = "float64"
) -> ExportSelection:
    """Choose what to export.

    Parameters
    ----------
    model : CompiledModel
    part : {"all", "approximation", "exact"}
        "all": whatever the model's guarantee needs, the exact model behind the forms included.
        "approximation": the forms alone, which need no support vectors. "exact": the exact model.
    decided : bool
        With "approximation": also say which rows' answers are proven.
    dtype : {"float64", "float32"}

    Examples
    --------
    >>> import kernelite
    >>> bump = kernelite.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> select(kernelite.compile(bump, guarantee="exact")).promise
    'The exact model in float64.'
    """
    require_compiled(model)
    if part not in PARTS:
        raise InputError(f"`part` must be one of {', '.join(PARTS)}, got {part!r}.")
    if dtype not in EXPORT_DTYPES:
        raise InputError(f"`dtype` must be one of {', '.join(EXPORT_DTYPES)}, got {dtype!r}.")
    _check_rows(model)
    pieces = _pieces(model, part)
    if decided:
        _check_decided(model, pieces, dtype)
    if _falls_back(pieces) and dtype == "float32":
        raise UnsupportedModelError(
            f"a {model.guarantee} model cannot keep its guarantee in float32: choose the form "
            "alone (`part='approximation'`, --form-only) or the exact model (--exact)."
        )
    return ExportSelection(model, pieces, decided, dtype, _promise(model, pieces, decided, dtype))


def _pieces(model: CompiledModel, part: Part) -> tuple[Piece, ...]:
    whole = np.arange(model.head.n_scores)
    machines = [(p.model, p.outputs) for p in model.parts] or [(model, whole)]
    # Bounds are those of forms: where a machine has none, all are taken exactly.
    exact = part == "exact" or (
        part == "all"
        and model.guarantee != "none"
        and any(machine.approximation is None for machine, _ in machines)
    )
    pieces = []
    for machine, outputs in machines:
        form, expansion = machine.approximation, machine.expansion
        if part == "approximation" or (
            part == "all" and model.guarantee == "none" and form is not None
        ):
            expansion = None
        _check_part(part, form, expansion)
        pieces.append(Piece(machine, outputs, None if exact else form, expansion))
    return tuple(pieces)


def _falls_back(pieces: tuple[Piece, ...]) -> bool:
    return all(p.approximation is not None and p.expansion is not None for p in pieces)


def plain_reach(step: Any) -> float | None:
    """|z - t| from which plain arithmetic of a step is not as exact as its model counts on."""
    return step.plain_reach if isinstance(step, Projection) and step.slack.size else None


def require_kernels(
    selection: ExportSelection, target: str, write: Callable[[KernelExpansion], Any]
) -> None:
    """Refuse a kernel whose formula a target cannot express; tried on one center.

    Parameters
    ----------
    selection : ExportSelection
    target : str
        What messages call it.
    write : callable
        Expresses an expansion's kernel on the target.
    """
    for piece in selection.pieces:
        expansion = piece.expansion
        if expansion is None or expansion.has_series or packed_degree(expansion) == 1:
            continue
        center = expansion.centers[:1]
        if is_sparse(center):
            center = center[:, :TRIED].toarray()  # it may have any number of features
        one = replace(expansion, centers=center, coefficients=expansion.coefficients[:1])
        try:
            write(one)
        except (KerneliteError, AttributeError, TypeError) as error:
            raise UnsupportedModelError(
                f"the kernel of this model ({expansion.kernel_name}) is not written in {target}: "
                f"{unwritten(error)}."
            ) from None


def unwritten(error: Exception) -> str:
    """Why a target cannot express a formula, from what trying it raised."""
    if isinstance(error, KerneliteError):
        return str(error).rstrip(".")
    return "its formula needs more than is written there"


def check_size(selection: ExportSelection, target: str, *, spreads: bool = False) -> None:
    """Refuse what a target's files cannot hold, before anything of that size is made.

    Parameters
    ----------
    selection : ExportSelection
    target : {"ONNX", "JavaScript", "C"}
    spreads : bool
        Whether variances are asked for, which need an inverse or a factor of all centers, or both.
    """
    numbers = 0
    for piece in selection.pieces:
        expansion = piece.expansion
        if expansion is not None and packed_degree(expansion) != 1:
            numbers += expansion.n_centers * (expansion.n_features + expansion.n_outputs)
            numbers += 2 * expansion.n_centers**2 if spreads else 0
    most = MOST_EXPORTED_NUMBERS[target]
    if numbers > most:
        raise UnsupportedModelError(
            f"the support vectors would take {numbers / 1e6:,.0f} million numbers, more than a "
            f"file for {target} can hold ({most / 1e6:,.0f} million); export the form alone "
            "(--with-decided or --form-only)."
        )


def needs_variances(head: Head) -> bool:
    """Whether labels depend on the variances of Gaussian processes, too."""
    return "predict" in head.needs_posterior


def variance_problem(selection: ExportSelection) -> str | None:
    """Why variances cannot be exported; None where they can."""
    model, pieces = selection.model, selection.pieces
    owners = [model] if model.posterior is not None else [piece.model for piece in pieces]
    if any(owner.posterior is None for owner in owners):
        return "this model has none: it is not a Gaussian process, or they were not kept"
    if any(piece.expansion is None for piece in pieces):
        return "these need all support vectors; export with `part='all'` or `part='exact'`"
    if selection.dtype == "float32":
        return "float32 has too few digits for these; export in float64"
    return None


def require_label_variances(selection: ExportSelection) -> None:
    """Refuse labels that depend on variances which cannot be exported."""
    if needs_variances(selection.head) and (problem := variance_problem(selection)):
        raise UnsupportedModelError(
            f"labels of this Gaussian process need its variances, and {problem}."
        )


def with_probabilities(
    selection: ExportSelection, wanted: bool | None, unwritten: Callable[[], str | None]
) -> bool:
    """Whether probabilities are exported; by default not where they cost more than all the rest.

    Parameters
    ----------
    selection : ExportSelection
    wanted : bool, optional
        What the caller insists on.
    unwritten : callable
        Why their formula is not written on the target; None where it is.
    """
    head, problem = selection.head, None
    if "predict_proba" not in head.offers:
        problem = "it was trained without them, or has none"
    elif "predict_proba" in head.needs_posterior:
        problem = variance_problem(selection)
    problem = problem or unwritten()
    if wanted and problem is not None:
        raise UnsupportedModelError(
            f"this model's probabilities cannot be exported: {problem}; its labels and scores can."
        )
    costly = head.judged_by("predict_proba") == "exact" and not needs_variances(head)
    return problem is None and (not costly if wanted is None else wanted)


def require_deviations(selection: ExportSelection) -> None:
    problem = variance_problem(selection)
    if selection.head.kind != "regressor":
        problem = f"a {selection.head.kind} has none"
    if problem is not None:
        raise UnsupportedModelError(f"standard deviations cannot be exported: {problem}.")


def packed(expansion: KernelExpansion) -> FloatArray | None:
    """The tensor of a polynomial of degree 3 or 4 that has fewer numbers than the centers.

    Examples
    --------
    >>> packed(KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)) is None
    True
    """
    if packed_degree(expansion) not in (3, 4):
        return None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        tensor = packed_tensor(expansion)
    sound = np.isfinite(tensor).all() and np.abs(tensor).max(initial=0.0) > LEAST
    return tensor if sound else None


def text_columns(model: CompiledModel) -> dict[int, bool]:
    """Which columns of a table hold texts, of those that are used; empty where rows are numbers."""
    machines = [model] if model.preparation.steps else [part.model for part in model.parts]
    found: dict[int, bool] = {}
    for step in (step for machine in machines for step in machine.preparation.steps[:1]):
        for place, text in step.texts().items() if isinstance(step, Columns) else ():
            found[place] = found.get(place, False) or text
    return found


def _check_rows(model: CompiledModel) -> None:
    for machine in (model, *(part.model for part in model.parts)):
        for step in machine.preparation.steps:
            if not hasattr(step, "formula"):
                name = step.name if isinstance(step, Kept) else type(step).__name__
                raise UnsupportedModelError(
                    f"this model prepares its rows by a step that is not exported ({name}); export "
                    "its last step alone, and transform the rows before."
                )
    if model.tail is not None and model.preparation.before_map.steps:
        raise UnsupportedModelError("a polynomial behind other steps is not exported.")


def _check_part(
    part: Part, approximation: Approximation | None, expansion: KernelExpansion | None
) -> None:
    if part == "exact" and expansion is None:
        raise UnsupportedModelError(
            "this model holds no support vectors, so the exact model cannot be exported; export "
            "one compiled with another guarantee than 'none'."
        )
    if part == "approximation" and approximation is None:
        raise UnsupportedModelError(
            "this model's plan is the exact model: there is no form to export; use --exact, or "
            "compile with plan='form' or guarantee='none'."
        )


def _check_decided(model: CompiledModel, pieces: tuple[Piece, ...], dtype: Dtype) -> None:
    forms = [piece.approximation for piece in pieces]
    if any(piece.expansion is not None for piece in pieces) or None in forms:
        raise InputError(
            "`decided` belongs to an export without the exact model (`part='approximation'`): "
            "where that is inside, every answer is settled."
        )
    if dtype == "float32":
        raise UnsupportedModelError("nothing is proven in float32: `decided` needs float64.")
    if not all(form is not None and form.certified for form in forms):
        raise UnsupportedModelError(
            "this model carries no certificate, so no row is proven; compile it with "
            "guarantee='certified', or with 'none' and certificate=True."
        )
    if not model.head.proves_labels and model.tolerance is None:
        raise UnsupportedModelError(
            f"a {model.head.kind} is decided within a tolerance, and this model has none; compile "
            "it with guarantee='certified'."
        )


def _promise(model: CompiledModel, pieces: tuple[Piece, ...], decided: bool, dtype: Dtype) -> str:
    answers = "labels" if model.head.proves_labels else "values"
    if all(piece.approximation is None for piece in pieces):
        return f"The exact model in {dtype}."
    if _falls_back(pieces):
        if model.guarantee == "certified":
            proven = "the exact model's" if answers == "labels" else "within the tolerance"
            return f"Certified: all {answers} are {proven}; open rows are evaluated exactly inside."
        return f"{model.guarantee.capitalize()}: rows near a boundary are evaluated exactly inside."
    if decided:
        return f"The form alone: {answers} are proven where `decided` is true, and only there."
    return f"The form alone in {dtype}: nothing is proven about its {answers}."


def about_their_mean(expansion: KernelExpansion) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The centers' mean p, the centers s = x - p, and gamma |s|^2: distances stay, norms shrink."""
    centers = expansion.dense_centers()
    point = centers.mean(axis=0) if len(centers) else np.zeros(expansion.n_features)
    shifted = centers - point
    with np.errstate(over="ignore"):
        return point, shifted, expansion.gamma * np.einsum("ij,ij->i", shifted, shifted)
