"""Compiled models as ONNX graphs."""

from kernelite.backends.onnx.exporting import to_onnx

__all__ = ["to_onnx"]
