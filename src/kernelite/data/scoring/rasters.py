"""Rasters: the bands of a GeoTIFF are features, its pixels are rows (extra `raster`).

In: a model and a GeoTIFF. Out: another one of the same size, place and projection whose bands are
labels, values or probabilities. Windows are streamed, so memory does not grow with the scene, and
the next one is read while this one is answered. A pixel that is no data in any band stays no data.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shutil import disk_usage
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.threads import thread_count
from kernelite.data.scoring.batch import answer, check_outputs, column_names, example
from kernelite.model import CompiledModel
from kernelite.program.bounded import Stats
from kernelite.support.errors import FileFormatError, InputError, optional
from kernelite.support.files import atomic_write, check_apart, read_ahead
from kernelite.support.terminal import Progress

__all__ = ["is_raster", "predict_raster"]

NUMBERS_PER_WINDOW = 1 << 22  # 32 MB of doubles
WIDEST_BLOCK = 1 << 13  # pixels of a tile's side that a window is cut to
INTEGERS = ("uint8", "int16", "uint16", "int32", "uint32")  # types of labels, smallest first

Window: TypeAlias = Any
Written: TypeAlias = list[tuple[Window, int]]  # windows, and checksums of their bands


def is_raster(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a GeoTIFF, as its name tells.

    Examples
    --------
    >>> is_raster("scene.tif"), is_raster("rows.csv")
    (True, False)
    """
    return os.fspath(path).lower().endswith((".tif", ".tiff"))


def predict_raster(
    model: CompiledModel,
    source: str,
    destination: str,
    /,
    *,
    bands: Sequence[str] | None = None,
    outputs: Sequence[str] = ("label",),
) -> tuple[int, Stats]:
    """Predict every pixel of a GeoTIFF, and write the answers as bands of another.

    Parameters
    ----------
    model : CompiledModel
    source, destination : str
        Both end in .tif or .tiff.
    bands : sequence of str, optional
        The features in the model's order: numbers of bands from 1, or their descriptions. By
        default the bands that are described by the names that the model was fitted on, else all.
    outputs : one or several of {"label", "score", "probability", "decided"}
        Each becomes one band or several. Labels alone are whole numbers; labels that are text are
        numbered from 1, and the tag `classes` has their names. With anything else bands are
        float32: values are rounded to that.

    Returns
    -------
    (int, Stats)
        Pixels that were predicted, and how they were decided.
    """
    if not is_raster(destination):
        raise InputError(f"`{destination}` must end in .tif or .tiff, since a raster is written.")
    check_apart(destination, source)
    outputs = check_outputs(model, outputs)
    with _opened(source) as scene:
        features = _features(model, scene, bands, source)
        out = _Bands.of(model, outputs)
        options = _profile(scene, out)
        with atomic_write(destination, "wb") as file, _naming(destination, "written"):
            with _rasterio().open(file.name, "w", **options) as target:
                out.describe(scene, target)
                written: Written = []
                found = _predict(model, scene, features, out, target, written)
            _check_written(file.name, written)
            return found


def _predict(
    model: CompiledModel,
    scene: Any,
    features: list[int],
    out: _Bands,
    target: Any,
    written: Written,
) -> tuple[int, Stats]:
    pixels, stats = 0, Stats()
    windows = _read(scene, features)
    with Progress("predicting pixels", scene.height * scene.width) as bar:
        for window, rows, valid in read_ahead(windows) if thread_count() > 1 else windows:
            columns, more = out.answers(model, rows)
            block = np.full((len(out.names), len(valid)), out.nodata, dtype=out.dtype)
            block[:, valid] = columns
            _check_room(target.name, block.nbytes)
            target.write(block.reshape(-1, window.height, window.width), window=window)
            written.append((window, crc32(block.data)))
            pixels, stats = pixels + len(rows), stats + more
            bar.advance(len(valid))
    return pixels, stats


def _check_room(path: str, count: int) -> None:
    """Raise what writing a file raises where less than `count` bytes are free."""
    if disk_usage(os.path.dirname(path)).free < count:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check_written(path: str, written: Written) -> None:
    """Read all windows again: GDAL's threads write them, and tell nobody if they could not."""
    library = _rasterio()
    with _quiet(), library.open(path, driver="GTiff") as file:
        for window, checksum in written:
            if crc32(file.read(window=window).data) != checksum:
                raise library.errors.RasterioIOError("what was written cannot be read back")


