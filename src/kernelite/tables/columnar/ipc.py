"""Arrow IPC files and streams, and Feather, which is the same: record batches, read one by one.

A record batch is the smallest unit that the format lets one read; larger ones are cut after that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from kernelite.cpu.threads import thread_count
from kernelite.errors import FileFormatError
from kernelite.support.files import open_binary
from kernelite.tables.columnar.faults import Part, checked_schema, naming_file
from kernelite.tables.columnar.ipc_sizes import check_sizes
from kernelite.tables.columnar.library import arrow
from kernelite.tables.columnar.reading import batch_rows

__all__ = ["ArrowSource"]


class ArrowSource:
    """An open Arrow file; see `kernelite.tables.columnar.reading.ColumnarFile`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.typed = True
        arrow()
        self._raw = open_binary(self.path)
        start = self._raw.peek(8)[:8]
        self._streamed = not start.startswith(b"ARROW1")
        if start.startswith(b"FEA1"):
            self._raw.close()
            raise FileFormatError(
                self.path, "this is Feather of version 1, write it again as version 2 (Arrow)"
            )
        self.n_rows: int | None = None
        try:
            with naming_file(self.path):
                self.schema: Any = checked_schema(self._open(None).schema)
                check_sizes(self.path, self._raw, streamed=self._streamed)
        except BaseException:
            self._raw.close()
            raise

    def schema_of(self, columns: Sequence[str], numbers: Sequence[str] = ()) -> Any:
        """The file's own types."""
        return arrow().schema([self.schema.field(name) for name in columns])

    def parts(self, columns: Sequence[str], numbers: Sequence[str] = ()) -> Iterator[Part]:
        """The rows of one record batch after the other."""
        reader = self._open([self.schema.get_field_index(name) for name in columns])
        first_row, most = 0, batch_rows(len(columns))
        for where, batch in self._batches(reader):
            for start in range(0, batch.num_rows, most):
                yield Part(batch.slice(start, most), where, first_row + start)
            first_row += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _batches(self, reader: Any) -> Iterator[tuple[str, Any]]:
        number, count = 0, None if self._streamed else reader.num_record_batches
        while count is None or number < count:
            number += 1
            where = f"record batch {number}" + ("" if count is None else f" of {count}")
            with naming_file(self.path, where):
                try:
                    batch = (
                        reader.read_next_batch() if count is None else reader.get_batch(number - 1)
                    )
                except StopIteration:
                    return
                # Offsets and lengths come from the file: nothing looks at them before this.
                batch.validate(full=True)
            yield where, batch

    def _open(self, fields: list[int] | None) -> Any:
        ipc = arrow("ipc")
        options = ipc.IpcReadOptions(use_threads=thread_count() > 1)
        if fields is not None:
            options.included_fields = fields
        with naming_file(self.path):
            self._raw.seek(0)
            source = arrow().PythonFile(self._raw, mode="r")
            if self._streamed:
                return ipc.open_stream(source, options=options)
            return ipc.open_file(source, options=options)
