"""A development tool: what compiled models answer, recorded by one checkout, replayed by another.

    python -m tests.recorder record FOLDER
    PYTHONPATH=OTHER/src python -m tests.recorder replay FOLDER [--allow rewritten]

The kernelite that is imported is the one on PYTHONPATH; the models are those of `tests.models`,
fitted once by `record` and kept in the folder, so that both see the same bits.
"""
