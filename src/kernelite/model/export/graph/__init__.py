"""Compiled models as graphs of operators on tensors, which ONNX and JavaScript write."""
