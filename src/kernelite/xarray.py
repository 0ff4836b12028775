"""Compiled models over xarray: labels, values or probabilities of every pixel (extra `xarray`).

In: a `DataArray` with one dimension of features, or a `Dataset` whose variables are features. Out:
a `DataArray` over the other dimensions. Arrays of dask stay lazy, and are answered by chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.scoring.batch import answer, check_outputs, column_names, example
from kernelite.model import CompiledModel, require_compiled
from kernelite.support.errors import InputError, optional

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

__all__ = ["predict"]


def predict(
    model: CompiledModel, data: DataArray | Dataset, /, *, dim: str = "band", output: str = "label"
) -> DataArray:
    """Predict every pixel of an array.

    Parameters
    ----------
    model : CompiledModel
    data : DataArray or Dataset
        The features lie along `dim`; those of a Dataset are its variables, in the order in which
        the model was fitted on them where it knows their names.
    dim : str
        The dimension of the features; of a Dataset it need not exist.
    output : {"label", "score", "probability", "decided"}
        Of several columns, the last dimension of the answers, `class`, names them.

    Returns
    -------
    DataArray
        With the other dimensions and coordinates. Where a feature is NaN, so is the answer: labels
        that are numbers become doubles, as everywhere in xarray, and labels that are text objects.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> from sklearn.svm import SVC
    >>> import kernelite
    >>> fast = kernelite.compile(SVC().fit([[0.0, 1.0], [1.0, 0.0]], [3, 7]))
    >>> cube = xarray.DataArray([[[0.1, 0.9, np.nan]], [[1.0, 0.2, 0.5]]], dims=("band", "y", "x"))
    >>> predict(fast, cube).values
    array([[ 3.,  7., nan]])
    """
    library = _xarray()
    require_compiled(model)
    (output,) = check_outputs(model, [output])
    if isinstance(data, library.Dataset):
        data = _variables(model, data).to_array(dim)
    if not isinstance(data, library.DataArray):
        raise InputError(
            f"`data` must be an xarray DataArray or Dataset, got a {type(data).__name__}."
        )
    if dim not in data.dims:
        raise InputError(
            f"`data` has no dimension `{dim}`; those it has are {', '.join(map(str, data.dims))}: "
            "name that of the features by `dim=`."
        )
    if data.sizes[dim] != model.n_features_in_:
        raise InputError(
            f"`data` has {data.sizes[dim]} features along `{dim}`, but this model was compiled for "
            f"{model.n_features_in_}."
        )
    if data.dtype.kind not in "biuf":
        raise InputError(f"`data` must hold real numbers, got {data.dtype}.")
    shown = example(model, output)
    several = shown.ndim > 1
    names = column_names(model, output, shown.shape[1] if several else None)
    found: DataArray = library.apply_ufunc(
        lambda cube: _answers(model, output, cube, shown),
        data if data.chunks is None else data.chunk({dim: -1}),
        input_core_dims=[[dim]],
        output_core_dims=[["class"] if several else []],
        dask="parallelized",
        output_dtypes=[_dtype(shown)],
        dask_gufunc_kwargs={"output_sizes": {"class": len(names)}} if several else None,
    )
    return found.assign_coords({"class": names}) if several else found.rename(names[0])


def _answers(
    model: CompiledModel, output: str, cube: NDArray[Any], shown: NDArray[Any]
) -> NDArray[Any]:
    """Answers of an array whose last dimension is that of the features."""
    rows = np.asarray(cube, dtype=np.float64).reshape(-1, cube.shape[-1])
    there = np.isfinite(rows).all(axis=1)
    out = np.full((len(rows), *shown.shape[1:]), _missing(shown), dtype=_dtype(shown))
    if there.any():
        out[there] = answer(model, output, np.ascontiguousarray(rows[there]), "ignore")[0]
    return out.reshape(*cube.shape[:-1], *shown.shape[1:])


def _dtype(shown: NDArray[Any]) -> np.dtype[Any]:
    """Of answers among which some may be missing."""
    return np.dtype(np.float64 if shown.dtype.kind in "fiub" else object)


def _missing(shown: NDArray[Any]) -> float | None:
    return np.nan if shown.dtype.kind in "fiub" else None


def _variables(model: CompiledModel, data: Dataset) -> Dataset:
    """Those that the model was fitted on, in their order; all where it knows no names."""
    names: Sequence[str] | None = model.origin.feature_names
    if names is None:
        return data
    missing = [name for name in names if name not in data.data_vars]
    if missing:
        raise InputError(f"`data` lacks the variables {', '.join(map(repr, missing[:5]))} of fit.")
    return data[list(names)]


def _xarray() -> Any:
    return optional("xarray", "`kernelite.xarray` needs xarray", "xarray", "xarray")
