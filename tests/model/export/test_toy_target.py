"""A toy target: an interpreter that counts operations. It is a namespace and a loop over rows.

It names no form, head, kernel function or step; what it cannot do it refuses in one sentence.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest

import kernelite
from kernelite.backends.c import to_c
from kernelite.backends.cpu.forms import FormEngine
from kernelite.backends.onnx import to_onnx
from kernelite.machine.heads import RegressorHead
from kernelite.machine.kernels import Kernel
from kernelite.machine.ops import NUMPY, ops
from kernelite.model.export.emitting import OPERATORS
from kernelite.model.export.exact import exact_scores
from kernelite.model.export.selection import select
from kernelite.model.export.tracing import Trace, TracedNode
from kernelite.program.criteria import label_criterion
from kernelite.series.series import SeriesForm, quadratic_form
from kernelite.support.errors import UnsupportedModelError
from kernelite.support.records import dataclass
from tests.helpers import random_expansion
from tests.model.export.cases import CASES, usable_rows

# The target: what each operation of a traced formula is, and how often it was done.

FUNCTIONS: dict[str, Any] = {
    **{name: getattr(np, name) for name in ("abs", "exp", "log", "sqrt", "sign", "isnan", "isinf")},
    **{name: getattr(np, name) for name in ("maximum", "minimum", "nextafter", "where")},
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "copy": np.array,
    "to_f": np.float64,
    "to_i": np.int64,
    "take": lambda table, index: table[index],
    "matmul": np.matmul,
}
ALONG = {"sum": np.sum, "max": np.max, "min": np.min, "all": np.all, "any": np.any}


class Interpreter:
    """Runs traced formulas, and counts."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def value(
        self, node: TracedNode, given: dict[str, np.ndarray], known: dict[TracedNode, Any]
    ) -> Any:
        if node not in known:
            sides = [self.value(side, given, known) for side in node.inputs]
            self.count[node.op] += node.size
            known[node] = self._operate(node, sides, given)
        return known[node]

    def _operate(self, node: TracedNode, sides: list[Any], given: dict[str, np.ndarray]) -> Any:
        op = node.op
        if op == "constant":
            return node.data
        if op == "input":
            return given[node.data]
        if op == "placed":
            return sides[0].reshape(-1)[node.data]
        if op == "argmax":
            return np.argmax(sides[0], axis=node.data)
        if op == "concat":
            return np.concatenate(sides, axis=node.data)
        if op == "pick":
            return np.take_along_axis(sides[0], sides[1], axis=1)
        if op == "contract":
            return self._contract(*sides, node.data)
        return ALONG[op](sides[0], axis=node.data) if op in ALONG else FUNCTIONS[op](*sides)

    @staticmethod
    def _contract(x: np.ndarray, packed: np.ndarray, order: int) -> np.ndarray:
        r = x.shape[1]
        places = [p for p in np.ndindex(*(r,) * order) if list(p) == sorted(p)]
        products = np.array([np.prod(x[0, list(p)]) for p in places])
        return (packed @ products)[None, :]


WRITTEN = ("add", "sub", "mul", "div", "gt", "ge", "lt", "le", "eq", "ne", "neg", "isnan")


@pytest.mark.parametrize("op", WRITTEN)
def test_operators_are_written_as_they_are_meant(op: str) -> None:
    """C and JavaScript share these with Python, which reads them here."""
    numbers = (0.5, 0.5, -2.0, 0.25, np.nan)
    for a in numbers:
        for b in numbers:
            sides = [np.float64(a), np.float64(b)][: FUNCTIONS[op].nin]
            found = eval(OPERATORS[op].format("a", "b"), {"a": a, "b": b})
            np.testing.assert_array_equal(found, FUNCTIONS[op](*sides))


def answers(model: Any, rows: np.ndarray, count: Counter[str]) -> tuple[Any, np.ndarray]:
    """Labels or values, and which rows the form settled: the scheduler of this target."""
    selection, trace = select(model), Trace("the toy")
    row = trace.input("x", model.n_features_in_)
    seen: Any = row
    for step in model.preparation.steps:
        seen = step.formula(seen)
    served, criterion, found, settled = selection.approximation, None, None, None
    if served is not None:
        evaluated = served.form.evaluate(seen)
        found = evaluated.scores
        if selection.falls_back:
            bounds = served.form.bounds(served.certificate, evaluated, 2, NUMPY)
            criterion = label_criterion(model.head, model.tolerance)
            settled = criterion(found, bounds)
    exact = None if selection.expansion is None else exact_scores(selection.expansion, seen)
    labels, by_form = [], []
    for one in rows:
        run, given, known = Interpreter(), {"x": one[None, :]}, {}
        proven = settled is None or bool(run.value(settled, given, known).all())
        scores = run.value(found if found is not None and proven else exact, given, known)
        labels.append(model.head.predict(scores)[0])
        by_form.append(proven)
        count.update(run.count)
    return np.array(labels), np.array(by_form)