# Reading ----------------------------------------------------------------------------------------


def _read(scene: Any, features: list[int]) -> Iterator[tuple[Window, NDArray[Any], NDArray[Any]]]:
    """Windows, the rows of their pixels that are data, and which pixels these are."""
    masked = any("all_valid" not in map(str, flags) for flags in _flags(scene, features))
    for window in _windows(scene, len(features)):
        with _naming(scene.name):
            cube = scene.read(features, window=window).reshape(len(features), -1)
            valid = np.ones(cube.shape[1], dtype=np.bool_)
            if masked:
                masks = scene.read_masks(features, window=window).reshape(len(features), -1)
                valid &= (masks != 0).all(axis=0)
        if cube.dtype.kind == "f":
            valid &= np.isfinite(cube).all(axis=0)
        kept = cube.T if valid.all() else cube.T[valid]
        yield window, np.ascontiguousarray(kept, dtype=np.float64), valid


def _flags(scene: Any, features: list[int]) -> Iterator[list[Any]]:
    """What is said of the mask of each band."""
    return ([flag.name for flag in scene.mask_flag_enums[band - 1]] for band in features)


def _windows(scene: Any, n_bands: int) -> Iterator[Window]:
    """Pieces of the scene, aligned with its blocks, that fit into memory."""
    window = _rasterio().windows.Window
    height, width = (min(side, WIDEST_BLOCK) for side in scene.block_shapes[0])
    most = max(1, NUMBERS_PER_WINDOW // n_bands)  # pixels
    wide = max(1, min(most // height, scene.width)) if height * width <= most else width
    wide = max(width, wide // width * width)
    high = max(1, min(most // max(wide, 1), scene.height))
    high = max(height, high // height * height) if height <= high else height
    for top in range(0, scene.height, high):
        for left in range(0, scene.width, wide):
            yield window(left, top, min(wide, scene.width - left), min(high, scene.height - top))


def _features(
    model: CompiledModel, scene: Any, bands: Sequence[str] | None, path: str
) -> list[int]:
    """The numbers of the bands that the model takes, in its order."""
    n_features = model.n_features_in_
    described = {name: number for number, name in enumerate(scene.descriptions, 1) if name}
    names = model.origin.feature_names
    if bands is None:
        if names is not None and set(names) <= described.keys():
            return [described[name] for name in names]
        bands = [str(number) for number in range(1, scene.count + 1)]
    found = []
    for band in bands:
        number = described.get(band) or (int(band) if band.isdecimal() else 0)
        if not 1 <= number <= scene.count:
            raise FileFormatError(
                path, f"there is no band `{band}`; it has {scene.count}, numbered from 1"
            )
        found.append(number)
    if len(found) != n_features:
        raise FileFormatError(
            path,
            f"{len(found)} bands, but this model takes {n_features} features; name them in order "
            "with --columns",
        )
    return found


# Writing ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Bands:
    """What is written: names of bands, their type, and what stands for no data.

    `codes` numbers labels that are no whole numbers, from 1.
    """

    outputs: tuple[str, ...]
    names: list[str]
    dtype: str
    nodata: float
    codes: dict[Any, int] | None

    @classmethod
    def of(cls, model: CompiledModel, outputs: tuple[str, ...]) -> _Bands:
        names = []
        for output in outputs:
            shown = example(model, output)
            width = None if shown.ndim == 1 else shown.reshape(1, -1).shape[1]
            names += column_names(model, output, width)
        classes = _label_values(model) if "label" in outputs else None
        codes = None
        if classes is not None and not all(_is_whole(value) for value in classes):
            codes = {value: number for number, value in enumerate(classes, 1)}
            classes = list(codes.values())
        if outputs != ("label",) or classes is None:
            return cls(outputs, names, "float32", np.nan, codes)
        dtype, nodata = _whole_type([int(value) for value in classes])
        return cls(outputs, names, dtype, nodata, codes)

    def answers(self, model: CompiledModel, rows: NDArray[Any]) -> tuple[NDArray[Any], Stats]:
        """The bands of some pixels, shape (bands, m)."""
        if not len(rows):  # a window without data
            return np.empty((len(self.names), 0), dtype=self.dtype), Stats()
        columns, total = [], Stats()
        for output in self.outputs:
            found, stats = answer(model, output, rows, "ignore")
            if output == "label" and self.codes is not None:
                found = self._numbered(found)
            columns.append(found.reshape(len(rows), -1).T)
            total += stats if stats is not None else Stats()
        return np.concatenate(columns).astype(self.dtype, copy=False), total

    def _numbered(self, labels: NDArray[Any]) -> NDArray[Any]:
        assert self.codes is not None
        held = np.array(list(self.codes))
        order = np.argsort(held)
        return order[np.searchsorted(held, labels, sorter=order)] + 1

    def describe(self, scene: Any, target: Any) -> None:
        """Name the bands, and the classes where they are numbered."""
        for number, name in enumerate(self.names, 1):
            target.set_band_description(number, name)
        if self.codes is not None:
            named = {number: str(value) for value, number in self.codes.items()}
            target.update_tags(classes=json.dumps(named))
        gcps, crs = scene.gcps
        if gcps:
            target.gcps = gcps, crs


def _label_values(model: CompiledModel) -> list[Any] | None:
    """The labels that the model can give; None if it gives values."""
    if model.head.kind == "outlier":
        return [-1, 1]
    classes = model.head.classes
    if classes is None:
        return None
    if isinstance(classes, list):
        raise InputError("this model has several labels per row, which a raster does not hold.")
    return list(classes.tolist())


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return float(value).is_integer() and abs(value) < 2**31


def _whole_type(classes: list[int]) -> tuple[str, int]:
    """The smallest type with room for all labels and one more number, for no data.

    Examples
    --------
    >>> _whole_type([1, 2, 3]), _whole_type([-1, 1]), _whole_type([0, 255])
    (('uint8', 0), ('int16', 0), ('int16', -32768))
    """
    for dtype in INTEGERS:
        limits = np.iinfo(dtype)
        if limits.min <= min(classes) and max(classes) <= limits.max:
            for nodata in (0, int(limits.min), int(limits.max)):
                if nodata not in classes:
                    return dtype, nodata
    raise InputError("the labels of this model are too many for a raster.")


def _profile(scene: Any, out: _Bands) -> dict[str, Any]:
    """The scene's place, projection and blocks, with other bands."""
    options = {
        "driver": "GTiff",
        "width": scene.width,
        "height": scene.height,
        "count": len(out.names),
        "dtype": out.dtype,
        "nodata": out.nodata,
        "crs": scene.crs,
        "transform": scene.transform,
        "compress": "deflate",
        "num_threads": thread_count(),
        "bigtiff": "if_safer",
    }
    height, width = scene.block_shapes[0]
    if width % 16 == 0 and height % 16 == 0 and width < scene.width:
        options |= {"tiled": True, "blockxsize": width, "blockysize": height}
    return options


# The library ------------------------------------------------------------------------------------


def _rasterio() -> Any:
    for module in ("rasterio.windows", "rasterio.errors", "rasterio"):
        found = optional(module, "rasters need rasterio", "rasterio", "raster")
    return found


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """A scene; GDAL may open nothing but what a GeoTIFF is: other drivers follow addresses."""
    library = _rasterio()
    if not os.path.exists(path):
        raise FileFormatError(path, "there is no such file")
    with _naming(path), _quiet(), library.open(path, driver="GTiff") as scene:
        if "complex" in scene.dtypes[0]:
            raise FileFormatError(path, "its bands are complex numbers, which no model takes")
        yield scene


@contextmanager
def _quiet() -> Iterator[None]:
    """Without rasterio's warning about scenes that lie nowhere: they may."""
    import warnings

    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def _naming(path: str, done: str = "read") -> Iterator[None]:
    """Turn what GDAL says into one sentence about a file, which cannot be `done`."""
    from rasterio.errors import RasterioError

    try:
        yield
    except RasterioError as error:
        said = str(error.__cause__ or error).strip().splitlines()[0]
        for name in (path, os.path.basename(path)):
            said = said.removeprefix(f"{name}: ")
        raise FileFormatError(path, f"cannot be {done} ({said.rstrip('.')})") from None
