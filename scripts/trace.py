"""Which files of the package a call passes through: one row, a batch of rows, `compile()`.

    python scripts/trace.py             # how many, and which
    python scripts/trace.py --calls     # with the functions, in the order in which they are called

Each call is traced after it was made once, so that what is laid out at first use does not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import kernelite as kl

__all__ = ["main", "traced"]

ROOT = Path(kl.__file__).parent
GOALS = {"one row": 7, "a batch": 10, "compile()": 35}


def traced(call: Callable[[], object]) -> dict[str, list[str]]:
    """Functions that a call calls, by file of the package, in order.

    Examples
    --------
    >>> list(traced(lambda: kl.limit_threads(1).__enter__()))[0]
    'backends/cpu/threads.py'
    """
    found: dict[str, list[str]] = {}
    here = f"{ROOT}/"

    def see(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(here):
            functions = found.setdefault(code.co_filename.removeprefix(here), [])
            if code.co_qualname not in functions:
                functions.append(code.co_qualname)

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def _calls() -> dict[str, dict[str, Callable[[], object]]]:
    """The calls that count, for a model whose plan is a form and one whose plan is exact."""
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.3
    form, exact = SVC(gamma=0.002).fit(X, y), SVC(gamma=1.0).fit(X[:300], y[:300])
    found: dict[str, dict[str, Callable[[], object]]] = {}
    for name, model in (("a form", form), ("exact sums", exact)):
        fast = kl.compile(model, X)
        settled = [i for i in range(200) if fast.predict(X[i : i + 1], return_stats=True)[1].early]
        row = X[settled[0] if settled else 0][None]
        found[name] = {
            "one row": lambda fast=fast, row=row: fast.predict(row),  # type: ignore[misc]
            "a batch": lambda fast=fast: fast.predict(X),  # type: ignore[misc]
            "compile()": lambda model=model: kl.compile(model, X),  # type: ignore[misc]
        }
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print how many files each call passes through, and which."""
    parser = argparse.ArgumentParser(prog="python scripts/trace.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--calls", action="store_true", help="show the functions too")
    options = parser.parse_args(arguments)
    for plan, calls in _calls().items():
        for name, call in calls.items():
            call()
            found = traced(call)
            print(f"{plan}, {name}: {len(found)} files (goal {GOALS[name]})")
            for file, functions in found.items():
                print(f"    {file}" + (f": {', '.join(functions)}" if options.calls else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
