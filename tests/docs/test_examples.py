"""Every example of README and of the site's pages runs as it is printed.

The blocks of a page run in order, in a folder of their own that has the files which the pages speak
of. Python blocks share one namespace. A block behind `<!-- not run: why -->` is left out, and so is
docs/deploy.md, whose blocks have a test of their own. `# needs: NAME` names an optional library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sklearn.svm import SVC

import kernelite
from tests.docs.pages import DOCS, ROOT, Block, blocks, pages
from tests.test_deploy_docs import shell

RUN = ("python", "bash")
SHOWN = {"text", "json", "console", "javascript"}
NEEDS = re.compile(r"^# needs: (\w+)$", re.MULTILINE)
WITH_EXAMPLES = [
    page
    for page in pages()
    if page != DOCS / "deploy.md" and any(block.language in RUN for block in blocks(page))
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LIBSVM model, its rows, and columnar files of them."""
    pytest.importorskip("pandas", reason="pandas is not installed, which the examples need")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed, which the examples need")
    from tests.cli.test_help_examples import make_files

    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


def run_python(text: str, namespace: dict[str, Any], page: Path) -> None:
    exec(compile(text, f"{page.name} (example)", "exec"), namespace)


def runnable(page: Path) -> list[Block]:
    found = [block for block in blocks(page) if block.language in RUN and block.reason is None]
    for block in found:
        for name in NEEDS.findall(block.text):
            if find_spec(name) is None:
                pytest.skip(f"{name} is not installed, which this page needs")
    return found


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_run(
    page: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = runnable(page)
    folder = tmp_path / "work"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with mock.patch.dict(os.environ):  # an example may set variables
        for block in found:
            if block.language == "python":
                run_python(block.text, namespace, page)
            else:
                shell(block.text, folder)


def test_the_newcomer_types_all_that_the_first_pages_print() -> None:
    """scripts/newcomer.py runs it in a clean clone; here, that nothing is left out."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import newcomer
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    listed = (DOCS / "start" / "index.md").read_text(encoding="utf-8")
    order = re.findall(
        r"^([a-z-]+)$", listed.partition("```{toctree}")[2].partition("```")[0], re.M
    )
    assert list(newcomer.START) == order
    for page in newcomer.pages(ROOT):
        typed = [step.text for step in newcomer.steps(page)]
        assert typed == [block.text for block in runnable(page)]
    readme = [step.text for step in newcomer.steps(ROOT / "README.md")]
    assert any("kernelite predict test.svm svm.kernelite" in text for text in readme)


def test_every_language_is_known() -> None:
    """A block that is neither run nor shown on purpose would be forgotten."""
    for page in pages():
        for block in blocks(page):
            assert block.language in {*RUN, *SHOWN}, f"{page.name}: {block.language}"


def test_what_is_not_run_says_why() -> None:
    reasons = [block.reason for page in pages() for block in blocks(page) if block.reason]
    assert reasons
    assert all(len(reason) > 10 for reason in reasons)


@pytest.mark.parametrize("script", sorted((ROOT / "examples" / "gallery").glob("plot_*.py")))
def test_gallery_scripts_are_sound(script: Path) -> None:
    """They run when the site is built; here, that each is Python with a title and a picture."""
    text = script.read_text(encoding="utf-8")
    tree = compile(text, script.name, "exec")
    title, line = (tree.co_consts[0] or "").strip().splitlines()[:2]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert "plt.show()" in text


def test_the_gallery_is_large_enough() -> None:
    assert len(list((ROOT / "examples" / "gallery").glob("plot_*.py"))) >= 12


ATTACKS: dict[str, tuple[bytes, str | None, int]] = {
    "rows": (b"[[0.5, 1.0]]", None, 200),
    "nested deeply": (b"[" * 200_000, None, 400),
    "beyond doubles": (f"[[1{'0' * 400}, 1]]".encode(), None, 400),
    "many digits": (f"[[1{'0' * 5000}, 1]]".encode(), None, 400),
    "another width": (b"[[1, 2, 3]]", None, 400),
    "an object": (b'{"rows": [[1, 2]]}', None, 400),
    "no JSON": (b"\xff", None, 400),
    "NaN": (b"[[NaN, 1]]", None, 400),
    "a negative length": (b"[[1, 2]]", "-1", 411),
    "no length": (b"", "", 411),
    "a length in words": (b"[[1, 2]]", "eight", 411),
    "a long body": (b"", str(2**40), 413),
    "a length of many digits": (b"", "9" * 6000, 413),
}


def test_the_server_answers_attacks_by_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bump = SVC().fit([[0.0, 0.0], [1.0, 1.0]], ["no", "yes"])
    kernelite.compile(bump, guarantee="exact").save("cancer.kernelite")
    (text,) = (b.text for b in blocks(DOCS / "guide" / "serving.md") if "# server.py" in b.text)
    namespace: dict[str, Any] = {}
    run_python(text, namespace, DOCS / "guide" / "serving.md")
    server = namespace["server"]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for name, (body, length, code) in ATTACKS.items():
            connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
            connection.putrequest("POST", "/")
            if length != "":
                connection.putheader("Content-Length", length or str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = json.loads(answer.read())
            connection.close()
            assert answer.status == code, name
            assert code == 200 or (found["error"] and "\n" not in found["error"]), name
    finally:
        server.shutdown()
        server.server_close()
