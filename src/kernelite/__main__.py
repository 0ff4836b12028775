"""`python -m kernelite` is the command `kernelite`."""

from __future__ import annotations

from kernelite.cli import command

if __name__ == "__main__":
    command()
