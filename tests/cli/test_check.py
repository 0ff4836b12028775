"""`kernelite check`: every defect with its line, and a count."""

from __future__ import annotations

import bz2

import pytest


@pytest.mark.parametrize("name", ["train.svm", "test.csv", "svc.model", "svr.model"])
def test_sound_files(name, toys, good) -> None:
    kind = "LIBSVM model" if name.endswith(".model") else "data file"
    assert good("check", toys.path(name)).out == f"{toys.path(name)}: no defects ({kind})\n"


def test_sound_compiled_models(compiled, good, toys, tmp_path) -> None:
    assert "no defects (compiled model)" in good("check", compiled / "svc.kernelite").out
    good("compile", toys.path("svr.model"), "-o", tmp_path / "m", "--format", "approxsvm")
    assert "no defects (approxsvm model)" in good("check", tmp_path / "m").out


def test_every_defect_of_a_data_file(kernelite, tmp_path) -> None:
    path = tmp_path / "bad.svm"
    path.write_text("+1 1:nan\n+1 1:1\nx 1:1 1:1\n")
    ran = kernelite("check", path)
    assert ran.code == 1
    assert ran.err == ""
    assert ran.out.splitlines() == [
        f"{path}:1: feature `1`: value `nan` is not finite",
        f"{path}:3: label `x` is not a decimal number",
        f"{path}:3: index `1` appears twice, indices must rise along a row",
        f"{path}: 3 defects (data file)",
    ]


def test_defects_alike_are_summed_up(kernelite, tmp_path) -> None:
    """A column of text is one line and not thousands; so is an index that begins at 0."""
    path = tmp_path / "people.csv"
    rows = [f"{i},{name},{i % 2}" for i in range(2500) for name in ("Rome", "Oslo")]
    path.write_text("\n".join(["age,city,label", *rows, "7,,1", "8,3"]))
    ran = kernelite("check", path)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{path}:2: column 2 (`city`): cell `Rome` is not a decimal number; 4,999 more like this, "
        "the last in line 5,001",
        f"{path}:5002: column 2 (`city`): cell `` is empty, expected a number",
        f"{path}:5003: the row `8,3` has 2 cells, expected 3 as on line 1",
        "(columns of text are fine for models that take them: pipelines with encoders)",
        f"{path}: 5,002 defects of 3 kinds (data file)",
    ]
    found = kernelite("check", path, "--json").json
    assert found["count"] == sum(defect["count"] for defect in found["defects"]) == 5002
    assert found["defects"][0]["last_line"] == 5001
    from_zero = tmp_path / "zero.svm"
    from_zero.write_text("1 0:1 1:2\n" * 20)
    ran = kernelite("check", from_zero)
    assert ran.out.splitlines()[-1] == f"{from_zero}: 20 defects of 1 kind (data file)"
    assert len(ran.out.splitlines()) == 2


def test_a_file_of_too_many_kinds_keeps_memory_bounded(kernelite, tmp_path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("0\n" + "\n".join("1," * i + "1" for i in range(1, 1100)))
    ran = kernelite("check", path)
    assert ran.out.splitlines()[-1] == (f"{path}: 1,099 defects of 1,000 or more kinds (data file)")
    assert len(ran.out.splitlines()) == 1001


def test_every_defect_of_a_model(toys, kernelite, tmp_path) -> None:
    path = tmp_path / "bad.model.bz2"
    text = toys.text("svc.model").replace("gamma ", "gamma x", 1).replace(" 2:", " 0:", 1)
    path.write_bytes(bz2.compress(text.encode()))
    found = kernelite("check", path, "--json")
    assert found.code == 1
    assert found.json["kind"] == "libsvm"
    assert found.json["count"] == len(found.json["defects"]) == 2
    assert found.json["defects"][0]["line"] == 3


def test_a_broken_compiled_model(compiled, kernelite, tmp_path) -> None:
    path = tmp_path / "cut.kernelite"
    path.write_bytes((compiled / "svc.kernelite").read_bytes()[:-10])
    ran = kernelite("check", path)
    assert ran.code == 1
    assert ran.out.splitlines()[-1] == f"{path}: 1 defect (compiled model)"
    path.write_bytes(b"junk")
    assert kernelite("check", path).code == 1


def test_the_kind_can_be_said(toys, good, kernelite, tmp_path) -> None:
    data = tmp_path / "noname"
    data.write_text(toys.text("train.svm"))
    assert good("check", data, "--json").json["kind"] == "data"
    assert kernelite("check", data, "--as", "model").code == 1
    model = tmp_path / "model.csv"
    model.write_text(toys.text("svc.model"))
    assert kernelite("check", model).code == 1
    assert good("check", model, "--as", "model", "--json").json["kind"] == "libsvm"


def test_data_options_reach_the_reader(good, kernelite, tmp_path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a;1\nb;2\n")
    assert kernelite("check", path, "--no-header").code == 1
    assert good("check", path, "--no-header", "--label-column", "0").code == 0


def test_a_file_that_is_not_there(kernelite, tmp_path) -> None:
    ran = kernelite("check", tmp_path / "absent.svm")
    assert ran.code == 1
    assert ran.err.endswith("absent.svm: there is no such file\n")
    assert kernelite("check", tmp_path).code == 1


def test_columns_that_are_there_twice_and_text(kernelite, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("age,city,age\n1,Rome,2\n3,Oslo,4\n")
    ran = kernelite("check", tmp_path / "a.csv")
    assert ran.code == 1
    assert "a.csv:1: there are 2 columns `age`; rename them" in ran.out
    assert "(columns of text are fine for models that take them" in ran.out
    (tmp_path / "b.csv").write_text("age,size\n1,2\n")
    assert "columns of text" not in kernelite("check", tmp_path / "b.csv").out


def test_rows_against_a_model(toys, compiled, kernelite, good, tmp_path) -> None:
    model = compiled / "svc.kernelite"
    assert good("check", toys.path("test.csv"), "--model", model).out.endswith("(data file)\n")
    rows = tmp_path / "rows.csv"
    rows.write_text("id,a,b,c,d\nu1,1,2,3,4\nu2,1,x,3,4\nu3,1,y,3,4\nu4,,2,3,4\n")
    ran = kernelite("check", rows, "--model", model, "--columns", "a:d")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{rows}: row 2: column `b`: `x` is not a number; 1 more like this, the last in row 3",
        f"{rows}: row 4: column `a`: the value is missing (null); fill such rows or leave them out",
        f"{rows}: 3 defects of 2 kinds (data file)",
    ]
    found = kernelite("check", rows, "--model", model, "--columns", "a:d", "--json").json
    assert found["defects"][0]["row"] == 2
    assert found["count"] == 3
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("a,b\n1,2\n")
    ran = kernelite("check", narrow, "--model", model)
    assert ran.code == 1
    assert "4" in ran.out.splitlines()[0]
    assert kernelite("check", rows, "--columns", "a:d").code == 2
