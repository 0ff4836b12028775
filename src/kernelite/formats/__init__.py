"""Deprecated: `kernelite.store.files` and `kernelite.tables.data` have what was here.

`kernelite.formats.store` and `kernelite.formats.data` are these modules under their old names until
the release after next.
"""

import sys
import warnings

from kernelite.store import files
from kernelite.tables import data

warnings.warn(
    "kernelite.formats is deprecated: use kernelite.store.files for model files and "
    "kernelite.tables.data for rows.",
    DeprecationWarning,
    stacklevel=2,
)
store = files
sys.modules["kernelite.formats.store"] = files
sys.modules["kernelite.formats.data"] = data
