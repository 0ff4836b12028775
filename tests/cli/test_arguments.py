"""Arguments as users write them."""

from __future__ import annotations

import argparse

import pytest

from kernelite.cli.arguments import (
    add_compile_options,
    add_data_options,
    compile_options,
    data_options,
    grid,
)


@pytest.fixture
def parse():
    parser = argparse.ArgumentParser()
    add_compile_options(parser)
    add_data_options(parser)
    return lambda *arguments: parser.parse_args(arguments)


def test_what_was_not_given_is_not_passed_on(parse) -> None:
    assert compile_options(parse()) == {}
    assert data_options(parse()) == {}


def test_compile_options(parse) -> None:
    given = parse(
        *("--guarantee", "none", "--expansion-point", "0.5,-1,2e-1", "--max-bytes", "2M"),
        *("--tolerance", "0.1", "--random-state", "3"),
        *("--max-disagreement", "0.01", "--confidence", "0.9"),
    )
    assert compile_options(given) == {
        "guarantee": "none",
        "expansion_point": [0.5, -1.0, 0.2],
        "max_bytes": 2 * 2**20,
        "tolerance": 0.1,
        "random_state": 3,
        "max_disagreement": 0.01,
        "confidence": 0.9,
    }
    assert compile_options(parse("--expansion-point", "origin"))["expansion_point"] == "origin"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--label-column", "target"], {"label_column": "target"}),
        (["--label-column", "-1"], {"label_column": -1}),
        (["--label-column", "none"], {"label_column": None}),
        (["--delimiter", "tab"], {"delimiter": "\t"}),
        (["--delimiter", ";"], {"delimiter": ";"}),
        (["--header"], {"header": True}),
        (["--no-header"], {"header": False}),
        (["--data-format", "libsvm"], {"format": "libsvm"}),
    ],
)
def test_data_options(parse, arguments, options) -> None:
    assert data_options(parse(*arguments)) == options


@pytest.mark.parametrize("text", ["512", "512B", "512b", "512 B"])
def test_bytes(parse, text) -> None:
    assert compile_options(parse("--max-bytes", text)) == {"max_bytes": 512}


def test_grids() -> None:
    assert grid("1") == [1.0]
    assert grid("1,2.5") == [1.0, 2.5]
    assert grid("4:4:1") == [4.0]
    assert grid("1:16:5") == pytest.approx([1, 2, 4, 8, 16])
    for wrong in ("", "0", "1,-1", "a", "1:2", "1:2:0", "1:2:3:4", "1:2:1001", "inf"):
        with pytest.raises(argparse.ArgumentTypeError):
            grid(wrong)
