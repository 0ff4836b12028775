"""Compiled models as C99 headers."""

from kernelite.backends.c.exporting import to_c, to_c_program

__all__ = ["to_c", "to_c_program"]
