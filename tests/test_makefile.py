"""The Makefile: `clean` leaves nothing that git ignores; `test` says how long, and all is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def recipe(target: str) -> str:
    found = re.search(rf"^{target}:.*\n((?:\t.*\n?)+)", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1].replace("$(VENV)", ".venv")


@pytest.mark.parametrize("ignored", (ROOT / ".gitignore").read_text(encoding="utf-8").split())
def test_clean_removes_all_that_git_ignores(ignored: str) -> None:
    name = ignored.rstrip("/")
    if name == "*.pyc":
        name = "__pycache__"  # which is where they are
    assert re.search(rf"(?<!\S){re.escape(name)}(?!\S)", recipe("clean"))


def test_test_says_how_long_it_takes() -> None:
    found = re.search(r"all tests but campaigns: (about \d+ minutes on \d+ cores)", recipe("test"))
    assert found is not None
    for page in ("README.md", "docs/start/install.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert re.findall(r"all tests but campaigns: (about .*)", text) == [found[1]], page


def test_the_demo_builds_its_own_kernels_and_all_others_all_of_them() -> None:
    assert re.search(r"^demo: (.*)", MAKEFILE, re.MULTILINE)[1] == "$(VENV)/.installed-demo"
    for target in ("test", "campaign", "docs", "bench"):
        assert re.search(rf"^{target}: .*\$\(VENV\)/\.kernels", MAKEFILE, re.MULTILINE), target


def test_what_one_leaves_out_the_other_runs() -> None:
    assert '-m "not campaign"\n' in recipe("test")
    assert "-m campaign\n" in recipe("campaign")


@pytest.mark.parametrize("path", sorted(ROOT.glob("tests/**/test_*.py")), ids=lambda p: p.name)
def test_no_test_counts_seconds(path: Path) -> None:
    """Where others work too it would fail."""
    clocks = r"\b(?:perf_counter|process_time|thread_time|timeit)(?:_ns)?\("
    assert re.search(clocks, path.read_text(encoding="utf-8")) is None


def test_no_example_is_late() -> None:
    assert settings.default.deadline is None
