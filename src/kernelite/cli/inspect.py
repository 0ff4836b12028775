"""`kernelite inspect MODEL`: what a model was, what it guarantees, what it holds.

examples:
  kernelite inspect svm.kernelite
  kernelite inspect svm.model.bz2
  kernelite inspect svm.kernelite --json
"""

from __future__ import annotations

import argparse
import os
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import add_json
from kernelite.cli.console import print_json
from kernelite.support.errors import InputError
from kernelite.support.terminal import printable

if TYPE_CHECKING:
    from kernelite.model import CompiledModel
    from kernelite.planner.plan import Plan
    from kernelite.sources import Machine

__all__ = ["configure", "description", "plan_text", "run"]

_PROMISES = {
    "calibrated": "labels seldom differ from the exact model's; tested on the sample, and only "
    "for rows like it",
    "none": "nothing is proven; rows outside the validity bound are reported",
    "exact": "this is the exact model, evaluated in double precision",
}
_CERTIFIED = {
    "regressor": "values are within the tolerance of the exact model's, proven",
    "transform": "values are within the tolerance of the exact model's, proven",
}
_MOST_CLASSES = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("model", metavar="MODEL", help="compiled model, or LIBSVM model")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Describe."""
    from kernelite.cli.models import is_pickle
    from kernelite.sources import read
    from kernelite.store.files import load, model_kind, stored_digest

    if is_pickle(args.model):
        raise InputError(
            f"`{args.model}` is a pickle, not a compiled model: compile it first with `kernelite "
            "compile --allow-pickle`."
        )
    kind = model_kind(args.model)
    facts: dict[str, Any] = {
        "file": args.model,
        "format": kind,
        "file_bytes": os.path.getsize(args.model),
    }
    plan = None
    if kind == "libsvm":
        facts |= _fitted(read(args.model))
    else:
        model = load(args.model)
        if kind == "kernelite":
            facts["format_version"], facts["digest"] = stored_digest(args.model)
        facts |= description(model)
        plan = model.plan
    if args.json:
        print_json(facts)
        return 0
    facts.pop("plan", None)
    facts = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<{width}}  {_shown(value)}")
    if plan is not None:
        print(f"\nplan: {plan_text(plan)}")
    return 0


def description(model: CompiledModel) -> dict[str, Any]:
    """What there is to say about a compiled model, for JSON and for people.

    Parameters
    ----------
    model : CompiledModel

    Returns
    -------
    dict
    """
    part = model.expansion if model.approximation is None else model.approximation.form
    kernel = "several" if part is None else part.kernel_tag
    facts: dict[str, Any] = {
        "source": model.origin.description,
        **_answers(model.head),
        "features": model.n_features_in_,
        "outputs": model.head.n_scores,
        "kernel": kernel,
        "gamma": getattr(model, "gamma", None),
        "guarantee": model.guarantee,
        "promise": _promise(model),
        "support_vectors_of_the_source": model.origin.n_centers,
        "holds_support_vectors": model.guarantee != "none",
        "array_bytes": model.nbytes,
    }
    if model.tolerance is not None:
        facts["tolerance"] = model.tolerance
    if model.guarantee == "certified" and "decision_function" in model.offers:
        facts["decision_values"] = _decision_values(model)
    if model.threshold is not None:
        facts["threshold"] = model.threshold
    if model.approximation is not None and model.approximation.form.damped:
        facts |= _bounds(model)
    return facts | {"plan": _plan(model)}


def _decision_values(model: CompiledModel) -> str:
    """What certified decision values promise."""
    if model.tolerance is not None:
        return "within `tolerance`, with proven labels"
    if model.expansion is not None and not model.expansion.has_series:
        return "exact up to rounding, with proven labels"
    if model.score_tolerance is None:
        return "may be inaccurate, only their labels are proven (compile again for a tolerance)"
    least, most = model.score_tolerance.min(), model.score_tolerance.max()
    limits = f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    return f"within {limits} of the exact ones, with proven labels"


def plan_text(plan: Plan, most: int | None = None) -> str:
    """A printed plan, as wide as the terminal; with at most `most` of the candidates that lost."""
    from kernelite.planner.plan import PRINTED_COLUMNS

    width = get_terminal_size().columns if sys.stdout.isatty() else PRINTED_COLUMNS
    text, left = plan.text(width, most), 0 if most is None else len(plan.others) - most
    return f"{text}\n  and {left} more; `kernelite inspect` lists them" if left > 0 else text


def _promise(model: CompiledModel) -> str:
    if model.guarantee != "certified":
        return _PROMISES[model.guarantee]
    return _CERTIFIED.get(model.head.kind, "labels are the exact model's, proven")


def _bounds(model: CompiledModel) -> dict[str, Any]:
    assert model.approximation is not None
    form = model.approximation.form
    limit = form.gamma_max
    return {
        "about_the_origin": not form.point.any(),
        "gamma_max_of_the_support_vectors": limit,
        "gamma_is_below_it": model.gamma < limit,
    }


def _answers(head: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": head.kind}
    if head.kind == "classifier":
        facts["classes"] = head.classes
        facts["probabilities"] = "predict_proba" in head.offers
    return facts


def _plan(model: CompiledModel) -> dict[str, Any]:
    plan = model.plan
    return {
        "chosen": plan.chosen.name,
        "nanoseconds_per_row": plan.chosen.nanoseconds,
        "falls_back": plan.chosen.open_share,
        "expected_speed_up": plan.speed_up,
        "notes": list(plan.said),
        "others": [
            {"name": other.name, "nanoseconds_per_row": other.nanoseconds, "verdict": other.verdict}
            for other in plan.others
        ],
    }


def _fitted(source: Machine) -> dict[str, Any]:
    from kernelite.data.gamma import gamma_max

    expansion = source.expansion
    single = getattr(expansion, "kernel", None)
    facts: dict[str, Any] = {
        "source": source.description,
        **_answers(source.head),
        "features": expansion.n_features,
        "outputs": expansion.n_outputs,
        "kernel": "several" if single is None else single.tag,
        "gamma": source.single.gamma if single is not None and single.has_series else None,
        "support_vectors": expansion.n_centers,
        "array_bytes": expansion.nbytes,
    }
    if single is not None and single.damps and expansion.n_centers:
        centers = _without_empty_columns(source.single.centers)
        for about in ("origin", "mean"):
            limit = float(gamma_max(centers, about=about))
            facts[f"gamma_max_about_the_{about}"] = limit
    return facts


def _without_empty_columns(centers: Any) -> Any:
    """Sparse centers in the columns that they use: the mean is dense, and an index may be huge."""
    import numpy as np
    from scipy.sparse import csr_array

    from kernelite.data.rows.inputs import is_sparse

    if not is_sparse(centers):
        return centers
    used, indices = np.unique(centers.indices, return_inverse=True)
    width = max(1, len(used))
    return csr_array((centers.data, indices, centers.indptr), shape=(centers.shape[0], width))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "tolist"):
        items = value.tolist()
        items = items if isinstance(items, list) else [items]
        more = f", ... ({len(items)})" if len(items) > _MOST_CLASSES else ""
        # Labels that are truth values stay such.
        shown = [str(i) if isinstance(i, bool) else _shown(i) for i in items[:_MOST_CLASSES]]
        return ", ".join(shown) + more
    return printable(str(value), one_line=True)
