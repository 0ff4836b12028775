"""Parquet: row groups are read one by one, and each in batches, so its size does not matter."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from kernelite.cpu.threads import thread_count
from kernelite.errors import FileFormatError
from kernelite.tables.columnar.library import Part, arrow, checked_schema, naming_file, reason_of
from kernelite.tables.columnar.reading import NO_KINDS, Kinds, batch_rows
from kernelite.tables.parsing import quote

__all__ = ["ParquetSource"]

# Bytes that are read ahead: of all columns together at most, of each at least and at most.
ALL_BUFFERS, LEAST_BUFFER, MOST_BUFFER = 32 << 20, 1 << 14, 1 << 20


class ParquetSource:
    """An open Parquet file, or some row groups of it; see `reading.ColumnarFile`."""

    def __init__(self, path: str | os.PathLike[str], groups: tuple[int, int] | None = None) -> None:
        self.path = os.fspath(path)
        self.typed = True
        self._raw: Any = None
        try:
            with naming_file(self.path):
                self._raw = arrow().OSFile(self.path)
                file = arrow("parquet").ParquetFile(self._raw)
                self._metadata = file.metadata
                self.schema: Any = checked_schema(file.schema_arrow)
                # How many rows each row group has.
                self.rows = [
                    self._metadata.row_group(group).num_rows for group in range(file.num_row_groups)
                ]
        except BaseException:
            self.close()
            raise
        self.groups = range(*(groups or (0, len(self.rows))))
        self.n_rows: int | None = sum(self.rows[group] for group in self.groups)

    def schema_of(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Any:
        """The file's own types."""
        return arrow().schema([self.schema.field(name) for name in columns])

    def parts(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Iterator[Part]:
        """The rows of one row group after the other."""
        first_row, count = sum(self.rows[: self.groups.start]), len(self.rows)
        for group in self.groups:
            where = f"row group {group + 1} of {count}"
            try:
                with naming_file(self.path, where):
                    for batch in self._batches(group, columns):
                        batch.validate(full=True)
                        yield Part(batch, where, first_row)
                        first_row += batch.num_rows
            except FileFormatError:
                self._name_column(group, columns, where)
                raise

    def close(self) -> None:
        """Close the file."""
        if self._raw is not None:
            self._raw.close()

    def _batches(self, group: int, columns: Sequence[str]) -> Iterator[Any]:
        """The rows of a row group.

        By default pyarrow reads whole column chunks before the first row, however large they are.
        """
        share = ALL_BUFFERS // max(1, len(columns))
        file = arrow("parquet").ParquetFile(  # the file that is open, and the footer that was read
            self._raw,
            metadata=self._metadata,
            buffer_size=min(max(share, LEAST_BUFFER), MOST_BUFFER),
            pre_buffer=False,
            page_checksum_verification=True,
        )
        yield from file.iter_batches(
            batch_size=batch_rows(len(columns)),
            row_groups=[group],
            columns=list(columns),
            use_threads=thread_count() > 1,
        )

    def _name_column(self, group: int, columns: Sequence[str], where: str) -> None:
        """Find the column at fault, which pyarrow does not say, by reading each alone."""
        for name in columns:
            try:
                for batch in self._batches(group, [name]):
                    batch.validate(full=True)
            except Exception as error:
                raise FileFormatError(
                    self.path, f"{where}, column {quote(name)}: cannot be read ({reason_of(error)})"
                ) from None
