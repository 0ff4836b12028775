"""`python -m tests.fuzz`: mutated files for as long as asked."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.campaign import Options, campaign
from tests.fuzz.corpus import ENDINGS
from tests.reliability.runs import add_run

__all__ = ["main"]

EXAMPLES = """\
examples:
  python -m tests.fuzz --seconds 600 --seed 1 --jobs 2
  python -m tests.fuzz --formats csv npz --seconds 60
  python -m tests.fuzz --inputs 2000000 --seed 7 --state fuzz-state.json --record
                     # goes on where it stopped; --record: into docs/project/reliability.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """0 if nothing failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Mutate valid files of every format; each must be answered or refused.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, help="600, unless --inputs are given")
    parser.add_argument("--inputs", type=int, help="how many in all, in this and other pieces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--from", dest="first", type=int, default=0, help="number of the first input"
    )
    parser.add_argument(
        "--state", type=Path, help="kept all the while; a run with the same seed goes on from it"
    )
    parser.add_argument("--formats", nargs="+", choices=tuple(ENDINGS), default=tuple(ENDINGS))
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-failures"), help="folder of failures"
    )
    parser.add_argument("--record", action="store_true", help="add the run to the docs' figures")
    args = parser.parse_args(argv)
    no_limit = 600.0 if args.inputs is None else float("inf")
    options = Options(
        no_limit if args.seconds is None else args.seconds,
        *(args.seed, args.jobs, args.out, tuple(args.formats)),
        first=args.first,
        most=2**62 if args.inputs is None else args.first + args.inputs,
        state=args.state,
    )
    show = sys.stderr.isatty()
    found = campaign(
        options, lambda line: print(f"\r{line} ", end="", file=sys.stderr) if show else None
    )
    print(json.dumps(found, indent=1))
    if args.record:
        add_run("fuzz", found)
    if found["failed"]:
        print(f"failures are in {args.out}", file=sys.stderr)
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
