"""Real models on the device: labels and values against the CPU's, stages, then time per row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

import kernelite.torch
from benchmarks.gpu.models import Prepared, load_prepared, prepared_paths
from benchmarks.gpu.samples import Sample
from benchmarks.gpu.together import in_processes
from kernelite.backends.torch.interchange import answer_there
from kernelite.program.criteria import decision_criterion, decision_tolerance

__all__ = ["Verified", "checked", "verify"]

MOST_JUDGED = 7 << 18  # steps per row of a real model that ball arithmetic is to judge
Verified = tuple[dict[str, Any], list[Sample]]


def verify(folder: Path, device: str) -> tuple[list[dict[str, Any]], list[Sample]]:
    """A line per model, and samples for ball arithmetic; times only on a GPU.

    Models are checked in several processes, since each of their widths is compiled; that leaves
    compiled kernels behind for the times, which are taken alone.
    """
    paths = prepared_paths(folder)
    found = in_processes(checked, [(str(path), device) for path in paths], device)
    lines = [line for line, _ in found]
    for path, line in zip(paths, lines):
        if device != "cpu":
            line |= _timed(load_prepared(path), device)
        print(line, flush=True)
    return lines, [sample for _, samples in found for sample in samples]


def checked(path: str, device: str) -> Verified:
    """What the device answers, compared; and scores of a few rows by each stage."""
    one = load_prepared(Path(path))
    program = kernelite.torch.module(one.model).to(device)
    rows = torch.from_numpy(one.rows).to(device)
    answer = program.predict(rows)
    found = answer.labels.cpu().numpy()
    stages = torch.bincount(answer.stage.int(), minlength=3).double() / len(rows)
    line: dict[str, Any] = {"model": one.name, "rows": len(rows)}
    if one.answers is None:
        values, limit = found, one.model.tolerance
    else:
        if one.model.head.kind == "classifier" and not program.head.has_numbers:
            found = np.asarray(one.model.classes_)[found]
        line["labels that differ from the CPU's"] = int((found != one.answers).sum())
        head, tolerances = one.model.head, (one.model.tolerance, one.model.score_tolerance)
        limit = decision_tolerance(head, *tolerances)
        asked = head.decision, decision_criterion(head, *tolerances)
        values = answer_there(one.model, rows[: len(one.values)], *asked)[0].cpu().numpy()
    error = np.abs(values - one.values)
    if limit is None:  # an exact model's values: of rounding alone
        limit = 1e-9 * np.abs(one.values).max()
    line |= {
        "values": int(error.size),
        "largest error of a value, of its tolerance": float((error / limit).max(initial=0.0)),
        "share by form, fused sums, doubles": stages.tolist(),
        "undecidable": int(answer.undecidable.sum()),
    }
    return line, _samples(one, program, device)


def _samples(one: Prepared, program: Any, device: str, count: int = 2) -> list[Sample]:
    """Scores and bounds of a few rows by each stage, where ball arithmetic can follow."""
    expansion, part = one.model.expansion, program.parts[0]
    if expansion is None or len(program.parts) > 1:
        return []
    steps = expansion.n_centers * (expansion.n_features + expansion.n_outputs)
    if part.steps.formulas or steps > MOST_JUDGED:
        return []
    rows = one.rows[:: max(1, len(one.rows) // count)][:count]
    found = []
    for stage, name in enumerate(("form", "fused", "doubles")):
        there = torch.from_numpy(rows).to(device)
        given = part(there, stage, kernels=program._kernels(there))
        answers = (given.scores.cpu().numpy(), given.bounds.cpu().numpy())
        found.append(Sample(f"{name}, real models: {one.name}", expansion, rows, *answers))
    return found


def _timed(one: Prepared, device: str, turns: int = 3) -> dict[str, Any]:
    """Nanoseconds per row, with rows repeated so that a call has many."""
    from benchmarks.gpu.speed import best

    program = kernelite.torch.module(one.model).to(device)
    rows = torch.from_numpy(one.rows).to(device)
    times = max(1, math.ceil((1 << 20) / len(rows)) if rows.shape[1] < 200 else 16)
    many = rows.repeat(times, 1)
    seconds = best(lambda: program.predict(many), turns)
    return {"rows timed": len(many), "ns per row": 1e9 * seconds / len(many)}