TRIED = [
    name
    for name, model in CASES.items()
    if "predict" in model.head.offers and model.guarantee != "calibrated"  # the toy has no margin
]


@pytest.mark.parametrize("name", TRIED)
def test_the_toy_target_answers_as_the_model(name: str) -> None:
    model, count = CASES[name], Counter[str]()
    rows = usable_rows(model, m=20)[4:]
    with np.errstate(all="ignore"):
        got, _ = answers(model, rows, count)
    want = model.predict(rows, on_invalid="ignore")
    if model.head.proves_labels:
        np.testing.assert_array_equal(got, want)
    else:
        tolerance = 1e-9 if model.tolerance is None else 2.0 * model.tolerance.max()
        np.testing.assert_allclose(got.reshape(want.shape), want, atol=tolerance)
    assert sum(count.values()) > len(rows)


def test_the_toy_has_what_languages_have() -> None:
    """Operators of languages and of the toy are those that formulas are traced to."""
    assert set(OPERATORS) - {"write"} <= set(FUNCTIONS)


# What no table knows: a form, a head, a kernel function and a step of one's own.


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnForm(SeriesForm):
    """A form that has its definition, and nothing else."""

    name = "own form"

    def quadratic_part(self, U: Any, sq_norms: Any) -> tuple[Any, None]:
        return sq_norms[:, None] * self.constant, None


@dataclass(frozen=True)
class OwnKernel(Kernel):
    """A kernel function that asks for an operation which no target has."""

    def values(self, rows: Any, centers: Any) -> Any:
        return ops(rows).bessel(ops(rows).squared_distances(rows, centers))

    def diagonal(self, rows: Any) -> Any:
        return np.ones(len(rows))

    def largest(self, reach: Any) -> Any:
        return np.full(len(reach.rows), np.inf)

    def error(self, reach: Any) -> Any:
        return np.full(len(reach.rows), np.inf)

    @property
    def label(self) -> str:
        return "own"


class OwnHead(RegressorHead):
    """A head that asks for such an operation."""

    def predict(self, scores: Any) -> Any:
        return ops(scores).bessel(scores)


class OwnStep:
    """A step without a formula."""

    rowwise, takes_columns, exact = True, False, False


WRITERS = {"ONNX": to_onnx, "C": to_c}


def test_a_form_without_kernels_runs_by_its_definition() -> None:
    expansion = random_expansion(np.random.default_rng(0), d=3)
    known = quadratic_form(expansion, np.zeros(3))
    shared = {name: getattr(known, name) for name in SeriesForm.__dataclass_fields__}
    form, rows = OwnForm(**shared), np.random.default_rng(1).normal(size=(7, 3))
    found = FormEngine(form, None).run(rows)
    np.testing.assert_array_equal(found.scores, form.evaluate(rows).scores)
    traced: Any = Trace("the toy").input("x", 3)
    node = form.evaluate(traced).scores
    for row, want in zip(rows, found.scores):
        got = Interpreter().value(node, {"x": row[None, :]}, {})
        np.testing.assert_allclose(got[0], want, rtol=1e-12)


@pytest.mark.parametrize("target", WRITERS)
def test_a_kernel_function_that_needs_more_is_refused(target: str) -> None:
    expansion = kernelite.KernelExpansion(np.eye(2), np.ones(2), 0.0, kernel=OwnKernel())
    model = CASES["exact, outputs"]
    own = _with(model, expansion=expansion, head=RegressorHead())
    with pytest.raises(UnsupportedModelError, match=r"kernel of this model .* `bessel`") as refused:
        WRITERS[target](own)
    assert str(refused.value).count(". ") == 0


@pytest.mark.parametrize("target", WRITERS)
def test_a_head_that_needs_more_is_refused(target: str) -> None:
    model = CASES["exact, outputs"]
    own = _with(model, head=OwnHead(model.head.n_scores))
    with pytest.raises(UnsupportedModelError, match=r"OwnHead.* `bessel`") as refused:
        WRITERS[target](own)
    assert str(refused.value).count(". ") == 0


@pytest.mark.parametrize("target", WRITERS)
def test_a_step_without_a_formula_is_refused(target: str) -> None:
    model = CASES["exact, outputs"]
    own = _with(model, preparation=_Steps((OwnStep(),)))
    with pytest.raises(UnsupportedModelError, match=r"not exported \(OwnStep\)"):
        WRITERS[target](own)


class _Steps:
    def __init__(self, steps: tuple[Any, ...]) -> None:
        self.steps = steps


def _with(model: Any, **changes: Any) -> Any:
    """The model with some of its attributes replaced, unchecked."""
    made = copy.copy(model)
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made
