"""Reading LIBSVM models: what is in the file, how it was packed, and svm-predict's own answers."""

from __future__ import annotations

import bz2
import gzip
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelite.data.rows.inputs import check_rows, is_sparse
from kernelite.data.tables.libsvm_data import parse_rows
from kernelite.data.tables.parsing import C_INT
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
from kernelite.machine.kernels import Gaussian, PolynomialKernel
from kernelite.sources import Machine, libsvm, read
from kernelite.sources.libsvm import read_libsvm
from tests.helpers import shared_path
from tests.sources.test_libsvm_bad_input import GOOD


@pytest.fixture
def write(tmp_path: Path):
    def write(content: bytes, name: str = "a.model") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def assert_same(left: Machine, right: Machine) -> None:
    for field in ("coefficients", "intercept", "gamma", "kernel", "coef0"):
        np.testing.assert_array_equal(
            getattr(left.expansion, field), getattr(right.expansion, field)
        )
    np.testing.assert_array_equal(left.expansion.dense_centers(), right.expansion.dense_centers())


def test_what_the_file_says(write):
    source = read_libsvm(write(GOOD))
    expansion, head = source.expansion, source.head
    np.testing.assert_array_equal(
        expansion.centers,
        [[1, 0, -0.25, 0], [0, 1e-3, 0, 0], [0.5, 0.5, 0, 1], [0, 0, 0, 2]],
    )
    # Columns (0,1), (0,2), (1,2); two vectors of class 0, then one of each other class.
    np.testing.assert_array_equal(
        expansion.coefficients, [[1, 0.5, 0], [0.25, -0.75, 0], [-1, 0, 2], [0, -0.5, 1]]
    )
    np.testing.assert_array_equal(expansion.intercept, [-0.1, 0.2, -0.3])
    assert expansion.kernel == Gaussian(0.5)
    assert isinstance(head, ClassifierHead)
    np.testing.assert_array_equal(head.classes, [7, -1, 3])
    assert head.first_positive
    np.testing.assert_array_equal(head.platt_a, [-1, -2, -3])
    np.testing.assert_array_equal(head.platt_b, [0, 0.1, 0.2])
    assert source.description == "LIBSVM c_svc, 4 support vectors, gamma 0.5"
    assert (source.family, source.type_name, source.width_is_open) == ("libsvm", "c_svc", True)


@pytest.mark.parametrize(
    "repack",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text + b"\n \n\t\n",
        lambda text: text.replace(b"1:1 3:-0.25", b"\t 1:1 \t 3:-0.25 \t "),
        lambda text: text.replace(b"1:1 3:-0.25", b"+1:+1.0 0000000000003:-.25"),
        lambda text: text.replace(b"gamma 0.5", b"gamma\t5.e-1 "),
        lambda text: text.replace(b"SV\n1 ", b"SV \n 1 "),
        gzip.compress,
        bz2.compress,
    ],
    ids=["crlf", "bom", "blank end", "blanks", "signs", "tab", "indent", "gzip", "bzip2"],
)
def test_other_ways_to_write_the_same(repack, write):
    assert_same(read_libsvm(write(repack(GOOD), "b.model")), read_libsvm(write(GOOD)))


HEADER = "svm_type {}\nkernel_type {}\ngamma 0.25\nnr_class 2\ntotal_sv 1\nrho 0.75\n{}SV\n1 2:3\n"


def test_regressors(write):
    text = HEADER.format("nu_svr", "rbf", "probA 0.125\n")
    head = read_libsvm(write(text.encode())).head
    assert isinstance(head, RegressorHead)
    assert head.noise_scale == 0.125


def test_one_class_with_density_marks(write):
    marks = " ".join(str(i / 8) for i in range(10))
    text = HEADER.format("one_class", "rbf", f"prob_density_marks {marks}\n")
    head = read_libsvm(write(text.encode())).head
    assert isinstance(head, OutlierHead)
    assert head.offset == 0.75
    np.testing.assert_array_equal(head.density_marks, np.arange(10) / 8)


def test_polynomials_of_degree_two(write):
    text = HEADER.format("epsilon_svr", "polynomial", "degree 2\ncoef0 0.5\n")
    expansion = read_libsvm(write(text.encode())).expansion
    assert expansion.kernel == PolynomialKernel(2, 0.25, 0.5)
    np.testing.assert_allclose(expansion.scores([[9.0, 4.0]]), [[3.5**2 - 0.75]])


def test_a_model_without_vectors_is_its_intercept(write):
    text = HEADER.format("epsilon_svr", "rbf", "").replace("sv 1", "sv 0").replace("1 2:3\n", "")
    expansion = read_libsvm(write(text.encode())).expansion
    assert expansion.centers.shape == (0, 0)
    np.testing.assert_array_equal(expansion.scores(np.zeros((3, 0))), np.full((3, 1), -0.75))


def test_dense_where_it_is_in_proportion(write):
    def centers(index: int):
        return read_libsvm(write(GOOD.replace(b"4:2", f"{index}:2".encode()))).expansion.centers

    assert not is_sparse(centers(30_000))  # under a megabyte
    assert is_sparse(centers(40_000))


# The twin: many lines at once against line by line -----------------------------------------

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-10, 10).map(lambda x: f"{x:.6g}"),
    st.integers(-99, 99).map(str),
    st.sampled_from(["0", "-0.0", ".5", "1.", "+2E3", "1e-400", "123456789012345678901234567890"]),
)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def vector_lines(draw):
    n_coefficients = draw(st.integers(1, 4))
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        indices = sorted(draw(st.sets(st.integers(1, 2**31 - 1), max_size=5)))
        tokens = [draw(numbers) for _ in range(n_coefficients)]
        tokens += [f"{index}:{draw(numbers)}" for index in indices]
        lines.append("".join(token + draw(blanks) for token in tokens))
    return n_coefficients, lines


