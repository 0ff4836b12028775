"""LIBSVM models with every kernel: -t 0, 1, 2 and 3."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite
from kernelite.sources import read

HEADER = """svm_type {svm_type}
kernel_type {kernel}
{options}nr_class 2
total_sv 3
rho 0.25
{labels}SV
"""
VECTORS = "0.5 1:1 2:-2\n-1.5 2:1 3:0.5\n1 1:-0.5 3:3\n"
X = np.array([[1.0, -2.0, 0.0], [0.0, 1.0, 0.5], [-0.5, 0.0, 3.0]])
A = np.array([0.5, -1.5, 1.0])
KERNELS = {
    "linear": ("", lambda s: s),
    "polynomial": ("degree 3\ngamma 0.5\ncoef0 1\n", lambda s: (0.5 * s + 1.0) ** 3),
    "sigmoid": ("gamma 0.25\ncoef0 -0.5\n", lambda s: np.tanh(0.25 * s - 0.5)),
}


@pytest.fixture
def written(tmp_path):
    def write(kernel: str, svm_type: str = "epsilon_svr", options: str | None = None):
        labels = "label 1 -1\nnr_sv 2 1\n" if svm_type == "c_svc" else ""
        options = KERNELS[kernel][0] if options is None else options
        text = HEADER.format(svm_type=svm_type, kernel=kernel, options=options, labels=labels)
        path = tmp_path / f"{kernel}.model"
        path.write_text(text + VECTORS)
        return path

    return write


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("guarantee", ["certified", "exact", "none"])
def test_values(kernel, guarantee, written):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    truth = KERNELS[kernel][1](rows @ X.T) @ A - 0.25
    model = kernelite.compile(written(kernel), rows, guarantee=guarantee)
    np.testing.assert_allclose(model.predict(rows), truth, rtol=1e-12, atol=1e-12)
    # Features beyond the width meet no center.
    wide = np.column_stack([rows, np.full(40, 7.0)])
    np.testing.assert_array_equal(model.predict(wide), model.predict(rows))


@pytest.mark.parametrize("kernel", KERNELS)
def test_labels(kernel, written):
    rows = np.random.default_rng(1).normal(size=(40, 3))
    model = kernelite.compile(written(kernel, "c_svc"), rows)
    positive = KERNELS[kernel][1](rows @ X.T) @ A - 0.25 > 0
    np.testing.assert_array_equal(model.predict(rows), np.where(positive, 1, -1))


def test_what_each_kernel_needs_is_asked_for(written):
    for kernel, options, missing in (
        ("sigmoid", "coef0 0\n", "gamma"),
        ("sigmoid", "gamma 1\n", "coef0"),
        ("polynomial", "gamma 1\ncoef0 0\n", "degree"),
    ):
        with pytest.raises(kernelite.FileFormatError, match=f"`{missing}` is missing"):
            read(written(kernel, options=options))
    assert read(written("linear")).description.endswith("linear")
