"""The paper's pages: from small measurements to tables, figures and files. No time is asserted."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import data
from benchmarks.contestant import Absent
from benchmarks.exact import exact_scores
from benchmarks.paper import __main__ as paper
from benchmarks.paper import curves, loops
from benchmarks.paper.accuracy import accuracy
from benchmarks.paper.commands import add_commands
from benchmarks.paper.facts import ROWS
from benchmarks.paper.printed import PRINTED
from benchmarks.paper.sizes import _solve, least_squares, sizes
from benchmarks.paper.speed import speed
from benchmarks.paper.subjects import Subject, load, training_rows
from benchmarks.paper.summary import in_short
from benchmarks.paper.tables import tables
from benchmarks.paper.tables.claims import claims_table
from benchmarks.paper.tables.speed import speed_table
from benchmarks.rebuild import write_data
from benchmarks.trained import trained
from benchmarks.workloads import Workload, generated
from kernelite.data.datasets import SETS
from kernelite.data.gamma import gamma_max
from kernelite.series.series import quadratic_form
from tests.helpers import random_expansion, shared_path

BY_NAME = {row.name: row for row in ROWS}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELITE_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELITE_DATA", "KERNELITE_SHARED", "KERNELITE_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))


@pytest.fixture
def small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set that calls itself ijcnn1, small enough to train on; no shared models."""
    monkeypatch.setenv("KERNELITE_SHARED", str(tmp_path / "empty"))
    monkeypatch.setenv("KERNELITE_DATA", str(tmp_path))
    made = generated("made", 60, 5, 0.5, m=400, sample_rows=300)
    train = np.where(made.source.head.predict(made.sample_scores) > 0, 1, -1)
    write_data(made.sample, train, tmp_path / SETS["ijcnn1"][0])
    write_data(made.rows, made.labels, tmp_path / SETS["ijcnn1"][1])


@pytest.fixture
def subject(small_data: None) -> Subject:
    return load(BY_NAME["ijcnn1"])


def test_the_loops_compute_the_form_and_the_model() -> None:
    rng = np.random.default_rng(3)
    model = random_expansion(rng, n=40, d=6, gamma=0.05)
    rows = rng.normal(size=(9, 6))
    weights, b = np.ascontiguousarray(model.coefficients[:, 0]), float(model.intercept[0])
    form = loops.approximate(model.dense_centers(), weights, model.gamma)
    expected = quadratic_form(model, np.zeros(6)).evaluate(rows)[0][:, 0]
    np.testing.assert_allclose(loops.predict(form, rows, model.gamma, b), expected, rtol=1e-11)
    found = loops.exact(model.dense_centers(), weights, rows, model.gamma, b)
    np.testing.assert_allclose(found, model.scores(rows)[:, 0], rtol=1e-11)


def test_the_loops_are_not_vectorised() -> None:
    loops_found = 0
    for name, function in loops.functions().items():
        for assembly in function.inspect_asm().values():  # type: ignore[attr-defined]
            packed = re.findall(r"\bv?(?:add|sub|mul|fm\w+)pd\b", assembly)
            assert not packed, f"{name}: {packed[:3]}"
            loops_found += 1
    assert loops_found == 3


def test_the_series_error_is_the_papers() -> None:
    found = curves.series_error(201)
    inside = [e for x, e in zip(found["x"], found["error"]) if abs(x) <= 0.5]
    assert max(inside) == pytest.approx(0.0305, abs=1e-4)


def test_a_least_squares_svm_weighs_rows_by_their_residuals() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), np.sign(rng.normal(size=50))
    model = _solve(X, y, 0.3, 2.0).expansion
    np.testing.assert_allclose(model.coefficients[:, 0], 2.0 * (y - exact_scores(model, X)[:, 0]))
    assert abs(model.coefficients.sum()) < 1e-10


