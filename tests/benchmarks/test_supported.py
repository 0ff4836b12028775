"""Every supported estimator keeps its promises, and docs/machines.md says what is measured."""

from __future__ import annotations

import math

import pytest

from benchmarks.supported import page
from benchmarks.supported.measure import measure
from benchmarks.supported.subjects import GENERATED, SUBJECTS, absent
from kernelite.sources import READERS

DOCUMENT = page.read()
CASES = [(name, data) for name in SUBJECTS for data in (*SUBJECTS[name].data, GENERATED)]
SLACK = 3.0  # versions and machines fit slightly different models


def test_every_reader_has_a_subject() -> None:
    supported = {name.partition(".")[2] for name in READERS if not name.startswith("kernelite.")}
    assert {name.partition(" (")[0] for name in SUBJECTS if "(arrays)" not in name} == supported


def test_the_page_lists_exactly_the_supported_estimators() -> None:
    assert list(DOCUMENT["estimators"]) == list(SUBJECTS)
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.render(DOCUMENT)
    rows = text.partition("|--:|\n")[2].partition("\n\n")[0].splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(SUBJECTS)
    tried = set().union(*DOCUMENT["versions"].values())
    assert tried == set(SUBJECTS)


@pytest.mark.parametrize("name", SUBJECTS)
def test_two_shipped_data_sets_and_a_large_one(name: str) -> None:
    data = DOCUMENT["estimators"][name]["data"]
    assert list(data) == [*SUBJECTS[name].data, GENERATED]
    assert len(set(SUBJECTS[name].data)) == 2
    assert data[GENERATED]["rows"] == 20_000


@pytest.mark.parametrize(("name", "data"), CASES)
def test_promises_and_the_figures_on_the_page(name: str, data: str) -> None:
    if (library := absent(name)) is not None:
        pytest.skip(f"{library} is not installed")
    found, said = measure(name, data), DOCUMENT["estimators"][name]["data"][data]
    assert not found.broken
    assert found.rows == said["rows"]
    assert found.labels_certified == said["labels_certified"] == 0
    if said["none"] is None:
        assert math.isnan(found.none)
    else:
        assert found.none <= SLACK * said["none"] + 1e-3
        assert found.labels_none <= SLACK * said["labels_none"] + 0.01 * found.rows
    assert found.exact <= 1e-8
    assert found.certified <= SLACK * said["certified"] + 1e-2
