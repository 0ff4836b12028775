"""The built site in a real browser: it fits a phone, asks nobody, and the console stays empty.

`make docs-test` builds the site and runs this; without a build or a browser it skips and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelite
from tests.docs.browser import Browser, browser, program
from tests.docs.pages import DOCS

SITE = DOCS / "_build" / "html"
MAIN = (
    *("index.html", "auto_gallery/index.html", "reference/api.html", "reference/commands.html"),
    *("guarantees.html", "paper.html", "measured/benchmarks.html", "start/which-guarantee.html"),
    *("start/why-exact.html", "reference/generated/kernelite.CompiledModel.html"),
    *("auto_gallery/plot_01_boundary.html", "guide/serving.html"),
)
OWN = ("file:", "data:", "about:", "blob:")


def built() -> Path:
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built: `make docs` builds it into docs/_build/html")
    return SITE


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    built()
    executable = program()
    if executable is None:
        pytest.skip("no Chromium on this machine (Debian's package is `chromium`)")
    pytest.importorskip("websocket", reason="websocket-client is not installed: extra `docs`")
    with browser(executable) as opened:
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_main_pages_fit_and_are_silent(tab: Browser, width: int, scheme: str) -> None:
    for name in MAIN:
        visit = tab.visit((SITE / name).as_uri(), width, scheme)
        assert visit.over <= 0, f"{name} is {visit.over} px wider than its window"
        assert visit.messages == [], name
        assert visit.broken == [], name
        assert [url for url in visit.requests if not url.startswith(OWN)] == [], name
        assert visit.titles == 1, name


def test_every_page_fits_a_phone(tab: Browser) -> None:
    own = (page for page in SITE.rglob("*.html") if "_static" not in page.parts)
    for page in sorted(own):
        visit = tab.visit(page.as_uri(), 390, "light")
        assert visit.over <= 0, f"{page.relative_to(SITE)} is {visit.over} px too wide"
        assert visit.messages == [], page.name
        assert [url for url in visit.requests if not url.startswith(OWN)] == [], page.name


def test_a_page_that_is_too_wide_or_loud_is_noticed(tab: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<h1>x</h1><div style='width:3000px'>wide</div><img src='absent.png'>"
        "<script>console.error('loud')</script>"
    )
    visit = tab.visit(page.as_uri(), 390, "light")
    assert visit.over > 1000
    assert visit.broken
    assert any("loud" in message for message in visit.messages)


def test_nothing_is_fetched_from_elsewhere() -> None:
    """No tag of any page loads from the network, whether a browser is there or not."""
    loads = re.compile(
        r"""<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=["'](https?:)?//"""
    )
    for page in built().rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        found = [m.group(0) for m in loads.finditer(text) if 'rel="canonical"' not in m.group(0)]
        assert found == [], page.name
    for sheet in (SITE / "_static").rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", sheet.read_text(encoding="utf-8")), sheet.name


def clicked(pages: set[Path]) -> set[Path]:
    """The site's own pages that links on these pages lead to."""
    found = set()
    for page in pages:
        for target in re.findall(r'<a\b[^>]*?href="([^"#?]+)', page.read_text(encoding="utf-8")):
            reached = (page.parent / target).resolve()
            if reached.suffix == ".html" and reached.is_file():
                found.add(reached)
    return found


def test_everything_is_within_two_clicks() -> None:
    """From the front page: guarantees, exact plans, every function, serving, the proof."""
    first = clicked({(built() / "index.html").resolve()})
    second = first | clicked(first)

    def names(pages: set[Path]) -> set[str]:
        return {str(page.relative_to(SITE.resolve())).removesuffix(".html") for page in pages}

    wanted = {"start/which-guarantee", "start/why-exact", "reference/api", "guide/serving"}
    assert wanted | {"theory/how-it-works", "auto_gallery/index"} <= names(first)
    functions = {name for name in kernelite.__all__ if name != "__version__"}
    pages = {f"reference/generated/kernelite.{name}" for name in functions}
    pages |= {"guarantees", "deploy"}
    assert pages <= names(second)


def test_mathematics_is_in_the_pages() -> None:
    text = (built() / "guarantees.html").read_text(encoding="utf-8")
    assert text.count("<math") >= 5
    assert not re.search(r"<script[^>]*mathjax", text, re.IGNORECASE)
