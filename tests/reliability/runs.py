"""What long runs found, one record each, in docs/project/reliability.json."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelite import __version__
from kernelite.support.files import atomic_write

__all__ = ["FILE", "add_run", "runs"]

FILE = Path(__file__).parents[2] / "docs" / "project" / "reliability.json"


def runs(file: Path = FILE) -> dict[str, list[dict[str, Any]]]:
    """Kind of run -> its records, oldest first."""
    if not file.is_file():
        return {}
    found: dict[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def add_run(kind: str, found: dict[str, Any], file: Path = FILE) -> None:
    """Add a record, with the date and the version."""
    whole = runs(file)
    stamp = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "version": __version__}
    whole.setdefault(kind, []).append(stamp | found)
    with atomic_write(file) as out:
        out.write(json.dumps(whole, indent=1) + "\n")
