"""The runner: sections, results, the README's part. No time is asserted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import readme, results
from benchmarks.__main__ import main
from benchmarks.batch import batch
from benchmarks.files import files
from benchmarks.memory import memory
from benchmarks.modes import compiled
from benchmarks.roofline import Roofline, measure, work_a_row
from benchmarks.scaling import scaling
from benchmarks.settings import PRESETS, Settings
from benchmarks.single import single
from benchmarks.timing import Timing, median_call, race, rows_within
from benchmarks.workloads import Workload, available, load
from tests.helpers import shared_path

NAMES = ("scikit-learn", "NumPy GEMM", "exact", "certified", "none")
ROOFLINE = Roofline(gflops=50.0, gbytes=10.0)


def test_a_batch_reports_everybody(toy: Workload, tiny: Settings) -> None:
    found = batch(toy, tiny, ROOFLINE, (*NAMES, "calibrated"))
    by_name = {one["name"]: one for one in found["contestants"]}
    assert set(by_name) == {"scikit-learn", "NumPy GEMM"} | {
        f"kernelite {mode}" for mode in ("exact", "certified", "calibrated", "none")
    }
    assert by_name["kernelite certified"]["rows_differ"] == 0
    assert by_name["scikit-learn"]["times_sklearn"] == 1.0
    assert 0 <= by_name["kernelite certified"]["fallback_share"] <= 1
    assert all(one["microseconds"] > 0 for one in found["contestants"])
    assert by_name["kernelite calibrated"]["rows_checked"] == 500
    few = replace(toy, sample=toy.sample[:100])
    assert [one["name"] for one in batch(few, tiny, ROOFLINE, ["calibrated"])["absent"]] == [
        "calibrated"
    ]


def test_single_rows_are_timed_by_their_median(toy: Workload, tiny: Settings) -> None:
    found = single(toy, tiny, ("scikit-learn", "certified", "none"))
    assert [one["name"] for one in found["contestants"]] == [
        "scikit-learn",
        "kernelite certified",
        "kernelite none",
    ]


def test_commands_are_timed_file_to_file(toy: Workload, tiny: Settings) -> None:
    found = files(toy, tiny)
    names = [one["name"] for one in found["contestants"]]
    assert names[:3] == [
        "kernelite predict, none",
        "kernelite predict, certified",
        "kernelite predict --exact",
    ]
    assert ("svm-predict" in names) == (shutil.which("svm-predict") is not None)
    for one in found["contestants"]:
        assert one["rows_compared"] > 0
        assert one["peak_megabytes"] > 0
        if one["name"] != "kernelite predict, none":
            assert one["rows_differ"] == 0


def test_the_curves_have_a_point_for_each_size(tiny: Settings) -> None:
    found = scaling(tiny)
    assert [p["support_vectors"] for p in found["support_vectors"]] == list(tiny.centers)
    assert [p["features"] for p in found["features"]] == list(tiny.features)
    assert [p["rows"] for p in found["rows"]] == list(tiny.rows)
    assert found["threads"][0]["threads"] == 1
    assert set(found["rows"][0]["microseconds"]) == {"kernelite certified", "kernelite none"}


def test_memory_is_measured_in_another_process(tiny: Settings) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak of a process can be reset on Linux only")
    found = memory(tiny.memory_rows)
    assert set(found["beyond_megabytes"]) == {"none", "certified"}
    assert all(value < 500 for value in found["beyond_megabytes"].values())


def test_the_roofline_counts_what_the_plan_does(toy: Workload) -> None:
    d, n = 6, 120
    none, _ = compiled(toy, "none", rank="full")
    _, stats = none.predict(toy.rows, return_stats=True, on_invalid="ignore")
    assert work_a_row(none, stats) == (3 * d + 2 * d + d * (d + 1), 8 * (d + 1))
    exact, _ = compiled(toy, "exact")
    _, stats = exact.predict(toy.rows, return_stats=True)
    assert work_a_row(exact, stats)[0] == 2 * n * (d + 1)


def test_the_machine_is_probed(tiny: Settings) -> None:
    found = measure(tiny.gemm_size, tiny.triad_megabytes, tries=1)
    assert found.gflops > 0
    assert found.gbytes > 0


def test_timings() -> None:
    timing = Timing((3.0, 1.0, 2.0))
    assert (timing.best, timing.mean, timing.deviation) == (1.0, 2.0, 1.0)
    assert Timing((1.0,)).deviation == 0.0
    order: list[str] = []
    race({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=1)
    assert order == ["a", "b"]
    asked: list[int] = []
    assert median_call(asked.append, 10) >= 0
    assert asked == list(range(11))


def test_slow_contestants_get_fewer_rows() -> None:
    rows = np.zeros((1000, 2))
    assert rows_within(lambda part: None, rows, 1.0) == 1000
    assert 1 <= rows_within(lambda part: [i**2 for i in range(20_000)], rows, 1e-9) <= 64


def run_tiny(folder: Path, *more: str) -> int:
    arguments = ["--preset", "tiny", "--models", "generated 16", "--out", str(folder)]
    return main([*arguments, "--contestants", "scikit-learn", "certified", "none", *more])


def test_the_command_writes_results_that_fill_the_readme(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.files.TURNS", 1)
    assert run_tiny(tmp_path, "--sections", "batch", "single", "--no-plots") == 0
    assert "kernelite certified" in capsys.readouterr().out
    batch = json.loads((tmp_path / "batch.json").read_text())
    assert batch["machine"]["versions"]["numpy"] == np.__version__
    page, site = tmp_path / "README.md", tmp_path / "benchmarks.md"
    for path in (page, site):
        path.write_text("before\n<!-- speed:start -->\n<!-- speed:end -->\nafter\n")
    arguments = ["--results", str(tmp_path), "--readme", str(page), "--page", str(site)]
    assert readme.main([*arguments, "--check"]) == 1
    assert readme.main(arguments) == 0
    assert readme.main([*arguments, "--check"]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- speed:start -->\n## Speed")
    assert text.endswith("<!-- speed:end -->\nafter\n")
    assert "generated (2,000 SVs, 16 features)" in text
    assert "One row per call" not in text
    assert "## One row per call" in site.read_text()


def test_nothing_about_the_place_is_kept(tmp_path: Path) -> None:
    import getpass
    import platform

    path = results.save("toy", {"a": np.float64(1 / 3)}, PRESETS["tiny"], "tiny", tmp_path)
    text = path.read_text()
    assert '"a": 0.333333' in text
    assert str(Path.cwd()) not in text
    for private in (platform.node(), getpass.getuser()):
        assert len(private) < 4 or f'"{private}"' not in text


def test_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib, of the extra `bench`")
    from benchmarks.plots import draw

    content: dict[str, Any] = {
        axis: [{axis: 10**i, "microseconds": {"none": 1.0 + i}} for i in range(3)]
        for axis in ("support_vectors", "features", "rows", "threads")
    }
    results.save("scaling", content, PRESETS["tiny"], "tiny", tmp_path)
    one = {"name": "x", "kind": "exact", "rows_differ": 0, "rows_checked": 9, "microseconds": 2.0}
    results.save("batch", [{"name": "a b", "contestants": [one]}], PRESETS["tiny"], "t", tmp_path)
    paths = draw(tmp_path)
    assert [path.name for path in paths][-1] == "batch-a-b.svg"
    assert all(path.read_text().rstrip().endswith("</svg>") for path in paths)


def test_an_absent_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--models", "a9a 7"])
    assert "not available here: a9a 7; there are: generated 16" in capsys.readouterr().err


def test_real_models_load_with_their_data() -> None:
    shared_path("models", "a9a_g0.01_c1.model.bz2")
    shared_path("data", "a9a.t.bz2")
    assert "a9a 0.01" in list(available())
    workload = load("a9a 0.01", sample_rows=100)
    assert workload.is_sparse
    assert workload.truth is not None
    assert workload.rows.shape == (16_281, 122)  # no support vector has the 123rd feature
    few = slice(0, 300)
    labels = workload.source.head.predict(workload.expansion.scores(workload.rows[few]))
    assert (labels == workload.truth[few]).mean() > 0.8
