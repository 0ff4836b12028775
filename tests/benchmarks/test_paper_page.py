"""docs/paper.html in a real browser: it renders, fits a phone, and the console stays empty."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "paper.html"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# A table that does not scroll by itself would make the page wider than its window.
PROBE = """<script>
const root = document.documentElement;
document.title = root.scrollWidth <= root.clientWidth ? "fits" : "too wide";
</script></body>"""


def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


def rendered(tmp_path: Path, width: int, scheme: int) -> tuple[str, str]:
    """The page's DOM after rendering, and what the browser logged; scheme 0 is dark, 1 light."""
    if not PAGE.is_file():
        pytest.skip("docs/paper.html has not been written yet: `make paper`")
    copy = tmp_path / "paper.html"
    copy.write_text(PAGE.read_text(encoding="utf-8").replace("</body>", PROBE), encoding="utf-8")
    run = subprocess.run(
        [
            browser(),
            *FLAGS,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},900",
            f"--blink-settings=preferredColorScheme={scheme}",
            "--dump-dom",
            copy.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr[-500:]
    return run.stdout, run.stderr


@pytest.mark.parametrize(("width", "scheme"), [(390, 1), (390, 0), (1400, 1), (1400, 0)])
def test_the_page_renders_without_console_messages(tmp_path: Path, width: int, scheme: int) -> None:
    dom, log = rendered(tmp_path, width, scheme)
    assert "CONSOLE" not in log
    assert "<title>fits</title>" in dom
    assert dom.count("<table") >= 3
    assert dom.count("<svg") >= 2
