"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal
import threading


def pytest_configure() -> None:
    """Take SIGINT again where it is ignored: behind `nohup` and `&`, children inherit that.

    Tests that interrupt a command would otherwise wait for nothing.
    """
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
