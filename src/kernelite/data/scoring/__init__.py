"""Scoring batches of columns: the one function that files, Dask, Spark and Ray all call.

In: a pyarrow record batch. Out: a record batch with labels, scores, probabilities beside the
columns that are kept.
"""

from __future__ import annotations

from kernelite.data.scoring.batch import BatchScorer
from kernelite.data.scoring.selection import resolve_columns
from kernelite.data.tables.columnar.library import require_pyarrow

__all__ = ["BatchScorer", "require_pyarrow", "resolve_columns"]
