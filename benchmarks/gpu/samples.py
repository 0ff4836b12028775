"""Samples of a GPU's scores and bounds: kept there, judged by ball arithmetic at home.

python -m benchmarks.gpu.samples samples.npz    adds what it finds to results/gpu.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kernelite as kl
from benchmarks.results import FOLDER, plain
from kernelite.support.files import atomic_write

__all__ = ["Sample", "judged", "load_samples", "main", "save_samples"]


OWN = ("rows", "scores", "bounds")


class Sample(NamedTuple):
    """Scores and bounds of a model's rows, to be judged by ball arithmetic elsewhere.

    `name` is what gave them, and after a colon where the model is from.
    """

    name: str
    expansion: kl.KernelExpansion
    rows: np.ndarray
    scores: np.ndarray
    bounds: np.ndarray


def save_samples(path: Path, samples: Sequence[Sample]) -> None:
    """All samples in one npz, each model once."""
    models = {id(sample.expansion): sample.expansion for sample in samples}
    places = {key: place for place, key in enumerate(models)}
    arrays: dict[str, Any] = {
        "names": np.array([sample.name for sample in samples]),
        "models": np.array([places[id(sample.expansion)] for sample in samples]),
    }
    for place, expansion in enumerate(models.values()):
        arrays[f"centers {place}"] = expansion.dense_centers()
        arrays[f"coefficients {place}"] = expansion.coefficients
        arrays[f"intercept {place}"] = expansion.intercept
        arrays[f"gamma {place}"] = np.array(expansion.gamma)
    for number, sample in enumerate(samples):
        for name in OWN:
            arrays[f"{name} {number}"] = getattr(sample, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def load_samples(path: Path) -> list[Sample]:
    """As `save_samples` wrote them."""
    with np.load(path, allow_pickle=False) as arrays:
        models = []
        for place in range(int(arrays["models"].max(initial=-1)) + 1):
            centers, A, b, gamma = (
                arrays[f"{name} {place}"]
                for name in ("centers", "coefficients", "intercept", "gamma")
            )
            models.append(kl.KernelExpansion(centers, A, b, gamma=float(gamma)))
        return [
            Sample(str(name), models[place], *(arrays[f"{own} {number}"] for own in OWN))
            for number, (name, place) in enumerate(zip(arrays["names"], arrays["models"]))
        ]


def judged(samples: Sequence[Sample]) -> dict[str, Any]:
    """The largest |f - score| / bound of each evaluator, f as a ball of 400 bits."""
    from tests.oracle import error_ratios, true_scores

    worst: dict[str, float] = {}
    counts: dict[str, int] = {}
    values = violated = 0
    truths: dict[int, Any] = {}
    for sample in samples:
        name = sample.name.partition(":")[0]
        key = id(sample.expansion)
        if key not in truths:  # several evaluators saw the same model and rows
            truths[key] = true_scores(sample.expansion, sample.rows)
        ratios = error_ratios(truths[key], sample.scores, sample.bounds)
        worst[name] = max(worst.get(name, 0.0), float(ratios.max()))
        counts[name] = counts.get(name, 0) + 1
        values += ratios.size
        violated += int((ratios > 1.0).sum())
    found = {"samples": counts, "models": len(truths), "values": values, "violated": violated}
    return found | {"worst": worst}


def main(argv: Sequence[str] | None = None) -> int:
    """Judge samples and write what was found beside the other results."""
    paths = [Path(name) for name in (sys.argv[1:] if argv is None else argv)]
    found = judged([sample for path in paths for sample in load_samples(path)])
    print(json.dumps(plain(found), indent=1))
    results = FOLDER / "gpu.json"
    document = json.loads(results.read_text(encoding="utf-8"))
    document["content"]["judged"] = plain(found)
    with atomic_write(results) as file:
        file.write(json.dumps(document, indent=1) + "\n")
    return int(found["violated"] > 0)


if __name__ == "__main__":
    sys.exit(main())
