"""Results as JSON, one file a section: what was measured, on what machine, with which versions."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.settings import Settings
from kernelite.support.files import atomic_write

__all__ = ["FOLDER", "load", "plain", "save"]

FOLDER = Path(__file__).parent / "results"


def save(section: str, content: Any, settings: Settings, preset: str, folder: Path) -> Path:
    """Write `folder`/`section`.json with the machine's description around the content."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "section": section,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "preset": preset,
        "settings": vars(settings),
        "machine": describe(),
        "content": plain(content),
    }
    path = folder / f"{section}.json"
    with atomic_write(path) as file:
        file.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
    return path


def load(section: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """A section's document, or None if it was never measured."""
    path = folder / f"{section}.json"
    if not path.is_file():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, infinities as null, figures to six digits: enough to read."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
