"""Pipelines with encoders, imputers and other steps, exported: texts come in as texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

import kernelite
from kernelite.backends.javascript import to_javascript
from kernelite.model import CompiledModel
from kernelite.support.errors import UnsupportedModelError
from tests.backends.javascript.node import NODE, Node, Refused

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="the onnx extra is not installed")

from kernelite.backends.onnx import to_onnx  # noqa: E402

CITIES = ["Berlin", "Łódź", "São Paulo", 'say "hi"', "", "<!-- x"]


def frame(m: int = 240, *, missing: bool = False, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "age": rng.normal(40.0, 12.0, m).round(1),
            "city": rng.choice(CITIES, m),
            "income": rng.lognormal(3.0, 1.0, m),
            "size": rng.choice(["small", "medium", "large"], m),
            "rooms": rng.integers(1, 5, m).astype(float),
        }
    )
    if missing:
        made.loc[rng.random(m) < 0.2, "age"] = np.nan
    return made


def target(table: pd.DataFrame) -> np.ndarray:
    odd = table["city"].isin(CITIES[::2]).to_numpy()
    return np.where(odd ^ (table["income"].to_numpy() > 20.0), "yes", "no")


def encoded(*parts: Any, last: Any = None) -> Pipeline:
    return make_pipeline(ColumnTransformer(list(parts)), SVC(C=3.0) if last is None else last)


ONE_HOT = ("city", OneHotEncoder(handle_unknown="ignore"), ["city", "size"])
NUMBERS = ("numbers", StandardScaler(), ["age", "income"])
PIPELINES: dict[str, Callable[[], Pipeline]] = {
    "one-hot": lambda: encoded(ONE_HOT, NUMBERS),
    "one-hot that refuses": lambda: encoded(("city", OneHotEncoder(), ["city"]), NUMBERS),
    "dropped and rare": lambda: encoded(
        ("a", OneHotEncoder(drop="first", handle_unknown="ignore"), ["size"]),
        ("b", OneHotEncoder(min_frequency=45, handle_unknown="infrequent_if_exist"), ["city"]),
    ),
    "ordinal": lambda: encoded(
        ("a", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["size"]),
        ("b", "passthrough", ["rooms"]),
        last=SVC(gamma=0.5),
    ),
    "numbers as categories": lambda: encoded(
        ("a", OneHotEncoder(handle_unknown="ignore"), ["rooms"]), ONE_HOT
    ),
    "texts filled in, then encoded": lambda: encoded(
        (
            "a",
            make_pipeline(
                SimpleImputer(missing_values="", strategy="most_frequent"),
                OneHotEncoder(handle_unknown="ignore"),
            ),
            ["city", "size"],
        ),
        NUMBERS,
    ),
    "values": lambda: encoded(ONE_HOT, NUMBERS, last=SVR(C=5.0)),
}


def session(model: CompiledModel, **options: Any) -> Any:
    graph = to_onnx(model, **options)
    return runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])


def fed(table: pd.DataFrame, inputs: list[Any]) -> dict[str, np.ndarray]:
    """A column each, as the graph asks for them."""
    kinds = {"tensor(string)": object, "tensor(double)": np.float64, "tensor(float)": np.float32}
    return {i.name: table[i.name].to_numpy().astype(kinds[i.type])[:, None] for i in inputs}


def subject(name: str) -> tuple[Pipeline, CompiledModel, pd.DataFrame]:
    table = frame()
    answers = table["income"] if name == "values" else target(table)
    model = PIPELINES[name]().fit(table, answers)
    return model, kernelite.compile(model, table), frame(150, seed=1)


@pytest.mark.parametrize("inputs", ["float64", "float32"])
@pytest.mark.parametrize("name", PIPELINES)
def test_onnx_takes_texts(name: str, inputs: Any) -> None:
    model, fast, table = subject(name)
    if inputs == "float32":
        for column in ("age", "income"):
            table[column] = table[column].astype(np.float32).astype(np.float64)
    graph = session(fast, inputs=inputs)
    answers = graph.run(None, fed(table, graph.get_inputs()))[0]
    want = model.predict(table)
    if name == "values":
        np.testing.assert_allclose(answers[:, 0], want, atol=float(fast.tolerance.max()))
    else:
        np.testing.assert_array_equal(answers, want)


def test_a_text_that_is_not_known() -> None:
    """It is all zeros where the encoder says so, and an error where that refuses it."""
    for name, refuses in (("one-hot", False), ("one-hot that refuses", True)):
        model, fast, table = subject(name)
        table.loc[0, "city"] = "Atlantis"
        graph = session(fast)
        if refuses:
            with pytest.raises(Exception, match="out of data bounds"):
                graph.run(None, fed(table, graph.get_inputs()))
        else:
            found = graph.run(["label"], fed(table, graph.get_inputs()))[0]
            np.testing.assert_array_equal(found, model.predict(table))


def test_columns_that_are_called_like_parts_of_a_graph() -> None:
    table = frame().rename(columns={"city": "label", "age": "constant_3", "income": "scores"})
    model = encoded(
        ("a", OneHotEncoder(handle_unknown="ignore"), ["label"]),
        ("b", StandardScaler(), ["constant_3", "scores"]),
    ).fit(table, table["size"])
    graph = session(kernelite.compile(model, table))
    assert [one.name for one in graph.get_inputs()] == ["X0", "X1", "X2"]
    columns = {f"X{i}": table.iloc[:, [i]].to_numpy() for i in range(3)}
    columns |= {name: columns[name].astype(np.float64) for name in ("X0", "X2")}
    np.testing.assert_array_equal(graph.run(["label"], columns)[0], model.predict(table))


def test_numbers_that_are_missing_are_filled_in() -> None:
    table = frame(missing=True)[["age", "income", "rooms"]]
    model = make_pipeline(
        SimpleImputer(add_indicator=True),
        StandardScaler(),
        SVC(),
    ).fit(table.to_numpy(), target(frame()))
    fast = kernelite.compile(model, table.to_numpy())
    graph = session(fast)
    assert [one.name for one in graph.get_inputs()] == ["X"]
    found = graph.run(["label"], {"X": table.to_numpy()})[0]
    np.testing.assert_array_equal(found, model.predict(table.to_numpy()))


STEPS: dict[str, Any] = {
    "bins": KBinsDiscretizer(4, encode="onehot-dense"),
    "numbers of bins": KBinsDiscretizer(4, encode="ordinal"),
    "binary": Binarizer(threshold=0.3),
    "l1": Normalizer("l1"),
    "l2": Normalizer(),
    "max": Normalizer("max"),
    "polynomial": PolynomialFeatures(3),
    "interactions": PolynomialFeatures(2, interaction_only=True, include_bias=False),
    "yeo-johnson": PowerTransformer(),
    "box-cox": make_pipeline(MinMaxScaler((5.0, 6.0)), PowerTransformer("box-cox")),
    "quantiles": QuantileTransformer(n_quantiles=20),
    "scaled twice": make_pipeline(StandardScaler(), PolynomialFeatures(2), StandardScaler()),
}


@pytest.mark.parametrize("name", STEPS)
def test_other_steps(name: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3)) * [1.0, 5.0, 0.1] + [0.0, 3.0, 0.0]
    y = X[:, 0] + np.cos(X[:, 1])
    model = make_pipeline(STEPS[name], SVR(C=2.0)).fit(X, y)
    fast = kernelite.compile(model, X)
    new = rng.normal(size=(80, 3)) * [1.0, 5.0, 0.1]
    found = session(fast).run(["variable"], {"X": new})[0][:, 0]
    np.testing.assert_allclose(found, model.predict(new), atol=float(fast.tolerance.max()))


def test_what_no_target_has_is_refused_with_a_cure() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    normal = QuantileTransformer(n_quantiles=10, output_distribution="normal")
    model = make_pipeline(normal, SVR()).fit(X, X[:, 0])
    fast = kernelite.compile(model, X)
    with pytest.raises(UnsupportedModelError, match="output_distribution='uniform'"):
        to_onnx(fast)
    assert "output_distribution='uniform'" in fast.export_refusals()["ONNX"]
    new = MissingIndicator(features="missing-only")
    X[3, 0] = np.nan
    union = make_pipeline(FeatureUnion([("a", new), ("b", SimpleImputer())]), SVR()).fit(X, X[:, 1])
    assert set(kernelite.compile(union, X).export_refusals()) == {"ONNX", "C", "JavaScript"}


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
def test_javascript_takes_texts(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        for name in PIPELINES:
            model, fast, table = subject(name)
            module, want = to_javascript(fast), model.predict(table)
            for rows in (table.to_numpy().tolist(), table.to_dict("records")):
                found = node.ask(module, rows)
                if name == "values":
                    room = float(fast.tolerance.max())
                    np.testing.assert_allclose(found["variable"], want, atol=room)
                else:
                    assert found["label"] == want.tolist()
            if name == "one-hot that refuses":
                with pytest.raises(Refused, match="a category is not known"):
                    node.ask(module, table.assign(city="Atlantis").to_dict("records"))
            with pytest.raises(Refused, match="3 is no text"):
                node.ask(module, table.assign(city=3, size=3).to_dict("records"))
