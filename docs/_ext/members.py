"""Which members of a class the reference shows: ours, not those of scikit-learn or of Python."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def skip(app: Sphinx, what: str, name: str, value: Any, skipped: bool, options: Any) -> bool | None:
    """True where another package defines the member; None leaves the choice to Sphinx."""
    inner = getattr(value, "fget", None) or getattr(value, "__func__", value)
    home = getattr(inner, "__module__", None)
    if what in ("class", "exception") and not str(home).startswith("kernelite"):
        return True
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to autodoc."""
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
