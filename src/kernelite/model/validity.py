"""What happens when rows lie outside the paper's validity bound: one summary a call."""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias

from kernelite.errors import InputError, OutsideValidityError

__all__ = ["OnInvalid", "OutsideValidityWarning", "check_on_invalid", "report_invalid"]

OnInvalid: TypeAlias = Literal["warn", "raise", "ignore"]


class OutsideValidityWarning(UserWarning):
    """Some rows of a call lie outside the validity bound, so their scores may be off.

    Parameters
    ----------
    message : str
    outside, total : int
        Rows outside the bound, and rows of the call; kept, for callers that sum over calls.
    """

    def __init__(self, message: str, outside: int = 0, total: int = 0) -> None:
        super().__init__(message)
        self.outside = outside
        self.total = total


def check_on_invalid(value: str) -> None:
    """Refuse an unknown policy."""
    if value not in ("warn", "raise", "ignore"):
        raise InputError(f"`on_invalid` must be 'warn', 'raise' or 'ignore', got {value!r}.")


def report_invalid(outside: int, total: int, policy: OnInvalid) -> None:
    """Warn, raise or stay silent about `outside` of `total` rows."""
    check_on_invalid(policy)
    if outside == 0 or policy == "ignore":
        return
    message = (
        f"{outside} of {total} rows ({100 * outside / total:.2f}%) lie outside the validity bound "
        "of the quadratic form, so their scores may be off; train with a smaller gamma, or pass "
        "`on_invalid='ignore'` if that is known."
    )
    if policy == "raise":
        raise OutsideValidityError(message)
    warnings.warn(OutsideValidityWarning(message, outside, total), stacklevel=4)
