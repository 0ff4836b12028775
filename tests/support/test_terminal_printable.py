"""Nothing that a terminal would obey reaches it; data keep their bytes."""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernelite
from kernelite.cli import main
from kernelite.machine.heads import ClassifierHead
from kernelite.support.errors import FileFormatError, InputError
from kernelite.support.terminal import PrintableStream, printable, unwrapped
from tests.store.models import compiled

EVIL = "\x1b]0;gone\x07\x9b2J\u202e\u2066\u200f\x7f\r\u2028"


def obeyed(text: str) -> set[str]:
    """Characters that a terminal might act upon."""
    kinds = {"Cc", "Cf", "Zl", "Zp"}
    return {c for c in text if unicodedata.category(c) in kinds and c not in "\t\n\u200c\u200d"}


def test_every_control_character_is_spelled_out() -> None:
    left = {chr(code) for code in range(sys.maxunicode) if printable(chr(code)) == chr(code)}
    controls = {chr(code) for code in (*range(32), *range(127, 160))}
    assert left & controls == {"\t", "\n"}
    marks = {chr(c) for c in range(sys.maxunicode) if unicodedata.bidirectional(chr(c)) in BIDI}
    assert marks
    assert not left & marks
    assert printable("Grüße, 你好, שלום, é") == "Grüße, 你好, שלום, é"
    assert printable("a\tb\n", one_line=True) == "a\\tb\\n"


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_errors_quote_harmlessly() -> None:
    for error in (InputError(f"label {EVIL}"), FileFormatError(f"m{EVIL}", f"p{EVIL}", line=3)):
        assert not obeyed(str(error))
        assert "\\x1b]0;gone\\x07\\x9b2J\\u202e" in str(error)
    assert FileFormatError(f"m{EVIL}", "p").path == f"m{EVIL}"


@pytest.fixture
def evil_model(tmp_path: Path) -> Path:
    """A model whose texts are all hostile, in a file whose name is."""
    head = ClassifierHead(np.array(["no" + EVIL, "yes\nguarantee  proven"]))
    model = compiled(head, names=tuple(f"{name}{EVIL}" for name in "abcd"), notes=(EVIL, "a\nb"))
    origin = replace(model.origin, description=f"SVC{EVIL}\nguarantee  certified")
    chosen = replace(model.plan.chosen, name=f"form{EVIL}")
    model = replace(model, origin=origin, plan=replace(model.plan, chosen=chosen))
    path = tmp_path / f"m{EVIL.replace('/', '')}.kernelite"
    model.save(path)
    return path


def test_plans_and_models_print_harmlessly(evil_model: Path) -> None:
    model = kernelite.load(evil_model)
    assert not obeyed(str(model.plan))
    assert not obeyed(repr(model))


@pytest.mark.parametrize("terminal", [False, True])
def test_commands_print_harmlessly(
    evil_model: Path, terminal: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = tmp_path / f"r{EVIL}.svm"
    rows.write_text("1 1:1\n")
    bad = tmp_path / f"bad{EVIL}.svm"
    bad.write_text(f"1 1:{EVIL}x\n")
    csv = tmp_path / "rows.csv"
    csv.write_text(f"a{EVIL.replace(chr(13), '')},b,c,d\n1,2,3,4\n")
    commands = [
        ["inspect", str(evil_model)],
        ["inspect", str(evil_model), "--json"],
        ["check", str(evil_model)],
        ["check", str(bad)],
        ["predict", str(bad), str(evil_model), str(tmp_path / "out")],
        ["predict", str(csv), str(evil_model), str(tmp_path / "out.csv")],
        ["predict", str(rows), str(evil_model), str(tmp_path / f"out{EVIL}")],
        ["inspect", f"absent{EVIL}"],
        ["compile", str(bad), "-o", str(tmp_path / "x")],
        [f"verb{EVIL}"],
    ]
    for command in commands:
        if terminal and hasattr(os, "openpty"):
            said = on_a_terminal(command)
        else:
            main(command)
            captured = capsys.readouterr()
            said = captured.out + captured.err
        assert said.strip(), command
        assert not obeyed(said), command
        assert "\nguarantee  proven" not in said


def on_a_terminal(command: list[str]) -> str:
    """What a command writes to a terminal, as stdout and stderr."""
    master, slave = os.openpty()
    before = sys.stdout, sys.stderr
    with open(slave, "w", encoding="utf-8", closefd=True) as stream:
        sys.stdout = sys.stderr = stream
        try:
            main(command)
        finally:
            stream.flush()
            sys.stdout, sys.stderr = before
        said = os.read(master, 1 << 16).decode()
    os.close(master)
    return said.replace("\r\n", "\n")  # the terminal's own


def test_labels_keep_their_bytes_in_files_and_pipes(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    label = "no\x1b[0m\u202e"
    compiled(ClassifierHead(np.array([label, label + "x"]))).save(tmp_path / "m.kernelite")
    (tmp_path / "rows.svm").write_text("1 1:1 2:3\n")
    arguments = ["predict", str(tmp_path / "rows.svm"), str(tmp_path / "m.kernelite")]
    assert main([*arguments, str(tmp_path / "out"), "-q"]) == 0
    data = (tmp_path / "out").read_bytes()
    assert label.encode() in data
    capfdbinary.readouterr()
    assert main([*arguments, "-", "-q"]) == 0
    assert capfdbinary.readouterr().out == data


def test_bytes_for_a_terminal_are_made_harmless_too() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain = Terminal()
    stream = PrintableStream(plain)
    stream.buffer.write("é\x1b[2J\r\n".encode())
    stream.writelines(["\x9b", "\n"])
    assert plain.getvalue() == "é\\x1b[2J\n\\x9b\n"
    assert unwrapped(stream) is plain
    assert unwrapped(plain) is plain
