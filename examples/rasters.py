"""A scene whose pixels are rows: a GeoTIFF in, a GeoTIFF of classes out (extra `raster`)."""

import tempfile
from pathlib import Path

import numpy as np
import rasterio
from sklearn.svm import SVC

import kernelite as kl

NODATA = 65535

rng = np.random.default_rng(0)
pixels = rng.integers(0, 4000, size=(500, 4)).astype(float)  # with labels, as digitised by hand
labels = pixels.argmax(axis=1) + 1
svc = SVC(gamma=1e-7).fit(pixels, labels)
fast = kl.compile(svc, pixels)

scene = rng.integers(0, 4000, size=(4, 120, 160), dtype="uint16")
scene[:, :20, :30] = NODATA
place = rasterio.transform.from_origin(500_000, 5_000_000, 10, 10)

with tempfile.TemporaryDirectory() as folder:
    source, out = Path(folder, "scene.tif"), Path(folder, "classes.tif")
    shape = {"count": 4, "height": 120, "width": 160, "dtype": "uint16", "nodata": NODATA}
    with rasterio.open(source, "w", "GTiff", crs="EPSG:32632", transform=place, **shape) as file:
        file.write(scene)
    done = kl.predict_files(fast, source, out)
    with rasterio.open(out) as file:
        classes, empty, kept = file.read(1), file.nodata, file.transform == place

there = classes != empty
same = (classes[there] == svc.predict(scene[:, there].T.astype(float))).all()
print(f"{done.rows:,} pixels, the same labels: {same}, at the same place: {kept}")
