"""The command line: `kernelite VERB ...`, one file a verb, and approxsvm's four commands."""

from kernelite.cli.main import command, main

__all__ = ["command", "main"]
