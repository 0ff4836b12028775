"""Exports against what others export: onnxruntime on both graphs, C code size and speed.

`python -m benchmarks.exports` measures, saves results/exports.json and writes docs/exports.md.
"""
