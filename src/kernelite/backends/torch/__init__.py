"""Compiled models on a GPU: lowerings to torch operations and Triton kernels (extra `torch`).

In: a `CompiledModel`. Out: torch modules that hold its arrays as buffers and answer tensors where
they lie, with scores, bounds, the stage that settled each row, and labels. Public face:
`kernelite.torch`, and `fast.predict(tensor)`.
"""
