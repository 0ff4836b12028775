"""Formats by name."""

from __future__ import annotations

import pytest

from kernelite.data.tables.columnar.reading import format_of, output_format, stem_of
from kernelite.support.errors import InputError


@pytest.mark.parametrize(
    ("name", "format", "stem"),
    [
        ("a.parquet", "parquet", "a"),
        ("x/A.B.PARQUET", "parquet", "A.B"),
        ("a.pq", "parquet", "a"),
        ("a.arrow", "arrow", "a"),
        ("a.feather", "arrow", "a"),
        ("a.csv", "csv", "a"),
        ("a.csv.gz", "csv", "a"),
        ("a.tsv.bz2", "csv", "a"),
        ("a.svm", None, "a.svm"),
        ("a.gz", None, "a.gz"),
        ("csv", None, "csv"),
    ],
)
def test_a_name_tells(name, format, stem) -> None:
    assert format_of(name) == format
    assert stem_of(name) == stem


def test_what_is_written() -> None:
    assert output_format("A.Feather") == "arrow"
    for name in ("out.txt", "out", "out.csv.gz"):
        with pytest.raises(InputError, match=r"`--output-format`.*parquet, arrow, csv"):
            output_format(name)
