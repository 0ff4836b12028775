"""The reference has every public name and every command."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

import kernelite
from kernelite.cli import VERBS
from kernelite.store.files import VERSION
from tests.docs.pages import DOCS, ROOT
from tests.store.models import HEADS, compiled

API = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
PUBLIC = ("backends.onnx", "backends.c", "dask", "spark", "ray", "mlflow", "data.scoring")
PUBLIC += ("model.estimators", "store.files")
CONSTANTS = {"VERSION"}


def named() -> set[str]:
    """Names in the summaries of the page."""
    body = "".join(re.findall(r"```\{eval-rst\}(.*?)```", API, re.DOTALL))
    return set(re.findall(r"^   ([a-zA-Z_][\w.]*)$", body, re.MULTILINE))


def test_every_name_of_the_package_is_there() -> None:
    elsewhere = {"__version__": "kl.__version__"}
    for name in kernelite.__all__:
        assert name in named() or elsewhere[name] in API, name


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_of_a_public_module_is_there(module: str) -> None:
    public = set(import_module(f"kernelite.{module}").__all__) - CONSTANTS
    missing = {name for name in public if f"{module}.{name}" not in named()}
    assert missing <= named()


def test_every_name_for_torch_is_there() -> None:
    """Read off the source: torch itself is seldom installed where the site is built."""
    source = (ROOT / "src" / "kernelite" / "torch.py").read_text(encoding="utf-8")
    [names] = re.findall(r"^__all__ = (\[.*\])$", source, re.MULTILINE)
    for name in ast.literal_eval(names):
        assert f"`kernelite.torch.{name}" in API, name


def test_every_name_on_the_page_exists_and_is_explained() -> None:
    for name in named():
        module, _, last = f"kernelite.{name}".rpartition(".")
        found = getattr(import_module(module), last)
        assert (found.__doc__ or "").strip(), name


def test_the_format_is_the_one_that_is_written() -> None:
    page = (DOCS / "reference" / "format.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"`CompiledModel` with the fields (.*?)\.\n", page, re.DOTALL)
    stored = compiled(HEADS["three"], exact=True).__pack__()
    assert set(re.findall(r"`(\w+)`", listed)) == set(stored)
    assert f"the specification of version {VERSION}." in page
    assert f'"version": {VERSION}' in page


def test_plans_say_what_the_page_about_them_quotes() -> None:
    """Each sentence in the table of reasons stands in the planner, numbers aside."""
    page = (DOCS / "start" / "why-exact.md").read_text(encoding="utf-8")
    folder = ROOT / "src" / "kernelite"
    sources = "".join(
        path.read_text(encoding="utf-8")
        for room in ("planner", "model/compiler")
        for path in sorted((folder / room).glob("*.py"))
    )
    table = re.findall(r"^\| .*", page.partition("## Gamma against speed")[0], re.MULTILINE)
    quoted = [words for row in table for words in re.findall(r'"([^"|]+)"', row.split(" | ")[0])]
    assert len(quoted) >= 8
    for words in quoted:
        assert all(part in sources for part in re.split(r"\d+", words)), words


def test_every_command_is_there() -> None:
    import tomllib

    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"```\{command\} (\S+)", page))
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert shown == set(VERBS) | set(scripts["project"]["scripts"]) - {"kernelite"}
