"""Tensors and DLPack: rows are answered where they lie, by the same kind of array.

In: a compiled model, a torch tensor or an array that speaks DLPack, and which answer is asked for.
Out: that answer on the rows' device. Rows in host memory are answered by the CPU's own engines,
without a copy; rows on a GPU by `Program`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelite.errors import InputError, UnsupportedModelError
from kernelite.model.validity import OnInvalid, report_invalid
from kernelite.program.stats import EXACT, FIRST, SINGLE, Stats
from kernelite.rows.inputs import FloatArray

if TYPE_CHECKING:
    from kernelite.gpu.program import Answer, Program
    from kernelite.model.fields import ModelFields

__all__ = ["answer_there", "as_host_array", "like"]

CPU = 1  # DLPack's number of host memory


def as_host_array(X: Any) -> np.ndarray[Any, Any] | None:
    """Rows in host memory as a NumPy array that shares it; None where they lie elsewhere."""
    if int(X.__dlpack_device__()[0]) != CPU:
        return None
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
    return X.__array_namespace__().from_dlpack(answers)


def answer_there(
    model: ModelFields, X: Any, method: str, on_invalid: OnInvalid | None
) -> tuple[Any, Stats]:
    """The answers to rows on a GPU, on that GPU, and how they came about.

    Parameters
    ----------
    model : CompiledModel
    X : tensor or array of shape (m, d)
    method : str
        What the head calls the answer: "predict", "decision", "transform", "score_samples".
    on_invalid : {"warn", "raise", "ignore"}, optional
    """
    import torch

    rows = X if isinstance(X, torch.Tensor) else torch.from_dlpack(X)
    program = program_on(model, rows.device)
    if method == "predict" and model.head.kind == "classifier" and not program.head.has_numbers:
        raise UnsupportedModelError(
            "the labels of this model are not numbers, which a tensor could hold; "
            "`kernelite.torch.module(fast)(X).labels` are their positions in `fast.classes_`."
        )
    if method in ("predict", "transform"):
        labels = program.predict(rows)
        answers, stage, undecidable = labels.labels, labels.stage, int(labels.undecidable.sum())
    else:
        within = _within(model) if method in ("decision", "score_samples") else None
        found = program(rows, labels_only=False, within=within)
        answers, stage, undecidable = _finished(program, found, method), found.stage, 0
    stats = _stats(program, rows, stage, undecidable)
    if model.guarantee == "none":
        policy = on_invalid if on_invalid is not None else model.on_invalid
        report_invalid(stats.outside_validity, stats.rows, policy)
    return like(X, answers), stats


def _within(model: ModelFields) -> FloatArray | None:
    """How near scores must be, for decision values to keep what certified ones promise."""
    head = model.head
    if model.guarantee != "certified" or not head.proves_labels:
        return None
    if model.tolerance is None and model.score_tolerance is None:
        return None  # of a file written before: as good as labels
    if not head.decides_by_scores:
        return np.zeros(head.n_scores)  # votes and sums of several scores: all in doubles
    return model.score_tolerance if model.tolerance is None else model.tolerance


def program_on(model: ModelFields, device: Any) -> Program:
    """The model's program on a device, laid out when first needed."""
    from kernelite.gpu.program import Program

    programs = model.__dict__.setdefault("_programs", {})
    if device not in programs:
        programs[device] = Program(model).to(device)
    return programs[device]


def _finished(program: Program, found: Answer, method: str) -> Any:
    if method == "decision":
        return program.head.decision(found.scores)
    if method == "<lambda>":  # of `scores`
        return found.scores
    if method == "score_samples":
        own = program.head.score_samples(found.scores)
        return found.labels if own is None else own
    raise InputError(
        f"`{method}` is not lowered to torch; pass rows as an array, e.g. `X.cpu().numpy()`."
    )


def _stats(program: Program, rows: Any, stage: Any, undecidable: int) -> Stats:
    import torch

    counts = torch.bincount(stage.int(), minlength=3).tolist()
    outside = 0
    if program.guarantee == "none":
        for part in program.parts:
            outside = max(outside, int((~part.forms.valid(part.steps(rows))).sum()))
    return Stats(
        rows=len(rows),
        stages={FIRST: counts[0], SINGLE: counts[1], EXACT: counts[2]},
        undecidable=undecidable,
        outside_validity=outside,
    )
