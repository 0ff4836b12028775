"""What a command shows (tables and JSON on stdout, notes on stderr), and how it ends.

A table is drawn by rich on a terminal and is plain aligned text in a pipe or a file.
"""

from __future__ import annotations

import _thread
import argparse
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

from kernelite.support.errors import KerneliteError
from kernelite.support.terminal import PrintableStream, printable, unwrapped

__all__ = ["ShortParser", "guarded", "note", "print_json", "print_table"]


class ShortParser(argparse.ArgumentParser):
    """A parser whose mistakes take two lines: what is wrong, and where help is."""

    def error(self, message: str) -> NoReturn:
        """Say it, and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")


def note(message: str, *, quiet: bool = False) -> None:
    """One line for people, on stderr."""
    if not quiet:
        print(printable(message, one_line=True), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """`value` as JSON on stdout; NaN and infinities become null, NumPy's scalars numbers."""
    # All but ASCII is escaped in JSON; DEL is ASCII.
    print(json.dumps(_plain(value), indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, marked: int | None = None
) -> None:
    """A table on stdout.

    Parameters
    ----------
    columns : sequence of str
        Headings; a column is aligned to the right unless it is the first.
    rows : sequence of sequence of str
        Cells.
    marked : int, optional
        Row shown in bold, on a terminal.

    Examples
    --------
    >>> print_table(["name", "rows"], [["a", "10"], ["bb", "9"]])
    name  rows
    a       10
    bb       9
    """
    columns, *rows = ([printable(cell, one_line=True) for cell in row] for row in [columns, *rows])
    if sys.stdout.isatty():
        _rich_table(columns, rows, marked)
        return
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], marked: int | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if i else "left")
    for i, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if i == marked else None)
    Console(file=unwrapped(sys.stdout)).print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# From what can go wrong to an exit code and one line on stderr; never a traceback for a mistake.
#
# Warnings become one line each, shown once however often they are raised.


BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 130, 141


def guarded(program: str, command: Callable[[], int]) -> int:
    """Run `command` and return its exit code, whatever happens to it.

    Parameters
    ----------
    program : str
        The name before each message.
    command : callable
        Returns an exit code.

    Returns
    -------
    int
        Of the command; 1 for bad input, 2 for wrong usage, 130 after Ctrl-C, 143 or 129 after
        SIGTERM or SIGHUP, 141 when the reader of stdout went away.
    """
    _open_missing_streams()
    # A file name or a label may hold what the terminal cannot show.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    with _harmless_streams():
        try:
            return _code_of(program, command)
        except BrokenPipeError:
            return BROKEN_PIPE
        finally:
            _settle(sys.stdout)


# What the dynamic linker says where a library finds no room in memory.
NO_ROOM = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")


@contextmanager
def _harmless_streams() -> Iterator[None]:
    """Whatever is printed, by whom ever, holds nothing that a terminal would obey."""
    streams: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(PrintableStream, streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def _code_of(program: str, command: Callable[[], int]) -> int:
    try:
        with _warnings_as_lines(program), _interrupts_kept(), _stops_clean_up():
            code = command()
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse: --help, --version, wrong usage
        return stop.code if isinstance(stop.code, int) else 0
    except _Stopped as stop:
        return 128 + int(stop.args[0])
    except KeyboardInterrupt:
        _say(program, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except KerneliteError as error:
        _say(program, f"error: {error}")
    except OSError as error:
        _say(program, f"error: {_in_words(error)}")
    except ImportError as error:
        if not any(reason in str(error) for reason in NO_ROOM):
            raise
        _say(program, f"error: not enough memory (a library cannot be loaded: {error})")
    except MemoryError as error:
        _say(program, f"error: not enough memory{f' ({error})' if str(error) else ''}")
    return BAD_INPUT


def _open_missing_streams() -> None:
    """A stream that the caller closed (`>&-`) is None; writing to such a stdout has to fail."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _in_words(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{os.fspath(error.filename)}: {reason}"


def _say(program: str, message: str) -> None:
    one_line = " ".join(message.split())
    try:
        print(f"{program}: {one_line}", file=sys.stderr, flush=True)
    except OSError:  # stderr is closed; there is nobody to tell
        _settle(sys.stderr)


def _settle(stream: TextIO) -> None:
    """Flush; what cannot be written goes nowhere, lest the interpreter complain at its end."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _Stopped(KeyboardInterrupt):
    """A signal, its number the argument, that asks the program to end."""


@contextmanager
def _stops_clean_up() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does: nothing half-written stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def stop(number: int, _: object) -> None:
        raise _Stopped(number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    # nohup's and a caller's own handlers stay.
    ours = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Ctrl-C while C calls Python, as numba's compiler does, is dropped there: repeat it."""
    before = sys.unraisablehook

    def again(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        # Not at once: the call from C has to end first, or it would be dropped again.
        timer = threading.Timer(0.05, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _warnings_as_lines(program: str) -> Iterator[None]:
    """Show each warning once, as one line."""
    said: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (text := str(message)) not in said:
            said.add(text)
            _say(program, f"warning: {text}")

    with warnings.catch_warnings():
        for meant_for_developers in (
            DeprecationWarning,
            PendingDeprecationWarning,
            ResourceWarning,
        ):
            warnings.simplefilter("ignore", meant_for_developers)
        warnings.showwarning = show
        yield
