"""A progress bar: on a terminal's stderr or in a notebook, for work that lasts, one at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Self

from kernelite.support.printable import printable, unwrapped

__all__ = ["Progress", "in_notebook", "progress_bar"]

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
        title = escape(self._title)
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
