"""`python -m tests.reliability`: figures of pages, from what was recorded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kernelite.support.files import atomic_write
from tests.reliability.page import PAGES
from tests.reliability.runs import add_run

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages; with --check, 1 if one is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("--flips", type=int, help="first flip so many bits, and record that")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    if args.flips:
        from tests.reliability.flips import flips

        add_run("flips", flips(args.flips))
    changed = 0
    for page, current in PAGES.items():
        text = page.read_text(encoding="utf-8")
        new = current(text)
        if new != text:
            changed = 1
            if not args.check:
                with atomic_write(page) as file:
                    file.write(new)
    return changed if args.check else 0


if __name__ == "__main__":
    sys.exit(main())
