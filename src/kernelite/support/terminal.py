"""What a terminal gets: text that it shows and does not obey, and progress bars."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Self

__all__ = ["PrintableStream", "Progress", "escaped", "printable", "progress_bar", "unwrapped"]

# Text that a terminal shows and does not obey: names and labels may come from anyone.
#
# In: text. Out: the same, with control characters (C0, C1), marks that turn the direction of
# writing and invisible ones spelled out, as `\x1b`. Data that go to files and pipes are never
# changed.


_LINES = "\x00-\x08\x0b-\x1f"  # all of C0 but tab and line feed
_REST = (
    "\x7f-\x9f"  # DEL and C1, in which 9b is as good as ESC [
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_IN_LINES = re.compile(f"[{_LINES}{_REST}]")
_IN_A_LINE = re.compile(f"[\x00-\x1f{_REST}]")


def printable(text: str, /, *, one_line: bool = False) -> str:
    r"""Text without anything that a terminal would obey.

    Parameters
    ----------
    text : str
    one_line : bool
        Spell out tabs and line feeds too.

    Returns
    -------
    str

    Examples
    --------
    >>> printable("\x1b[31mred\x9b0m and \u202egnp.exe")
    '\\x1b[31mred\\x9b0m and \\u202egnp.exe'
    >>> printable("two\nlines"), printable("one\nline", one_line=True)
    ('two\nlines', 'one\\nline')
    """
    return (_IN_A_LINE if one_line else _IN_LINES).sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def escaped(text: str, /) -> str:
    """Text as a page of HTML shows it.

    Examples
    --------
    >>> escaped("a < b")
    'a &lt; b'
    """
    from html import escape  # here: it loads the names of all characters

    return escape(text)


class PrintableStream:
    """A text stream that writes everything `printable`.

    Its `buffer`, through which data go, is that of the stream itself, unless that is a terminal.
    """

    def __init__(self, stream: Any) -> None:
        self.unwrapped = stream

    def write(self, text: str) -> int:
        """Write text, made harmless."""
        self.unwrapped.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """Where bytes go."""
        return _PrintableBytes(self) if self.isatty() else self.unwrapped.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unwrapped, name)


class _PrintableBytes:
    """Bytes of UTF-8 on their way to a terminal."""

    def __init__(self, stream: PrintableStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: Any) -> int:
        """Write bytes, made harmless."""
        self._stream.write(self._decoder.decode(bytes(data)).replace("\r\n", "\n"))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.unwrapped.buffer, name)


def unwrapped(stream: Any) -> Any:
    """The stream itself: for data, and for who draws with escapes of its own."""
    return getattr(stream, "unwrapped", stream)


# A progress bar: on a terminal's stderr or in a notebook, for work that lasts, one at a time.


PATIENCE = 2.0  # seconds before a bar appears
REDRAWN = 0.2  # seconds between two pictures in a notebook


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (nothing is imported to see that).

    Examples
    --------
    >>> in_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


class Progress:
    """A bar as a context; `advance` it by what was done. Within another bar it stays invisible.

    Parameters
    ----------
    title : str
    total : float, optional
        What there is to do; without it the bar only counts.

    Examples
    --------
    >>> with Progress("rows", 3) as bar:
    ...     bar.advance(3)
    """

    _outermost: ClassVar[Progress | None] = None

    def __init__(self, title: str, total: float | None = None) -> None:
        self._title = printable(title, one_line=True)
        self._total = total
        self._done = 0.0
        self._started = monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        # Two bars would write over each other; the outer one knows more.
        if Progress._outermost is None and (sys.stderr.isatty() or in_notebook()):
            Progress._outermost = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if Progress._outermost is self:
            Progress._outermost = None
        if self._drawn is not None:
            self._drawn.stop()

    def advance(self, amount: float = 1) -> None:
        """Count `amount` more as done."""
        self.reach(self._done + amount)

    def reach(self, done: float, total: float | None = None) -> None:
        """Count `done` in all as done, out of `total` if that is known only now."""
        self._done, self._total = done, total or self._total
        if Progress._outermost is not self or monotonic() - self._started < PATIENCE:
            return
        if self._drawn is None:
            self._draw()
        self._drawn.update(self._task, completed=done, total=self._total)

    def _draw(self) -> None:
        share = "{task.percentage:>3.0f}%" if self._total else "{task.completed:,.0f}"
        self._drawn = _Display(self._title) if in_notebook() else _terminal_bar(share)
        self._task = self._drawn.add_task(self._title, total=self._total)
        self._drawn.start()


def _terminal_bar(share: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(share),
        TimeElapsedColumn(),
        console=Console(file=unwrapped(sys.stderr)),  # the bar moves by escapes
        transient=True,
    )


class _Display:
    """A bar in a notebook's output, drawn again in its place; gone when the work is done.

    With the methods of rich's bar, which needs ipywidgets there.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._handle: Any = None
        self._drawn_at = 0.0

    def add_task(self, title: str, total: float | None) -> None:
        """Nothing: there is one."""

    def start(self) -> None:
        """Show it."""
        from IPython.display import display

        self._handle = display(self._page(0.0, None), raw=True, display_id=True)

    def update(self, task: None, completed: float, total: float | None) -> None:
        """Draw it again, a few times per second."""
        if monotonic() - self._drawn_at >= REDRAWN:
            self._drawn_at = monotonic()
            self._handle.update(self._page(completed, total), raw=True)

    def stop(self) -> None:
        """Take it away."""
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def _page(self, done: float, total: float | None) -> dict[str, str]:
        said = f"{done:,.0f}" if not total else f"{100 * done / total:.0f}%"
        bar = f'<progress value="{done:g}" max="{total:g}"></progress>' if total else ""
        title = escaped(self._title)
        return {"text/plain": f"{self._title} {said}", "text/html": f"{title} {bar} {said}"}


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that is told the share done, from 0 to 1.

    Examples
    --------
    >>> with progress_bar("working") as tell:
    ...     tell(0.5)
    """
    with Progress(title, 1.0) as bar:
        yield bar.reach
