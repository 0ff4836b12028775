"""`python -m tests.soak --seconds 3600`; beside other work with `--share 0.2`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.reliability.runs import add_run
from tests.soak.run import soak

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """0 if nothing grew and all answers were right."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--most", type=int, help="chores at most; by default as time allows")
    parser.add_argument("--share", type=float, help="of a core at most; by default all there is")
    parser.add_argument(
        "--state", type=Path, help="kept all the while; a run that was ended goes on from it"
    )
    parser.add_argument("--record", action="store_true", help="add the run to the docs' figures")
    args = parser.parse_args(argv)
    show = sys.stderr.isatty()
    found = soak(
        args.seconds,
        most=args.most,
        share=args.share,
        state=args.state,
        tell=lambda line: print(f"\r{line} ", end="", file=sys.stderr) if show else None,
    )
    print(json.dumps(found, indent=1))
    if args.record:
        add_run("soak", found)
    for line in found["grew"]:
        print(f"grew: {line}", file=sys.stderr)
    return 1 if found["grew"] else 0


if __name__ == "__main__":
    sys.exit(main())
