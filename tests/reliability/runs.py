"""What long runs found, one record each, in docs/project/reliability.json; and how far they came.

A run is known by its `KEY`. It may be done in pieces, which share a state file; whatever piece
records it, there is one record of it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelite import __version__
from kernelite.support.files import atomic_write

__all__ = ["FILE", "add_run", "keep", "kept", "runs"]

FILE = Path(__file__).parents[2] / "docs" / "project" / "reliability.json"
KEY = ("version", "seed", "first", "began")  # those that a kind of run has


def runs(file: Path = FILE) -> dict[str, list[dict[str, Any]]]:
    """Kind of run -> its records, oldest first."""
    if not file.is_file():
        return {}
    found: dict[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def add_run(kind: str, found: dict[str, Any], file: Path = FILE) -> None:
    """Add a record, with the date and the version, in place of what the same run had before."""
    whole = runs(file)
    stamp = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "version": __version__}
    record = stamp | found
    if any(name in record for name in KEY[1:]):
        whole[kind] = [one for one in whole.get(kind, ()) if _key(one) != _key(record)]
    whole.setdefault(kind, []).append(record)
    with atomic_write(file) as out:
        out.write(json.dumps(whole, indent=1) + "\n")


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in KEY)


def kept(state: Path | None, mine: dict[str, Any]) -> dict[str, Any] | None:
    """How far a run came, None if it has not begun; the state of another one is refused."""
    if state is None or not state.is_file():
        return None
    found: dict[str, Any] = json.loads(state.read_text(encoding="utf-8"))
    if {name: found.get(name) for name in mine} != mine:
        raise SystemExit(f"{state} is of another run; name another file, or remove it")
    return found


def keep(state: Path | None, whole: dict[str, Any]) -> None:
    """Keep how far a run came."""
    if state is not None:
        with atomic_write(state) as file:
            file.write(json.dumps(whole, indent=1) + "\n")
