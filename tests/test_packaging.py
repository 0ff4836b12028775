"""What a release and its project page need: metadata that agree, a workflow that is sound."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import kernelite
from kernelite.support.errors import OLDEST_SCIKIT_LEARN

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
# What GitHub's schema of workflows allows where we use it.
JOB_KEYS = {
    *("name", "needs", "if", "runs-on", "strategy", "steps", "timeout-minutes", "env"),
    *("environment", "permissions"),
}
STEP_KEYS = {"name", "id", "if", "uses", "with", "run", "shell", "env", "working-directory"}
CONTEXTS = {"github", "matrix", "env", "runner", "steps", "needs"}


@pytest.fixture(scope="module")
def yaml() -> Any:
    return pytest.importorskip("yaml", reason="PyYAML is not installed: extra `test` brings it")


@pytest.fixture(scope="module")
def workflow(yaml: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return loaded


def test_one_version_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == kernelite.__version__
    assert f"version: {kernelite.__version__}\n" in citation
    assert f"## {kernelite.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_all_that_the_tests_need_is_in_the_source_distribution() -> None:
    """Every tracked file, save for what only a checkout needs."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    tops = {name.partition("/")[0] for name in listed}
    left = {top for top in tops if not any(fnmatch(f"/{top}", pattern) for pattern in patterns)}
    # The last comes by itself.
    assert left <= {".ci", ".gitignore", ".pre-commit-config.yaml", "pyproject.toml"}, left


def test_the_page_of_the_project_has_links() -> None:
    assert list(PROJECT["urls"]) == ["Homepage"]  # one setting says where the project lives
    assert PROJECT["urls"]["Homepage"].startswith("https://")


def test_nothing_says_that_it_can_be_had_from_an_index() -> None:
    """Until it is published: a command that names kernelite would fetch somebody else's."""
    suffixes = {".py", ".md", ".toml", ".html", ".c", ".yml"}
    files = [
        ROOT / "README.md",
        *(p for f in ("src", "docs", "examples") for p in (ROOT / f).rglob("*")),
    ]
    texts = [p for p in files if p.suffix in suffixes and "_build" not in p.parts]
    assert len(texts) > 200
    for path in texts:
        found = re.search(r"pip install ['\"]?kernelite", path.read_text(encoding="utf-8"))
        assert found is None, path


def test_scikit_learn_is_an_extra_whose_version_is_checked() -> None:
    extras = PROJECT["optional-dependencies"]
    names = {re.split(r"[>=]", text)[0] for text in PROJECT["dependencies"]}
    assert names == {"numpy", "scipy", "safetensors", "rich", "threadpoolctl"}
    assert extras["sklearn"] == [f"scikit-learn>={'.'.join(map(str, OLDEST_SCIKIT_LEARN))}"]
    for extra in ("all", "bench", "demo", "docs", "test"):
        assert any(re.search(r"kernelite\[.*\bsklearn\b", text) for text in extras[extra]), extra


def test_all_brings_every_extra_that_users_need() -> None:
    extras = PROJECT["optional-dependencies"]
    [text] = extras["all"]
    own = {"all", "bench", "demo", "dev", "docs", "release", "test"}
    assert set(text.removeprefix("kernelite[").rstrip("]").split(",")) == set(extras) - own


def classified() -> list[str]:
    found = (re.search(r":: (3\.\d+)$", line) for line in PROJECT["classifiers"])
    return [match[1] for match in found if match]


def test_each_version_of_python_is_named_and_tested(workflow: dict[str, Any]) -> None:
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == classified()
    assert PROJECT["requires-python"] == f">={tested[0]}"
    policy = (ROOT / "docs" / "project" / "policy.md").read_text(encoding="utf-8")
    assert f"| Python | {tested[0]} | {tested[-1]} |" in policy


def test_the_matrix_has_systems_and_both_ends_of_the_dependencies(workflow: dict[str, Any]) -> None:
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    oldest = [one for one in matrix["include"] if one["dependencies"] == "oldest"]
    assert {one["os"] for one in oldest} == set(matrix["os"])
    assert {one["python"] for one in oldest} == {classified()[0]}


@pytest.mark.parametrize(
    ("name", "when"), [("tests", {"push", "pull_request"}), ("publish", {"release"})]
)
def test_a_workflow_is_sound(yaml: Any, name: str, when: set[str]) -> None:
    path = WORKFLOW.with_name(f"{name}.yml")
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    triggers = workflow[True]  # YAML reads the word `on` as a truth value
    assert {"workflow_dispatch", *when} <= triggers.keys()
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", name)
        assert set(job) <= JOB_KEYS, name
        assert {"runs-on", "steps", "timeout-minutes"} <= set(job), name
        for step in job["steps"]:
            assert set(step) <= STEP_KEYS, step
            assert ("uses" in step) != ("run" in step), step
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
                assert f"{step['uses']} # v" in path.read_text(encoding="utf-8")


def test_only_what_publishes_may_sign(yaml: Any) -> None:
    path = WORKFLOW.with_name("publish.yml")
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert "permissions" not in jobs["build"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["if"] == "github.event_name == 'release'"
    assert jobs["publish"]["steps"][-1]["with"] == {"attestations": True}


def test_the_locked_versions_are_allowed() -> None:
    requirements = pytest.importorskip("packaging.requirements")
    lines = (ROOT / "constraints-dev.txt").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if "://" in line or "--" in line]
    locked: dict[str, list[str]] = {}
    for line in lines:
        found = requirements.Requirement(line)
        locked.setdefault(found.name, []).append(str(found.specifier).removeprefix("=="))
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["test"], *extras["dev"], *extras["docs"]]
    for text in wanted:
        need = requirements.Requirement(text)
        if need.name != PROJECT["name"]:
            assert all(need.specifier.contains(one) for one in locked[need.name]), text


def test_expressions_of_the_workflow_name_what_exists(workflow: dict[str, Any]) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    known = set(workflow["jobs"]["test"]["strategy"]["matrix"]) - {"include"}
    found = re.findall(r"\$\{\{ *([\w.]+) *\}\}", text)
    assert found
    assert len(found) == text.count("${{")
    for expression in found:
        context, _, rest = expression.partition(".")
        assert context in CONTEXTS
        assert context != "matrix" or rest in known


def test_commands_of_the_workflow_exist(workflow: dict[str, Any]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    for command in commands:
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets
        for script in re.findall(r"python (\S+\.py)", command):
            assert (ROOT / script).is_file(), script


def test_the_oldest_dependencies_are_pinned() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "oldest.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = dict(line.split("==") for line in ran.stdout.split())
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["sklearn"]]
    assert set(lines) == {re.split(r"[>=]", text)[0] for text in wanted}
    assert lines["numpy"] == "1.26.*"


def test_forms_of_issues_ask_for_something(yaml: Any) -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) >= 4
    for form in forms:
        loaded = yaml.safe_load(form.read_text(encoding="utf-8"))
        if form.stem == "config":
            assert loaded["blank_issues_enabled"] is False
            continue
        assert {"name", "description", "body"} <= loaded.keys()
        assert any(part.get("validations", {}).get("required") for part in loaded["body"])


def test_the_citation_names_the_paper(yaml: Any) -> None:
    loaded = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert loaded["cff-version"] == "1.2.0"
    assert loaded["license"] == PROJECT["license"]
    [paper] = loaded["references"]
    assert "Fast Prediction with SVM Models" in paper["title"]
    assert "1403.0736" in json.dumps(paper["identifiers"])
