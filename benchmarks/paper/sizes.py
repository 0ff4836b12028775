"""Table 3: bytes of the exact text model, of approxsvm's text, and of `.kernelite` files."""

from __future__ import annotations

import bz2
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exact import exact_scores
from benchmarks.modes import compiled, stored_bytes
from benchmarks.paper.subjects import Subject, training_rows
from benchmarks.rebuild import write_model
from benchmarks.workloads import Workload
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.machine import describe
from kernelite.sources import Machine
from kernelite.store import approxsvm

__all__ = ["least_squares", "sizes"]

LEAST_SQUARES_ROWS = 4_000
COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("none", {"rank": "full"}),
    "truncated": ("none", {}),
    "certified": ("certified", {}),
}
"""Column -> guarantee and options; "certified" keeps its support vectors."""


def sizes(subject: Subject, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """One row."""
    tell(f"{subject.row.name}: sizes")
    # How far made-up data let a form be cut says nothing of the real ones.
    made_up = {"full": COLUMNS["full"]}
    found = _of(subject.workload, made_up if subject.workload.generated else COLUMNS)
    return {
        "name": subject.row.name,
        "generated": subject.workload.generated,
        "tool_bytes": None if subject.workload.generated else subject.row.tool_bytes,
        "paper_ratio": subject.row.size_ratio,
        **found,
        "features": subject.row.features,
        "notes": [note for note in subject.notes if not note.startswith("Timed")],
    }


def least_squares(
    subject: Subject,
    tell: Callable[[str], None] = lambda line: None,
    *,
    solved_rows: int = LEAST_SQUARES_ROWS,
    most_rows: int | None = None,
) -> dict[str, Any]:
    """A least-squares SVM: every training row is a support vector, with C times its residual.

        [0  1'   ] [b]   [0]
        [1  K + I/C] [a] = [y]        hence a_i = C (y_i - f(x_i))

    The system is solved for the first rows; the others get their residual about that solution.
    That is a step of refinement, not the solution of the whole system, and serves for sizes only.
    """
    tell(f"{subject.row.name}: least-squares SVM")
    whole = subject.workload.expansion
    X, y = training_rows(subject.row, whole.n_features)
    X, y = X[:most_rows].toarray(), y[:most_rows]
    small = _solve(X[:solved_rows], y[:solved_rows], whole.gamma, subject.row.C)
    weights = subject.row.C * (y - exact_scores(small.expansion, X)[:, 0])
    weights[:solved_rows] = small.expansion.coefficients[:, 0]
    expansion = KernelExpansion(X, weights, small.expansion.intercept, gamma=whole.gamma)
    described = describe("least-squares SVM", expansion)
    source = Machine(expansion, small.head, described, "libsvm", "c_svc")
    workload = replace(subject.workload, source=source, path=None, fitted=None)
    columns = {name: COLUMNS[name] for name in ("full", "truncated")}
    return {
        "name": f"{subject.row.data}, least squares",
        "generated": False,
        "tool_bytes": None,
        "paper_ratio": None,
        **_of(workload, columns),
        "features": subject.row.features,
        "solved_rows": min(solved_rows, len(y)),
        "notes": [],
    }


def _solve(centers: np.ndarray, labels: np.ndarray, gamma: float, C: float) -> Machine:
    from scipy.linalg import solve

    from kernelite.machine.heads import ClassifierHead

    n = len(labels)
    norms = np.einsum("ij,ij->i", centers, centers)
    K = np.exp(-gamma * np.maximum(norms[:, None] + norms - 2.0 * centers @ centers.T, 0.0))
    K.flat[:: n + 1] += 1.0 / C
    # Eliminate b: K a = y - b 1 with 1'a = 0.
    solved = solve(K, np.column_stack([labels, np.ones(n)]), assume_a="pos", overwrite_a=True)
    b = solved[:, 0].sum() / solved[:, 1].sum()
    weights = solved[:, 0] - b * solved[:, 1]
    expansion = KernelExpansion(centers, weights, np.array([b]), gamma=gamma)
    head = ClassifierHead(np.array([1, -1]), first_positive=True)
    return Machine(expansion, head, describe("least-squares SVM", expansion), "libsvm", "c_svc")


def _of(
    workload: Workload, columns: dict[str, tuple[str, dict[str, Any]]] = COLUMNS
) -> dict[str, Any]:
    exact = _exact_text(workload)
    found: dict[str, Any] = {
        "features": workload.expansion.n_features,
        "support_vectors": workload.expansion.n_centers,
        "exact_text": exact,
        "bytes": {"approxsvm": _approxsvm_text(workload)},
        "plans": {},
    }
    for column, (guarantee, options) in columns.items():
        model, _ = compiled(workload, guarantee, **options)
        found["bytes"][column] = stored_bytes(model)
        found["plans"][column] = model.plan.chosen.name
    found["ratios"] = {name: exact / size for name, size in found["bytes"].items()}
    return found


def _exact_text(workload: Workload) -> int:
    """Bytes of LIBSVM's model file, uncompressed."""
    if workload.path is not None:
        return len(bz2.decompress(workload.path.read_bytes()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "svm.model")
        write_model(workload.source, path)
        return path.stat().st_size


def _approxsvm_text(workload: Workload) -> int:
    model, _ = compiled(workload, "none", expansion_point="origin", rank="full")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "svm.approx")
        approxsvm.write(model, path)
        return path.stat().st_size
