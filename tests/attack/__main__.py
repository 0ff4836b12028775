"""`python -m tests.attack --models 1000000 --from 0`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.attack.run import attack
from tests.reliability.runs import add_run

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every bound held."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack",
        description="Compare every kind of bound with f beyond double precision.",
    )
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--from", dest="first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--state", type=Path, default=Path("attack-state.json"))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="go on another time")
    parser.add_argument(
        "--chances", action="store_true", help="probabilities and standard deviations alone"
    )
    parser.add_argument("--record", action="store_true", help="add the run to the docs' figures")
    args = parser.parse_args(argv)
    show = sys.stderr.isatty()
    found = attack(
        args.models,
        first=args.first,
        seed=args.seed,
        jobs=args.jobs,
        state=args.state,
        seconds=args.seconds,
        chances=args.chances,
        tell=lambda line: print(f"\r{line} ", end="", file=sys.stderr) if show else None,
    )
    print(json.dumps(found, indent=1))
    if args.record:
        add_run("attack, chances" if args.chances else "attack", found)
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
