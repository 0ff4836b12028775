"""`kernelite warm-up`: compile every kernel ahead, for images and for a quick first prediction."""

from __future__ import annotations

import argparse

from kernelite.cli.arguments import add_json
from kernelite.cli.console import print_json

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  kernelite warm-up
  RUN pip install ./kernelite && kernelite warm-up   # in a Dockerfile, from a checkout

Kernels are kept beside the installation if that can be written, else in your cache folder
($KERNELITE_CACHE, or `kernelite` in it); never where another user could change them. They belong to
one kind of processor. Where an image is built on another one than it runs on, set NUMBA_CPU_NAME
(say, to x86-64-v3) and NUMBA_CPU_FEATURES (to "+avx2,+fma") both times.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = EXAMPLES
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compile, and say where the kernels are."""
    from kernelite.cpu.warming import warm_up

    done = warm_up()
    if args.json:
        print_json(done._asdict() | {"folder": done.folder and str(done.folder)})
    elif not done.compiled:
        print(f"all {done.kernels} kernels were ready")
    else:
        where = f", kept in {done.folder}" if done.folder else ", for this process only"
        print(f"{done.compiled} of {done.kernels} kernels compiled in {done.seconds:.1f} s{where}")
    return 0 if done.folder or not done.compiled else 1
