"""The page: complete, self-contained, escaped, and fit for a browser."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from kernelite.machine.heads import ClassifierHead
from kernelite.model.report import report
from kernelite.support.errors import MissingExtraError
from tests.helpers import PATIENCE
from tests.model.export.cases import CASES, FEATURES, certified_with
from tests.store.models import compiled

pytest.importorskip("jinja2", reason="the report extra is not installed")
pytest.importorskip("matplotlib", reason="the report extra is not installed")

NASTY = "<script>alert('x')</script>&\"'"


def rows(m: int = 120) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(m, FEATURES))


@cache
def reported(name: str) -> str:
    """The page of a model, which several tests look at."""
    return report(CASES[name], rows())


class Tags(HTMLParser):
    """Tags, ids and addresses of a page; checks that elements are closed."""

    VOID = ("meta", "link", "br", "img", "path", "use", "rect", "stop")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.names.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "action", "srcset"):
                self.addresses.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def facts(page: str) -> Tags:
    tags = Tags(page)
    assert tags.open == []
    return tags


REPORTED = {
    "certified, binary": 5,
    "certified, three": 5,
    "certified, regressor": 3,
    "calibrated, three": 3,
    "form, three": 1,
    "form, outputs": 0,
    "exact, outputs": 0,
}


@pytest.mark.parametrize("name", REPORTED)
def test_the_page_is_whole(name: str) -> None:
    model = CASES[name]
    page = reported(name)
    tags = facts(page)
    assert page.startswith("<!doctype html>")
    assert tags.names.count("svg") == REPORTED[name]
    assert len(set(tags.ids)) == len(tags.ids)
    assert model.guarantee in page
    assert "How each number was measured" in page
    assert "Undefined" not in page
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", page.lower())


@pytest.mark.parametrize("name", REPORTED)
def test_nothing_is_fetched_and_nothing_runs(name: str) -> None:
    page = reported(name)
    tags = facts(page)
    assert not {"script", "iframe", "object", "embed", "form", "base"} & set(tags.names)
    assert all(address.startswith(("#", "data:")) for address in tags.addresses)
    without = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "http" not in without
    assert not re.search(r"url\((?!#)|@import", page)


def test_pictures_take_the_pages_colours() -> None:
    page = reported("certified, three")
    assert "var(--tier-0)" in page
    drawn = page[page.index("<svg") :]
    assert not re.search(r"(fill|stroke): ?#(?!000000|ffffff)[0-9a-f]{6}", drawn)
    assert "DejaVu" not in page


@pytest.mark.parametrize("name", [name for name, pictures in REPORTED.items() if pictures])
def test_labels_of_axes_lie_inside_their_pictures(name: str) -> None:
    """Also where the numbers beside them are long, as small errors are."""
    for drawn in re.findall(r"<svg.*?</svg>", reported(name), re.DOTALL):
        _, _, _, height = map(float, re.search(r'viewBox="([^"]+)"', drawn)[1].split())
        labels = re.findall(r'<text style="font-size: ([\d.]+)px;([^>]*)>([^<]+)<', drawn)
        assert labels
        for size, where, text in labels:
            turned = re.search(r"rotate\(-90 ([-\d.]+) ([-\d.]+)\)", where)
            if turned:  # a letter is about half as wide as high
                half = 0.25 * float(size) * len(text)
                assert float(turned[1]) >= 0.7 * float(size), text
                assert half <= float(turned[2]) <= height - half, text


def test_users_text_is_escaped() -> None:
    model = certified_with(ClassifierHead(np.array([NASTY, "b</table>", "c"])))
    origin = replace(model.origin, description=NASTY, feature_names=(NASTY, "b", "c", "d"))
    notes = (*model.plan.notes, NASTY)
    chosen = replace(model.plan.chosen, name=NASTY, verdict=NASTY)
    hostile = replace(model, origin=origin, plan=replace(model.plan, notes=notes, chosen=chosen))
    page = report(hostile, rows(), rows_name=NASTY)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    facts(page)


def test_the_model_writes_its_own_report(tmp_path: Path) -> None:
    model = CASES["certified, binary"]
    page = model.report(rows(), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    beside = compiled().report(rows(), exact=compiled(exact=True))
    assert "Error of each score" in beside


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_without_the_extra_its_name_is_said(library: str, monkeypatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"the extra .report."):
        report(CASES["certified, binary"], rows())


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_it_without_complaint(width: int, dark: bool, tmp_path: Path) -> None:
    CASES["certified, three"].report(rows(), tmp_path / "r.html")
    shot = tmp_path / "shot.png"
    assert CHROMIUM is not None
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        "--disable-quic",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},2400",
        f"--screenshot={shot}",
        f"file://{tmp_path / 'r.html'}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert "CONSOLE" not in ran.stderr
    assert struct.unpack(">II", shot.read_bytes()[16:24]) == (width, 2400)
    import matplotlib.image

    corner = matplotlib.image.imread(shot)[-5, 5, :3]
    assert (corner.mean() < 0.5) == dark


def test_the_original_stands_in_the_page() -> None:
    from sklearn.svm import SVC, SVR

    import kernelite as kl

    X = rows(200)
    for original, said in (
        (SVC(gamma=0.1).fit(X, X[:, 0] > 0), "labels differ from the original SVC in 200"),
        (SVR(gamma=0.1).fit(X, X[:, 0]), "largest difference from the original SVR"),
    ):
        page = kl.compile(original, X).report(X, model=original)
        assert said in page
        assert "faster than the original" in page
        assert "exact engine, per row" in page


def test_one_picture_alone_is_not_blown_up() -> None:
    page = reported("form, three")
    assert page.count("<figure>") == 1
    assert re.search(r"figure \{[^}]*max-width: 38rem", page)


def test_tables_scroll_within_the_page() -> None:
    page = reported("certified, three")
    assert page.count('<div class="scroll"><table') == page.count("<table") >= 3


def test_one_size_is_said() -> None:
    """All that the model holds, wherever a size stands."""
    model = CASES["certified, binary"]
    page = reported("certified, binary")
    from kernelite.model.report.words import sized

    assert page.count(sized(model.nbytes)) >= 3
    assert "of them the support vectors" not in page


def test_rows_whose_label_holds_least_far_are_shown() -> None:
    from sklearn.svm import SVC

    import kernelite as kl

    X = np.random.default_rng(0).normal(size=(200, 3))
    fast = kl.compile(SVC().fit(X, X[:, 0] * X[:, 1] > 0), X)
    page = report(fast, X)
    radii = fast.radius(X)
    assert "The rows whose label holds least far" in page
    assert "How far labels hold" in page
    assert f"<td>{int(radii.argmin()) + 1}</td>" in page
    assert f"{radii.min():.4g}" in page


def test_a_page_shows_itself() -> None:
    page = CASES["certified, three"].report(rows())
    assert len(repr(page)) < 120
    shown = page._repr_html_()
    assert shown.startswith("<iframe")
    assert "<!doctype" not in shown  # escaped, so that its styles stay inside
