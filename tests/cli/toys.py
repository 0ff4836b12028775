"""Small data and LIBSVM model files that the command line's tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.svm import SVC, SVR, OneClassSVM

__all__ = ["Toys", "libsvm_text", "make_toys"]

TYPES = {"SVC": "c_svc", "SVR": "epsilon_svr", "OneClassSVM": "one_class"}


def libsvm_text(svm: Any, extra: str = "") -> str:
    """A fitted scikit-learn SVM as a LIBSVM model, in full precision."""
    kind = TYPES[type(svm).__name__]
    classifier = kind == "c_svc"
    coefficients, intercept = svm._dual_coef_, np.atleast_1d(svm._intercept_)
    lines = [
        f"svm_type {kind}",
        "kernel_type rbf",
        f"gamma {svm._gamma!r}",
        f"nr_class {len(svm.classes_) if classifier else 2}",
        f"total_sv {len(svm.support_)}",
        "rho " + " ".join(repr(float(-b)) for b in intercept),
    ]
    if classifier:
        lines.append("label " + " ".join(str(label) for label in svm.classes_))
        lines.append(extra)
        lines.append("nr_sv " + " ".join(str(count) for count in svm.n_support_))
    lines.append("SV")
    for i, vector in enumerate(svm.support_vectors_):
        parts = [repr(float(a)) for a in coefficients[:, i]]
        parts += [f"{j + 1}:{float(value)!r}" for j, value in enumerate(vector) if value]
        lines.append(" ".join(parts) + " ")
    return "\n".join(line for line in lines if line) + "\n"


class Toys:
    """Iris, 75 rows to train on and 75 to test on, and models fitted on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        X, y = load_iris(return_X_y=True)
        self.X, self.y = X[::2], y[::2]
        self.X_test, self.y_test = X[1::2], y[1::2]
        self.svc = SVC(gamma=0.02, C=10).fit(self.X, self.y)
        two = self.y > 0
        self.binary = SVC(gamma=0.02, C=10).fit(self.X[two], 2 * self.y[two] - 3)
        self.svr = SVR(gamma=0.02, C=10).fit(self.X, self.y * 1.5)
        self.one_class = OneClassSVM(gamma=0.02, nu=0.2).fit(self.X)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


def make_toys(folder: Path) -> Toys:
    """Write train.svm, test.svm, test.csv and the models svc, binary, svr, one_class."""
    toys = Toys(folder)
    dump_svmlight_file(toys.X, toys.y, toys.path("train.svm"), zero_based=False)
    dump_svmlight_file(toys.X_test, toys.y_test, toys.path("test.svm"), zero_based=False)
    rows = [
        ",".join([*map(repr, row.tolist()), str(label)])
        for row, label in zip(toys.X_test, toys.y_test)
    ]
    table = "\n".join(["a,b,c,d,target", *rows])
    (folder / "test.csv").write_text(table + "\n", encoding="utf-8")
    platt = "probA -2.5 -2.5 -2.5\nprobB 0.1 0.2 -0.1"
    for name, svm in (("svc", toys.svc), ("svr", toys.svr), ("one_class", toys.one_class)):
        (folder / f"{name}.model").write_text(libsvm_text(svm), encoding="utf-8")
    (folder / "binary.model").write_text(libsvm_text(toys.binary), encoding="utf-8")
    (folder / "platt.model").write_text(libsvm_text(toys.svc, platt), encoding="utf-8")
    return toys
