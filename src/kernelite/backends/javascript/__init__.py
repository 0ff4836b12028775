"""Compiled models as JavaScript modules."""

from kernelite.backends.javascript.exporting import to_javascript

__all__ = ["to_javascript"]
