"""`kernelite compile` and `kernelite inspect`."""

from __future__ import annotations

import bz2

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import kernelite as kl
from kernelite.store.files import stored_digest


def test_the_file_predicts_as_the_library_does(toys, good, tmp_path) -> None:
    out = tmp_path / "svc.kernelite"
    ran = good("compile", toys.path("svc.model"), "-o", out, "--sample", toys.path("train.svm"))
    by_hand = kl.compile(toys.path("svc.model"), toys.X)
    # The file's rows are sparse, so their mean may round differently in its last digit.
    np.testing.assert_allclose(
        kl.load(out).decision_function(toys.X_test),
        by_hand.decision_function(toys.X_test),
        rtol=1e-9,
    )
    assert str(by_hand.plan).splitlines()[0] in ran.out
    assert ran.err == f"wrote {out}, {out.stat().st_size:,} bytes\n"


def test_options_reach_the_compiler(toys, good, tmp_path) -> None:
    out = tmp_path / "m.kernelite"
    model = toys.path("binary.model")
    good("compile", model, "-o", out, "--guarantee", "none", "--expansion-point", "5,3,4,1.5")
    loaded = kl.load(out)
    assert loaded.guarantee == "none"
    assert loaded.expansion is None
    np.testing.assert_array_equal(loaded.approximation.form.point, [5, 3, 4, 1.5])
    facts = good("compile", model, "-o", out, "--guarantee", "exact", "--json").json
    assert facts["guarantee"] == "exact"
    assert facts["file_bytes"] == out.stat().st_size
    assert facts["output"] == str(out)


def test_the_sample_fixes_the_mean(toys, good, tmp_path) -> None:
    out = tmp_path / "m.kernelite"
    good(
        *("compile", toys.path("svc.model"), "-o", out, "--sample", toys.path("test.csv")),
        *("--guarantee", "none", "--expansion-point", "mean"),
    )
    np.testing.assert_allclose(kl.load(out).approximation.form.point, toys.X_test.mean(axis=0))


def test_approxsvm_format(toys, good, kernelite, tmp_path) -> None:
    out = tmp_path / "m.approx"
    good("compile", toys.path("binary.model"), "-o", out, "--format", "approxsvm")
    assert out.read_text().startswith("approximated SVM classifier\nlabels -1 1\n")
    assert not kl.load(out).approximation.form.point.any()
    refused = kernelite("compile", toys.path("svc.model"), "-o", out, "--format", "approxsvm")
    assert refused.code == 1
    assert "3 outputs" in refused.err


def test_compressed_models(toys, good, tmp_path) -> None:
    packed = tmp_path / "svc.model.bz2"
    packed.write_bytes(bz2.compress(toys.text("svc.model").encode()))
    good("compile", packed, "-o", tmp_path / "m.kernelite", "--guarantee", "none")
    assert kl.load(tmp_path / "m.kernelite").n_features_in_ == 4


@pytest.mark.parametrize("name", ["svc.joblib", "svc.pkl", "svc.bin"])
def test_pickles_only_when_allowed(toys, good, kernelite, tmp_path, name) -> None:
    path, out = tmp_path / name, tmp_path / "m.kernelite"
    joblib.dump(toys.svc, path)
    refused = kernelite("compile", path, "-o", out)
    assert refused.code == 1
    assert "runs any code" in refused.err
    assert "--allow-pickle" in refused.err
    assert not out.exists()
    good("compile", path, "-o", out, "--allow-pickle", "--guarantee", "exact")
    np.testing.assert_array_equal(kl.load(out).predict(toys.X_test), toys.svc.predict(toys.X_test))


def test_bad_pickles(kernelite, tmp_path) -> None:
    out = tmp_path / "m.kernelite"
    (tmp_path / "junk.pkl").write_bytes(b"\x80\x04junk")
    ran = kernelite("compile", tmp_path / "junk.pkl", "-o", out, "--allow-pickle")
    assert (ran.code, "cannot be unpickled" in ran.err) == (1, True)
    joblib.dump(SVC(kernel=np.dot).fit(np.eye(2), [0, 1]), tmp_path / "function.pkl")
    ran = kernelite("compile", tmp_path / "function.pkl", "-o", out, "--allow-pickle")
    assert (ran.code, "is a Python function" in ran.err) == (1, True)
    joblib.dump({"not": "a model"}, tmp_path / "dict.pkl")
    ran = kernelite("compile", tmp_path / "dict.pkl", "-o", out, "--allow-pickle")
    assert (ran.code, "dict" in ran.err) == (1, True)
    assert kernelite("compile", tmp_path / "absent.pkl", "-o", out, "--allow-pickle").code == 1
    assert not out.exists()


def test_a_compiled_model_is_not_compiled_again(toys, compiled, kernelite, tmp_path) -> None:
    ran = kernelite("compile", compiled / "svc.kernelite", "-o", tmp_path / "m")
    assert ran.code == 1
    assert "compiled already" in ran.err


def test_a_model_is_not_written_over_its_source(toys, kernelite, tmp_path) -> None:
    model = tmp_path / "svc.model"
    model.write_text(toys.text("svc.model"))
    ran = kernelite("compile", model, "-o", model)
    assert (ran.code, "cannot be written" in ran.err) == (1, True)
    assert model.read_text() == toys.text("svc.model")


