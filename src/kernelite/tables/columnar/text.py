"""CSV: delimiter and header as for other text files, numbers by pyarrow, correctly rounded.

Columns that are asked for as numbers are doubles from the first row to the last; the others have
the type that the first rows show, or stay text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from kernelite.cpu.threads import thread_count
from kernelite.errors import FileFormatError
from kernelite.support.files import Compression, decompressed, open_binary
from kernelite.tables.columnar.faults import Part, bad_cell, checked_schema, naming_file
from kernelite.tables.columnar.library import arrow
from kernelite.tables.columnar.reading import TextOptions, batch_rows
from kernelite.tables.layout import Layout, data_lines, find_layout
from kernelite.tables.lines import Lines
from kernelite.tables.numbers import quote

__all__ = ["TextSource"]

BLOCK = 2 << 20  # bytes of text that become one batch; pyarrow reads some 30 of them ahead


class TextSource:
    """An open CSV file; see `kernelite.tables.columnar.reading.ColumnarFile`."""

    def __init__(self, path: str | os.PathLike[str], options: TextOptions) -> None:
        self.path = os.fspath(path)
        self._options = options
        self.typed = False
        arrow("csv")
        self._layout, self._compression = self._look()
        self.n_rows: int | None = None
        with naming_file(self.path):
            reader = self._open(None, {})
            self.schema: Any = checked_schema(reader.schema)
            reader.close()

    def schema_of(self, columns: Sequence[str], numbers: Sequence[str] = ()) -> Any:
        """Doubles for `numbers`; for the others text, or what the first rows show."""
        return arrow().schema(self._types(columns, numbers))

    def parts(self, columns: Sequence[str], numbers: Sequence[str] = ()) -> Iterator[Part]:
        """The rows of one block of text after the other."""
        types, most = self._types(columns, numbers), batch_rows(len(columns))
        first_row = 0
        with naming_file(self.path):
            try:
                with self._open(list(columns), types) as reader:
                    for batch in reader:
                        for start in range(0, batch.num_rows, most):
                            yield Part(batch.slice(start, most), "", first_row + start)
                        first_row += batch.num_rows
            except arrow().ArrowInvalid as error:
                self._explain(error)
                raise

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _explain(self, error: Exception) -> None:
        """Name the cell that does not convert; pyarrow does not say its row, so look it up."""
        found = bad_cell(error, self.schema.names)
        if found is None:
            return
        name, cell, wanted = found
        first_row, at = 0, ""
        with self._open([name], {name: arrow().string()}) as reader:
            for batch in reader:
                row = arrow("compute").index(batch.column(0), cell).as_py()
                if row >= 0:
                    at = f", row {first_row + row + 1}"
                    break
                first_row += batch.num_rows
        problem = f"column {quote(name)}{at}: {quote(cell)} is not {wanted}"
        raise FileFormatError(self.path, problem) from None

    def _types(self, columns: Sequence[str], numbers: Sequence[str]) -> dict[str, Any]:
        library = arrow()
        types = {name: self.schema.field(name).type for name in columns}
        for name, kind in types.items():
            if name in numbers:
                types[name] = library.float64()
            elif self._options.verbatim or library.types.is_null(kind):
                types[name] = library.string()
        return types

    def _look(self) -> tuple[Layout, Compression | None]:
        with Lines(self.path) as lines:
            first = list(islice(data_lines(lines), 2))
            compression = lines.compression
        if not first:
            raise FileFormatError(self.path, "there is no line with data")
        layout = self._layout_of(first, self._options.delimiter)
        if layout.delimiter == " " and self._options.delimiter is None:  # within a name or a text
            layout = self._layout_of(first, ",")
        return layout, compression

    def _layout_of(self, lines: list[tuple[int, str]], delimiter: str | None) -> Layout:
        header = self._options.header
        return find_layout(
            lines,
            path=self.path,
            delimiter=delimiter,
            header="auto" if header is None else header,
            label_column=None,
        )

    def _open(self, columns: list[str] | None, types: dict[str, Any]) -> Any:
        csv, layout = arrow("csv"), self._layout
        if self._compression is None:
            source = arrow().input_stream(self.path, compression=None)
        else:  # not by pyarrow, which would follow a small file to any length
            content = decompressed(open_binary(self.path), self._compression)
            source = arrow().PythonFile(content, mode="r")
        return csv.open_csv(
            source,
            read_options=csv.ReadOptions(
                use_threads=thread_count() > 1,
                block_size=BLOCK,
                skip_rows=layout.line - 1,
                autogenerate_column_names=layout.names is None,
            ),
            parse_options=csv.ParseOptions(delimiter=layout.delimiter),
            convert_options=csv.ConvertOptions(include_columns=columns, column_types=types),
        )
