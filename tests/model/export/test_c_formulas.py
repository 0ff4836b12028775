"""Literals read back to the same bits; strings and comments cannot break out."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelite.backends.c.formulas import array, comment, literal, string
from kernelite.support.errors import UnsupportedModelError


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back(value: float) -> None:
    text = literal(value)
    assert float(text) == value
    assert re.search(r"[.e]", text)  # never an integer


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_floats_read_back(value: float) -> None:
    text = literal(value, "float32")
    assert text.endswith("f")
    assert np.float32(float(text[:-1])) == np.float32(value)


def test_what_float32_cannot_hold_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="float32 cannot"), np.errstate(over="ignore"):
        literal(1e39, "float32")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
def test_strings_read_back(text: str) -> None:
    written = string(text)
    assert written.isascii()
    # Python reads the same escapes, but for the question mark's.
    assert ast.literal_eval("b" + written.replace("\\?", "?")).decode("utf-8") == text


def test_strings_that_c_has_not_are_refused() -> None:
    for text in ("a\0b", "x" * 5000, "half a letter \ud800"):
        with pytest.raises(UnsupportedModelError, match="C string"):
            string(text)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_comments_stay_comments(lines: list[str]) -> None:
    text = comment(*lines)
    assert text.startswith("/* ")
    assert text.index("*/") == len(text) - 3
    assert text.count("/*") == 1
    assert "??" not in text


def test_arrays_wrap() -> None:
    values = np.random.default_rng(0).normal(size=240)
    text = array("m", values)
    assert text.startswith("static const double m[240] = {")
    assert max(map(len, text.splitlines())) <= 100
    numbers = re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?", text)
    np.testing.assert_array_equal(np.array(numbers, dtype=float), values)
