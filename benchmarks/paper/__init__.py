"""The paper, regenerated: its three tables and its figure, on real data, next to kernelite's rows.

Claesen, De Smet, Suykens, De Moor, "Fast Prediction with SVM Models Containing RBF Kernels" (2014).
`python -m benchmarks.paper` measures and writes docs/paper.json, .html and .md.
"""
