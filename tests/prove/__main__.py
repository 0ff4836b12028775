"""`python -m tests.prove`: 0 if every figure is proven to be at most what is stated."""

from __future__ import annotations

import sys

from tests.prove.claims import Claim, claims
from tests.prove.tools import Unproven, missing

__all__ = ["main"]


def main() -> int:
    """Print a line for each claim; 1 if one is not proven, 2 if a tool is missing."""
    absent = missing()
    if absent:
        print(
            f"{' and '.join(absent)} must be installed to prove these claims: "
            "on Debian or Ubuntu, apt-get install gappa sollya.",
            file=sys.stderr,
        )
        return 2
    print(f"{'of':<26}{'claim':<42}{'proven':>12}{'stated':>12}")
    unproven = sum(not _proven(claim) for claim in claims())
    print(f"{unproven} claims are NOT proven." if unproven else "All claims are proven.")
    return 1 if unproven else 0


def _proven(claim: Claim) -> bool:
    """Print a claim's line, and say whether it holds."""
    stated = float(claim.stated / claim.unit)
    try:
        figure = claim.find()
    except Unproven as error:
        print(f"{claim.subject:<26}{claim.what:<42}{'?':>12}{stated:>12.4g}  {error}")
        return False
    holds = figure <= claim.stated
    shown = float(figure / claim.unit)
    end = "" if holds else "  NOT PROVEN"
    print(f"{claim.subject:<26}{claim.what:<42}{shown:>12.4g}{stated:>12.4g}{end}", flush=True)
    return holds


if __name__ == "__main__":
    sys.exit(main())
