"""Tables, JSON and progress bars, piped and on a terminal."""

from __future__ import annotations

import json

import numpy as np

from kernelite.cli import console


def test_json_has_no_nan_and_no_numpy(capsys) -> None:
    console.print_json(
        {"a": float("nan"), "b": np.float64(2), "c": np.array([1, np.inf]), "d": ("é", None), 3: 4}
    )
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "b": 2.0,
        "c": [1.0, None],
        "d": ["é", None],
        "3": 4,
    }


def test_a_terminal_gets_a_drawn_table(as_terminal) -> None:
    out, _ = as_terminal()
    console.print_table(["name", "rows"], [["[bold]", "10"], ["b", "9"]], marked=1)
    drawn = out.getvalue()
    assert "│" in drawn or "┃" in drawn
    assert "[bold]" in drawn, "cells are text, not markup"


def test_notes_go_to_stderr(capsys) -> None:
    console.note("hello")
    console.note("quiet", quiet=True)
    captured = capsys.readouterr()
    assert captured == ("", "hello\n")
