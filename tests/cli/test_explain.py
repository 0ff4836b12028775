"""`kernelite explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelite as kl

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow", reason="the arrow extra is not installed")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sklearn.svm import SVC

    folder = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(1100, 3)), columns=["age", "income", "size"])
    y = frame["age"] * frame["income"] > 0
    frame.to_csv(folder / "rows.csv", index=False)
    frame[:40].to_csv(folder / "train.csv", index=False)
    kl.compile(SVC(gamma=0.3).fit(frame[:200], y[:200]), frame).save(folder / "svm.kernelite")
    three = np.digitize(frame["age"][:200], [-0.5, 0.5])
    kl.compile(SVC().fit(frame[:200], three), frame).save(folder / "three.kernelite")
    return folder


def test_columns_are_what_shap_values_gives(files: Path, good: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    arguments = (files / "rows.csv", files / "svm.kernelite", out)
    ran = good("explain", *arguments, "--background", files / "train.csv", "--bounds")
    assert "1,100 rows; no value is off by more than" in ran.err
    found = pandas.read_parquet(out)
    rows, train = (pandas.read_csv(files / name) for name in ("rows.csv", "train.csv"))
    model = kl.load(files / "svm.kernelite")
    true = model.shap_values(rows, train)
    names = ["age", "income", "size"]
    assert list(found) == ["base", *names, *(f"{name} bound" for name in names)]
    assert np.allclose(found[names], true.values, rtol=0, atol=2 * true.bounds.max())
    total = found[["base", *names]].sum(axis=1)
    assert np.abs(total - model.decision_function(rows)).max() < 0.01


def test_several_scores_groups_and_drawn_backgrounds(
    files: Path, good: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    arguments = (files / "train.csv", files / "three.kernelite", out)
    options = ("--background", files / "rows.csv", "--background-rows", 7, "--json")
    told = good("explain", *arguments, *options, "--group", "person=age,size").json
    assert told["rows"] == 40
    assert told["largest_bound"] < 1e-10
    found = pandas.read_csv(out)
    assert list(found)[:3] == ["0 rather than 1: base", *list(found)[1:3]]
    assert "0 rather than 2: person" in found
    assert len(found) == 40


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"output": "out.txt"}, 2, "its name must end in"),
        ({"background": None}, 2, "--background"),
        ({"background": "none.csv"}, 1, "none.csv"),
        ({"group": "person"}, 2, "expected NAME=COLUMN"),
        ({"group": "person=age,weight"}, 1, "unknown column, 'weight'"),
        ({"group": "person=age,,size"}, 2, "argument --group: `age,,size` should be names"),
        ({"group": "base=age,size"}, 1, "OUTPUT would have two columns `base`"),
        ({"columns": "age", "background": "rows"}, 2, "rows` must be Parquet, Arrow, Feather"),
    ],
)
def test_careless_commands_get_a_sentence(
    files: Path, kernelite: Any, tmp_path: Path, change: dict[str, Any], code: int, said: str
) -> None:
    out = tmp_path / change.get("output", "out.csv")
    given = ["explain", files / "rows.csv", files / "svm.kernelite", out]
    background = change.get("background", "train.csv")
    given += ["--background", files / background] if background else []
    for option in {"group", "columns"} & change.keys():
        given += [f"--{option}", change[option]]
    ran = kernelite(*given)
    assert ran.code == code
    assert said in ran.err
    assert not out.exists()
