"""`kernelite export`."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import kernelite as kl


@pytest.fixture(scope="module")
def models(toys, tmp_path_factory):
    """The same SVM with several guarantees."""
    folder = tmp_path_factory.mktemp("models")
    for guarantee in ("certified", "none", "exact"):
        plan = "form" if guarantee == "certified" else "auto"
        fast = kl.compile(toys.path("svc.model"), toys.X, guarantee=guarantee, plan=plan)
        fast.save(folder / f"{guarantee}.kernelite")
    return folder


def labels_of(path, rows):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["label"], {"X": rows})[0]


@pytest.mark.parametrize("guarantee", ["certified", "none", "exact"])
def test_onnx(guarantee, models, toys, good, tmp_path) -> None:
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    source, out = models / f"{guarantee}.kernelite", tmp_path / "m.onnx"
    ran = good("export", source, "-o", out)
    assert ran.err == f"wrote {out}, {out.stat().st_size:,} bytes\n"
    assert ran.out.endswith(".\n")
    want = kl.load(source).predict(toys.X_test, on_invalid="ignore")
    np.testing.assert_array_equal(labels_of(out, toys.X_test), want)


def test_a_fitted_model_is_exported_exactly(toys, good, kernelite, tmp_path) -> None:
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    out = tmp_path / "m.onnx"
    good("export", toys.path("svc.model"), "-o", out, "--exact")
    np.testing.assert_array_equal(labels_of(out, toys.X_test), toys.svc.predict(toys.X_test))
    refused = kernelite("export", toys.path("svc.model"), "-o", out)
    assert refused.code == 1
    assert "compile it first" in refused.err


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c_with_a_program(models, toys, good, tmp_path) -> None:
    out = tmp_path / "svc-2.h"
    ran = good("export", models / "certified.kernelite", "-o", out, "--main", "--json")
    assert ran.json["files"] == {
        str(out): out.stat().st_size,
        str(tmp_path / "svc-2.c"): (tmp_path / "svc-2.c").stat().st_size,
    }
    assert "svc_2_label" in out.read_text()
    program = tmp_path / "program"
    subprocess.run(["gcc", "-std=c99", tmp_path / "svc-2.c", "-o", program, "-lm"], check=True)
    rows = "".join(",".join(map(repr, row.tolist())) + "\n" for row in toys.X_test)
    done = subprocess.run([program], input=rows, capture_output=True, text=True, check=True)
    want = kl.load(models / "certified.kernelite").predict(toys.X_test)
    assert done.stdout.split() == [str(label) for label in want]


def test_the_sample_is_where_float32_is_measured(models, toys, good, tmp_path) -> None:
    out = tmp_path / "m.h"
    sample = toys.path("test.csv")
    ran = good("export", models / "none.kernelite", "-o", out, "--float32", "--sample", sample)
    assert "measured on 75 rows of the sample" in out.read_text()
    assert "float32 error: largest " in ran.out
    assert "measured on 75 rows of the sample" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["certified", "-o", "m.pdf"], "must end in `.onnx` (ONNX graph) or `.h`"),
        (["certified", "-o", "m.h", "--float32"], "cannot keep its guarantee"),
        (["none", "-o", "m.h", "--exact"], "holds no support vectors"),
        (["none", "-o", "m.h", "--with-decided"], "no certificate"),
        (["exact", "-o", "m.h", "--form-only"], "no form to export"),
        (["none", "-o", "m.h", "--probabilities"], "it was trained without them, or has none"),
        (["none", "-o", "m.onnx", "--std"], "a classifier has none"),
        (["none", "-o", "m.js", "--float32-inputs"], "is for ONNX graphs"),
        (["none", "-o", "m.onnx", "--main"], "for C headers"),
        (["none", "-o", "m.h", "--name", "a-b"], "C identifier"),
        (["none", "-o", "no/such/m.h"], "there is no folder"),
    ],
)
def test_refusals_leave_no_file(arguments, says, models, kernelite, tmp_path) -> None:
    name, flag, out, *rest = arguments
    ran = kernelite("export", models / f"{name}.kernelite", flag, tmp_path / out, *rest)
    assert ran.code == 1
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_two_parts_are_a_usage_error(models, kernelite, tmp_path) -> None:
    ran = kernelite(
        *("export", models / "none.kernelite", "-o", tmp_path / "m.h"),
        *("--exact", "--form-only"),
    )
    assert ran.code == 2


def test_without_the_extra_its_name_is_said(models, kernelite, tmp_path, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    ran = kernelite("export", models / "none.kernelite", "-o", tmp_path / "m.onnx")
    assert ran.code == 1
    assert "the extra `onnx`" in ran.err


def test_no_file_that_is_read_is_written_over(models, kernelite, tmp_path) -> None:
    source = tmp_path / "mm.c"
    shutil.copy(models / "none.kernelite", source)
    before = source.read_bytes()
    refused = kernelite("export", source, "-o", tmp_path / "mm.h", "--main", "--form-only")
    assert refused.code == 1
    assert f"`{source}` is read too" in refused.err
    assert source.read_bytes() == before
    assert not (tmp_path / "mm.h").exists()
