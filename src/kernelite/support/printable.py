"""Text that a terminal shows and does not obey: names and labels may come from anyone.

In: text. Out: the same, with control characters (C0, C1), marks that turn the direction of writing
and invisible ones spelled out, as `\\x1b`. Data that go to files and pipes are never changed.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

__all__ = ["PrintableStream", "printable", "unwrapped"]

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
