"""`kernelite report`."""

from __future__ import annotations

import pytest

pytest.importorskip("jinja2", reason="the report extra is not installed")
pytest.importorskip("matplotlib", reason="the report extra is not installed")


@pytest.fixture(scope="module")
def model(toys, tmp_path_factory) -> str:
    import kernelite as kl

    path = tmp_path_factory.mktemp("report") / "svc.kernelite"
    kl.compile(toys.path("svc.model"), toys.X).save(path)
    return str(path)


def test_a_page_is_written(model, toys, good, tmp_path) -> None:
    out = tmp_path / "r.html"
    ran = good("report", model, toys.path("test.svm"), "-o", out)
    assert ran.err == f"wrote {out}, {out.stat().st_size:,} bytes\n"
    page = out.read_text(encoding="utf-8")
    assert "test.svm" in page
    assert "labels differ from the exact engine in 75" in page


def test_json_tells_the_same(model, toys, good, tmp_path) -> None:
    told = good("report", model, toys.path("test.csv"), "-o", tmp_path / "r.html", "--json").json
    assert told["rows"] == 75
    assert told["labels_differ"] == 0
    assert sum(told["decided_by"].values()) == 75
    assert set(told["decided_by"]) == {"form", "second form", "exact model"}


def test_the_exact_model_can_be_named(toys, good, tmp_path) -> None:
    import kernelite as kl

    form = tmp_path / "form.kernelite"
    kl.compile(toys.path("svc.model"), toys.X, guarantee="none").save(form)
    out = tmp_path / "r.html"
    arguments = ("report", form, toys.path("test.svm"), "-o", out)
    good(*arguments)
    assert "holds no support vectors" in out.read_text(encoding="utf-8")
    good(*arguments, "--exact", toys.path("svc.model"))
    assert "Error of each score" in out.read_text(encoding="utf-8")


def test_the_original_is_asked_itself(model, toys, good, kernelite, tmp_path) -> None:
    import joblib

    out = tmp_path / "r.html"
    joblib.dump(toys.svc, tmp_path / "svc.joblib")
    arguments = ("report", model, toys.path("test.svm"), "-o", out, "--original")
    for original, name, options in (
        (toys.path("svc.model"), "LIBSVM model", []),
        (tmp_path / "svc.joblib", "SVC", ["--allow-pickle"]),
    ):
        told = good(*arguments, original, *options, "--json").json["original"]
        assert (told["name"], told["differ"], told["rows"]) == (name, 0, 75)
        page = out.read_text(encoding="utf-8")
        assert f"labels differ from the original {name} in 75" in page
        assert f"faster than the original {name}" in page
    out.unlink()
    ran = kernelite(*arguments, tmp_path / "svc.joblib")
    assert (ran.code, "--allow-pickle" in ran.err, out.exists()) == (1, True, False)


def test_swapped_arguments_are_recognised(model, toys, kernelite, tmp_path) -> None:
    ran = kernelite("report", toys.path("test.svm"), model, "-o", tmp_path / "r.html")
    assert (ran.code, "the model comes first" in ran.err) == (1, True)


def test_bad_files_leave_no_page(model, toys, kernelite, tmp_path) -> None:
    out = tmp_path / "r.html"
    for arguments in ((model, "no.svm"), ("no.kernelite", toys.path("test.svm"))):
        ran = kernelite("report", *arguments, "-o", out)
        assert ran.code == 1
        assert "there is no such file" in ran.err
    assert not out.exists()
