"""`kernelite analyse`."""

from __future__ import annotations

import numpy as np
import pytest

import kernelite as kl
from tests.helpers import shared_path


def test_both_points_and_the_row_that_sets_the_bound(toys, good) -> None:
    found = good("analyse", toys.path("train.svm"), "--json").json
    norms = (toys.X**2).sum(axis=1)
    about_mean = ((toys.X - toys.X.mean(axis=0)) ** 2).sum(axis=1)
    assert (found["rows"], found["features"]) == (75, 4)
    for name, squares in (("origin", norms), ("mean", about_mean)):
        assert found[name]["gamma_max"] == pytest.approx(0.25 / squares.max())
        assert found[name]["row"] == squares.argmax() + 1
        assert "valid" not in found[name]


def test_a_given_gamma_is_judged(toys, good) -> None:
    between = np.sqrt(float(kl.gamma_max(toys.X)) * float(kl.gamma_max(toys.X, about="mean")))
    found = good("analyse", toys.path("train.svm"), "--gamma", between, "--json").json
    assert (found["origin"]["valid"], found["mean"]["valid"]) == (False, True)
    lines = good("analyse", toys.path("train.svm"), "--gamma", between).out.splitlines()
    assert lines[0] == "75 rows, 4 features"
    assert lines[2].endswith("not valid")
    assert lines[3].endswith(" valid")


def test_formats_agree(toys, good, tmp_path) -> None:
    np.save(tmp_path / "test.npy", toys.X_test)
    expected = good("analyse", toys.path("test.svm"), "--json").json
    for path in (toys.path("test.csv"), tmp_path / "test.npy"):
        found = good("analyse", path, "--json").json
        del found["data"]
        assert found == {name: expected[name] for name in found}


def test_one_point_of_equal_rows(good, tmp_path) -> None:
    (tmp_path / "same.csv").write_text("0,0\n0,0\n")
    assert good("analyse", tmp_path / "same.csv", "--json").json["mean"]["gamma_max"] is None
    assert "inf" in good("analyse", tmp_path / "same.csv").out


def test_rows_without_features(good, tmp_path) -> None:
    (tmp_path / "bare.svm").write_text("1\n-1\n")
    found = good("analyse", tmp_path / "bare.svm", "--json").json
    assert (found["rows"], found["features"]) == (2, 0)
    assert found["origin"]["gamma_max"] is found["mean"]["gamma_max"] is None


def test_a_norm_beyond_doubles(kernelite, tmp_path) -> None:
    (tmp_path / "far.svm").write_text("1 1:1\n1 1:1e200\n")
    ran = kernelite("analyse", tmp_path / "far.svm")
    assert ran.code == 1
    assert ran.err.endswith("far.svm: a squared norm in rows 1 to 2 overflows\n")


@pytest.mark.campaign  # the data are large
@pytest.mark.parametrize(("name", "gamma_max"), [("a9a", 0.01786), ("ijcnn1", 0.0635)])
def test_the_papers_data(name, gamma_max, good) -> None:
    found = good("analyse", shared_path("data", f"{name}.bz2"), "--json").json
    assert found["origin"]["gamma_max"] == pytest.approx(gamma_max, rel=1e-3)
