"""Only tables ask which head, criterion, form, stage or kernel function they have before them.

Everything else asks the object: `machine.heads.base.Head`, `program.criteria.Criterion`,
`series.series.SeriesForm`, `program.cascade.Stage` and `machine.kernels.base.Kernel` say what it
answers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import kernelite

ROOT = Path(kernelite.__file__).parent

# From a class to what one target makes of it.
TABLES = {
    *("backends/cpu/approximation.py", "backends/cpu/forms.py"),
    "backends/torch/forms.py",
    "store/approxsvm.py",  # the heads and the form that approxsvm's text can hold
    # From a kernel function to sums without centers, to its rounding, to a loop of its own, and to
    # the factors of Shapley values.
    *("backends/cpu/exact_packed.py", "backends/cpu/exact_rounding.py"),
    *("backends/cpu/fused_sums.py", "explain/terms.py"),
}
ROOTS = {"Head", "Criterion", "SeriesForm", "CubicForm", "DirectionalBound", "Kernel"}
BOUNDARY = {"Head", "Kernel"}  # "is this one at all" is a question about what a caller passed
NOUNS = {"head", "criterion", "stage", "evaluator", "form", "cubic"}

TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}


@cache
def family() -> set[str]:
    """The classes with a contract: subclasses of `ROOTS`, and stages."""
    classes = [n for t in TREES.values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)]
    found = ROOTS | {node.name for node in classes if is_stage(node)}
    bases = {node.name: {last_word(base) for base in node.bases} for node in classes}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def is_stage(node: ast.ClassDef) -> bool:
    """Stages do not inherit: they are what has `run`, `bound` and `accepts_all`."""
    named = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    named |= {last_word(t) for n in node.body if isinstance(n, ast.Assign) for t in n.targets}
    return named >= {"run", "bound", "accepts_all"}


def last_word(node: ast.AST) -> str:
    """`head` of `self.model.head`, `Protocol` of `Protocol[T]`."""
    if isinstance(node, ast.Subscript):
        return last_word(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def questions(tree: ast.AST, classes: set[str]) -> Iterator[str]:
    """What a module asks about the class, or about the members, of such an object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass):
            named = {last_word(node.cls)} & classes
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            named = {last_word(other) for other in node.comparators} & classes
        elif isinstance(node, ast.Call):
            named = asked_by(node, classes)
        else:
            continue
        if named:
            yield ast.unparse(node)


def asked_by(call: ast.Call, classes: set[str]) -> set[str]:
    """What a call asks about: classes by `isinstance`, or an object by `hasattr`."""
    name = last_word(call.func)
    if name in ("isinstance", "issubclass"):
        return {last_word(node) for node in ast.walk(call.args[1])} & classes
    if name == "hasattr" or (name == "getattr" and len(call.args) > 2):
        return {last_word(call.args[0])} & NOUNS
    return set()


def test_the_family_is_found() -> None:
    expected = {"ClassifierHead", "Within", "SpectralForm", "FirstForms", "DoublePrecision"}
    assert expected | {"VotingHead", "PartsExactly", "Damped", "SumKernel"} <= family()


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("isinstance(model.head, ClassifierHead | OutlierHead)", True),
        ("isinstance(given, heads.Within)", True),
        ("type(head) is RegressorHead", True),
        ("hasattr(self.head, 'classes')", True),
        ("getattr(form, 'rank', None)", True),
        ("match x:\n    case RegressorHead(): pass", True),
        ("isinstance(rows, np.ndarray)", False),
        ("hasattr(X, 'shape')", False),
        ("getattr(head, name)(scores)", False),
    ],
)
def test_questions_are_seen(code: str, asked: bool) -> None:
    assert bool(list(questions(ast.parse(code), family()))) == asked


@pytest.mark.parametrize("name", sorted(set(TREES) - TABLES))
def test_a_module_asks_the_object_not_its_class(name: str) -> None:
    assert not list(questions(TREES[name], family() - BOUNDARY))


def test_every_table_exists() -> None:
    assert set(TREES) >= TABLES


def public_names(tree: ast.Module) -> Iterator[str]:
    """Classes of a module, and its public constants."""
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for name in map(last_word, filter(None, targets)):
            if name.isupper() and not name.startswith("_") and len(name) > 1:
                yield name


def test_a_name_is_defined_in_one_file() -> None:
    """So that a reader who meets it in another file need not ask which one is meant."""
    files: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        for name in public_names(tree):
            files.setdefault(name, set()).add(path)
    assert not {name: sorted(found) for name, found in files.items() if len(found) > 1}
