"""The sources of the documentation: pages, their fenced blocks, their links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DOCS", "ROOT", "Block", "blocks", "links", "pages"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILT = ("_build", "auto_gallery", "generated", "_ext", "_templates")

FENCE = re.compile(
    r"(?P<mark><!-- not run: (?P<reason>[^>]+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[\w-]+)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"!?\[(?P<text>[^]]*)\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"^( *)(```|:::).*?^\1(```|:::)$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `reason` says why it is not run, if it is not."""

    language: str
    text: str
    reason: str | None


def pages() -> list[Path]:
    """README and the site's pages, without those that a build makes."""
    inside = (path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
    return [
        *sorted(ROOT.glob("*.md")),
        *(DOCS / path for path in sorted(inside) if not set(path.parts) & set(BUILT)),
    ]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, without the indent that they have in a list."""
    found = []
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        indent = len(match["indent"])
        text = "".join(line[indent:] or "\n" for line in match["text"].splitlines(keepends=True))
        found.append(Block(match["language"], text, match["reason"]))
    return found


def links(page: Path) -> Iterator[str]:
    """Targets of Markdown links, outside of code."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for match in LINK.finditer(text):
        yield match["target"]
