"""The reference has every public name and every command."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

import kernelite
from kernelite.cli.main import VERBS
from tests.docs.pages import DOCS, ROOT

API = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
PUBLIC = ("export", "dask", "spark", "ray", "mlflow", "scoring", "estimators", "store.files")
CONSTANTS = {"VERSION"}


def named() -> set[str]:
    """Names in the summaries of the page."""
    body = "".join(re.findall(r"```\{eval-rst\}(.*?)```", API, re.DOTALL))
    return set(re.findall(r"^   ([a-zA-Z_][\w.]*)$", body, re.MULTILINE))


def test_every_name_of_the_package_is_there() -> None:
    elsewhere = {"__version__": "kl.__version__", "export": "kl.export(model, path)"}
    for name in kernelite.__all__:
        assert name in named() or elsewhere[name] in API, name


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_of_a_public_module_is_there(module: str) -> None:
    public = set(import_module(f"kernelite.{module}").__all__) - CONSTANTS
    missing = {name for name in public if f"{module}.{name}" not in named()}
    assert missing <= named()


def test_every_name_on_the_page_exists_and_is_explained() -> None:
    for name in named():
        module, _, last = f"kernelite.{name}".rpartition(".")
        found = getattr(import_module(module), last)
        assert (found.__doc__ or "").strip(), name


def test_every_command_is_there() -> None:
    import tomllib

    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"```\{command\} (\S+)", page))
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert shown == set(VERBS) | set(scripts["project"]["scripts"]) - {"kernelite"}
