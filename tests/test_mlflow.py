"""The MLflow flavor, against a store on this disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite as kl
import kernelite.mlflow as flavor

mlflow: Any = pytest.importorskip("mlflow", reason="mlflow is not installed: extra `mlflow`")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own, of many kinds


@pytest.fixture(scope="module")
def rows() -> Any:
    return load_breast_cancer(as_frame=True).data


@pytest.fixture(scope="module")
def model(rows: Any) -> kl.CompiledModel:
    y = load_breast_cancer().target
    machine = make_pipeline(StandardScaler(), SVC(gamma=0.001, C=10)).fit(rows, y)
    return kl.compile(machine, rows)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tracking store in files of a folder that goes away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    address = (tmp_path / "store").as_uri()
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(address)
    yield address
    mlflow.set_tracking_uri(before)


def test_a_saved_model_comes_back(model: kl.CompiledModel, rows: Any, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    flavor.save_model(model, folder, input_example=rows[:2])
    again = flavor.load_model(str(folder))
    assert (again.predict(rows) == model.predict(rows)).all()
    assert again.plan == model.plan
    kinds = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert not kinds & {".pkl", ".pickle", ".joblib"}
    assert f"kernelite=={kl.__version__}" in (folder / "requirements.txt").read_text()


def test_the_flavor_says_what_is_promised(
    model: kl.CompiledModel, rows: Any, tmp_path: Path
) -> None:
    flavor.save_model(model, tmp_path / "m", input_example=rows[:2], metadata={"team": "blue"})
    entry = mlflow.models.Model.load(str(tmp_path / "m"))
    assert entry.flavors["kernelite"]["guarantee"] == "certified"
    assert entry.flavors["kernelite"]["plan"] == model.plan.summary
    assert entry.metadata == {"team": "blue"}
    assert len(entry.signature.inputs) == 30


def test_a_logged_model_is_served(model: kl.CompiledModel, rows: Any, store: str) -> None:
    with mlflow.start_run():
        info = flavor.log_model(model, "cancer", input_example=rows[:2])
    assert (flavor.load_model(info.model_uri).predict(rows) == model.predict(rows)).all()
    served = mlflow.pyfunc.load_model(info.model_uri)
    assert (served.predict(rows) == model.predict(rows)).all()


def test_a_pyfunc_answers_other_methods(model: kl.CompiledModel, rows: Any, tmp_path: Path) -> None:
    flavor.save_model(model, tmp_path / "m")
    served = flavor._load_pyfunc(str(tmp_path / "m" / "model.kernelite"))
    scores = served.predict(rows, {"method": "decision_function"})
    assert np.array_equal(scores, model.decision_function(rows))
    assert served.get_raw_model().guarantee == "certified"
    with pytest.raises(kl.InputError, match="`method` must be one of"):
        served.predict(rows, {"method": "__reduce__"})


def test_what_is_refused(model: kl.CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(kl.InputError, match="must be a CompiledModel, got SVC"):
        flavor.save_model(SVC(), tmp_path / "new")  # type: ignore[arg-type]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(kl.InputError, match="exists already"):
        flavor.save_model(model, tmp_path / "full")
    flavor.save_model(model, tmp_path / "m")
    text = (tmp_path / "m" / "MLmodel").read_text()
    (tmp_path / "m" / "MLmodel").write_text(text.replace("model.kernelite", "../m.kernelite"))
    with pytest.raises(kl.InputError, match="in its own folder"):
        flavor.load_model(str(tmp_path / "m"))
    (tmp_path / "m" / "MLmodel").write_text("flavors:\n  sklearn: {}\n")
    with pytest.raises(kl.InputError, match="holds no kernelite model; its flavors: sklearn"):
        flavor.load_model(str(tmp_path / "m"))
