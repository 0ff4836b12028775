"""Every example of docs/deploy.md runs as it stands there, and prints what it says.

A python or javascript block begins with the name under which it is saved; bash blocks run; a text
block after a bash block is what that prints.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import kernelite
from tests.helpers import PATIENCE

PAGE = Path(__file__).parents[1] / "docs" / "deploy.md"
NEEDS = {
    "The model": ["pandas", "pyarrow"],
    "Serve from ONNX": ["onnx", "onnxruntime", "curl"],
    "A C program": ["gcc"],
    "In a browser": ["node"],
    "Dask over a folder of Parquet": ["dask", "distributed"],
    "Spark": ["pyspark", "java"],
    "Ray": ["ray"],
    "A report": ["jinja2", "matplotlib"],
}
PROGRAMS = {"curl", "gcc", "java", "node"}


@dataclass(frozen=True)
class Block:
    """A fenced block of the page."""

    language: str
    text: str


def sections() -> dict[str, list[Block]]:
    """The blocks under each heading."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    fence = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return {
        title: [Block(*found) for found in fence.findall(body)]
        for title, body in zip(parts[::2], parts[1::2])
        if fence.search(body)
    }


def run(blocks: list[Block], folder: Path) -> None:
    """Save, run and compare the blocks of one section."""
    said = None
    for block in blocks:
        if block.language in ("python", "javascript"):
            name = block.text.partition("\n")[0].removeprefix("# ").removeprefix("// ")
            assert re.fullmatch(r"\w+\.(py|mjs)", name), (
                f"this block has no file name: {block.text}"
            )
            (folder / name).write_text(block.text, encoding="utf-8")
        elif block.language == "bash":
            said = shell(block.text, folder)
        else:
            assert block.language == "text", f"who is to run {block.language}?"
            assert said is not None, "no command printed this"
            compare(block.text, said)


def shell(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """Where `kernelite` and `python` are these ones, and nothing leaves this machine."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    command = programs / "kernelite"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kernelite "$@"\n')
    command.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    source = str(Path(kernelite.__file__).parents[1])
    return {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PORT": port,
    }


def compare(expected: str, got: str) -> None:
    ignore = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(expected, got, ignore)
    assert same, f"the page says:\n{expected}\nbut it prints:\n{got}"


def require(title: str) -> None:
    for need in NEEDS[title]:
        found = shutil.which(need) if need in PROGRAMS else find_spec(need)
        if found is None:
            pytest.skip(f"{need} is not installed, which this example needs")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first section leaves behind."""
    require("The model")
    folder = tmp_path_factory.mktemp("deploy")
    run(sections()["The model"], folder)
    return folder


def test_every_section_is_tested() -> None:
    assert sections().keys() == NEEDS.keys()


@pytest.mark.campaign
@pytest.mark.parametrize("title", list(NEEDS)[1:])
def test_the_example_runs(title: str, files: Path, tmp_path: Path) -> None:
    require(title)
    blocks = sections()[title]
    assert any(block.language == "bash" for block in blocks)
    folder = tmp_path / "work"
    shutil.copytree(files, folder)
    run(blocks, folder)
