"""kernelite against what a user would pick instead: answers verified, then timed side by side.

`python -m benchmarks` runs, `python -m benchmarks.readme` writes the README's table from the
results, `python -m benchmarks.paper` regenerates the paper's tables.
"""
