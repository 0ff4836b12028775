"""`kernelite xval`: grids, folds, exact against compiled."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

import kernelite as kl


def test_the_scores_are_scikit_learns(toys, good) -> None:
    found = good(
        *("xval", toys.path("train.svm"), "--C", "0.1,10", "--gamma", "0.02", "--folds", "3"),
        *("--shuffle-seed", "7", "--json"),
    ).json
    folds = StratifiedKFold(3, shuffle=True, random_state=7)
    for result in found["results"]:
        exact = cross_val_score(SVC(**result["parameters"]), toys.X, toys.y, cv=folds).mean()
        assert result["exact"] == pytest.approx(exact)
        assert result["compiled"] == result["exact"], "certified labels are the exact ones"
        assert result["differ"] == 0
    assert [result["best"] for result in found["results"]].count(True) == 1
    assert found["score"] == "accuracy"


def test_the_table(toys, good) -> None:
    ran = good("xval", toys.path("train.svm"), "--C", "0.01,10", "--gamma", "0.02", "--folds", "3")
    header, *rows = ran.out.splitlines()
    assert header.split()[:3] == ["best", "C", "gamma"]
    assert [row.startswith("*") for row in rows] == [False, True]
    assert "3 folds, 75 rows" in ran.err


def test_without_guarantee_labels_may_differ_and_it_shows(toys, good) -> None:
    result = good(
        *("xval", toys.path("train.svm"), "--gamma", "0.5", "--guarantee", "none"),
        *("--expansion-point", "origin", "--json"),
    ).json["results"][0]
    assert result["differ"] > 0
    assert result["outside"] == 1.0
    assert result["fallback"] == 0


def test_gamma_has_a_default_around_gamma_max(toys, good) -> None:
    results = good("xval", toys.path("train.svm"), "--folds", "2", "--json").json["results"]
    limit = float(kl.gamma_max(toys.X, about="mean"))
    gammas = [result["parameters"]["gamma"] for result in results]
    assert gammas == pytest.approx([limit / 4, limit / 2, limit, 2 * limit])


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("nu-svc", {"nu", "gamma"}),
        ("svr", {"C", "gamma"}),
        ("nu-svr", {"C", "nu", "gamma"}),
        ("one-class", {"nu", "gamma"}),
    ],
)
def test_other_types(kind, names, toys, good) -> None:
    found = good(
        *("xval", toys.path("train.svm"), "--type", kind, "--gamma", "0.02", "--folds", "2"),
        *(["--nu", "0.2"] if "nu" in names else []),
        *(["--epsilon", "0.05"] if kind == "svr" else []),
        "--json",
    ).json
    (result,) = found["results"]
    assert set(result["parameters"]) == names
    expected = "mean_squared_error" if kind.endswith("svr") else "accuracy"
    assert found["score"] == expected
    assert np.isfinite(result["compiled"])
    if expected == "accuracy":
        assert result["compiled"] == result["exact"]
    else:
        assert result["compiled"] == pytest.approx(result["exact"], rel=1e-2)
    assert good(
        *("xval", toys.path("train.svm"), "--type", kind, "--gamma", "0.02", "--folds", "2"),
    ).out.startswith("best")


def test_named_labels(toys, good, tmp_path) -> None:
    names = np.array(["red", "green", "blue"])[toys.y_test]
    rows = ["1,2,3,4,label", *(",".join([*map(str, x), n]) for x, n in zip(toys.X_test, names))]
    (tmp_path / "named.csv").write_text("\n".join(rows))
    found = good("xval", tmp_path / "named.csv", "--gamma", "0.02", "--header", "--json").json
    assert found["results"][0]["compiled"] > 0.8


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("1 1:1\n" * 9, [], "all rows are the same"),
        ("1 1:1\n1 1:2\n1 1:3\n", ["--gamma", "1", "--folds", "2"], "training at C 1, gamma 1"),
        ("0.5 1:1\n1.25 1:2\n3.5 1:3\n", ["--gamma", "1", "--folds", "2"], "folds cannot be made"),
        ("1 1:1\n0 1:2\n", [], "fewer than 5 folds"),
        ("1:1\n1:2\n", [], "label"),
        ("1 1:1\n0 1:2\n" * 5, ["--type", "nu-svc", "--nu", "2", "--gamma", "1"], "nu"),
    ],
)
def test_what_cannot_be_learnt(text, options, says, kernelite, tmp_path) -> None:
    (tmp_path / "bad.svm").write_text(text)
    ran = kernelite("xval", tmp_path / "bad.svm", *options)
    assert ran.code == 1
    assert ran.out == ""
    assert says in ran.err


def test_names_are_no_values(kernelite, tmp_path) -> None:
    (tmp_path / "named.csv").write_text("x,label\n" + "1,a\n2,b\n" * 5)
    ran = kernelite("xval", tmp_path / "named.csv", "--type", "svr")
    assert (ran.code, "needs numbers" in ran.err) == (1, True)
