"""Modules in Node: labels of the model's own library, values within tolerance, bounds that hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.javascript import to_javascript
from kernelite.support.errors import UnsupportedModelError
from tests.backends.javascript.node import NODE, Node, Refused
from tests.docs.browser import FLAGS, program
from tests.helpers import PATIENCE
from tests.model.export.cases import CASES, usable_rows
from tests.model.export.test_table import IN_ONNX, check_values, subject, theirs
from tests.models import MODELS

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as process:
        yield process


def reals(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)  # "NaN" and "Infinity" too


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_table(name: str, node: Node) -> None:
    model, fast, X, dense = subject(name)
    if name in IN_ONNX:
        with pytest.raises(UnsupportedModelError):
            to_javascript(fast)
        return
    got = node.ask(to_javascript(fast), dense)
    if "label" not in got:
        check_values(reals(got["variable"]), name)
        return
    want = theirs(model, "predict", X)
    np.testing.assert_array_equal(np.array(got["label"]).reshape(want.shape), want)
    if "probabilities" in got:
        likely = theirs(model, "predict_proba", X)
        likely = np.hstack(likely) if isinstance(likely, list) else likely
        known = np.isfinite(likely)
        assert np.abs(reals(got["probabilities"]) - likely)[known].max() <= 1e-3 + 1e-9


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("certified")])
def test_forms_alone_say_what_is_proven(name: str, node: Node) -> None:
    fast, rows = CASES[name], usable_rows(CASES[name])
    got = node.ask(to_javascript(fast, part="approximation", decided=True), rows)
    exact = fast.expansion.scores(fast.preparation.apply(rows))
    known = np.isfinite(exact).all(axis=1)
    values = "scores" not in got
    names = ("variable", "error_bound") if values else ("scores", "score_bound")
    found, bounds = (got[output] for output in names)
    off = np.abs(reals(found).reshape(exact.shape) - exact)
    assert (off <= reals(bounds).reshape(exact.shape))[known].all()
    proven = np.array(got["decided"]) & known
    if not values:
        assert proven.any()
        labels = np.array(got["label"]).reshape(len(rows))
        assert (labels == fast.predict(rows))[proven].all()


@cache
def many() -> tuple[str, np.ndarray, list[int]]:
    """A module, ten thousand rows, and scikit-learn's labels."""
    X, y = make_classification(12_000, 6, random_state=0)
    svc = SVC(gamma=0.02).fit(X[:2000], y[:2000])
    text = to_javascript(kl.compile(svc, X[:2000]))
    return text, X[2000:], svc.predict(X[2000:]).tolist()


def test_ten_thousand_rows(node: Node) -> None:
    text, rows, labels = many()
    assert node.ask(text, rows, "predict") == labels


@pytest.mark.skipif(program() is None, reason="Chromium is not installed")
def test_ten_thousand_rows_in_a_browser(tmp_path: Path) -> None:
    """A page that holds the module, from the file system."""
    text, rows, labels = many()
    page = tmp_path / "page.html"
    page.write_text(
        f'<pre></pre><script type="module">{text}\n'
        f'document.querySelector("pre").textContent = predict({json.dumps(rows.tolist())}).join();'
        "</script>",
        encoding="utf-8",
    )
    flags = [flag for flag in FLAGS if "remote" not in flag]
    own = f"--user-data-dir={tmp_path / 'own'}"
    said = subprocess.run(
        [str(program()), *flags, own, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    ).stdout
    assert said.partition("<pre>")[2].partition("</pre>")[0] == ",".join(map(str, labels))


def test_exp_and_log_are_within_their_units(node: Node) -> None:
    """Against the reference of a library with more digits, over the whole range."""
    flint = pytest.importorskip("flint", reason="python-flint is not installed")
    bump = kl.compile(kl.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0), guarantee="exact")
    text = (
        to_javascript(bump) + "export const tried = (rows) => rows.map((x) => [exp(x), log(x)]);\n"
    )
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-745, 709, 2000), rng.normal(size=2000), 1.0 + rng.normal(size=500) * 1e-9]
    )
    x = np.concatenate([x, np.exp(rng.uniform(-740, 709, 1000))])
    found = node.ask(text, x.tolist(), "tried")
    small = 2.0**-1074  # the last place of subnormals
    with flint.ctx.workprec(200):
        for given, (power, logarithm) in zip(x.tolist(), found):
            true = flint.arb(given).exp()
            if given < 709.7:
                assert abs(flint.arb(float(power)) - true) <= 2 * 2**-53 * true + small
            if given > 0:
                true = flint.arb(given).log()
                assert abs(flint.arb(float(logarithm)) - true) <= 4 * 2**-53 * abs(true) + small


def test_rows_come_in_several_ways_and_mistakes_are_told(node: Node) -> None:
    fast = kl.compile(kl.KernelExpansion([[0.0, 1.0]], [2.0], 0.5, gamma=1.0), guarantee="exact")
    text = to_javascript(fast)
    flat = text + "export const flat = () => predict(Float64Array.of(0, 1, 0, 1));\n"
    assert node.ask(flat, [], "flat") == [2.5, 2.5]
    assert node.ask(text, [0.0, 1.0], "predict") == [2.5]
    assert node.ask(text, [], "predict") == []
    assert node.ask(text, [], "about")["features"] == 2
    with pytest.raises(Refused, match="row 1 has 3 numbers, but this model takes 2"):
        node.ask(text, [[0.0, 1.0], [1.0, 2.0, 3.0]])
    with pytest.raises(Refused, match="number 1: null is no finite"):
        node.ask(text, [[0.0, None]])


def test_a_model_exports_itself(tmp_path: Path) -> None:
    fast = kl.compile(kl.KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0), guarantee="exact")
    assert fast.export(tmp_path / "bump.js") == [str(tmp_path / "bump.js")]
    assert (tmp_path / "bump.js").read_text() == to_javascript(fast)
    with pytest.raises(kl.InputError, match="doubles alone"):
        fast.export(tmp_path / "bump.mjs", dtype="float32")


def test_texts_cannot_leave_their_place() -> None:
    """Class names and feature names may hold anything, also in a page's script."""
    svc = SVC().fit([[0.0], [1.0]], ["</script><b>", '"\n'])
    text = to_javascript(kl.compile(svc, [[0.0], [1.0]]))
    assert "</script>" not in text