@pytest.mark.parametrize("name", ["svc", "binary", "svr", "one_class", "platt"])
def test_inspect_compiled(name, compiled, good) -> None:
    path = compiled / f"{name}.kernelite"
    model = kl.load(path)
    facts = good("inspect", path, "--json").json
    assert facts["format"] == "kernelite"
    assert facts["file_bytes"] == path.stat().st_size
    assert facts["source"] == model.origin.description
    assert facts["guarantee"] == model.guarantee
    assert facts["holds_support_vectors"] == (model.expansion is not None)
    assert facts["plan"]["chosen"] == model.plan.chosen.name
    assert facts.get("probabilities") == {"svc": False, "binary": False, "platt": True}.get(name)
    assert (facts["format_version"], facts["digest"]) == stored_digest(path)
    text = good("inspect", path).out
    assert model.origin.description in text
    assert str(model.plan) in text
    assert facts["digest"] in text


def test_inspect_shows_truth_values_as_labels(good, tmp_path) -> None:
    machine = kl.KernelExpansion([[0.0], [1.0]], [1.0, -1.0], 0.1, gamma=1.0)
    model = kl.compile((machine, kl.ClassifierHead([False, True])), guarantee="exact")
    model.save(tmp_path / "m.kernelite")
    text = good("inspect", tmp_path / "m.kernelite").out
    assert "  False, True\n" in text
    facts = good("inspect", tmp_path / "m.kernelite", "--json").json
    assert "nanoseconds_per_row" in facts["plan"]


def test_inspect_says_what_the_bound_is(toys, good, tmp_path) -> None:
    out = tmp_path / "m.kernelite"
    good("compile", toys.path("svc.model"), "-o", out, "--guarantee", "none")
    facts = good("inspect", out, "--json").json
    centers = toys.svc.support_vectors_
    limit = 0.25 / ((centers - centers.mean(axis=0)) ** 2).sum(axis=1).max()
    assert facts["gamma_max_of_the_support_vectors"] == pytest.approx(limit)
    assert facts["gamma_is_below_it"] is True
    assert facts["holds_support_vectors"] is False


def test_inspect_a_libsvm_model(toys, good) -> None:
    facts = good("inspect", toys.path("svc.model"), "--json").json
    assert facts["format"] == "libsvm"
    assert facts["support_vectors"] == len(toys.svc.support_)
    limit = 0.25 / (toys.svc.support_vectors_**2).sum(axis=1).max()
    assert facts["gamma_max_about_the_origin"] == pytest.approx(limit)
    assert "classes" in good("inspect", toys.path("svc.model")).out


def test_inspect_an_approxsvm_model(toys, good, tmp_path) -> None:
    out = tmp_path / "m.approx"
    good("compile", toys.path("svr.model"), "-o", out, "--format", "approxsvm")
    assert good("inspect", out, "--json").json["format"] == "approxsvm"
    assert "regressor" in good("inspect", out).out


def test_quiet(toys, good, tmp_path) -> None:
    flags = ("compile", toys.path("svc.model"), "-o", tmp_path / "m", "--sample")
    assert good(*flags, toys.path("train.svm")).out
    ran = good(*flags, toys.path("train.svm"), "-q")
    assert (ran.out, ran.err) == ("", "")
    assert good(*flags, toys.path("train.svm"), "-q", "--json").json["file_bytes"] > 0


def test_what_cannot_be_saved_is_said_before_the_work(
    toys, kernelite, tmp_path, monkeypatch
) -> None:
    steps = FunctionTransformer(np.sin), SVC(gamma=0.1)
    joblib.dump(make_pipeline(*steps).fit(toys.X, toys.y), tmp_path / "m.joblib")
    monkeypatch.setattr("kernelite.model.compiler.Task", None)  # where the work begins
    ran = kernelite("compile", tmp_path / "m.joblib", "--allow-pickle", "-o", tmp_path / "no")
    assert (ran.code, "keeps a FunctionTransformer in front of it" in ran.err) == (1, True)
    assert not (tmp_path / "no").exists()


def test_inspect_says_what_decision_values_of_other_kernels_are(good, tmp_path) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    sigmoid = SVC(kernel="sigmoid").fit(rows, rows[:, 0] > 0)
    kl.compile(sigmoid, rows).save(tmp_path / "sigmoid.kernelite")
    text = good("inspect", tmp_path / "sigmoid.kernelite").out
    assert "exact up to rounding, with proven labels" in text
    assert "This kernel has no form" in text
    assert "None" not in text


def test_a_sample_that_does_not_fit_is_refused_before_it_is_cut(toys, kernelite, tmp_path) -> None:
    frame = pd.DataFrame(toys.X[:, :2], columns=["age", "size"])
    scaled = make_column_transformer((StandardScaler(), ["age", "size"]))
    out, sample = tmp_path / "m.kernelite", tmp_path / "wide.svm"
    sample.write_text("1 1:0.5 6:2\n2 2:1 3:4\n")
    joblib.dump(make_pipeline(scaled, SVC()).fit(frame, toys.y), tmp_path / "names.joblib")
    joblib.dump(SVC().fit(toys.X[:, :2], toys.y), tmp_path / "plain.joblib")
    for name, problem in (
        ("names", "its columns have no names, by which this model takes them (`age`, `size`)"),
        ("plain", "row 1 of"),
    ):
        model = tmp_path / f"{name}.joblib"
        ran = kernelite("compile", model, "-o", out, "--allow-pickle", "--sample", sample)
        assert (ran.code, problem in ran.err) == (1, True), ran.err
        assert not out.exists()
