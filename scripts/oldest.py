"""The oldest versions that pyproject.toml allows, as constraints for pip: `name==version` lines."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[A-Za-z0-9_-]+)(?:\[[^]]*\])?>=(?P<version>[0-9.]+)")


def oldest(project: Path = PROJECT) -> dict[str, str]:
    """Name to the smallest version, of what every installation needs, and of scikit-learn."""
    settings = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    wanted = [*settings["dependencies"], *settings["optional-dependencies"]["sklearn"]]
    found = (BOUND.fullmatch(text) for text in wanted)
    return {match["name"]: match["version"] for match in found if match}


if __name__ == "__main__":
    for name, version in oldest().items():
        print(f"{name}=={version}.*" if version.count(".") < 2 else f"{name}=={version}")
