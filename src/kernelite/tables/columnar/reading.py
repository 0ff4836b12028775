"""A columnar file as a stream of batches: `open_file` gives a reader, one kind per format.

Only the columns asked for are read, at most a few megabytes of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from kernelite.tables.columnar.faults import Part
from kernelite.tables.columnar.sources import SourceFile

__all__ = ["NO_KINDS", "ColumnarFile", "Kind", "Kinds", "TextOptions", "batch_rows", "open_file"]

Kind: TypeAlias = Literal["number", "text", "shown"]
Kinds: TypeAlias = Mapping[str, Kind]
NO_KINDS: Kinds = {}

BATCH_VALUES = 1 << 21  # cells of a batch: 16 MB of doubles
MOST_ROWS = 1 << 16


@dataclass(frozen=True)
class TextOptions:
    """How CSV is read, where its content does not tell.

    Parameters
    ----------
    delimiter : str, optional
        One character; by default the first of tab, `;` and `,` in the first line.
    header : bool, optional
        Whether the first line holds names; by default told by its cells.
    verbatim : bool
        Give columns that are not features as the text that they are, not by the type of the
        first rows; so what is written back as CSV has the same digits.
    """

    delimiter: str | None = None
    header: bool | None = None
    verbatim: bool = False


class ColumnarFile(Protocol):
    """An open file."""

    @property
    def schema(self) -> Any:
        """The columns there are, a pyarrow.Schema; of CSV as the first rows show them."""
        ...

    @property
    def typed(self) -> bool:
        """Whether the format has types, so that text cannot turn out to be numbers."""
        ...

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, where that is known before reading."""
        ...

    def schema_of(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Any:
        """Names and types of what `parts` gives for the same arguments."""
        ...

    def parts(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Iterator[Part]:
        """The rows, in order; once only.

        Parameters
        ----------
        columns : sequence of str
            Those to read.
        kinds : dict of str to {"number", "text", "shown"}
            Where a format has no types of its own: columns that must be doubles, that are text
            whatever it looks like, that have the type that the first rows show. Others are text
            with `TextOptions.verbatim`, else as shown.
        """
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_file(source: SourceFile, text: TextOptions | None = None) -> ColumnarFile:
    """Open a columnar file; what is wrong with it is said in one sentence.

    Parameters
    ----------
    source : SourceFile
    text : TextOptions, optional
        For CSV.

    Returns
    -------
    ColumnarFile
        To be closed by the caller, e.g. through `contextlib.closing`.

    Raises
    ------
    FileFormatError

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("id,x\\n7,0.5\\n8,1.5\\n")
    ...     file = open_file(SourceFile(str(path), "csv"))
    ...     [part.batch.to_pydict() for part in file.parts(["x"])]
    [{'x': [0.5, 1.5]}]
    """
    if source.format == "parquet":
        from kernelite.tables.columnar.parquet import ParquetSource

        return ParquetSource(source.path, source.groups)
    if source.format == "arrow":
        from kernelite.tables.columnar.ipc import ArrowSource

        return ArrowSource(source.path)
    from kernelite.tables.columnar.text import TextSource

    return TextSource(source.path, text or TextOptions())


def batch_rows(n_columns: int) -> int:
    """How many rows a batch has at most.

    Examples
    --------
    >>> batch_rows(22), batch_rows(100_000)
    (65536, 20)
    """
    return max(1, min(MOST_ROWS, BATCH_VALUES // max(1, n_columns)))
