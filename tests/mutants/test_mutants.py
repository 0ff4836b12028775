"""The list of changes fits the source, and the runner tells noticed ones from others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers import PATIENCE
from tests.mutants.__main__ import LIST, PACKAGE, ROOT, mutants

ALL = list(mutants(LIST.read_text("utf-8")))


def test_every_text_occurs_once_in_its_file_and_every_test_is_there() -> None:
    for one in ALL:
        text = (ROOT / PACKAGE / one.file).read_text("utf-8")
        assert text.count(one.old) == 1, f"{one.file}: {one.old!r}"
        assert one.old != one.new
        for test in one.tests:
            path, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text("utf-8"), test


def test_there_are_enough_and_few_that_nothing_can_notice() -> None:
    assert max(Counter(map(str, ALL)).values()) == 1
    assert len(ALL) >= 150
    assert sum(bool(one.reason) for one in ALL) <= 0.05 * len(ALL)


FEW = """
@ support/files.py
tests/support/test_files.py::test_who_else_could_write
- if state.st_mode & stat.S_IWOTH:
+ if False:
- above: bool = False
+ above: int = False
= A name of a type alone.
"""


@pytest.mark.campaign
def test_what_is_noticed_and_what_is_not_is_told(tmp_path: Path) -> None:
    """In a process of its own, once from the start and once from what was found before."""
    few, state = tmp_path / "few.txt", tmp_path / "state.json"
    few.write_text(FEW)
    command = [sys.executable, "-m", "tests.mutants", "--list", str(few), "--state", str(state)]
    for times in (1, 2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1, done.stderr
        assert "survives: support/files.py" in done.stdout
        assert "A name of a type alone." in done.stdout
        assert "1 of 2 changes noticed; 0 not tried." in done.stdout
        assert ("1/2 failed: " in done.stdout) == (times == 1)
        assert len(json.loads(state.read_text())) == 2
