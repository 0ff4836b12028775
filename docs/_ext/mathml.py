"""Mathematics as MathML, made while the site is built: no script, no font, no network, no TeX."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import SphinxError


def render(text: str, display: str) -> str:
    """One formula; a formula that cannot be read stops the build."""
    try:
        made: str = convert(text, display=display)
    except Exception as error:  # the converter has errors of many kinds
        raise SphinxError(f"this formula cannot be read: {text!r} ({error})") from error
    if "\\" in made:
        raise SphinxError(f"this formula has a command that is not known: {text!r}")
    return made


def inline(writer: Any, node: nodes.math) -> None:
    """A formula in a sentence."""
    writer.body.append(render(node.astext(), "inline"))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """A formula on its own line, which scrolls by itself where the window is narrow."""
    writer.body.append(f'<div class="formula">{render(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
