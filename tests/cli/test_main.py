"""The command itself: help, version, usage errors, and one verb a file."""

from __future__ import annotations

import importlib

import pytest

from kernelite import __version__
from kernelite.cli import VERBS


def test_version(good) -> None:
    assert good("--version").out == f"kernelite {__version__}\n"


def test_no_arguments_is_a_call_for_help(good) -> None:
    help_text = good("--help").out
    assert good().out == help_text
    assert all(verb in help_text for verb in VERBS)
    assert "examples:" in help_text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples_and_json(verb, good) -> None:
    out = good(verb, "--help").out
    assert out.startswith(f"usage: kernelite {verb}")
    assert f"kernelite {verb}" in out.partition("examples:")[2]
    assert "--json" in out or verb == "run"  # whose output is the script's
    module = importlib.import_module(f"kernelite.cli.{verb.replace('-', '_')}")
    assert callable(module.configure)
    assert callable(module.run)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dance"], "invalid choice: 'dance'"),
        (["--dance"], "VERB"),
        (["predict", "data", "model"], "OUTPUT"),
        (["predict", "data", "model", "out", "-b", "2"], "-b"),
        (["predict", "data", "model", "-", "--json"], "--json"),
        (["compile", "model"], "-o"),
        (["compile", "m", "-o", "x", "--guarantee", "sure"], "certified"),
        (["compile", "m", "-o", "x", "--guar", "none"], "--guar"),
        (["compile", "m", "-o", "x", "--expansion-point", "1,x"], "`x` is not a decimal number"),
        (["compile", "m", "-o", "x", "--max-bytes", "many"], "512M"),
        (["compile", "m", "-o", "x", "--tolerance", "0"], "should be positive"),
        (["analyse", "data", "--gamma", "-1"], "should be positive"),
        (["analyse", "data", "--gamma", "nan"], "not finite"),
        (["xval", "data", "--folds", "1"], "2 or more"),
        (["xval", "data", "--C", "1:2"], "LOW:HIGH:COUNT"),
        (["xval", "data", "--C", "1,,2"], "empty"),
        (["xval", "data", "--type", "nu-svc", "--C", "1"], "no such parameter"),
        (["xval", "data", "--epsilon", "1"], "only for --type svr"),
        (["check"], "FILE"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, says, kernelite) -> None:
    ran = kernelite(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert says in ran.err
    first, second = ran.err.splitlines()  # what is wrong, and where help is
    assert first.startswith("kernelite")
    assert second.endswith("--help`.")
