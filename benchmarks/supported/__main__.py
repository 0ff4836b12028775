"""`python -m benchmarks.supported`: measure every machine and write docs/machines.*"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from typing import Any

import sklearn

from benchmarks.machine import describe, in_words
from benchmarks.supported import page
from benchmarks.supported.measure import measure, methods_of, speed_up
from benchmarks.supported.subjects import GENERATED, SUBJECTS, absent, fitted
from kernelite.support.files import atomic_write
from tests.answers import is_label


def main() -> int:
    """Measure, write, and say what is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.supported", description=__doc__)
    parser.add_argument("--check", action="store_true", help="no speed; note the version tried")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    document = page.read() if page.JSON.exists() else {"versions": {}, "machine": ""}
    broken: list[str] = []
    if not args.render:
        broken = _measure(document, with_speed=not args.check)
    if not broken:
        write(document)
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


def _measure(document: dict[str, Any], *, with_speed: bool) -> list[str]:
    """Fill in the document; what is broken comes back."""
    known, estimators, broken, tried = document.get("estimators", {}), {}, [], []
    for name, subject in SUBJECTS.items():
        if (library := absent(name)) is not None:
            print(f"{name}: no {library} here", file=sys.stderr)
            estimators[name] = known[name]
            continue
        found = {data: measure(name, data) for data in (*subject.data, GENERATED)}
        broken += [f"{name}, {data}: {one.broken}" for data, one in found.items() if one.broken]
        speed = speed_up(name) if with_speed else known.get(name, {}).get("speed_up")
        methods = {is_label(fitted(name, GENERATED)[0], one) for one in methods_of(name)}
        estimators[name] = {
            "data": {data: _plain(asdict(one)) for data, one in found.items()},
            "speed_up": speed,
            "labels": True in methods,
            "values": False in methods,
        }
        tried.append(name)
        print(f"{name}: {'' if speed is None else f'{speed:.3g}x'}", file=sys.stderr, flush=True)
    if not known or with_speed:
        document["estimators"] = estimators
        document["machine"] = in_words(describe())
    versions = document["versions"] | {sklearn.__version__: tried}
    document["versions"] = dict(sorted(versions.items(), key=lambda item: _numbers(item[0])))
    return broken


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """Three digits of each figure, without what only a run needs."""
    del entry["broken"]
    return {
        key: None
        if isinstance(value, float) and math.isnan(value)
        else float(f"{value:.3g}")
        if isinstance(value, float)
        else value
        for key, value in entry.items()
    }


def write(document: dict[str, Any]) -> None:
    """Write docs/machines.json and the page."""
    for path, text in (
        (page.JSON, json.dumps(document, indent=1) + "\n"),
        (page.PAGE, page.render(document)),
    ):
        with atomic_write(path) as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
