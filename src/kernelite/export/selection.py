"""What of a compiled model is exported, and what may be said of it afterwards.

In: a model and what the caller wants. Out: a `Selection`, or a refusal with the reason. The rule is
that an export is never weaker than the model unless the caller chose so by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.export.heads import exportable
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import Head
from kernelite.model import CompiledModel
from kernelite.series.cells import Approximation

__all__ = ["PARTS", "Dtype", "Part", "Selection", "select"]

Part: TypeAlias = Literal["all", "approximation", "exact"]
Dtype: TypeAlias = Literal["float64", "float32"]
PARTS = ("all", "approximation", "exact")
DTYPES = ("float64", "float32")


@dataclass(frozen=True, eq=False)
class Selection:
    """The parts of a model that go into an export.

    Parameters
    ----------
    model : CompiledModel
    head : Head
        The model's, in terms that the targets know.
    approximation : Approximation, optional
    expansion : KernelExpansion, optional
        With both, rows that the approximation leaves open are evaluated exactly.
    decided : bool
        Whether the export says which rows are proven.
    dtype : {"float64", "float32"}
    promise : str
        One sentence about the answers, for the file's own documentation.
    """

    model: CompiledModel
    head: Head
    approximation: Approximation | None
    expansion: KernelExpansion | None
    decided: bool
    dtype: Dtype
    promise: str

    @property
    def falls_back(self) -> bool:
        """Whether the exact model stands behind the approximation."""
        return self.approximation is not None and self.expansion is not None


def select(
    model: CompiledModel,
    part: Part = "all",
    *,
    decided: bool = False,
    dtype: Dtype = "float64",
) -> Selection:
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
    if not isinstance(model, CompiledModel):
        raise InputError(f"`model` must be a CompiledModel, got {type(model).__name__}.")
    if part not in PARTS:
        raise InputError(f"`part` must be one of {', '.join(PARTS)}, got {part!r}.")
    if dtype not in DTYPES:
        raise InputError(f"`dtype` must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    _check_whole(model)
    head = exportable(model.head)
    approximation = None if part == "exact" else model.approximation
    expansion = None if part == "approximation" else model.expansion
    if part == "all" and model.guarantee == "none":
        expansion = None
    _check_part(part, approximation, expansion)
    if decided:
        _check_decided(model, approximation, expansion, dtype)
    if approximation is not None and expansion is not None and dtype == "float32":
        raise UnsupportedModelError(
            f"a {model.guarantee} model cannot keep its guarantee in float32: choose the form "
            "alone (`part='approximation'`, --form-only) or the exact model (--exact)."
        )
    promise = _promise(model, approximation, expansion, decided, dtype)
    return Selection(model, head, approximation, expansion, decided, dtype, promise)


def _check_whole(model: CompiledModel) -> None:
    if model.parts:
        raise UnsupportedModelError(
            f"this model is made of {len(model.parts)} machines that do not share a kernel; only "
            "single machines are exported, so compile and export them one by one."
        )
    if model.expansion is not None and not model.expansion.has_series:
        raise UnsupportedModelError(
            f"the kernel of this model ({model.expansion.kernel_name}) is not exported; exported "
            "are RBF kernels and polynomials of degree 2."
        )
    if model.tail is not None:
        raise UnsupportedModelError(
            "this model adds a polynomial of the rows to its kernels, which is not exported."
        )
    if model.front is not None:
        raise UnsupportedModelError(
            "this model begins with transformers that cannot be folded into it; compile and export "
            "the last step alone, and transform the rows before."
        )


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


def _check_decided(
    model: CompiledModel,
    approximation: Approximation | None,
    expansion: KernelExpansion | None,
    dtype: Dtype,
) -> None:
    if expansion is not None or approximation is None:
        raise InputError(
            "`decided` belongs to an export without the exact model (`part='approximation'`): "
            "where that is inside, every answer is settled."
        )
    if dtype == "float32":
        raise UnsupportedModelError("nothing is proven in float32: `decided` needs float64.")
    if not approximation.certified:
        raise UnsupportedModelError(
            "this model carries no certificate, so no row is proven; compile it with "
            "guarantee='certified', or with 'none' and certificate=True."
        )
    if model.head.kind not in ("classifier", "outlier") and model.tolerance is None:
        raise UnsupportedModelError(
            f"a {model.head.kind} is decided within a tolerance, and this model has none; compile "
            "it with guarantee='certified'."
        )


def _promise(
    model: CompiledModel,
    approximation: Approximation | None,
    expansion: KernelExpansion | None,
    decided: bool,
    dtype: Dtype,
) -> str:
    answers = "labels" if model.head.kind in ("classifier", "outlier") else "values"
    if approximation is None:
        return f"The exact model in {dtype}."
    if expansion is not None:
        if model.guarantee == "certified":
            proven = "the exact model's" if answers == "labels" else "within the tolerance"
            return f"Certified: all {answers} are {proven}; open rows are evaluated exactly inside."
        return f"{model.guarantee.capitalize()}: rows near a boundary are evaluated exactly inside."
    if decided:
        return f"The form alone: {answers} are proven where `decided` is true, and only there."
    return f"The form alone in {dtype}: nothing is proven about its {answers}."
