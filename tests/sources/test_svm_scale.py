"""svm-scale's range files: what they mean, and what is wrong with bad ones."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.svm import SVC, SVR

import kernelite as kl
from kernelite.cli import main
from kernelite.sources import read
from kernelite.sources.svm_scale import SvmRange, read_range, with_range
from kernelite.store.files import dumps, loads
from kernelite.support.errors import FileFormatError, InputError, UnsupportedModelError
from tests.datasets import diabetes, raw_cancer

TEXT = "x\n-1 1\n1 0 4\n3 -2 2.5\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "train.range"
    path.write_text(text)
    return path


def by_svm_scale(found: SvmRange, X: np.ndarray) -> np.ndarray:
    """A slow twin, as svm-scale goes about it: value by value."""
    out = np.zeros_like(X)
    known = dict(zip(found.columns.tolist(), zip(found.minimum, found.maximum)))
    for i, row in enumerate(X):
        for j, value in enumerate(row):
            low, high = known.get(j, (0.0, 0.0))
            if low == high:
                continue
            if value == low:
                out[i, j] = found.lower
            elif value == high:
                out[i, j] = found.upper
            else:
                out[i, j] = found.lower + (found.upper - found.lower) * (value - low) / (high - low)
    return out


def test_a_range_file_is_read(tmp_path: Path) -> None:
    found = read_range(written(tmp_path, TEXT))
    assert (found.lower, found.upper, found.target) == (-1.0, 1.0, None)
    np.testing.assert_array_equal(found.columns, [0, 2])
    np.testing.assert_array_equal(found.minimum, [0, -2])
    np.testing.assert_array_equal(found.maximum, [4, 2.5])
    assert found.n_features == 3


def test_the_targets_range_is_read(tmp_path: Path) -> None:
    found = read_range(written(tmp_path, "y\n0 1\n-5 15\n" + TEXT))
    assert found.target == (0.0, 1.0, -5.0, 15.0)
    assert found.n_features == 3


@given(st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_the_map_is_svm_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = np.flatnonzero(rng.random(6) < 0.7)
    minimum = rng.normal(size=len(columns))
    maximum = minimum + rng.choice([0.0, 1.0, 30.0], len(columns)) * rng.random(len(columns))
    lower = rng.choice([-1.0, 0.0])
    found = SvmRange(lower, lower + rng.choice([1.0, 2.0]), columns, minimum, maximum)
    X = rng.normal(size=(9, 6))
    for j, column in enumerate(columns):
        X[0, column], X[1, column] = minimum[j], maximum[j]
    np.testing.assert_allclose(found.affine(6)(X), by_svm_scale(found, X), rtol=1e-9, atol=1e-9)


BAD = {
    "empty": ("", "nothing but blank lines"),
    "blank": ("\n \n", "nothing but blank lines"),
    "no x": ("y\n0 1\n0 5\n", "no line `x`"),
    "other": ("svm_type c_svc\n", "1: expected `x`, got `svm_type c_svc`"),
    "no bounds": ("x\n", "no line with the bounds"),
    "one bound": ("x\n-1\n", "2: expected the bounds of the features, two numbers"),
    "bounds upside down": ("x\n1 -1\n", "2: the lower bound is not below"),
    "bounds alike": ("x\n1 1\n", "2: the lower bound is not below"),
    "words": ("x\n-1 one\n", "2: value `one`"),
    "infinite": ("x\n-1 inf\n", "2: value `inf`"),
    "index zero": ("x\n-1 1\n0 1 2\n", "3: index `0` is out of range"),
    "index fraction": ("x\n-1 1\n1.5 1 2\n", "3: index `1.5` is not an integer"),
    "index huge": ("x\n-1 1\n99999999999 1 2\n", "3: index .* is out of range"),
    "index twice": ("x\n-1 1\n1 1 2\n1 1 2\n", "4: index 1 is there twice"),
    "too few": ("x\n-1 1\n1 2\n", "3: expected `index min max`"),
    "too many": ("x\n-1 1\n1 2 3 4\n", "3: expected `index min max`"),
    "nan": ("x\n-1 1\n1 nan 3\n", "3: value `nan`"),
    "upside down": ("x\n-1 1\n1 3 2\n", "3: the minimum of index 1 is above its maximum"),
    "overflows": ("x\n-1 1\n1 -1e308 1e308\n", "3: the range of index 1 overflows"),
    "target upside down": ("y\n1 0\n0 1\nx\n-1 1\n", "2: the target's lower bound"),
    "target constant": ("y\n0 1\n3 3\nx\n-1 1\n", "3: the target's minimum"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_name_line_and_token(name: str, tmp_path: Path) -> None:
    text, says = BAD[name]
    with pytest.raises(FileFormatError, match=says) as caught:
        read_range(written(tmp_path, text))
    assert "train.range" in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "any.range"
        path.write_bytes(b"x\n-1 1\n" + data)
        try:
            found = read_range(path)
        except FileFormatError:
            return
        assert np.isfinite(found.affine(found.n_features).scale).all()


@pytest.fixture
def scaled() -> tuple[Any, SvmRange, np.ndarray]:
    X, y = raw_cancer()
    columns = np.arange(X.shape[1])
    found = SvmRange(-1.0, 1.0, columns, X.min(axis=0), X.max(axis=0))
    return SVC(gamma=0.05).fit(by_svm_scale(found, X), y), found, X


def test_a_model_takes_rows_as_they_were_measured(scaled: Any) -> None:
    model, found, X = scaled
    fast = kl.compile(model, X, input_range=found)
    np.testing.assert_array_equal(fast.predict(X), model.predict(by_svm_scale(found, X)))
    assert fast.preparation.input_map is not None
    np.testing.assert_array_equal(loads(dumps(fast)).predict(X), fast.predict(X))
    assert fast.origin.description.endswith("behind svm-scale")


def test_values_come_in_the_targets_units() -> None:
    X, y = diabetes()
    y = 50.0 + 100.0 * y
    scaled = -1 + 2 * (y - y.min()) / (y.max() - y.min())
    found = SvmRange(0.0, 1.0, np.arange(10), X.min(0), X.max(0), (-1.0, 1.0, y.min(), y.max()))
    model = SVR(gamma=0.3).fit(by_svm_scale(found, X), scaled)
    exact = kl.compile(model, X, input_range=found, guarantee="exact")
    back = y.min() + (model.predict(by_svm_scale(found, X)) + 1) / 2 * (y.max() - y.min())
    np.testing.assert_allclose(exact.predict(X), back, rtol=1e-9)


def test_features_beyond_the_range_do_not_count(tmp_path: Path) -> None:
    """svm-scale drops them; a LIBSVM model by itself would count them in |z|^2."""
    model = tmp_path / "m.model"
    model.write_text(
        "svm_type epsilon_svr\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 1\nrho 0\nSV\n"
        "1 1:0.5\n"
    )
    path = written(tmp_path, "x\n0 1\n1 0 2\n3 0 10\n")
    fast = kl.compile(model, guarantee="exact", input_range=path)
    assert fast.n_features_in_ == 3
    expected = np.exp(-0.5 * ((1.0 - 0.5) ** 2 + 0.4**2))  # 2 -> 1, feature 3: 4 -> 0.4
    rows = np.array([[2.0, 7.0, 4.0]])
    np.testing.assert_allclose(fast.predict(rows), expected)
    np.testing.assert_allclose(fast.predict(np.append(rows, [[9.0, 9.0]], axis=1)), expected)
    np.testing.assert_allclose(fast.predict(csr_array(rows)), expected)
    np.testing.assert_allclose(fast.predict(rows, beyond=np.array([81.0])), expected)
    np.testing.assert_allclose(loads(dumps(fast)).predict(rows, beyond=np.ones(1)), expected)


def test_models_that_are_scaled_already_or_too_narrow_are_refused(scaled: Any) -> None:
    model, found, _ = scaled
    source = with_range(read(model), found)
    with pytest.raises(UnsupportedModelError, match="scales its inputs already"):
        with_range(source, found)
    wide = SvmRange(0.0, 1.0, np.array([99]), np.zeros(1), np.ones(1))
    with pytest.raises(InputError, match="names feature 100, but the model has 30"):
        with_range(read(model), wide)


def test_the_command_line_takes_a_range(tmp_path: Path, capsys: Any) -> None:
    model = tmp_path / "m.model"
    model.write_text(
        "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\n"
        "nr_sv 1 1\nSV\n1 1:1\n-1 1:-1\n"
    )
    written(tmp_path, "x\n-1 1\n1 100 200\n")
    out = tmp_path / "m.kernelite"
    arguments = ["compile", str(model), "-o", str(out), "--guarantee", "exact"]
    assert main([*arguments, "--input-range", str(tmp_path / "train.range")]) == 0
    np.testing.assert_array_equal(kl.load(out).predict([[190.0], [120.0]]), [1, -1])
    assert main([*arguments, "--input-range", str(tmp_path / "absent.range")]) == 1
    assert "absent.range" in capsys.readouterr().err


def test_a_short_range_asks_for_little_memory(tmp_path: Path) -> None:
    lines = "".join(f"{1 + i % 2} 1:{i}\n" for i in range(200))
    model = tmp_path / "svm.model"
    model.write_text(
        "svm_type epsilon_svr\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 200\nrho 0\nSV\n"
        + lines
    )
    path = written(tmp_path, "x\n-1 1\n16777216 0 1\n")
    with pytest.raises(InputError, match=r"names feature 16777216, but only 1 features in all"):
        with_range(read(model), path)
    tracemalloc.start()
    try:
        scaled = with_range(read(model), written(tmp_path, "x\n-1 1\n60000 0 1\n"))
        assert tracemalloc.get_traced_memory()[1] < 2**26  # dense: 2**27
    finally:
        tracemalloc.stop()
    assert scaled.single.centers.shape == (200, 60000)
    values = kl.compile(scaled, guarantee="exact").predict(csr_array((2, 60000)))
    np.testing.assert_allclose(values, values[0])
