"""`kernelite run`: a Python script whose scikit-learn machines answer through kernelite.

examples:
  kernelite run script.py
  kernelite run --verbose script.py --its-own option
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from kernelite.support.errors import FileFormatError, require_scikit_learn

__all__ = ["configure", "run"]

PROGRAM = """\
import sys
from kernelite.model.patching import run_script
verbose = sys.argv.pop(1) == "verbose"
del sys.argv[0]
run_script(sys.argv[0], verbose=verbose)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "--verbose", action="store_true", help="say what is compiled, and what is not, and why"
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python file")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="the script's own arguments"
    )


def run(args: argparse.Namespace) -> int:
    """Run the script in a process of its own, so that nothing of this one is in its way."""
    require_scikit_learn("`kernelite run` needs")
    if os.path.isdir(args.script):
        raise FileFormatError(args.script, "this is a folder; name a Python file")
    if not os.path.isfile(args.script):
        raise FileFormatError(args.script, "there is no such file")
    told = "verbose" if args.verbose else "quiet"
    words = [sys.executable, "-c", PROGRAM, told, args.script, *args.arguments]
    return subprocess.call(words)
