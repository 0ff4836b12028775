"""The benchmark of exports: small tables, the page, and a compiler that takes too long."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.exports import programs
from benchmarks.exports.graphs import GRAPHS, onnx_table
from benchmarks.exports.text import MEANING, document_text
from benchmarks.settings import PRESETS
from benchmarks.workloads import Workload

MACHINE = {
    **dict.fromkeys(("processor", "cores", "simd", "system", "python", "blas"), "x"),
    "memory_gb": 1,
    "versions": {"numpy": "2"},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELITE_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def compiler() -> None:
    if shutil.which("gcc") is None or shutil.which("size") is None:
        pytest.skip("gcc and size are not on this machine")


def test_every_graph_is_checked_and_timed(toy: Workload) -> None:
    for name in ("onnxruntime", "skl2onnx"):
        pytest.importorskip(name, reason=f"the comparison needs {name}")
    table = onnx_table(toy, PRESETS["tiny"])
    assert [line["graph"] for line in table] == ["skl2onnx", *GRAPHS]
    assert table[0]["ratio"] == 1.0
    kept = [line for line in table if "--form-only" not in line["graph"]]
    assert all(line["labels_differ"] == 0 for line in kept if "exact model" in line["graph"])
    text = document_text({"date": "d", "machine": MACHINE, "content": {"onnx": {"toy": table}}})
    assert text.count("| skl2onnx |") == 1


def test_the_page_says_what_scores_mean() -> None:
    page = Path(__file__).parents[2] / "docs" / "exports.md"
    assert MEANING in page.read_text(encoding="utf-8")
    assert MEANING in document_text({"date": "d", "machine": MACHINE, "content": {}})


def test_programs_answer_as_their_models(toy: Workload, compiler: None) -> None:
    pytest.importorskip("m2cgen", reason="the comparison needs m2cgen")
    table = programs.c_table(toy, PRESETS["tiny"], 60.0)
    peer, form, certified = table
    assert peer["program"] == "m2cgen"
    assert peer["labels_differ"] == certified["labels_differ"] == 0
    assert form["text"] < certified["text"]
    text = document_text({"date": "d", "machine": MACHINE, "content": {"c": {"toy": table}}})
    assert "gcc did not finish" not in text


def test_a_compiler_that_takes_too_long_is_stopped(
    toy: Workload, compiler: None, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    assert not programs._build("double score(double *x);", toy, program, 0.0)
    assert list(tmp_path.iterdir()) == []


def test_code_that_does_not_compile_is_an_error(
    toy: Workload, compiler: None, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="gcc ended with"):
        programs._build("this is not C", toy, tmp_path / "program", 60.0)


def test_a_program_that_was_not_built_is_a_line_without_times() -> None:
    line = dict.fromkeys(("constants", "code", "labels_differ", "nanoseconds", "times_faster"))
    line |= {"program": "m2cgen", "text": 10, "times_smaller": 1.0, "rows": 1}
    content = {"c": {"toy": [line]}}
    text = document_text({"date": "d", "machine": MACHINE, "content": content})
    assert "| m2cgen | 10 | – | – | 1x | – | – | – |" in text
    assert "gcc did not finish" in text
