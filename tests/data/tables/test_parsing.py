"""Strict numbers accept exactly the plain decimals, and read them as Python does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelite.data.tables.parsing import BadNumber, parse_float, parse_int, quote


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_survives(number: float) -> None:
    again = parse_float(repr(number))
    assert again == number
    assert math.copysign(1, again) == math.copysign(1, number)


@pytest.mark.parametrize(
    ("token", "number"),
    [
        ("1.", 1.0),
        (".5", 0.5),
        ("+3", 3.0),
        ("-0", 0.0),
        ("007", 7.0),
        ("1E+2", 100.0),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("9007199254740993", 9007199254740992.0),  # a tie goes to even
        ("9007199254740993." + "0" * 2000 + "1", 9007199254740994.0),  # unless it is none
    ],
)
def test_accepted(token: str, number: float) -> None:
    assert parse_float(token) == number


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "empty"),
        ("nan", "not finite"),
        ("NaN", "not finite"),
        ("nan(5)", "not finite"),
        ("inf", "not finite"),
        ("-Infinity", "not finite"),
        ("1e999", "too large"),
        ("-1e999", "too large"),
        ("1,5", "decimal comma"),
        ("0x1p3", "not a decimal"),
        ("1_000", "not a decimal"),
        ("1e", "not a decimal"),
        (".", "not a decimal"),
        ("--1", "not a decimal"),
        (" 1", "not a decimal"),
        ("1\n", "not a decimal"),
        ("١", "not a decimal"),  # a digit to float(), in another script
        ("1d5", "not a decimal"),
    ],
)
def test_refused(token: str, reason: str) -> None:
    with pytest.raises(BadNumber) as caught:
        parse_float(token, "gamma")
    assert str(caught.value).startswith(f"gamma {quote(token)} ")
    assert reason in str(caught.value)


@given(st.text(max_size=12))
def test_never_more_lenient_than_float(token: str) -> None:
    try:
        number = parse_float(token)
    except BadNumber:
        return
    assert number == float(token)
    assert math.isfinite(number)


def test_integers() -> None:
    assert parse_int("0012") == 12
    assert parse_int("-" + "0" * 30_000 + "3", low=-5) == -3
    assert parse_int("-5", low=-5) == -5
    for token in ["1.0", "1e3", "", "x", "1_0", " 1", "٣"]:
        with pytest.raises(BadNumber, match="not an integer"):
            parse_int(token)
    for token in ["-1", "8", "9" * 10_000, "-" + "9" * 10_000]:
        with pytest.raises(BadNumber, match="out of range"):
            parse_int(token, high=7)


@given(st.text())
def test_quoted_text_is_one_short_printable_line(token: str) -> None:
    shown = quote(token)
    assert shown.isprintable()
    assert len(shown) <= 40 * 10 + 5
