"""`python -m kernelite` is the command `kernelite`."""

from __future__ import annotations

import sys

from kernelite.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
