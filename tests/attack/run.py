"""Blocks of models on several processes; the state is kept, so that a run can be resumed."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelite import __version__
from tests.reliability.runs import keep, kept

__all__ = ["BLOCK", "attack", "attacked"]

BLOCK = 250  # models that a process takes at a time


def attacked(seed: int, first: int, stop: int, *, chances: bool = False) -> dict[str, Any]:
    """Judge the models first to stop - 1; of `chances`, probabilities and deviations alone."""
    from tests.attack.subjects import answers, chance_answers, made

    asked, found = chance_answers if chances else answers, _nothing()
    for number in range(first, stop):
        case, rng = made(seed, number)
        judges = set()
        for name, judge, scores, bounds in asked(case, rng):
            ratios = judge.ratios(scores, bounds)
            worst = float(ratios.max(initial=0.0))
            judges.add(judge)
            one = found["subjects"].setdefault(name, {"answers": 0, "worst": 0.0})
            one["answers"] += 1
            one["worst"] = max(one["worst"], worst)
            found["values"] += ratios.size
            if not worst <= 1.0:
                found["violations"].append({"number": number, "subject": name, "ratio": worst})
        found["escalated"] += sum(judge.escalated for judge in judges)
        found["models"] += 1
    return found


def _nothing() -> dict[str, Any]:
    return {"models": 0, "values": 0, "escalated": 0, "subjects": {}, "violations": []}


def _joined(whole: dict[str, Any], more: dict[str, Any]) -> None:
    for name in ("models", "values", "escalated"):
        whole[name] += more[name]
    whole["violations"] += more["violations"]
    for name, one in more["subjects"].items():
        mine = whole["subjects"].setdefault(name, {"answers": 0, "worst": 0.0})
        mine["answers"] += one["answers"]
        mine["worst"] = max(mine["worst"], one["worst"])


def attack(
    models: int,
    *,
    first: int = 0,
    seed: int = 0,
    jobs: int = 2,
    state: Path | None = None,
    seconds: float = float("inf"),
    chances: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Try the models first to first + models - 1; those that the state file has are not repeated.

    Parameters
    ----------
    models, first, seed : int
        The range of numbers, and the seed that they are made from.
    jobs : int
        Processes.
    state : Path, optional
        Kept after every block; a run with the same seed, start and version goes on from it.
    seconds : float
        Stop after so long; the state tells how far it came.
    chances : bool
        Judge probabilities and standard deviations alone, of every model.
    tell : callable
        Is given a line of how far it came.

    Returns
    -------
    dict
        Counts, the worst ratio of each subject, and the violated bounds, of which there are none.
    """
    mine = {"seed": seed, "first": first, "version": __version__}
    if chances:
        mine["chances"] = True
    whole = kept(state, mine) or {**mine, "next": first, "seconds": 0.0, **_nothing()}
    begin, spent = time.monotonic(), whole["seconds"]
    starts = range(whole["next"], first + models, BLOCK)
    blocks = [(seed, start, min(start + BLOCK, first + models), chances) for start in starts]
    os.environ["OMP_NUM_THREADS"] = "1"  # a process each; theirs would only be in each other's way
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for block, found in zip(blocks, pool.imap(_in_process, blocks)):
            _joined(whole, found)
            whole["next"], whole["seconds"] = block[2], round(spent + time.monotonic() - begin, 1)
            keep(state, whole)
            tell(f"{whole['models']} models, {len(whole['violations'])} violations")
            if time.monotonic() - begin > seconds:
                break
        pool.terminate()
    return whole


def _in_process(block: tuple[int, int, int, bool]) -> dict[str, Any]:
    return attacked(*block[:3], chances=block[3])
