"""SVMs trained by scikit-learn, once: kept in the benchmarks' cache as arrays."""

from __future__ import annotations

import hashlib
import zipfile
from typing import Any

import numpy as np

from benchmarks.data import cache_path
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead
from kernelite.machine.machine import describe
from kernelite.sources import Machine
from kernelite.support.files import atomic_write

__all__ = ["trained"]

CACHE_MEGABYTES = 1_000


def trained(
    name: str,
    rows: Any,
    labels: np.ndarray,
    *,
    gamma: float,
    C: float = 1.0,
    kernel: str = "rbf",
    coef0: float = 0.0,
) -> Machine:
    """A two-class SVM on CSR rows; labels are +1 and -1.

    Parameters
    ----------
    name : str
        For the cache's file; the data and the parameters are in its name too, as a digest.
    rows : csr_array of shape (n, d)
    labels : ndarray of shape (n,)
    gamma, C, kernel, coef0
        As in SVC; `kernel` is "rbf" or "poly" (of degree 2).
    """
    path = cache_path(_file_name(name, rows, labels, gamma, C, kernel, coef0))
    arrays = _kept(path)
    if arrays is None:
        arrays = _fit(rows, labels, gamma, C, kernel, coef0)
        with atomic_write(path, "wb") as file:
            np.savez(file, **arrays)
    expansion = KernelExpansion(
        rows[arrays["support"]].toarray(),
        arrays["coefficients"],
        arrays["intercept"],
        gamma=gamma,
        kernel="rbf" if kernel == "rbf" else "poly2",
        coef0=coef0,
    )
    head = ClassifierHead(np.array([1, -1]), first_positive=True)
    return Machine(expansion, head, describe("scikit-learn SVC", expansion), "libsvm", "c_svc")


def _fit(
    rows: Any, labels: np.ndarray, gamma: float, C: float, kernel: str, coef0: float
) -> dict[str, np.ndarray]:
    from sklearn.svm import SVC

    svc = SVC(C=C, kernel=kernel, degree=2, gamma=gamma, coef0=coef0, cache_size=CACHE_MEGABYTES)
    # Dense is quicker to train on where it fits.
    X = rows.toarray() if rows.shape[0] * rows.shape[1] < 1e8 else rows
    svc.fit(X, labels)
    coefficients = (
        svc.dual_coef_.toarray() if hasattr(svc.dual_coef_, "toarray") else svc.dual_coef_
    )
    # Positive means class +1 for us; vectors of that class first, as LIBSVM has them.
    order = np.argsort(np.ravel(coefficients) < 0, kind="stable")
    return {
        "support": svc.support_[order].astype(np.int64),
        "coefficients": np.ravel(coefficients)[order],
        "intercept": np.array(svc.intercept_, dtype=np.float64),
    }


def _file_name(name: str, rows: Any, labels: np.ndarray, *parameters: Any) -> str:
    state = hashlib.sha256(repr((rows.shape, parameters)).encode())
    for array in (rows.data, rows.indices, rows.indptr, labels):
        state.update(np.ascontiguousarray(array).tobytes())
    plain = "".join(c if c.isalnum() else "-" for c in name)
    return f"svm-{plain}-{state.hexdigest()[:16]}.npz"


def _kept(path: Any) -> dict[str, np.ndarray] | None:
    try:
        with np.load(path) as file:
            return {name: file[name] for name in ("support", "coefficients", "intercept")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
