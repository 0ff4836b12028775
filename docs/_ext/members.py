"""Which members of a class the reference shows, and how their texts are read.

Ours are shown, not those of scikit-learn or of Python. In our texts a bar is a norm and a star a
product: neither is markup.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

GIVEN = {"kernelite.CompiledModel"}


def skip(app: Sphinx, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """True where another package defines the member; None leaves the choice to Sphinx."""
    inner = getattr(value, "fget", None) or getattr(value, "__func__", value)
    home = getattr(inner, "__module__", None)
    if what in ("class", "exception") and not str(home).startswith("kernelite"):
        return True
    return None


def plain_marks(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Escape bars and stars, except in examples."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(?<!\\)([|*])", r"\\\1", line)


def hidden_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: Any, returned: Any
) -> tuple[str, str] | None:
    """No arguments for a class that users are given and do not make."""
    return ("", "") if name in GIVEN else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to autodoc."""
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", hidden_signature, priority=900)
    # Before numpydoc, which writes markup of its own.
    app.connect("autodoc-process-docstring", plain_marks, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
