"""Arrow files that would become too long are refused before memory is taken; others are read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelite.data.tables.columnar.binary import ArrowSource, check_sizes
from kernelite.support.errors import FileFormatError

pa = pytest.importorskip("pyarrow")


def table(rows: int, *, constant: bool = False) -> Any:
    rng = np.random.default_rng(0)
    numbers = np.full(rows, 0.5) if constant else rng.normal(size=rows)
    words = pa.array(rng.choice(["a", "b", "c"], rows)).dictionary_encode()
    return pa.table({"x": numbers, "n": pa.nulls(rows), "w": words, "t": ["é" * 9] * rows})


def written(rows: Any, *, streamed: bool, **options: Any) -> bytes:
    out = io.BytesIO()
    make = pa.ipc.new_stream if streamed else pa.ipc.new_file
    with make(out, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as sink:
        sink.write_table(rows, max_chunksize=400)
    return out.getvalue()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "lz4"},
        {"compression": "zstd"},
        {"metadata_version": pa.ipc.MetadataVersion.V4, "use_legacy_format": True},
    ],
)
def test_all_that_pyarrow_writes_is_read(
    streamed: bool, rows: int, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(written(table(rows), streamed=streamed, **options))
    parts = list(ArrowSource(path).parts(["x", "w"]))
    assert sum(part.batch.num_rows for part in parts) == rows


@pytest.mark.parametrize("streamed", [False, True])
def test_a_few_bytes_that_become_many_are_refused(
    streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(3_000_000, constant=True).select(["x"])
    out = io.BytesIO()
    make = pa.ipc.new_stream if streamed else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with make(out, rows.schema, options=options) as sink:
        sink.write_table(rows)
    path = tmp_path / "a.arrow"
    path.write_bytes(out.getvalue())
    with pytest.raises(FileFormatError, match="over 200 times as long as the file; if you trust"):
        ArrowSource(path)
    monkeypatch.setenv("KERNELITE_MAX_EXPANSION", "100000")
    assert sum(part.batch.num_rows for part in ArrowSource(path).parts(["x"])) == 3_000_000


def test_damaged_messages_are_refused_by_one_sentence() -> None:
    whole = written(table(50), streamed=False, compression="zstd")
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(500):
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            check_sizes("a.arrow", io.BytesIO(bytes(data)), streamed=False)
        except FileFormatError as error:
            refused += 1
            assert len(str(error).splitlines()) == 1  # noqa: PT017 - either outcome is right
    assert refused > 0
