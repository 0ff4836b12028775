"""How the gallery's pictures look; set before each example."""

from __future__ import annotations

from typing import Any


def style(gallery: dict[str, Any], name: str) -> None:
    """Plain axes, letters that can be read on a phone."""
    import matplotlib as mpl

    mpl.rcParams.update(
        {
            "figure.figsize": (7.2, 4.2),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": False,
            "font.size": 11,
            "legend.frameon": False,
        }
    )
