"""Where torch is absent, nothing here is collected; without a GPU, Triton's interpreter runs."""

from __future__ import annotations

import os
from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") is not None else ["*.py"]

if find_spec("torch") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are first loaded
