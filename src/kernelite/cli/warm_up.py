"""`kernelite warm-up`: build the kernels for this machine, where no wheel brought them.

examples:
  kernelite warm-up
  RUN pip install './kernelite[jit]' && kernelite warm-up   # in a Dockerfile, from a checkout

Needed only where kernelite was installed without its libraries of kernels: from source, or by the
wheel for all systems. It takes numba, a C compiler as the linker, and half a minute. The library
is put beside the installation if that can be written, else into your cache folder
($KERNELITE_CACHE, or `kernelite` in it); never where another user could change it.
"""

from __future__ import annotations

import argparse

from kernelite.cli.arguments import add_json
from kernelite.cli.console import print_json

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build, and say where the library is."""
    from kernelite.backends.cpu.kernels.build import warm_up

    done = warm_up()
    if args.json:
        print_json(done._asdict() | {"path": str(done.path)})
    elif done.kernels:
        print(f"built {done.kernels} kernels for {done.family} ({done.seconds:.0f} s): {done.path}")
    else:
        print(f"the kernels for {done.family} were ready: {done.path}")
    return 0
