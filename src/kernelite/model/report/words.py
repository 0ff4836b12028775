"""What a report says in words: the promise, the plan, how numbers were come by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.kernels import POLY2, RBF
from kernelite.model import CompiledModel
from kernelite.model.report.measure import TIERS, Compared, Measured

__all__ = [
    "NEEDS",
    "duration",
    "facts",
    "headline",
    "model_facts",
    "plan_words",
    "promise",
    "sized",
]

NEEDS = ("a report needs matplotlib and jinja2", "matplotlib jinja2", "report")


@dataclass(frozen=True)
class Fact:
    """A number and how it was measured."""

    name: str
    value: str
    how: str


def model_facts(model: CompiledModel) -> list[tuple[str, str]]:
    """What the model was, name and value."""
    part = model.expansion if model.approximation is None else model.approximation.form
    assert part is not None
    formulas = {RBF: "exp(−γ |x − z|²)", POLY2: "(γ x·z + β)²"}
    kernel = formulas.get(part.kernel_tag, part.kernel_tag)
    width = f", γ = {part.gamma:.6g}" if part.kernel_tag in formulas else ""
    out = [
        ("kind", model.head.kind),
        ("features", f"{model.n_features_in_:,}"),
        ("outputs", f"{model.head.n_scores:,}"),
        ("kernel", kernel + width),
    ]
    if model.head.kind == "classifier":
        out.insert(1, ("classes", _listed([str(label) for label in model.classes_.tolist()])))
    if model.origin.n_centers:
        kept = "kept" if model.plan.is_exact else "kept, for rows that fall back"
        kept = kept if model.expansion is not None else "not kept"
        out.append(("support vectors", f"{model.origin.n_centers:,}, {kept}"))
    if model.approximation is not None and part.kernel_tag == RBF:
        limit = model.approximation.form.gamma_max
        side = "below" if model.gamma < limit else "above"
        out.append(("γ max of the paper", f"{limit:.3g}: γ is {side} it"))
    if model.tolerance is not None:
        out.append(("tolerance", span([float(value) for value in model.tolerance])))
    if model.threshold is not None:
        out.append(("threshold", f"{model.threshold:.3g}"))
    return out


def promise(model: CompiledModel) -> str:
    """What the guarantee means for this model."""
    if model.guarantee == "exact":
        return "This is the exact model, evaluated in double precision on kernelite's engine."
    if model.guarantee == "none":
        return (
            "Nothing is proven: all rows are answered by the paper's form alone, without support "
            "vectors, and rows outside its validity bound are reported."
        )
    if model.guarantee == "calibrated":
        return (
            "Statistical, for rows like the sample only: rows whose margin is under a tested "
            "threshold are evaluated exactly, and the rate of differing labels was tested on the "
            "80% of the sample that were not used to choose the form."
        )
    if model.head.proves_labels:
        return (
            "Every label is proven to be the exact model's, rounding included. Rows that the bound "
            "leaves open are evaluated exactly."
        )
    assert model.tolerance is not None
    return (
        f"Every value is proven to be within {span([float(v) for v in model.tolerance])} of the "
        "exact model's. Rows whose bound is larger are evaluated exactly."
    )


def plan_words(model: CompiledModel) -> str:
    """The plan as two sentences."""
    plan, chosen = model.plan, model.plan.chosen
    gain = ""
    asked = ", as asked" if chosen.verdict == "asked for" else ""
    rivals = f" out of {1 + len(plan.others)} candidates" if plan.others else asked
    if plan.is_exact:
        why = "" if chosen.verdict in ("", "asked for") else f": {chosen.verdict}"
        return (
            f"The compiler chose “{chosen.name}”{rivals}{why}. It expected "
            f"{chosen.nanoseconds:,.0f} ns per row."
        )
    if plan.speed_up == plan.speed_up:  # not NaN
        gain = f", {plan.speed_up:,.3g} times less than the exact model"
    return (
        f"The compiler chose “{chosen.name}”{rivals}. It expected "
        f"{chosen.nanoseconds:,.0f} ns per row{gain}, and {share(chosen.open_share)} of rows to "
        "need the exact model."
    )


def headline(
    model: CompiledModel, measured: Measured, compared: Compared | None = None
) -> list[tuple[str, str, str]]:
    """The numbers to look at first: value, what it is, a remark."""
    out = [_difference(model, measured, compared)]
    if model.approximation is not None:
        out.append((share(measured.share(0)), "of rows by the form", _others(measured)))
    gain, than = measured.timed.speed_up, "the exact engine"
    if compared is not None:
        gain, than = compared.speed_up, f"the original {compared.name}"
    if gain is not None and (not model.plan.is_exact or compared is not None):
        out.append((f"{gain:,.3g}×", f"faster than {than}", "measured here"))
    taken = measured.timed.compiled if compared is None else compared.compiled
    out.append((duration(taken), "per row", "measured here"))
    out.append((sized(model.nbytes), "of arrays, all that it holds", ""))
    return [tile for tile in out if tile[0]]


def _difference(
    model: CompiledModel, measured: Measured, compared: Compared | None
) -> tuple[str, str, str]:
    """How many labels differ, or how far values do: from the original's, or our exact engine's."""
    if compared is not None:
        whom, rows = f"the original {compared.name}", compared.rows
        differ, largest = compared.differ, compared.largest
    else:
        whom, rows, differ, largest = "the exact engine", measured.rows, measured.differ, None
        if measured.exact is not None and differ is None:
            largest = float(abs(measured.served - measured.exact).max(initial=0.0))
    if differ is not None:
        remark = "as promised" if differ == 0 and model.guarantee == "certified" else ""
        return f"{differ:,}", f"labels differ from {whom} in {rows:,}", remark
    if largest is not None:
        return f"{largest:.2g}", f"largest difference from {whom}", f"{rows:,} rows"
    return "", "", ""


def facts(model: CompiledModel, measured: Measured, compared: Compared | None = None) -> list[Fact]:
    """Every number of the page, with how it was measured."""
    timed = measured.timed
    seen = f"{measured.rows:,} of {measured.given:,} rows, evenly spread"
    out = [Fact("rows looked at", f"{measured.rows:,}", seen)]
    for index, name in enumerate(TIERS):
        count = int((measured.tier == index).sum())
        out.append(Fact(f"decided by the {name}", f"{count:,}", "counted while predicting"))
    if compared is not None:
        out += _comparison(compared)
    if measured.differ is not None:
        how = "predicted labels against those of our exact engine's scores, on the same rows"
        out.append(Fact("labels that differ from exact", f"{measured.differ:,}", how))
    if model.guarantee == "none":
        how = "|s_max|² |u|² < 1 / (16 γ²), row by row"
        out.append(Fact("outside the validity bound", f"{measured.outside_validity:,}", how))
    how = f"best of {timed.turns} turns over {timed.rows:,} rows in one batch"
    out.append(Fact("compiled, per row", duration(timed.compiled), how))
    if timed.exact is not None:
        taken = f"{how}, taking turns with the compiled model"
        out.append(Fact("exact engine, per row", duration(timed.exact), taken))
    how = "bytes of all its arrays, support vectors included where it keeps them"
    out.append(Fact("size of the compiled model", sized(model.nbytes), how))
    if model.approximation is not None and measured.bounds is not None:
        how = "the certificate of each row: ρ √P(3, 2γ|u|²) and rounding"
        out.append(Fact("median bound", f"{_median(measured.bounds):.3g}", how))
    if measured.exact is not None and model.approximation is not None:
        how = "the form's scores against exact scores"
        out.append(Fact("median error of the form", f"{_median(measured.errors()):.3g}", how))
    return out


def _comparison(compared: Compared) -> list[Fact]:
    """What the original answered, and how long it took."""
    name, out = compared.name, []
    how = f"our answers against those of the original {name}, on {compared.rows:,} rows"
    if compared.differ is not None:
        out.append(Fact("labels that differ from the original", f"{compared.differ:,}", how))
    if compared.largest is not None:
        out.append(Fact("largest difference from the original", f"{compared.largest:.3g}", how))
    taken = "best of 3 turns in one batch, taking turns with the compiled model"
    out.append(Fact(f"original {name}, per row", duration(compared.seconds), taken))
    return out


def share(value: float) -> str:
    """A share as per cent; tiny ones are not rounded to zero.

    Examples
    --------
    >>> share(0.98765), share(1.0), share(0.00001), share(0.0)
    ('98.8%', '100%', '0.001%', '0%')
    """
    percent = 100.0 * value
    if percent in (0.0, 100.0):
        return f"{percent:.0f}%"
    return f"{min(float(f'{percent:.3g}'), 99.99):g}%"


def sized(count: int) -> str:
    """Bytes for people.

    Examples
    --------
    >>> sized(900), sized(20_504), sized(11_686_976)
    ('900 B', '20.5 kB', '11.7 MB')
    """
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= step:
            return f"{count / step:.3g} {unit}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """Seconds for people.

    Examples
    --------
    >>> duration(31.4e-9), duration(0.0000122), duration(0.5)
    ('31.4 ns', '12.2 µs', '500 ms')
    """
    for unit, step in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= step:
            return f"{seconds / step:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def span(values: list[float]) -> str:
    """One number, or the ends of several.

    Examples
    --------
    >>> span([0.5]), span([0.5, 0.25])
    ('0.5', '0.25 to 0.5')
    """
    low, high = min(values), max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def _listed(names: list[str], most: int = 12) -> str:
    more = f", … ({len(names)})" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _median(values: FloatArray) -> float:
    return float(np.median(values))


def _others(measured: Measured) -> str:
    rest = [f"{share(measured.share(i))} by the {TIERS[i]}" for i in (1, 2) if measured.share(i)]
    return ", ".join(rest)
