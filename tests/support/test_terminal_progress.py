"""Progress bars, piped and on a terminal."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from kernelite.support import terminal
from kernelite.support.terminal import Progress, progress_bar


def test_no_bar_in_a_pipe(capsys, monkeypatch) -> None:
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with Progress("rows", 10) as bar:
        bar.advance(10)
    assert capsys.readouterr() == ("", "")


def test_no_bar_for_short_work(as_terminal, monkeypatch) -> None:
    _, err = as_terminal()
    monkeypatch.setattr(terminal, "PATIENCE", np.inf)
    with Progress("rows", 10) as bar:
        bar.advance(10)
    assert err.getvalue() == ""


@pytest.mark.parametrize("total", [10, None])
def test_a_bar_for_long_work_on_a_terminal(as_terminal, monkeypatch, total) -> None:
    out, err = as_terminal()
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with Progress("counting rows", total) as bar:
        bar.advance(4)
        bar.advance(6)
    assert "counting rows" in err.getvalue()
    assert out.getvalue() == ""


def test_a_bar_is_closed_when_the_work_fails(as_terminal, monkeypatch) -> None:
    _, err = as_terminal()
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)

    def work() -> None:
        with Progress("rows") as bar:
            bar.advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "\x1b[?25h" in err.getvalue(), "the cursor is shown again"


def test_one_bar_at_a_time(as_terminal, monkeypatch) -> None:
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    _, err = as_terminal()
    with Progress("outer", 2) as bar:
        bar.advance()
        with progress_bar("inner") as tell:
            tell(0.5)
        bar.advance()
    with progress_bar("later") as tell:
        tell(1.0)
    assert "outer" in err.getvalue()
    assert "inner" not in err.getvalue()
    assert "later" in err.getvalue()


class Notebook:
    """IPython, as a kernel has it, and what it was told to show."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.display = self
        self.config = {"IPKernelApp": {}}

    def get_ipython(self) -> Notebook:
        return self

    def __call__(self, page: dict[str, str], *, raw: bool, display_id: bool) -> Notebook:
        assert raw
        assert display_id
        return self.update(page, raw=True)

    def update(self, page: dict[str, str], *, raw: bool) -> Notebook:
        self.shown.append(page)
        return self


@pytest.mark.parametrize("total", [10, None])
def test_a_bar_in_a_notebook(monkeypatch, capsys, total) -> None:
    """Where stderr is no terminal; it moves, and is gone at the end."""
    kernel = Notebook()
    module = types.ModuleType("IPython.display")
    module.display = kernel
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    monkeypatch.setattr(terminal, "REDRAWN", 0.0)
    with Progress("counting <rows>", total) as bar:
        bar.advance(4)
        bar.advance(6)
    texts = [page["text/plain"] for page in kernel.shown]
    assert texts[1] == f"counting <rows> {'40%' if total else '4'}"
    assert texts[-1] == ""
    assert all("<rows>" not in page["text/html"] for page in kernel.shown)
    assert capsys.readouterr() == ("", "")
    kernel.shown.clear()
    monkeypatch.setattr(terminal, "PATIENCE", np.inf)
    with Progress("short", total) as bar:
        bar.advance(10)
    assert kernel.shown == []
