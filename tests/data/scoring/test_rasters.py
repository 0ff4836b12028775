"""GeoTIFFs: pixels are rows, and the answers lie where the pixels lay."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.cli import main
from kernelite.data.scoring import rasters
from kernelite.support.errors import FileFormatError, InputError

rasterio = pytest.importorskip("rasterio", reason="rasterio is not installed: extra `raster`")

RNG = np.random.default_rng(0)
X = RNG.integers(0, 4000, size=(400, 4)).astype(float)
WHERE = rasterio.transform.from_origin(5e5, 5e6, 10, 10)
NODATA = 65535
WORDS = np.array(["town", "water", "wood", "field"])


@cache
def cube(height: int = 70, width: int = 90) -> Any:
    made = np.random.default_rng(1).integers(0, 4000, size=(4, height, width)).astype("uint16")
    made[2, 10:20, 30:50] = NODATA  # in one band alone
    return made


@cache
def machine(kind: str) -> tuple[Any, kl.CompiledModel]:
    best = X.argmax(axis=1)
    targets = {"numbers": best + 1, "text": WORDS[best], "signs": np.where(best > 1, 1, -1)}
    if kind == "values":
        fitted: Any = SVR(gamma=1e-7, C=10).fit(X, X.sum(axis=1) / 1e4)
    else:
        fitted = SVC(gamma=1e-7, probability=kind == "numbers").fit(X, targets[kind])
    return fitted, kl.compile(fitted, X)


def scene(path: Path, data: Any = None, **options: Any) -> Path:
    data = cube() if data is None else data
    profile = {
        "driver": "GTiff",
        "count": len(data),
        "height": data.shape[1],
        "width": data.shape[2],
        "dtype": data.dtype,
        "crs": "EPSG:32632",
        "transform": WHERE,
        **options,
    }
    with rasterio.open(path, "w", **profile) as file:
        file.write(data)
    return path


def there() -> Any:
    return (cube() != NODATA).all(axis=0)


LAYOUTS = [
    {"nodata": NODATA},
    {"nodata": NODATA, "tiled": True, "blockxsize": 16, "blockysize": 32},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["strips", "tiles"])
@pytest.mark.parametrize("kind", ["numbers", "text", "signs"])
@pytest.mark.parametrize("window", [1 << 22, 700])
def test_labels_lie_where_their_pixels_lay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, layout: Any, window: int
) -> None:
    monkeypatch.setattr(rasters, "NUMBERS_PER_WINDOW", window)
    fitted, fast = machine(kind)
    source, out = scene(tmp_path / "scene.tif", **layout), tmp_path / "out.tif"
    done = kl.predict_files(fast, source, out)
    assert done.rows == there().sum()
    with rasterio.open(out) as file:
        found, tags = file.read(1), file.tags()
        assert (file.crs, file.transform) == (rasterio.CRS.from_epsg(32632), WHERE)
        assert file.dtypes == (("int16",) if kind == "signs" else ("uint8",))
        nodata = file.nodata
    assert ((found == nodata) == ~there()).all()
    named = found[there()]
    if kind == "text":
        classes = {int(code): name for code, name in json.loads(tags["classes"]).items()}
        named = np.array([classes[code] for code in named])
    assert (named == fitted.predict(cube()[:, there()].T.astype(float))).all()
    assert sorted(os.listdir(tmp_path)) == ["out.tif", "scene.tif"]


def test_probabilities_and_values_are_bands(tmp_path: Path) -> None:
    source, out = scene(tmp_path / "scene.tif", nodata=NODATA), tmp_path / "out.tif"
    rows = cube()[:, there()].T.astype(float)
    _, fast = machine("numbers")
    kl.predict_files(fast, source, out, outputs=["label", "probability"])
    with rasterio.open(out) as file:
        assert file.descriptions == ("label", *(f"probability_{n}" for n in (1, 2, 3, 4)))
        found = file.read()
    assert np.isnan(found[:, ~there()]).all()
    expected = fast.predict_proba(rows).T.astype(np.float32)
    np.testing.assert_allclose(found[1:, there()], expected, atol=1e-6)
    fitted, fast = machine("values")
    kl.predict_files(fast, source, out)
    with rasterio.open(out) as file:
        values = file.read(1)[there()]
    np.testing.assert_allclose(values, fitted.predict(rows), atol=1.001 * float(fast.tolerance[0]))


@pytest.mark.parametrize("outputs", [["label"], ["label", "probability"]])
def test_windows_without_any_data_stay_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outputs: list[str]
) -> None:
    monkeypatch.setattr(rasters, "NUMBERS_PER_WINDOW", 700)
    data = cube().copy()
    data[:, :40] = NODATA
    source, out = scene(tmp_path / "scene.tif", data, nodata=NODATA), tmp_path / "out.tif"
    fitted, fast = machine("numbers")
    assert kl.predict_files(fast, source, out, outputs=outputs).rows == 30 * 90
    with rasterio.open(out) as file:
        found, nodata = file.read(1), file.nodata
    gone = np.isnan(found) if np.isnan(nodata) else found == nodata
    assert gone[:40].all()
    assert not gone[40:].any()
    assert (found[40:].ravel() == fitted.predict(data[:, 40:].reshape(4, -1).T.astype(float))).all()


def test_nan_is_no_data_and_bands_can_be_named(tmp_path: Path) -> None:
    data = np.concatenate([np.zeros((1, 70, 90)), cube()[::-1]]).astype("float32")
    data[3, 5, 5] = np.nan
    source, out = scene(tmp_path / "scene.tif", data), tmp_path / "out.tif"
    fitted, fast = machine("numbers")
    with pytest.raises(FileFormatError, match="5 bands, but this model takes 4"):
        kl.predict_files(fast, source, out)
    with pytest.raises(FileFormatError, match="there is no band `9`"):
        kl.predict_files(fast, source, out, columns=["9"])
    assert os.listdir(tmp_path) == ["scene.tif"]
    with pytest.raises(InputError, match="is read too"):
        kl.predict_files(fast, source, source, columns=[5, 4, 3, 2])
    kl.predict_files(fast, source, out, columns=[5, 4, 3, 2])
    with rasterio.open(out) as file:
        found = file.read(1)
    assert (np.argwhere(found == 0) == [[5, 5]]).all()
    rows = data[:0:-1].reshape(4, -1).T.astype(float)
    kept = found.ravel() > 0
    assert (found.ravel()[kept] == fitted.predict(rows[kept])).all()


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = scene(tmp_path / "scene.tif", nodata=NODATA), tmp_path / "out.tif"
    machine("numbers")[1].save(tmp_path / "m.kernelite")
    files = [str(source), str(tmp_path / "m.kernelite"), str(out)]
    assert main(["predict", *files, "-b", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == there().sum()
    assert main(["predict", *files, "--keep-all"]) == 2
    assert "answers are bands" in capsys.readouterr().err
    assert main(["predict", *files[:2], str(tmp_path / "out.csv")]) == 1
    assert "must end in .tif" in capsys.readouterr().err


def test_rows_that_are_no_scene_give_no_raster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = tmp_path / "rows.csv", tmp_path / "out.tif"
    rows.write_text("1,2,3,4\n5,6,7,8\n")
    machine("numbers")[1].save(tmp_path / "m.kernelite")
    assert main(["predict", str(rows), str(tmp_path / "m.kernelite"), str(out)]) == 1
    assert "would be a raster" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("content", [b"", b"II*\0 no raster", b"<VRTDataset/>"])
def test_what_is_no_raster_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "scene.tif").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"scene\.tif: cannot be read \((?!scene)"):
        kl.predict_files(machine("text")[1], tmp_path / "scene.tif", tmp_path / "out.tif")
    assert os.listdir(tmp_path) == ["scene.tif"]


def test_a_scene_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"scene\.tif: there is no such file$"):
        kl.predict_files(machine("text")[1], tmp_path / "scene.tif", tmp_path / "out.tif")


def test_a_full_disk_leaves_no_half_of_a_raster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = scene(tmp_path / "scene.tif"), tmp_path / "out.tif"
    nothing = SimpleNamespace(free=100)
    with monkeypatch.context() as patch:
        patch.setattr(rasters, "disk_usage", lambda folder: nothing)
        with pytest.raises(
            InputError, match=r"cannot write `.*out\.tif`: No space left on device$"
        ):
            kl.predict_files(machine("numbers")[1], source, out)
    assert os.listdir(tmp_path) == ["scene.tif"]


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_what_gdal_did_not_write_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """Its threads write, and tell nobody where a disk was full."""
    source, out = scene(tmp_path / "scene.tif"), tmp_path / "out.tif"
    check = rasters._check_written

    def cut_off(path: str, written: rasters.Written) -> None:
        os.truncate(path, int(share * os.path.getsize(path)))
        check(path, written)

    monkeypatch.setattr(rasters, "_check_written", cut_off)
    with pytest.raises(FileFormatError, match=r"out\.tif: cannot be written \("):
        kl.predict_files(machine("numbers")[1], source, out)
    assert os.listdir(tmp_path) == ["scene.tif"]


def test_labels_that_need_wider_types() -> None:
    assert rasters._whole_type([0, 300]) == ("int16", -32768)
    assert rasters._whole_type([70_000, 0]) == ("int32", -(2**31))
    with pytest.raises(InputError, match="too many"):
        rasters._whole_type([-(2**40)])
