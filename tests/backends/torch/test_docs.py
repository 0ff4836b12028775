"""The example of docs/gpu.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "gpu.md"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    exec(compile(block.group(1), str(PAGE), "exec"), {})
    assert capsys.readouterr().out.startswith("True [")
