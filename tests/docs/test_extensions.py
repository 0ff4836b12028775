"""The site's own extensions: commands from their parsers, formulas as MathML, plain docstrings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from kernelite.cli import VERBS
from tests.docs.pages import DOCS, blocks

pytest.importorskip("sphinx", reason="Sphinx is not installed: extra `docs`")


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import an extension by name, as docs/conf.py does."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    yield import_module
    for name in ("commands", "mathml", "members", "outputs"):
        sys.modules.pop(name, None)


def test_every_command_has_a_parser(extension: Any) -> None:
    commands = extension("commands")
    for name in (*VERBS, *commands.DROPINS):
        parser = commands.parser_of(name)
        assert parser.prog.split()[-1] == name
        assert parser.description
    from kernelite.cli import dropins

    assert dropins._main.__module__ == "kernelite.cli.dropins"  # put back


def test_options_are_shown_as_they_are_typed(extension: Any) -> None:
    commands = extension("commands")
    shown = {commands._invocation(action) for action in commands.parser_of("predict")._actions}
    assert {"DATA", "--scores", "--threads N", "--engine {local,dask}"} <= shown


def test_formulas_become_mathml_or_stop_the_build(extension: Any) -> None:
    mathml = extension("mathml")
    made = mathml.render(r"\sum_i w_i e^{2\gamma}", "block")
    assert made.startswith("<math")
    assert 'display="block"' in made
    for bad in (r"\nosuchcommand x", r"\left( x"):
        with pytest.raises(Exception, match="this formula"):
            mathml.render(bad, "inline")


def test_bars_and_stars_are_not_markup(extension: Any) -> None:
    lines = ["The norm |u|^2 of (m, *shape).", ">>> 2 ** 3 | 1", "9"]
    extension("members").plain_marks(None, "", "", None, None, lines)
    assert lines == [r"The norm \|u\|^2 of (m, \*shape).", ">>> 2 ** 3 | 1", "9"]


def test_outputs_stand_below_their_blocks(extension: Any, tmp_path: Any) -> None:
    page = """Text.

```python
a = 20
print(a + 1)
```

1. In a list:

   ```bash
   echo two
   ```

<!-- not run: it would fail -->
```python
1 / 0
```

```python
b = a
```
"""
    filled = extension("outputs").with_outputs(page, tmp_path)
    assert filled.count("```{code-block} text") == 2
    assert "print(a + 1)\n```\n\n```{code-block} text\n:class: output\n\n21\n```" in filled
    assert "   ```{code-block} text\n   :class: output\n\n   two\n   ```" in filled
    with pytest.raises(Exception, match="an example fails"):
        extension("outputs").with_outputs("```python\n1 / 0\n```\n", tmp_path)


@pytest.mark.parametrize("page", [*DOCS.glob("start/*.md"), *DOCS.glob("guide/*.md")], ids=str)
def test_every_snippet_for_users_shows_something(page: Any) -> None:
    """Below it stands what it prints; what only defines says so by a comment in its first line."""
    for block in blocks(page):
        if block.language == "python" and block.reason is None:
            assert "print(" in block.text or block.text.startswith("# "), block.text
