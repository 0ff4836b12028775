"""Modules that need torch are collected only where it is installed (`make test-torch`)."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []
if find_spec("torch") is None:
    collect_ignore_glob = ["src/kernelite/backends/torch/*", "src/kernelite/torch.py"]
