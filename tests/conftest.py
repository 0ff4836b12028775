"""For all tests: kernels are waited for, so that answers are those of one engine, to the bit."""

from __future__ import annotations

import os

os.environ.setdefault("KERNELITE_COMPILE", "wait")