def test_a_trained_model_is_that_of_scikit_learn_and_kept(subject: Subject) -> None:
    from scipy import sparse
    from sklearn.svm import SVC

    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0, 1.0, -1.0)
    rows = sparse.csr_array(X)
    first = trained("toy", rows, y, gamma=0.2, C=2.0)
    svc = SVC(gamma=0.2, C=2.0).fit(X, y)
    np.testing.assert_allclose(first.expansion.scores(X)[:, 0], svc.decision_function(X), atol=1e-9)
    assert (first.head.predict(first.expansion.scores(X)) == svc.predict(X)).all()
    (kept,) = data.cache_path("x").parent.glob("svm-toy-*.npz")
    again = trained("toy", rows, y, gamma=0.2, C=2.0)
    np.testing.assert_array_equal(again.expansion.coefficients, first.expansion.coefficients)
    kept.write_bytes(kept.read_bytes()[:100])  # as a full disk or a killed run may leave it
    after = trained("toy", rows, y, gamma=0.2, C=2.0)
    np.testing.assert_array_equal(after.expansion.coefficients, first.expansion.coefficients)


def test_real_data_give_every_table(subject: Subject) -> None:
    assert not subject.workload.generated
    assert "Trained here by scikit-learn." in subject.notes
    found = accuracy(subject)
    assert found["modes"]["certified"]["differ"] == 0
    assert "absent" in found["modes"]["calibrated"]  # too few rows to test on
    assert found["looseness"]["smallest_ratio"] >= 1.0
    bound = curves.bound_against_error(subject, points=50)
    assert bound["violations"] == 0
    assert len(bound["error"]) == 50


def test_supplied_sets_are_split_and_labelled_as_in_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELITE_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    for name in ("sensit", "epsilon"):
        for file, count in zip(SETS[name], (90, 60)):
            rows = rng.normal(size=(count, 3))
            classes = (1, 2, 3) if name == "sensit" else (-1, 1)
            write_data(rows, np.resize(classes, count), tmp_path / file)
    rows, labels = training_rows(BY_NAME["sensit"])  # class 3 against the rest
    assert rows.shape == (90, 3)
    assert labels[:3].tolist() == [-1.0, -1.0, 1.0]
    rows, labels = training_rows(BY_NAME["epsilon"])  # training and test change places
    assert rows.shape == (60, 3)
    subject = load(BY_NAME["epsilon"])
    assert len(subject.workload.rows) == 90
    assert not subject.workload.generated
    assert subject.workload.expansion.gamma == float(f"{gamma_max(rows).value:.1g}")


def test_of_a_long_file_only_the_first_rows_are_used(subject: Subject) -> None:
    row = replace(BY_NAME["ijcnn1"], most_rows=150)
    short = load(row).workload
    np.testing.assert_array_equal(short.rows, subject.workload.rows[:150])
    assert short.truth is not None
    assert len(short.truth) == 150
    assert len(short.sample) == 150
    assert "first 150 rows" in load(row).notes[-1]


def test_speed_shares_the_time_of_ways_that_predict_alike(subject: Subject) -> None:
    found = speed(subject, rounds=1, seconds=0.01)
    ways = {way["name"]: way for way in found["ways"]}
    for simd in ("off", "on"):
        loop, blas = ways[f"LOOPS, SIMD {simd}"], ways[f"BLAS, SIMD {simd}"]
        assert loop["predict_mean"] == blas["predict_mean"]
        assert loop["ratio_1"] >= loop["ratio_2"]
    assert ways["scikit-learn"]["ratio_1"] is None


def test_sizes_are_those_of_files(subject: Subject) -> None:
    found = sizes(subject)
    assert set(found["bytes"]) == {"approxsvm", "full", "truncated", "certified"}
    assert found["ratios"]["full"] == found["exact_text"] / found["bytes"]["full"]
    whole = least_squares(subject, solved_rows=50)
    assert whole["support_vectors"] == 300
    assert whole["exact_text"] > found["exact_text"]
    assert "certified" not in whole["bytes"]


def test_absent_data_get_a_stand_in_without_accuracy(without_data: None) -> None:
    row = BY_NAME["ijcnn1"]
    subject = load(row)
    assert subject.workload.generated
    assert subject.workload.expansion.n_features == row.features
    assert subject.workload.expansion.n_centers == row.support_vectors
    assert len(subject.workload.rows) == row.test_rows
    assert "kernelite fetch ijcnn1" in subject.notes[0]
    with pytest.raises(Absent, match="data are absent"):
        accuracy(subject)


