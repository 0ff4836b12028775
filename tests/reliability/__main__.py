"""`python -m tests.reliability`: the figures of the page from the recorded runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kernelite.support.files import atomic_write
from tests.reliability.page import PAGE, current
from tests.reliability.runs import add_run

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page; with --check, 1 if it is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("--flips", type=int, help="first flip so many bits, and record that")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    if args.flips:
        from tests.reliability.flips import flips

        add_run("flips", flips(args.flips))
    text = PAGE.read_text(encoding="utf-8")
    new = current(text)
    if args.check:
        return 0 if new == text else 1
    with atomic_write(PAGE) as file:
        file.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
