"""kernelite against what a user would pick instead: answers verified, then timed side by side.

`python -m benchmarks` runs, `python -m benchmarks.readme` writes the README's table from the
results, `python -m benchmarks.paper` regenerates the paper's tables.
"""

import os

# Times are those of the kernels, not of what answers while they compile.
os.environ.setdefault("KERNELITE_COMPILE", "wait")
if "NUMBA_CPU_NAME" in os.environ:
    # Else numba would keep this machine's own instructions beside those of the processor named.
    os.environ.setdefault("NUMBA_CPU_FEATURES", "")
