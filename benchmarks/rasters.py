"""A whole tile: every pixel of a generated scene, against scikit-learn on a part of it.

    python -m benchmarks.rasters [--side 10980] [--bands 10] [--results DIR]

The scene is as large as one tile of Sentinel-2: smooth fields with noise, of which one corner is no
data. A default SVC on scaled bands, of up to six classes, is compiled, labels are compared with
scikit-learn's on some pixels, then the whole file is predicted. Results: results/rasters.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import rasterio
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite as kl
from benchmarks import results
from benchmarks.settings import PRESETS

__all__ = ["main", "measure"]

STRIP_ROWS = 512
NODATA = 65535
CLASSES = 6
TRAINED_PIXELS = 2_000
COMPARED_PIXELS = 20_000


PREDICT = """
import json, resource, sys
from time import perf_counter
import kernelite as kl
from kernelite.data.scoring.rasters import predict_raster
model = kl.load(sys.argv[1])
started = perf_counter()
pixels, stats = predict_raster(model, sys.argv[2], sys.argv[3])
seconds = perf_counter() - started
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
found = {"pixels": pixels, "seconds": seconds, "stages": dict(stats.stages), "megabytes": most}
print(json.dumps(found))
"""
# A process of its own, so that its memory is that of predicting.


def write_scene(path: Path, side: int, bands: int) -> None:
    """Smooth fields, with noise, and a corner without data."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(500, 3500, size=(bands, side // 90 + 2, side // 90 + 2))
    place = rasterio.transform.from_origin(600_000, 5_000_000, 10, 10)
    profile = {
        "driver": "GTiff",
        "count": bands,
        "height": side,
        "width": side,
        "dtype": "uint16",
        "nodata": NODATA,
        "crs": "EPSG:32632",
        "transform": place,
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
    }
    with rasterio.open(path, "w", **profile) as file:
        for top in range(0, side, STRIP_ROWS):
            rows = np.arange(top, min(top + STRIP_ROWS, side))
            strip = coarse[:, rows // 90][:, :, np.arange(side) // 90]
            strip = strip + rng.normal(0, 60, size=strip.shape)
            strip = np.clip(strip, 0, 10_000).astype("uint16")
            strip[:, rows < side // 10, : side // 10] = NODATA
            window = rasterio.windows.Window(0, top, side, len(rows))
            file.write(strip, window=window)


def some_pixels(path: Path, count: int) -> Any:
    """Pixels of the middle of the scene, shape (count, bands)."""
    with rasterio.open(path) as file:
        high = min(file.height // 2, -(-count // file.width) + 90 * 4)
        window = rasterio.windows.Window(0, file.height // 2, file.width, high)
        cube = file.read(window=window).reshape(file.count, -1).T
    chosen = np.random.default_rng(1).choice(len(cube), min(count, len(cube)), replace=False)
    return cube[chosen].astype(float)


def measure(side: int, bands: int, folder: Path) -> dict[str, Any]:
    """Seconds for the whole scene, and what scikit-learn would take."""
    scene, out = folder / "scene.tif", folder / "classes.tif"
    write_scene(scene, side, bands)
    pixels = some_pixels(scene, COMPARED_PIXELS)
    train = pixels[:TRAINED_PIXELS]
    rng = np.random.default_rng(2)
    mixed = train @ rng.normal(size=(bands, CLASSES))
    labels = (mixed + rng.normal(0, mixed.std() / 3, mixed.shape)).argmax(axis=1) + 1
    fitted = make_pipeline(StandardScaler(), SVC()).fit(train, labels)
    fast = kl.compile(fitted, train)
    started = perf_counter()
    expected = fitted.predict(pixels)
    theirs = (perf_counter() - started) / len(pixels)
    if (fast.predict(pixels) != expected).any():
        raise SystemExit("labels differ from scikit-learn's")
    fast.save(folder / "model.kernelite")
    files = [str(folder / "model.kernelite"), str(scene), str(out)]
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, *files], stdout=subprocess.PIPE, text=True, check=True
    )
    told = json.loads(done.stdout)
    predicted, seconds = told["pixels"], told["seconds"]
    return {
        "side": side,
        "bands": bands,
        "classes": len(np.unique(labels)),
        "support_vectors": int(fitted[-1].n_support_.sum()),
        "pixels": predicted,
        "seconds": seconds,
        "stages": told["stages"],
        "sklearn_seconds_of_the_scene": theirs * predicted,
        "times": theirs * predicted / seconds,
        "megabytes": told["megabytes"],
    }


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--side", type=int, default=10_980)
    parser.add_argument("--bands", type=int, default=10)
    parser.add_argument("--results", type=Path, default=results.FOLDER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args.side, args.bands, Path(folder))
    print(
        f"{found['pixels']:,} pixels of {found['bands']} bands, {found['support_vectors']:,} "
        f"support vectors: {found['seconds']:.0f} s with reading and writing; scikit-learn alone "
        f"{found['sklearn_seconds_of_the_scene']:,.0f} s ({found['times']:.0f} times); "
        f"{found['megabytes']:,.0f} MB at most"
    )
    results.save("rasters", found, PRESETS["full"], "full", args.results)


if __name__ == "__main__":
    main()
