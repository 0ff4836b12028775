"""Plays the newcomer: a clean clone, `make demo`, then all that README and the start pages ask for.

    python scripts/newcomer.py [--keep FOLDER]

In a fresh environment (the clone's own `.venv`), in the order of the pages. Any surprise is a
failure: an exit code, a traceback, a warning, a label that differs, a file that is not there. It
needs git, make, python3 and a package index, and takes about three minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.docs.pages import blocks  # noqa: E402

START = ("install", "first-steps", "which-guarantee", "why-exact")
SURPRISES = re.compile(r"Traceback|\b\w*Warning\b|\bwarning:|\berror:", re.IGNORECASE)
CLEARED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "KERNELITE_COMPILE", "KERNELITE_CACHE")
LONGEST = 900  # seconds that a step may take


class Surprise(Exception):
    """Something that a newcomer would stumble over."""


@dataclass(frozen=True)
class Step:
    """Something to type: a shell command, or Python that follows what the page had before."""

    page: str
    language: str
    text: str


def pages(clone: Path) -> list[Path]:
    """README, then the start pages in their order."""
    return [clone / "README.md", *(clone / "docs" / "start" / f"{name}.md" for name in START)]


def steps(page: Path) -> Iterator[Step]:
    """What a page asks the reader to type, save what sets an environment up."""
    for block in blocks(page):
        if block.language in ("bash", "python") and block.reason is None:
            yield Step(page.name, block.language, block.text)


def main() -> int:
    """Run all; the first surprise ends it."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--keep", metavar="FOLDER", help="clone into this new folder, and keep it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(args.keep or Path(temporary) / "kernelite").resolve()
        try:
            _play(clone)
        except Surprise as surprise:
            print(f"\nA newcomer would stumble here: {surprise}", file=sys.stderr)
            return 1
    print("\nNo surprise.")
    return 0


def _play(clone: Path) -> None:
    _run("clone", ["git", "clone", "--quiet", str(ROOT), str(clone)], ROOT)
    # Before the demo itself, make shows pip, whose warnings are not ours.
    told = _run("make demo", ["make", "demo"], clone, after="bin/kernelite demo\n")
    _check_demo(told, clone)
    _read(clone)


def _read(clone: Path) -> None:
    """Type what the pages print, in the folder of the demo."""
    inside = clone / "kernelite-demo"
    for page in pages(clone):
        python: list[str] = []
        for number, step in enumerate(steps(page), 1):
            name = f"{step.page}, {step.language} {number}"
            if step.language == "bash":
                _run(name, ["bash", "-euo", "pipefail", "-c", step.text], inside, clone)
            else:
                python.append(step.text)
        if python:  # one session, as in a notebook
            _run(f"{page.name}, its Python", ["python", "-c", "\n".join(python)], inside, clone)


def _check_demo(told: str, clone: Path) -> None:
    """What the demo should show: no label differs, a form and an exact sum, a page."""
    rows = re.findall(r"^.*\d+x\s+(\d+) of [\d,]+$", told, re.MULTILINE)
    if rows != ["0", "0", "0"]:
        raise Surprise(f"the demo's labels differ, or its table has changed: {rows}")
    for said in (r"small gamma: certified: .*form", r"default SVC\(\): certified: summing all"):
        if re.search(said, told) is None:
            raise Surprise(f"the demo does not say {said!r}")
    page = re.search(r"^report: (.*)$", told, re.MULTILINE)
    if page is None or not Path(page[1]).is_file():
        raise Surprise("the demo left no report page")
    if "numba compiles" in told:
        raise Surprise(
            "the demo asks for kernels that it did not build: see KERNELS in cli/demo.py"
        )
    if told.count("compiling") > 1:
        raise Surprise("the demo speaks of compiling more than once")
    for name in ("svm.model", "train.svm", "test.svm", "svm.kernelite"):
        if not (clone / "kernelite-demo" / name).is_file():
            raise Surprise(f"the demo left no {name}")


def _run(
    name: str, command: list[str], folder: Path, clone: Path | None = None, after: str = ""
) -> str:
    """One step; what it printed, on both streams, behind the text `after`."""
    environment = {key: value for key, value in os.environ.items() if key not in CLEARED}
    if clone is not None:  # as after `source .venv/bin/activate`
        environment["PATH"] = f"{clone / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    start = perf_counter()
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    print(f"{perf_counter() - start:6.1f} s  {name}", flush=True)
    if ran.returncode:
        raise Surprise(f"{name} ends with code {ran.returncode}:\n{ran.stdout}")
    said = ran.stdout.partition(after)[2] if after else ran.stdout
    found = SURPRISES.search(said)
    if found is not None:
        raise Surprise(f"{name} says {found[0]!r}:\n{said}")
    return said


if __name__ == "__main__":
    sys.exit(main())
