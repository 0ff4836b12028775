"""Strict decimal numbers: a token of text comes in, a finite double or a bounded integer goes out.

`float()` also reads `1_000`, `nan`, `inf` and digits of other scripts; files may hold none of them.
Parsing never looks at the locale, and doubles are correctly rounded, as Python's are.
"""

from __future__ import annotations

import math
import re

__all__ = ["DECIMAL", "BadNumber", "parse_float", "parse_int", "quote"]

DECIMAL = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
"""Regular expression of one decimal number; possessive, so it never backtracks over digits."""

_DECIMAL = re.compile(DECIMAL)
_INTEGER = re.compile(r"[+-]?[0-9]++")
_COMMA_DECIMAL = re.compile(r"[+-]?[0-9]*+,[0-9]++(?:[eE][+-]?[0-9]++)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan(?:\(.*\))?|inf(?:inity)?)", re.IGNORECASE)
_SHOWN = 40  # characters of a token that a message repeats


class BadNumber(ValueError):
    """A token that is not an acceptable number; the message names it and says why."""


def quote(token: str) -> str:
    """`token` in backticks, printable and short enough for one line.

    Parameters
    ----------
    token : str
        Any text from a file.

    Returns
    -------
    str
        At most 40 characters of it, control characters escaped.

    Examples
    --------
    >>> quote("1:2\\x00"), quote("7" * 100) == "`" + "7" * 40 + "...`"
    ('`1:2\\\\x00`', True)
    """
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in token[:_SHOWN]
    )
    return f"`{shown}...`" if len(token) > _SHOWN else f"`{shown}`"


def parse_float(token: str, what: str = "value") -> float:
    """The finite double nearest to a decimal token.

    Parameters
    ----------
    token : str
        ASCII digits with optional sign, point and exponent; no surrounding blanks.
    what : str
        What the number is, for the message.

    Returns
    -------
    float
        Correctly rounded; numbers under the smallest denormal become zero.

    Raises
    ------
    BadNumber
        For anything else: NaN, infinities, overflow, hexadecimal, underscores, decimal commas.

    Examples
    --------
    >>> parse_float("-1.5e3")
    -1500.0
    >>> parse_float("1e999", "label")
    Traceback (most recent call last):
    kernelite.tables.numbers.BadNumber: label `1e999` is too large for a double
    """
    if _DECIMAL.fullmatch(token) is None:
        raise BadNumber(f"{what} {quote(token)} {_why_not_decimal(token)}")
    number = float(token)
    if math.isinf(number):
        raise BadNumber(f"{what} {quote(token)} is too large for a double")
    return number


def parse_int(token: str, what: str = "count", *, low: int = 0, high: int = 2**63 - 1) -> int:
    """The integer that a decimal token writes, within bounds.

    Parameters
    ----------
    token : str
        ASCII digits with an optional sign; no surrounding blanks.
    what : str
        What the number is, for the message.
    low, high : int
        Smallest and largest accepted value.

    Returns
    -------
    int
        A value in [low, high].

    Raises
    ------
    BadNumber
        If the token is not an integer, or is out of bounds.

    Examples
    --------
    >>> parse_int("12")
    12
    >>> parse_int("-3", "total_sv", low=1)
    Traceback (most recent call last):
    kernelite.tables.numbers.BadNumber: total_sv `-3` is out of range, expected 1 or more
    """
    if _INTEGER.fullmatch(token) is None:
        raise BadNumber(f"{what} {quote(token)} is not an integer")
    # Python refuses to convert thousands of digits; no bound here has more than 19.
    digits = token.lstrip("+-").lstrip("0")
    if len(digits) > 30:
        number = -(10**30) if token.startswith("-") else 10**30
    else:
        number = int(token)
    if low <= number <= high:
        return number
    accepted = f"{low} or more" if number < low else f"at most {high}"
    raise BadNumber(f"{what} {quote(token)} is out of range, expected {accepted}")


def _why_not_decimal(token: str) -> str:
    if not token:
        return "is empty, expected a number"
    if _NOT_FINITE.fullmatch(token):
        return "is not finite"
    if _COMMA_DECIMAL.fullmatch(token):
        return "has a decimal comma, write a decimal point"
    return "is not a decimal number"
