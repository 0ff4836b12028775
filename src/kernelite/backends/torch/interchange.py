"""Tensors and DLPack: rows are answered where they lie, by the same kind of array.

In: a compiled model, a torch tensor or an array that speaks DLPack, and which answer is asked for.
Out: that answer on the rows' device. Rows in host memory are answered by the CPU's own engines,
without a copy; rows on a GPU by `Program`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelite.model.serving import OnInvalid, report_invalid
from kernelite.program.bounded import EXACT, EXACT_QUICK, EXACT_SINGLE, FIRST, Stats
from kernelite.support.errors import InputError, UnsupportedModelError

if TYPE_CHECKING:
    from kernelite.backends.torch.program import Program
    from kernelite.backends.torch.tensors import Formula
    from kernelite.model.fields import ModelFields
    from kernelite.program.criteria import Criterion

__all__ = ["answer_there", "as_host_array", "evidence_there", "like", "program_on"]

CPU = 1  # DLPack's number of host memory


def as_host_array(X: Any) -> np.ndarray[Any, Any] | None:
    """Rows in host memory as a NumPy array that shares it; None where they lie elsewhere."""
    if int(X.__dlpack_device__()[0]) != CPU:
        return None
    if str(getattr(X, "layout", "torch.strided")) != "torch.strided":
        raise InputError("`X` is a sparse tensor; pass `X.to_dense()`, or SciPy's sparse matrix.")
    if getattr(X, "requires_grad", False):
        X = X.detach()
    try:
        return np.from_dlpack(X)
    except (BufferError, RuntimeError, TypeError):  # read-only, or a type NumPy does not have
        return np.asarray(X.double() if hasattr(X, "double") else X)


def like(X: Any, answers: Any) -> Any:
    """Answers as the kind of array that `X` is, on its device; text stays a NumPy array."""
    if isinstance(answers, np.ndarray) and answers.dtype.kind not in "fiub":
        return answers
    if type(X).__module__.partition(".")[0] == "torch":
        import torch

        return answers if isinstance(answers, torch.Tensor) else torch.from_numpy(answers)
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__().from_dlpack(answers)
    return import_module(type(X).__module__.partition(".")[0]).from_dlpack(answers)


def answer_there(
    model: ModelFields,
    X: Any,
    finish: Formula,
    criterion: Criterion,
    on_invalid: OnInvalid | None = None,
) -> tuple[Any, Stats]:
    """The answers to rows on a GPU, on that GPU, and how they came about.

    Parameters
    ----------
    model : CompiledModel
    X : tensor or array of shape (m, d)
    finish : callable
        Of the head, from scores to answers.
    criterion : Criterion
        What a certified row must satisfy; labels, where they are all that is asked for.
    on_invalid : {"warn", "raise", "ignore"}, optional
    """
    import torch

    from kernelite.backends.torch.tensors import TensorValue

    rows = X if isinstance(X, torch.Tensor) else torch.from_dlpack(X)
    program, head = program_on(model, rows.device), model.head
    if finish == head.predict and head.kind == "classifier" and not program.head.has_numbers:
        raise UnsupportedModelError(
            "the labels of this model are not numbers, which a tensor could hold; "
            "`kernelite.torch.module(fast)(X).labels` are their positions in `fast.classes_`."
        )
    if finish == head.predict or head.kind in ("density", "transform"):
        answers, counts = program.answers(rows, "predict", None, None)
    else:
        if finish == head.probabilities:
            finished = program.head.probabilities
        else:

            def finished(scores: torch.Tensor) -> Any:
                return finish(TensorValue(scores)).tensor

        try:
            answers, counts = program.answers(rows, finish.__qualname__, criterion, finished)
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                "this answer is not lowered to torch, since " + str(error).rstrip(".") + "; pass "
                "rows as an array, e.g. `X.cpu().numpy()`."
            ) from error
    stats = _stats(program, rows, counts)
    if model.guarantee == "none":
        policy = on_invalid if on_invalid is not None else model.on_invalid
        report_invalid(stats.outside_validity, stats.rows, policy)
    return like(X, answers), stats


def evidence_there(model: ModelFields, X: Any, what: str) -> Any:
    """What is proven of rows, or their deviations, where they are.

    Parameters
    ----------
    model : CompiledModel
    X : tensor or array of shape (m, d)
    what : {"decided", "error_bound", "deviations"}
        A function of `evidence`; rows in host memory are answered by the engines there.
    """
    import torch

    from kernelite.backends.torch import evidence

    rows = X if isinstance(X, torch.Tensor) else torch.from_dlpack(X)
    return like(X, getattr(evidence, what)(model, program_on(model, rows.device), rows))


def program_on(model: ModelFields, device: Any) -> Program:
    """The model's program on a device, laid out when first needed."""
    from kernelite.backends.torch.program import Program

    programs = model.__dict__.setdefault("_programs", {})
    if device not in programs:
        programs[device] = Program(model).to(device)
    return programs[device]


def _stats(program: Program, rows: Any, counts: list[int]) -> Stats:
    outside, (*by_stage, undecidable) = 0, counts
    if program.guarantee == "none":
        for part in program.parts:
            outside = max(outside, int((~part.forms.valid(part.steps(rows))).sum()))
    return Stats(
        rows=rows.shape[0],
        stages=dict(zip((FIRST, EXACT_SINGLE, EXACT, EXACT_QUICK), by_stage)),
        undecidable=undecidable,
        outside_validity=outside,
    )
