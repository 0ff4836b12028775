"""What the snippets of the pages for users print, below each of them, from running them.

The blocks of a page run in order, in a folder with the files that the pages speak of, when the site
is built; so no output on the site is older than the code. One that fails ends the build.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from tests.cli.test_help_examples import make_files
from tests.docs.pages import FENCE
from tests.test_deploy_docs import environment

FOLDERS = ("start/", "guide/")
NEEDS = re.compile(r"^# needs: (\w+)$", re.MULTILINE)  # an optional library; without it, no output
MOST_LINES = 40


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill pages as they are read; in one process, since examples change its folder."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


def _fill(_: Sphinx, page: str, source: list[str]) -> None:
    needed = NEEDS.findall(source[0])
    if page.startswith(FOLDERS) and all(find_spec(name) is not None for name in needed):
        with tempfile.TemporaryDirectory() as folder:
            make_files(Path(folder))
            source[0] = with_outputs(source[0], Path(folder), page)


def with_outputs(text: str, folder: Path, page: str = "page") -> str:
    """A page with the output of each block below it; blocks run in `folder`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}

    def filled(block: re.Match[str]) -> str:
        language, indent = block["language"], block["indent"]
        if block["reason"] is not None or language not in ("python", "bash"):
            return block[0]
        own = "".join(line[len(indent) :] or "\n" for line in block["text"].splitlines(True))
        try:
            printed = _python(own, namespace) if language == "python" else _bash(own, folder)
        except Exception as error:
            raise ExtensionError(f"{page}: an example fails ({error}):\n{own}") from error
        return block[0] + _shown(printed.replace(str(folder) + os.sep, ""), indent)

    before = Path.cwd()
    os.chdir(folder)
    try:
        # Answers wait for their kernels, so that no line about these is among the output.
        with mock.patch.dict(os.environ, {"KERNELITE_COMPILE": "wait"}):
            return FENCE.sub(filled, text)
    finally:
        os.chdir(before)


def _python(text: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "<example>", "exec"), namespace)
    return printed.getvalue()


def _bash(text: str, folder: Path) -> str:
    ran = subprocess.run(
        [shutil.which("bash") or "bash", "-euo", "pipefail", "-c", text],
        env=environment(folder) | {"KERNELITE_COMPILE": "wait"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    if ran.returncode:
        raise RuntimeError(ran.stdout)
    return ran.stdout


def _shown(printed: str, indent: str) -> str:
    """The output as a block of its own; nothing for none."""
    lines = printed.rstrip().splitlines()
    if not lines:
        return ""
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "..."]
    fenced = ["", "", "```{code-block} text", ":class: output", "", *lines, "```"]
    return "\n".join(f"{indent}{line}".rstrip() for line in fenced)
