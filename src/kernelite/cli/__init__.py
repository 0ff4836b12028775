"""The command line: `kernelite VERB ...`, one file per verb, and approxsvm's four commands.

Only the verb that was asked for is imported, so `kernelite --help` loads no numerical library.

examples:
  kernelite demo
  kernelite compile svm.model -o svm.kernelite --sample train.svm
  kernelite predict test.svm svm.kernelite labels.txt
  kernelite VERB --help

exit codes: 0 done, 1 bad input, 2 wrong usage, 130 interrupted
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from kernelite import __version__
from kernelite.cli.console import ShortParser, guarded

__all__ = ["VERBS", "command", "examples", "main"]

VERBS = {
    "analyse": "find the largest gamma for which a data set's models can be approximated",
    "compile": "turn a fitted model into a fast predictor",
    "predict": "predict a data file's rows with a compiled or an exact model",
    "explain": "say how much each column accounts for in the score of each row",
    "export": "write a compiled model for ONNX, C or JavaScript",
    "report": "make a page about a model and how it does on some rows",
    "xval": "cross-validate grids of C and gamma, exact against compiled",
    "inspect": "say what a model file holds and what it guarantees",
    "check": "say what is wrong with a data or model file, and in which lines",
    "fetch": "download the data sets of the paper, and check them",
    "run": "run a Python script whose scikit-learn machines answer through kernelite",
    "warm-up": "build the kernels for this machine, where no wheel brought them",
    "demo": "train, compile and compare on data that scikit-learn ships",
}
"""Verb -> what it does.

The module `kernelite.cli.VERB` has `configure(parser)` and `run(args)`; its docstring ends in the
examples that its help shows.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> main(["--version"])
    kernelite 0.2.0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded("kernelite", lambda: _run(arguments))


def command() -> NoReturn:
    """What the shell runs: `main`, and out at once.

    Taking apart all that was imported, object by object, takes longer than most predictions.
    """
    code = main()  # which leaves nothing unwritten
    atexit._run_exitfuncs()
    os._exit(code)


def _run(arguments: list[str]) -> int:
    parser = _parser(arguments)
    if not arguments:
        parser.print_help()
        return 0
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        args.usage_error(f"unrecognized arguments: {' '.join(unknown)}")
    verb: Any = _module(args.verb)
    if getattr(args, "quiet", False):
        import logging

        logging.getLogger("kernelite").setLevel(logging.ERROR)
    return int(verb.run(args))


def _module(verb: str) -> Any:
    return import_module(f"kernelite.cli.{verb.replace('-', '_')}")


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    parser = ShortParser(
        prog="kernelite",
        description="Compiles fitted kernel machines into fast predictors.",
        epilog=examples(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kernelite {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in VERBS.items():
        own = verbs.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        own.set_defaults(usage_error=own.error)
        if name == wanted:
            verb: Any = _module(name)
            own.epilog = examples(verb.__doc__)
            verb.configure(own)
    return parser


def examples(text: str | None) -> str:
    """The end of a docstring, from its examples on; nothing where docstrings were left out."""
    return "".join((text or "").partition("examples:\n")[1:])
