"""Scoring batches of columns: the one function that files, Dask, Spark and Ray all call.

In: a pyarrow record batch. Out: a record batch with labels, scores, probabilities beside the
columns that are kept.
"""

from __future__ import annotations

from kernelite.scoring.batch import BatchScorer
from kernelite.tables.columnar.columns import require_pyarrow, resolve_columns

__all__ = ["BatchScorer", "require_pyarrow", "resolve_columns"]
