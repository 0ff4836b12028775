"""CSV: delimiter and header as for other text files, numbers by pyarrow, correctly rounded.

Columns that are asked for as numbers are doubles from the first row to the last, those asked for
as text are text; the others have the type that the first rows show, or stay text. The file is
opened once, so it may be a pipe.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from kernelite.backends.cpu.threads import thread_count
from kernelite.data.tables.columnar.library import (
    TablePart,
    arrow,
    bad_cell,
    checked_schema,
    naming_file,
)
from kernelite.data.tables.columnar.reading import (
    NO_KINDS,
    ColumnarFile,
    Kinds,
    TextOptions,
    batch_rows,
)
from kernelite.data.tables.delimited import TextLayout, data_lines, find_layout
from kernelite.data.tables.lines import Lines
from kernelite.data.tables.parsing import DECIMAL, quote
from kernelite.support.compression import decompressed, find_compression
from kernelite.support.errors import FileFormatError
from kernelite.support.files import open_binary

__all__ = ["TextSource"]

_PLAIN = DECIMAL.replace("++", "+").replace("*+", "*")  # pyarrow knows no possessive repeats
_NUMBER = rf"^(?:{_PLAIN}|[+-]?(?i:nan|inf|infinity))$"
_TRUTH = r"^(?i:true|false)$"
TEXT_BYTES_PER_BATCH = 2 << 20  # pyarrow reads some 30 batches ahead


class TextSource(ColumnarFile):
    """An open CSV file."""

    typed = False

    def __init__(self, path: str | os.PathLike[str], options: TextOptions) -> None:
        self.path = os.fspath(path)
        self._options = options
        arrow("csv")
        self._contents = [_Content(self.path)]
        self._read = False
        self._uneven: list[int] = []  # places of rows with too few or many cells, rising
        try:
            start = self._contents[0].start
            self._layout = self._look(start)
            whole = start[: start.rfind(b"\n") + 1] or start
            with (
                naming_file(self.path),
                self._reader(io.BytesIO(whole), None, {}, skip=_silently) as reader,
            ):
                self.schema = checked_schema(reader.schema)
        except BaseException:
            self.close()
            raise

    def schema_of(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Any:
        """Doubles, text, or what the first rows show."""
        types = self._types(columns, kinds)
        types |= {name: arrow().float64() for name in columns if kinds.get(name) == "number"}
        return arrow().schema(types)

    def parts(self, columns: Sequence[str], kinds: Kinds = NO_KINDS) -> Iterator[TablePart]:
        """The rows of one block of text after the other."""
        types, most = self._types(columns, kinds), batch_rows(len(columns))
        numbers = {name for name in columns if kinds.get(name) == "number"}
        if self._options.on_bad_row is not None:  # a cell that does not convert stops pyarrow
            types |= dict.fromkeys(numbers, arrow().string())
        first_row, self._uneven = 0, []
        with naming_file(self.path):
            try:
                with self._open(list(columns), types) as reader:
                    for batch in reader:
                        whole = TablePart(_as_doubles(batch, numbers), "", first_row)
                        if self._options.on_bad_row is not None:
                            whole = self._converted(whole, numbers)
                        for start in range(0, whole.batch.num_rows, most):
                            stop = min(start + most, whole.batch.num_rows)
                            yield whole.some(slice(start, stop))
                        first_row += batch.num_rows
            except arrow().ArrowInvalid as error:
                self._explain(error)
                raise

    def _converted(self, part: TablePart, numbers: set[str]) -> TablePart:
        """A batch read as text: numbers converted, rows without them told and left out."""
        assert self._options.on_bad_row is not None
        compute, batch = arrow("compute"), part.batch
        # Uneven rows were left out while parsing; those before a row count for its place.
        before = np.array(self._uneven, dtype=np.int64) - np.arange(len(self._uneven))
        index = part.row_numbers()
        places = index + np.searchsorted(before, index, side="right")
        good, arrays = np.ones(batch.num_rows, dtype=bool), []
        for name, column in zip(batch.schema.names, batch.columns):
            if name in numbers:
                trimmed = compute.utf8_trim_whitespace(column)
                blank = compute.is_in(
                    trimmed, arrow().array(arrow("csv").ConvertOptions().null_values)
                )
                for word, digit in (("true", "1"), ("false", "0")):
                    said = compute.match_substring_regex(trimmed, f"^(?i:{word})$")
                    trimmed = compute.if_else(said, digit, trimmed)
                number = compute.match_substring_regex(trimmed, _NUMBER)
                readable = compute.or_(blank, number).fill_null(True)
                for row in np.flatnonzero(~readable.to_numpy(zero_copy_only=False) & good):
                    cell = column[row].as_py()
                    problem = f"column {quote(name)}: {quote(cell)} is not a number"
                    self._options.on_bad_row(int(places[row]), problem)
                good &= readable.to_numpy(zero_copy_only=False)
                column = compute.if_else(number, trimmed, None).cast(arrow().float64())
            arrays.append(column)
        whole = arrow().RecordBatch.from_arrays(arrays, names=batch.schema.names)
        return TablePart(whole.filter(arrow().array(good)), "", part.first_row, places[good])

    def _skip_uneven(self, row: Any) -> str:
        """Tell a row with too few or too many cells, and have pyarrow skip it."""
        assert self._options.on_bad_row is not None
        place = row.number - self._layout.line - (self._layout.names is not None)
        self._uneven.append(place)
        count = f"{row.actual_columns} cell{'s' if row.actual_columns != 1 else ''}"
        problem = f"the row {quote(row.text)} has {count}, expected {row.expected_columns}"
        self._options.on_bad_row(place, problem)
        return "skip"

    def close(self) -> None:
        """Close the file."""
        for content in self._contents:
            content.close()

    def _explain(self, error: Exception) -> None:
        """Name the cell that does not convert; pyarrow does not say its row, so look it up."""
        found = bad_cell(error, self.schema.names)
        if found is None:
            return
        name, cell, wanted = found
        first_row, at, compute = 0, "", arrow("compute")
        mixed = re.fullmatch(_TRUTH, cell) is not None  # so another cell made it text
        if os.path.isfile(self.path):  # a pipe cannot be read again
            with self._open([name], {name: arrow().string()}) as reader:
                for batch in reader:
                    column = batch.column(0)
                    wrong = compute.equal(column, cell)
                    if mixed:
                        wrong = compute.invert(
                            compute.match_substring_regex(column, f"{_NUMBER}|{_TRUTH}|^$")
                        )
                    row = compute.index(wrong, True).as_py()
                    if row >= 0:
                        cell = column[row].as_py()
                        at = f", row {first_row + row + 1}"
                        break
                    first_row += batch.num_rows
        problem = f"column {quote(name)}{at}: {quote(cell)} is not {wanted}"
        raise FileFormatError(self.path, problem) from None

    def _types(self, columns: Sequence[str], kinds: Kinds) -> dict[str, Any]:
        library = arrow()
        types = {name: self.schema.field(name).type for name in columns}
        for name, shown in types.items():
            kind = kinds.get(name, "text" if self._options.verbatim else "shown")
            if kind == "number":
                truth = library.types.is_boolean(shown)  # counts as 1 and 0
                types[name] = shown if truth else library.float64()
            elif kind == "text" or library.types.is_null(shown):
                types[name] = library.string()
        return types

    def _look(self, start: bytes) -> TextLayout:
        with Lines(self.path, content=start) as lines:
            first = list(islice(data_lines(lines), 2))
        if not first:
            raise FileFormatError(self.path, "there is no line with data")
        layout = self._layout_of(first, self._options.delimiter)
        if layout.delimiter == " " and self._options.delimiter is None:  # within a name or a text
            layout = self._layout_of(first, ",")
        return layout

    def _layout_of(self, lines: list[tuple[int, str]], delimiter: str | None) -> TextLayout:
        header = self._options.header
        return find_layout(
            lines,
            path=self.path,
            delimiter=delimiter,
            header="auto" if header is None else header,
            label_column=None,
        )

    def _open(self, columns: list[str] | None, types: dict[str, Any]) -> Any:
        """A reader from the first row on; the second time the file is opened anew."""
        if self._read:
            self._contents.append(_Content(self.path))
        self._read = True
        return self._reader(self._contents[-1], columns, types, skip=self._skip_uneven)

    def _reader(
        self,
        content: Any,
        columns: list[str] | None,
        types: dict[str, Any],
        skip: Callable[[Any], str],
    ) -> Any:
        csv, layout, lenient = arrow("csv"), self._layout, self._options.on_bad_row is not None
        return csv.open_csv(
            arrow().PythonFile(content, mode="r"),
            read_options=csv.ReadOptions(
                # Parsing by threads does not know the numbers of uneven rows.
                use_threads=thread_count() > 1 and not lenient,
                block_size=TEXT_BYTES_PER_BATCH,
                skip_rows=layout.line - 1,
                autogenerate_column_names=layout.names is None,
            ),
            parse_options=csv.ParseOptions(
                delimiter=layout.delimiter, invalid_row_handler=skip if lenient else None
            ),
            convert_options=csv.ConvertOptions(include_columns=columns, column_types=types),
        )


def _as_doubles(batch: Any, numbers: set[str]) -> Any:
    """A batch whose truth values, where numbers are asked for, are 1 and 0."""
    for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns)):
        if name in numbers and arrow().types.is_boolean(column.type):
            doubles = column.cast(arrow().int8()).cast(arrow().float64())
            batch = batch.set_column(place, name, doubles)
    return batch


def _silently(_: Any) -> str:
    """Skip uneven rows at the first look at a file: they are told when they are read."""
    return "skip"


class _Content(io.RawIOBase):
    """The bytes of a file, decompressed by us, whose `start` was looked at before."""

    def __init__(self, path: str) -> None:
        self._raw = open_binary(path)
        try:
            compression = find_compression(self._raw, path)
            self._stream = decompressed(self._raw, compression)
            try:
                self.start = self._stream.read(TEXT_BYTES_PER_BATCH)
            except (EOFError, OSError, zlib.error) as error:
                said = f"the {compression} stream is corrupt or cut off ({error})"
                raise FileFormatError(path, said if compression else f"{error}") from None
        except BaseException:
            self._raw.close()
            raise
        self._ahead = memoryview(self.start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = min(len(buffer), len(self._ahead))
        if not count:
            return self._stream.readinto(buffer)
        buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        self._raw.close()
        super().close()
