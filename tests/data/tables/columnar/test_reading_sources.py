"""Files and folders, and where their answers go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelite.data.scoring.jobs import list_jobs
from kernelite.data.tables.columnar.reading import list_sources
from kernelite.support.errors import KerneliteError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three files to read and others that are none."""
    folder = tmp_path / "in"
    (folder / "deeper").mkdir(parents=True)
    for name in ("b.csv", "a.parquet", "c.feather", "_SUCCESS", ".a.parquet.crc", "notes.txt"):
        (folder / name).write_bytes(b"")
    return folder


def test_a_folder_in_the_order_of_names(folder) -> None:
    found = list_sources(folder)
    assert [Path(file.path).name for file in found] == ["a.parquet", "b.csv", "c.feather"]
    assert [file.format for file in found] == ["parquet", "csv", "arrow"]
    given = list_sources(folder, "csv")
    assert [Path(file.path).name for file in given][-1] == "notes.txt"
    assert {file.format for file in given} == {"csv"}


def test_outputs_of_a_folder(folder, tmp_path) -> None:
    jobs = list_jobs(folder, tmp_path / "out")
    assert [Path(job.destination).name for job in jobs] == ["a.parquet", "b.csv", "c.feather"]
    assert not (tmp_path / "out").exists()
    jobs = list_jobs(folder, tmp_path / "out", output="arrow")
    assert [Path(job.destination).name for job in jobs] == ["a.arrow", "b.arrow", "c.feather"]
    (folder / "b.csv").rename(folder / "b.tsv.gz")
    assert Path(list_jobs(folder, tmp_path / "out")[1].destination).name == "b.csv"


def test_two_outputs_of_one_name(folder, tmp_path) -> None:
    (folder / "a.csv").write_bytes(b"")
    with pytest.raises(KerneliteError, match=r"would both be written to .*a\.parquet"):
        list_jobs(folder, tmp_path / "out", output="parquet")


def test_what_cannot_be(folder, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    file = folder / "a.parquet"
    for source, target, said in (
        (tmp_path / "none.csv", tmp_path / "out.csv", "there is no such file"),
        (tmp_path / "empty", tmp_path / "out", "has no Parquet, Arrow or CSV file"),
        (folder / "deeper", tmp_path / "out", "has no Parquet, Arrow or CSV file"),
        (file, tmp_path / "out.txt", "does not tell the format to write"),
        (file, tmp_path, "it is a folder, but DATA is one file"),
        (file, file, "cannot be written"),
        (folder, file, "must be a folder too"),
        (folder, folder, "cannot be written"),
        (folder, "-", "must be a folder too"),
    ):
        with pytest.raises(KerneliteError, match=said):
            list_jobs(source, target)
    with pytest.raises(KerneliteError, match="only CSV is written to stdout"):
        list_jobs(file, "-", output="parquet")
    with pytest.raises(KerneliteError, match="must be one of parquet, arrow, csv, got 'xml'"):
        list_sources(file, "xml")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe(tmp_path) -> None:
    for name in ("rows.parquet", "rows.arrow"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(KerneliteError, match="only CSV is read from a pipe"):
            list_sources(tmp_path / name)
    os.mkfifo(tmp_path / "rows.csv")
    assert list_sources(tmp_path / "rows.csv")[0].format == "csv"


def test_other_data_are_told_by_their_content(folder, tmp_path) -> None:
    (job,) = list_jobs(folder / "notes.txt", tmp_path / "out.csv")
    assert (job.source.format, job.format) == ("content", "csv")
    (job,) = list_jobs(folder / "notes.txt", tmp_path / "out", output="lines")
    assert job.format == "lines"
    with pytest.raises(KerneliteError, match="does not tell its format"):
        list_sources(folder / "notes.txt")


def test_data_in_inner_folders_are_not_left_out_silently(folder, tmp_path) -> None:
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "a.parquet").write_bytes(b"")
    (folder / "deeper" / "notes.txt").write_bytes(b"")
    assert len(list_sources(folder)) == 3
    (folder / "deeper" / "year=2024").mkdir()
    (folder / "deeper" / "year=2024" / "a.parquet").write_bytes(b"")
    with pytest.raises(KerneliteError, match=r"deeper: data files in a folder inside .* left out"):
        list_sources(folder)


def test_answers_do_not_go_into_the_folder_that_is_read(folder, tmp_path) -> None:
    for target in (folder / "scored", folder / "deeper", folder / "deeper" / "scored"):
        with pytest.raises(KerneliteError, match="is inside the folder that is read"):
            list_jobs(folder, target)
    assert list_jobs(folder, f"{folder}-scored")


def test_the_name_of_a_folder_tells_its_format(folder, tmp_path) -> None:
    jobs = list_jobs(folder, tmp_path / "out.csv")
    assert [Path(job.destination).name for job in jobs] == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="there are no links")
def test_a_link_to_nothing_is_a_file_that_is_missing(folder) -> None:
    os.symlink(folder / "gone.parquet", folder / "d.parquet")
    assert [Path(file.path).name for file in list_sources(folder)][-1] == "d.parquet"
