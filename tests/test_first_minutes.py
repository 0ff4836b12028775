"""What a newcomer types in the first minutes, and what used to fail."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import kernelite as kl
from kernelite.support import errors


@pytest.fixture(scope="module")
def fast() -> kl.CompiledModel:
    X, y = load_iris(return_X_y=True)
    return kl.compile(SVC(gamma=0.02, C=10).fit(X, y), X=X, plan="form")


def test_the_sample_may_be_named() -> None:
    X, y = load_iris(return_X_y=True)
    svc = SVC(gamma=0.02, C=10).fit(X, y)
    named, placed = (
        kl.compile(svc, X=X, plan="estimate"),
        kl.compile(svc, X, plan="estimate"),
    )
    assert named.plan == placed.plan
    assert (named.predict(X) == svc.predict(X)).all()


OLD_SENTENCES = (
    "with an RBF kernel a quadratic form answers",
    "served almost entirely by the form",
    "that is what it is",
    "tested on rows that chose nothing",
    "one thread per request is usually the best",
    "`tolerance=` asks for less",
    "as good as their labels",
    "as good as the labels",
    "Shares were measured on",
    "A compiled model has the methods of its source",
)


def test_sentences_that_misled_are_gone() -> None:
    root = Path(__file__).parents[1]
    files = [root / "README.md"]
    for folder, kinds in (("docs", {".md", ".py"}), ("src", {".py"}), ("examples", {".py"})):
        found = (root / folder).rglob("*")
        files += [p for p in found if p.suffix in kinds and "_build" not in p.parts]
    assert len(files) > 300
    for path in files:
        text = " ".join(path.read_text(encoding="utf-8").split()).casefold()
        assert not [old for old in OLD_SENTENCES if old.casefold() in text], path


@pytest.mark.parametrize("page", ["README.md", "docs/start/install.md"])
def test_who_installs_from_a_checkout_gets_compiled_loops(page: str) -> None:
    """A first command without numba would leave NumPy alone, several times slower."""
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    installed, _, rest = text.partition("pip install '.[jit,sklearn]'")
    assert rest
    assert "pip install" not in installed
    assert "kernelite warm-up" in rest[:100]


def test_every_error_can_be_had_from_the_top() -> None:
    kinds = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert len(kinds) > 3
    assert kinds <= set(kl.__all__)
    for name in kinds:
        assert getattr(kl, name) is getattr(errors, name)
    with pytest.raises(kl.InputError):
        kl.compile(kl.KernelExpansion([[0.0]], [1.0], 0.0, gamma=1.0), guarantee="sure")


def test_export_writes_what_the_target_gives(fast: kl.CompiledModel, tmp_path: Path) -> None:
    from kernelite.backends.c import to_c

    header = tmp_path / "iris.h"
    assert kl.export(fast, header) == [str(header)]
    assert header.read_text() == to_c(fast, name="iris")
    assert list(inspect.signature(kl.export).parameters)[:2] == ["model", "path"]


def test_a_model_exports_itself(fast: kl.CompiledModel, tmp_path: Path) -> None:
    written = fast.export(tmp_path / "iris.h", main=True)
    assert [Path(file).name for file in written] == ["iris.h", "iris.c"]
    with pytest.raises(kl.InputError, match="must end in"):
        fast.export(tmp_path / "iris.txt")
    pytest.importorskip("onnx", reason="onnx is not installed: extra `onnx`")
    [graph] = fast.export(tmp_path / "iris.onnx")
    assert Path(graph).stat().st_size > 0


def test_the_view_in_notebooks_names_the_class(fast: kl.CompiledModel) -> None:
    assert fast._repr_html_().startswith("<div><b>CompiledModel: scikit-learn SVC")


def test_a_plan_has_a_view_of_its_own(fast: kl.CompiledModel) -> None:
    page = fast.plan.noting("<b>a note</b>")._repr_html_()
    assert page.startswith(f"<div><b>{fast.plan.summary}</b>")
    assert "ns per row" in page
    assert fast.plan.others[0].name in page
    assert "&lt;b&gt;a note" in page


def public_calls() -> list[tuple[str, object]]:
    """Functions of the package, and methods of the classes that users hold."""
    functions = [(name, getattr(kl, name)) for name in kl.__all__]
    classes = [kl.CompiledModel, kl.CompiledClassifier, kl.CompiledRegressor]
    classes.append(kl.CompiledOutlierDetector)
    methods = [
        (f"{one.__name__}.{name}", value)
        for one in classes
        for name, value in inspect.getmembers_static(one, inspect.isfunction)
        if not name.startswith("_") and value.__module__.startswith("kernelite")
    ]
    return [(name, one) for name, one in functions if inspect.isfunction(one)] + methods


@pytest.mark.parametrize(("name", "call"), public_calls())
def test_arguments_have_types(name: str, call: object) -> None:
    """An editor says what may be passed: no argument is `Any`, but for options passed on."""
    parameters = inspect.signature(call).parameters.values()  # type: ignore[arg-type]
    kept = [p for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"]
    assert [p.name for p in kept if p.annotation in ("Any", p.empty)] == []
