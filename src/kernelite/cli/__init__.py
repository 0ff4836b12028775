"""The command line: `kernelite VERB ...`, one file a verb, and approxsvm's four commands."""

from kernelite.cli.main import main

__all__ = ["main"]
