"""Every link inside of the documentation's sources leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, links, pages

OUTSIDE = ("http://", "https://", "mailto:")
CARD = re.compile(r"^:link: (\S+)$", re.MULTILINE)
ENTRY = re.compile(r"```\{toctree\}\n(?P<body>.*?)```", re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links, and names given by `(name)=`."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\((\S+)\)=$", text, re.MULTILINE))


def exists(page: Path, target: str) -> bool:
    """Whether a target is a file, or will be when the gallery is built."""
    name, _, anchor = target.partition("#")
    base = DOCS if name.startswith("/") else page.parent
    path = (base / name.lstrip("/")).resolve() if name else page
    if "auto_gallery" in path.parts:
        return _in_gallery(path.name)
    if not path.exists():
        return False
    return not anchor or path.suffix != ".md" or anchor in anchors(path)


def _in_gallery(name: str) -> bool:
    stem = name.removeprefix("sphx_glr_").partition(".")[0]
    stem = re.sub(r"_\d{3}$", "", stem)
    return stem == "index" or (ROOT / "examples" / "gallery" / f"{stem}.py").is_file()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    inside = [target for target in links(page) if not target.startswith(OUTSIDE)]
    assert [target for target in inside if not exists(page, target)] == []


def test_cards_and_contents_name_pages() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        names = CARD.findall(text)
        for entry in ENTRY.finditer(text):
            lines = [line.strip() for line in entry["body"].splitlines()]
            names += [line for line in lines if line and not line.startswith(":")]
        for name in names:
            found = (page.parent / f"{name}.md").resolve().is_file()
            assert found or name == "auto_gallery/index", f"{page.name}: {name}"


def test_every_page_can_be_reached() -> None:
    """Each page of the site stands in some table of contents."""
    listed = set()
    for page in pages():
        for entry in ENTRY.finditer(page.read_text(encoding="utf-8")):
            for line in entry["body"].splitlines():
                if line.strip() and not line.strip().startswith(":"):
                    listed.add((page.parent / f"{line.strip()}.md").resolve())
    site = {page.resolve() for page in pages() if DOCS in page.parents}
    assert site - listed == {(DOCS / "index.md").resolve()}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](page.md#a-title) [b](page.md#b) [c](absent.md)\n`[d](no.md)`\n")
    assert [target for target in links(page) if not exists(page, target)] == [
        "page.md#b",
        "absent.md",
    ]
