"""Errors about optional libraries: one that is absent, one that is there and broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelite.support.errors import MissingExtraError, optional


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import not_there_either", r"needs it: pip install one \(the extra `two`\)\.$"),
        ("raise ImportError('it is too old.\\nSee ...')", r"does not load \(it is too old\);"),
    ],
)
def test_a_broken_library_is_not_called_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    (tmp_path / "library_that_breaks.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=says):
        optional("library_that_breaks", "this test needs it", "one", "two")