@settings(max_examples=80, deadline=None)
@given(vector_lines())
def test_lines_read_at_once_are_those_read_one_by_one(case):
    n, lines = case
    first, block = parse_rows(list(enumerate(lines, 1)), n, C_INT, libsvm.tokens_of, print)
    assert block.n_rows == len(lines)
    for row, line in enumerate(lines):
        tokens, at = line.split(), slice(block.indptr[row], block.indptr[row + 1])
        assert first[row].tolist() == [float(token) for token in tokens[:n]]
        pairs = [token.split(":") for token in tokens[n:]]
        assert (block.indices[at] + 1).tolist() == [int(index) for index, _ in pairs]
        assert block.values[at].tolist() == [float(value) for _, value in pairs]
        assert not list(libsvm._first_problem(line, n))


def test_batches_join_seamlessly(write, monkeypatch):
    whole = read_libsvm(write(GOOD))
    monkeypatch.setattr(libsvm, "BATCH_CHARACTERS", 1)
    assert_same(read_libsvm(write(GOOD)), whole)


# svm-predict ---------------------------------------------------------------------------------

needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-train") is None or shutil.which("svm-predict") is None,
    reason="svm-train and svm-predict (LIBSVM's tools) are not installed",
)


def svmlight(X: np.ndarray, y: np.ndarray) -> str:
    lines = []
    for row, label in zip(X, y):
        pairs = " ".join(f"{i + 1}:{value:.17g}" for i, value in enumerate(row) if value)
        lines.append(f"{label:g} {pairs}\n")
    return "".join(lines)


def run(*arguments: object) -> None:
    subprocess.run([str(a) for a in arguments], check=True, capture_output=True)


def widened(source: Machine, width: int) -> KernelExpansion:
    """The exact model on rows that have features beyond its own: its vectors are zero there."""
    expansion = source.expansion
    centers = np.zeros((expansion.n_centers, max(width, expansion.n_features)))
    centers[:, : expansion.n_features] = expansion.dense_centers()
    return replace(expansion, centers=centers)


def toy_data(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 120)
    X = rng.normal(size=(120, 5)) + 1.2 * rng.normal(size=(n_classes, 5))[y]
    X[rng.random(X.shape) < 0.3] = 0.0
    return X.round(4), 3 * y - 4  # LIBSVM stores eight digits of each value


@needs_libsvm
@pytest.mark.parametrize("kernel", ["-t 2 -g 0.3", "-t 1 -d 2 -g 0.3 -r 1"])
@pytest.mark.parametrize(
    ("options", "n_classes"),
    [("-s 0", 2), ("-s 0", 5), ("-s 1 -n 0.3", 3), ("-s 2 -n 0.2", 2), ("-s 3", 4), ("-s 4", 4)],
)
def test_svm_predict_agrees_on_every_type(options, n_classes, kernel, tmp_path):
    X, y = toy_data(n_classes)
    data, model, out = (tmp_path / name for name in ("data", "model", "out"))
    data.write_text(svmlight(X, y))
    run("svm-train", "-q", *options.split(), *kernel.split(), data, model)
    run("svm-predict", data, model, out)
    source = read(model)
    ours = source.head.predict(widened(source, X.shape[1]).scores(X))
    theirs = np.loadtxt(out)
    if source.head.kind == "regressor":
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
    else:
        np.testing.assert_array_equal(ours, theirs)


@needs_libsvm
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_svm_predict_agrees_on_probabilities(n_classes, tmp_path):
    X, y = toy_data(n_classes)
    data, model, out = (tmp_path / name for name in ("data", "model", "out"))
    data.write_text(svmlight(X, y))
    run("svm-train", "-q", "-b", 1, "-g", 0.3, data, model)
    run("svm-predict", "-b", 1, data, model, out)
    source = read(model)
    assert isinstance(source.head, ClassifierHead)
    head = replace(source.head, labels_by_probability=True)
    scores = widened(source, X.shape[1]).scores(X)
    first, *rest = out.read_text().splitlines()
    assert first.split()[1:] == [str(label) for label in head.classes]
    theirs = np.array([line.split() for line in rest], dtype=float)
    np.testing.assert_array_equal(head.predict(scores), theirs[:, 0])
    # svm-predict prints six digits
    np.testing.assert_allclose(head.probabilities(scores), theirs[:, 1:], rtol=1e-5, atol=1e-12)


@pytest.mark.campaign  # the data are large
@needs_libsvm
@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("a9a_g0.01_c1", "a9a.t"),
        ("a9a_g0.02_c1", "a9a.t"),
        ("a9a_g0.1_c1", "a9a.t"),
        ("ijcnn1_g0.05_c100", "ijcnn1.t"),
        ("mnist1_g0.0001_c32", "mnist.scale.t"),
    ],
)
def test_svm_predict_agrees_on_the_shared_models(model, data, tmp_path):
    from sklearn.datasets import load_svmlight_file

    packed_model = shared_path("models", f"{model}.model.bz2")
    packed_data = shared_path("data", f"{data}.bz2")
    with bz2.open(packed_data, "rt") as file:
        (tmp_path / "data").write_text("".join(line for line, _ in zip(file, range(1000))))
    (tmp_path / "model").write_bytes(bz2.decompress(packed_model.read_bytes()))
    run("svm-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    source = read(packed_model)
    rows, _ = load_svmlight_file(str(tmp_path / "data"), zero_based=False)
    expansion = widened(source, rows.shape[1])
    rows = check_rows(rows)
    rows.resize((rows.shape[0], expansion.n_features))
    ours = source.head.predict(expansion.scores(rows))
    np.testing.assert_array_equal(ours, np.loadtxt(tmp_path / "out"))
