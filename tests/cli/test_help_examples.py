"""Every example in the help of a verb runs as it stands, on files of the names that it uses."""

from __future__ import annotations

import bz2
import shlex
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import SVC

from kernelite.cli import examples as shown
from kernelite.cli import main
from tests.cli.test_subprocess import run
from tests.cli.toys import libsvm_text

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

# In this order: some examples read what others write. `demo` and `fetch` have tests of their own.
VERBS = ("compile", "analyse", "predict", "explain", "export", "report", "xval", "inspect", "check")
# Long, or for a model with probabilities, which approxsvm's format cannot hold: tested elsewhere.
ELSEWHERE = ("--engine dask", "xval train.svm\n", "--folds 10", "-b 1")

ROWS = 120  # to predict


def make_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 22))  # so many support vectors that a form is cheaper than they are
    y = (X[:, 0] + X[:, 1] + rng.normal(size=600) > 0).astype(int)
    svc = SVC(gamma=0.002, C=5).fit(X, y)
    text = libsvm_text(svc)
    (folder / "svm.model").write_text(text)
    (folder / "svm.model.bz2").write_bytes(bz2.compress(text.encode()))
    joblib.dump(svc, folder / "svc.joblib")
    for name, m in (("train", len(X)), ("test", ROWS)):
        dump_svmlight_file(X[:m], y[:m], str(folder / f"{name}.svm"), zero_based=False)
    np.save(folder / "train.npy", X)
    bounds = "".join(f"{i} -4 4\n" for i in range(1, 23))
    (folder / "train.range").write_text(f"x\n-1 1\n{bounds}")
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(1, 23)])
    frame[:ROWS].to_csv(folder / "rows.csv", index=False)
    frame.assign(price=X[:, 0]).to_csv(folder / "train.csv", index=False)
    for name, m in (("train.csv.gz", len(X)), ("test.csv.gz", ROWS)):
        frame.assign(target=y)[:m].to_csv(folder / name, index=False)
    pd.concat([pd.Series(y, name="y"), frame], axis=1).to_csv(folder / "table", index=False)
    frame.to_parquet(folder / "train.parquet")
    frame.assign(customer=range(len(X)))[:ROWS].to_parquet(folder / "rows.parquet")
    _write_scene(folder / "scene.tif", X[:60])
    (folder / "parts").mkdir()
    frame[:50].to_parquet(folder / "parts" / "a.parquet")
    frame[50:ROWS].to_parquet(folder / "parts" / "b.parquet")


def _write_scene(path: Path, rows: np.ndarray) -> None:
    """A raster whose bands are the features."""
    import rasterio

    place = rasterio.transform.from_origin(0, 0, 10, 10)
    profile = {"driver": "GTiff", "count": 22, "height": 6, "width": 10, "dtype": "float64"}
    with rasterio.open(path, "w", transform=place, **profile) as file:
        file.write(rows.T.reshape(22, 6, 10))


def examples(verb: str) -> list[str]:
    text = shown(import_module(f"kernelite.cli.{verb}").__doc__)
    lines = text.partition("\n\n")[0].splitlines()
    found = [line.strip() for line in lines if line.startswith("  kernelite ")]
    assert found
    return [line for line in found if not any(mark in f"{line}\n" for mark in ELSEWHERE)]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_examples_run(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("matplotlib")
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for verb in VERBS:
        for line in examples(verb):
            line, _, given = line.partition(" < ")
            _, *arguments = shlex.split(line.partition(" |")[0])
            with open(given) if given else nullcontext() as file:
                code = main(arguments) if file is None else run(*arguments, stdin=file).returncode
            assert (code, line) == (0, line), capsys.readouterr().err
    made = {"svm.approx", "paper.kernelite", "labels.parquet", "scored", "svm.onnx", "svm.c"}
    assert made | {"labels.txt", "report.html"} <= {path.name for path in tmp_path.iterdir()}
