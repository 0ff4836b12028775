"""Dask: arrays, frames, bags of record batches and folders of Parquet, scored where they lie.

The model goes to each worker once, by the SHA-256 of its bytes; tasks carry only its name.
"""

from __future__ import annotations

from kernelite.dask.collections import predict
from kernelite.dask.files import predict_files
from kernelite.dask.workers import forget, model_counts

__all__ = ["forget", "model_counts", "predict", "predict_files"]
