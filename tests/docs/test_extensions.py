"""The site's own extensions: commands from their parsers, formulas as MathML, plain docstrings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from kernelite.cli import VERBS
from tests.docs.pages import DOCS

pytest.importorskip("sphinx", reason="Sphinx is not installed: extra `docs`")


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import an extension by name, as docs/conf.py does."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    yield import_module
    for name in ("commands", "mathml", "members"):
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
