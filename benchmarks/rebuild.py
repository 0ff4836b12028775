"""A two-class LIBSVM model as a fitted scikit-learn SVC, and as LIBSVM text.

scikit-learn predicts with LIBSVM's own code from these arrays, so the rebuilt estimator does what
one that was fitted here would do; callers compare its labels before they time it.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from kernelite.machine.heads import ClassifierHead
from kernelite.sources import Machine
from kernelite.support.files import atomic_write

__all__ = ["rebuilt_svc", "write_data", "write_model"]


def rebuilt_svc(source: Machine, svc_class: Any = None, *, for_sparse: bool = False) -> Any:
    """An SVC that holds the arrays of `source`.

    Parameters
    ----------
    source : Machine
        Two classes, RBF kernel.
    svc_class : class, optional
        scikit-learn's SVC, or one that derives from it.
    for_sparse : bool
        scikit-learn keeps two programs: one for dense rows, one for CSR.

    Examples
    --------
    >>> from benchmarks.generate import generated_rows, generated_source
    >>> svc = rebuilt_svc(generated_source(20, 2))
    >>> svc.predict(generated_rows(3, 2)).shape
    (3,)
    """
    from sklearn.svm import SVC

    expansion, head = source.expansion, source.head
    if not isinstance(head, ClassifierHead) or len(head.classes) != 2 or not expansion.kernel.damps:
        raise ValueError("only two-class RBF models are rebuilt")
    n, d = expansion.n_centers, expansion.n_features
    svc = (svc_class or SVC)(kernel="rbf", gamma=expansion.gamma)
    # LIBSVM's sign: positive means its first label, whose vectors stand first.
    sign = 1.0 if head.first_positive else -1.0
    folded = sign * expansion.coefficients.T
    centers = expansion.dense_centers()
    if for_sparse:
        centers, folded = sparse.csr_matrix(centers), sparse.csr_matrix(folded)
    positive = int((sign * expansion.coefficients > 0).sum())
    svc.classes_ = np.array(head.classes)
    svc.class_weight_ = np.ones(2)
    svc.n_features_in_ = d
    svc.shape_fit_ = (n, d)
    svc.fit_status_ = 0
    svc._sparse, svc._gamma = for_sparse, expansion.gamma
    svc.support_ = np.arange(n, dtype=np.int32)
    svc.support_vectors_ = centers
    svc._n_support = np.array([positive, n - positive], dtype=np.int32)
    svc._effective_probability = False  # since scikit-learn 1.9
    svc._probA = svc._probB = np.empty(0)
    svc._dual_coef_, svc._intercept_ = folded, sign * expansion.intercept
    # The public attributes have the other sign; sklearnex stores both in one place, public last.
    svc.dual_coef_, svc.intercept_ = -folded, -sign * expansion.intercept
    return svc


def write_model(source: Machine, path: str | os.PathLike[str]) -> None:
    """LIBSVM's text of a two-class model: 17 digits for coefficients, 8 for vectors."""
    expansion, head = source.expansion, source.head
    assert isinstance(head, ClassifierHead)
    sign = 1.0 if head.first_positive else -1.0
    weights = sign * expansion.coefficients[:, 0]
    centers = sparse.csr_array(expansion.centers)
    order = np.argsort(weights < 0, kind="stable")
    n, positive = len(weights), int((weights > 0).sum())
    header = [
        "svm_type c_svc",
        "kernel_type rbf",
        f"gamma {expansion.gamma:.17g}",
        "nr_class 2",
        f"total_sv {n}",
        f"rho {-sign * float(expansion.intercept[0]):.17g}",
        f"label {head.classes[0]:g} {head.classes[1]:g}",
        f"nr_sv {positive} {n - positive}",
        "SV",
    ]
    with atomic_write(path) as file:
        file.write("\n".join(header) + "\n")
        for i in order:
            file.write(f"{weights[i]:.17g} {_entries(centers, i, 8)}\n")


def write_data(rows: Any, labels: Any, path: str | os.PathLike[str]) -> None:
    """LIBSVM's text of data, values with six digits or so, as published sets have."""
    table = sparse.csr_array(rows)
    with atomic_write(path) as file:
        for i in range(table.shape[0]):
            file.write(f"{labels[i]:g} {_entries(table, i, 6)}\n")


def _entries(table: Any, i: int, digits: int) -> str:
    start, stop = table.indptr[i], table.indptr[i + 1]
    pairs = zip(table.indices[start:stop].tolist(), table.data[start:stop].tolist())
    return " ".join(f"{column + 1}:{value:.{digits}g}" for column, value in pairs)
