"""A progress bar on stderr: only on a terminal, only for work that lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

__all__ = ["progress_bar"]

PATIENCE = 2.0  # seconds before a bar appears


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that is told the share done, from 0 to 1.

    Examples
    --------
    >>> with progress_bar("working") as tell:
    ...     tell(0.5)
    """
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    started = monotonic()
    shown: list[tuple[Any, Any]] = []

    def tell(share: float) -> None:
        if not shown and monotonic() - started > PATIENCE:
            from rich.console import Console
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            bar.start()
            shown.append((bar, bar.add_task(title, total=1.0)))
        for bar, task in shown:
            bar.update(task, completed=share)

    try:
        yield tell
    finally:
        for bar, _ in shown:
            bar.stop()