def test_a_stand_in_shows_only_what_does_not_depend_on_its_data(toy: Workload) -> None:
    subject = Subject(BY_NAME["ijcnn1"], toy, 1.0, 1.0)
    names = [way["name"] for way in speed(subject, rounds=1, seconds=0.01)["ways"]]
    assert "kernelite none" in names
    assert "kernelite certified" not in names
    assert set(sizes(subject)["bytes"]) == {"approxsvm", "full"}


class _Checker(HTMLParser):
    """Counts what is opened and closed, and what would need a network."""

    VOID = ("meta", "link", "br", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and value and not value.startswith(("data:", "#")):
                self.links.append(value)
            if name == "id" and value:
                self.ids.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tiny_document(workload: Workload) -> dict[str, Any]:
    """A document with everything, quickly made."""
    subject = Subject(BY_NAME["ijcnn1"], workload, 1.0, 1.0, ("A note with `code` & <angles>.",))
    document: dict[str, Any] = {
        "date": "2026-01-01",
        "machine": {
            **dict.fromkeys(("processor", "simd", "system", "python", "blas"), "x"),
            "cores": 2,
            "memory_gb": 1,
            "versions": {"numpy": "2"},
        },
        "accuracy": [],
        "speed": [speed(subject, rounds=2, seconds=0.01)],
        "sizes": [sizes(subject)],
        "polynomial": [],
        "absent": [{"name": "ijcnn1", "why": "absent"}],
        "curves": {"series": curves.series_error(21)},
    }
    return document


def test_the_pages_hold_everything_and_need_no_network(toy: Workload, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib, of the extra `bench`")
    document = tiny_document(toy)
    paper.render(document, tmp_path)
    page = (tmp_path / "paper.html").read_text(encoding="utf-8")
    checker = _Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.links == []
    assert len(checker.ids) == len(set(checker.ids))
    assert "prefers-color-scheme: dark" in page
    assert '<meta name="viewport"' in page
    assert "ijcnn1 (generated)" in page
    assert "A note with <code>code</code> &amp; &lt;angles&gt;." in page
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    text = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "| **ijcnn1 (generated): 91,701 rows** |" in text
    assert (tmp_path / "paper" / "series.svg").read_text().count("<svg") == 1
    again = json.loads((tmp_path / "paper.json").read_text(encoding="utf-8"))
    assert [table.title for table in tables(again)] == ["Table 2: speed", "Table 3: size"]


def test_every_row_of_a_table_is_as_wide_as_its_head(subject: Subject) -> None:
    document = tiny_document(subject.workload) | {"accuracy": [accuracy(subject)]}
    made = tables(document)
    assert len(made) == 6
    for table in made:
        assert all(len(row) in (1, len(table.columns)) for row in table.rows)


def test_an_interrupt_leaves_the_pages_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "paper.html").write_text("old")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "_measure_row", interrupt)
    assert paper.main(["--out", str(tmp_path), "--quick"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["paper.html"]
    assert (tmp_path / "paper.html").read_text() == "old"


def test_a_full_disk_leaves_no_broken_cache_and_no_page(
    small_data: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fill(file: Any, **_: object) -> None:
        file.write(b"PK, and then")
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    with monkeypatch.context() as full:
        full.setattr(np, "savez", fill)
        assert paper.main(["--out", str(out), "--quick", "--sets", "ijcnn1"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(out.iterdir()) == []
    assert list(data.cache_path("x").parent.iterdir()) == []
    assert not load(BY_NAME["ijcnn1"]).workload.generated  # once there is room, all is well


def test_a_damaged_data_file_is_named(
    small_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / SETS["ijcnn1"][1]).write_text("1 1:0.5\n-1 2:half\n")
    assert paper.main(["--out", str(tmp_path / "out"), "--quick", "--sets", "ijcnn1"]) == 1
    assert "ijcnn1.t" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_approxsvm_is_looked_for_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert paper.main(["--out", str(tmp_path / "out"), "--approxsvm", str(tmp_path)]) == 1
    assert "has no program approx-svm" in capsys.readouterr().err


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="the stand-in programs are shell scripts")
def test_commands_add_their_rows_and_ratios(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    # Processor time is counted: svm-predict goes through its rows again and again.
    again = 'for i in 1 2 3 4 5 6 7 8; do awk "{{for (i = 0; i < 2000; i++) x += i}}" "{}"; done'
    once = 'awk "{{for (i = 0; i < 4000; i++) x += i}}" "{}"'
    answer = 'sed "s/ .*//" "{}" > "{}"'
    _program(folder / "svm-predict", f"{again.format('$1')}; {answer.format('$1', '$3')}")
    _program(folder / "approx-svm", 'cp "$2" "$4"')
    _program(folder / "approx-predict", f"{once.format('$6')}; {answer.format('$6', '$8')}")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    found = speed(subject, rounds=1, seconds=0.01)
    add_commands(found, subject, folder, rounds=1, rows=100)
    assert {way["kind"] for way in found["ways"]} == {"exact", "paper", "kernelite", "tool"}
    (tool,) = (way for way in found["ways"] if way["kind"] == "tool")
    assert tool["ratio_1"] > tool["ratio_2"] > 0
    assert not found["tool"]["recorded"]
    assert found["tool"]["labels_differ"] == 0
    table = speed_table({"speed": [found], "machine": {"blas": "x"}})
    assert "svm-predict over approxsvm" in table.rows[0][0]


def test_without_the_tool_its_recorded_ratios_are_shown(toy: Workload) -> None:
    found: dict[str, Any] = {"ways": []}
    row = replace(BY_NAME["ijcnn1"], tool_speed=(80.0, 70.0))
    subject = Subject(row, replace(toy, generated=False), 1.0, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        add_commands(found, subject)
    assert found["tool"] == {"ratio_1": 80.0, "ratio_2": 70.0, "recorded": True}


def test_the_papers_own_figures_stand_beside_ours(subject: Subject) -> None:
    name = subject.row.name
    document = tiny_document(subject.workload) | {"accuracy": [accuracy(subject)]}
    made = {table.title: table for table in tables(document)}
    printed = PRINTED[name]
    lines = [row[0] for row in made["Table 2: speed"].rows]
    assert [line for line in lines if line.startswith("paper, ")] == [
        f"paper, {line.way}" for line in printed.speed
    ]
    (size_row,) = (row for row in made["Table 3: size"].rows if row[0].startswith(name))
    assert printed.exact_size in size_row
    (claim,) = made["Claimed and found"].rows
    assert claim[1].startswith(f"paper {printed.differ:g}%, ")
    assert in_short(document)[-1].endswith("the paper prints 150x.")


def test_printed_ratios_follow_from_the_printed_times() -> None:
    """The paper rounds to two or three digits."""
    for printed in PRINTED.values():
        if not printed.speed:
            continue
        exact, *others = printed.speed
        for line in others:
            assert line.approximate is not None
            whole = line.approximate + line.predict
            assert exact.predict / line.predict == pytest.approx(line.ratio_1, rel=0.03)
            assert exact.predict / whole == pytest.approx(line.ratio_2, rel=0.04)


def test_the_papers_rows_agree_with_what_is_measured() -> None:
    for row in ROWS:
        printed = PRINTED[row.name]
        for ours, theirs in (
            (row.gamma, printed.gamma),
            (row.support_vectors, printed.support_vectors),
            (row.accuracy, printed.accuracy),
            (row.size_ratio, printed.size_ratio),
        ):
            assert ours is None or ours == theirs


def test_a_claim_that_fails_is_shown(subject: Subject) -> None:
    document = tiny_document(subject.workload) | {"accuracy": [accuracy(subject)]}
    (row,) = claims_table(document).rows
    assert row[2] == "0 of 400"
    document["accuracy"][0]["modes"]["certified"]["differ"] = 1
    (row,) = claims_table(document).rows
    assert row[-1] == "NO"


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert paper.main(["--out", str(tmp_path / "file")]) == 1
    assert "paper: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "printed"), [("a9a 0.01", "0.01786"), ("ijcnn1", "0.0635"), ("mnist1", "0.00085")]
)
def test_gamma_max_agrees_with_the_printed_digits(name: str, printed: str) -> None:
    """Of the training sets; a9a has at most 14 features set, each 1: 1 / 56."""
    row = BY_NAME[name]
    for file in SETS[row.data]:
        shared_path("data", f"{file}.bz2")
    rows, _ = training_rows(row)
    found, digits = gamma_max(rows).value, len(printed.split(".")[1])
    assert f"{found:.{digits}f}" == printed
