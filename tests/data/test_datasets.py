"""The paper's data sets: found, downloaded from a server on loopback, verified, or nothing kept."""

from __future__ import annotations

import bz2
import errno
import http.server
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelite.cli import main
from kernelite.data import datasets
from kernelite.data.datasets import DataFile, cache_folder, check, files_of, find
from kernelite.support.errors import FileFormatError, InputError
from tests.helpers import shared_path

TEXT = b"+1 1:0.5 3:0.008337\n-1 2:1\n+1 1:2\n"
SAME_NUMBERS = b"1 1:0.50 2:0 3:0.008337000000000001 \n-1 2:1.0 \n1 1:2e0 \n"
TOY = DataFile("toy", "binary/toy.bz2", rows=3, features=3)


class Site:
    """What the server on loopback answers, by path."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.promised: dict[str, int] = {}  # another Content-Length than the true one
        self.asked: list[str] = []
        self.address = ""


@pytest.fixture
def site() -> Iterator[Site]:
    state = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            page = state.pages.get(self.path)
            if page is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(state.promised.get(self.path, len(page))))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_address[1]}/data"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KERNELITE_DATA", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFile:
    """A small set with a known digest, known to the table as `toy`."""
    plain = tmp_path / "plain.svm"
    plain.write_bytes(TEXT)
    file = replace(TOY, digest=check(plain, TOY))
    monkeypatch.setitem(datasets.FILES, "toy", file)
    return file


def left_in_cache() -> list[str]:
    folder = cache_folder()
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_download_is_kept_verified_and_found(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    told: list[tuple[int, int | None]] = []
    path = datasets.download(
        toy, base=site.address, insecure=True, tell=lambda done, total: told.append((done, total))
    )
    assert path.read_bytes() == site.pages["/data/binary/toy.bz2"]
    assert find("toy") == path
    assert told[-1] == (path.stat().st_size, path.stat().st_size)
    assert left_in_cache() == ["toy.bz2"]


def test_a_file_that_is_there_is_not_downloaded_again(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    first = datasets.download(toy, base=site.address, insecure=True)
    assert datasets.download(toy, base=site.address, insecure=True) == first
    assert len(site.asked) == 1


def test_copies_with_other_blanks_and_digits_have_the_same_digest(
    tmp_path: Path, toy: DataFile
) -> None:
    path = tmp_path / "copy.svm"
    path.write_bytes(SAME_NUMBERS)
    assert check(path, toy) == toy.digest


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (bz2.compress(TEXT)[:-8], "corrupt or cut off"),
        (bz2.compress(TEXT.replace(b"0.5", b"0.6")), "digest"),
        (bz2.compress(TEXT + b"-1 1:1\n"), "4 rows"),
        (bz2.compress(TEXT.replace(b"3:0", b"4:0")), "4 features"),
        (b"<html>moved</html>\n", "not bzip2"),
        (b"", "not bzip2"),
        (bz2.compress(b"+1 1:x\n"), "toy.bz2:1"),
    ],
)
def test_a_corrupt_download_leaves_nothing(
    site: Site, toy: DataFile, page: bytes, problem: str
) -> None:
    site.pages["/data/binary/toy.bz2"] = page
    with pytest.raises(FileFormatError, match=problem) as caught:
        datasets.download(toy, base=site.address, insecure=True)
    assert "nothing was kept" in str(caught.value)
    assert left_in_cache() == []


def test_other_numbers_can_be_accepted_other_sizes_cannot(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT + b"-1 1:1\n")
    with pytest.raises(FileFormatError, match="4 rows"):
        datasets.download(toy, base=site.address, insecure=True, unchecked=True)
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT.replace(b"0.5", b"0.6"))
    assert datasets.download(toy, base=site.address, insecure=True, unchecked=True).is_file()


def test_a_connection_that_ends_early_leaves_nothing(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    site.promised["/data/binary/toy.bz2"] = 1_000
    with pytest.raises(datasets.DownloadError, match=r"cut off|cannot be had"):
        datasets.download(toy, base=site.address, insecure=True)
    assert left_in_cache() == []


def test_a_missing_page_names_the_address(site: Site, toy: DataFile) -> None:
    with pytest.raises(datasets.DownloadError, match=r"binary/toy.bz2: the server answered 404"):
        datasets.download(toy, base=site.address, insecure=True)
    assert left_in_cache() == []


def test_without_network_the_message_says_what_to_do(toy: DataFile) -> None:
    with pytest.raises(datasets.DownloadError, match=r"Without network: .* KERNELITE_DATA"):
        datasets.download(
            toy, base="http://127.0.0.1:9/", insecure=True
        )  # the discard port: nobody listens
    assert left_in_cache() == []


@pytest.mark.parametrize("base", ["file:///etc/", "ftp://127.0.0.1/", "nonsense"])
def test_only_http_addresses_are_asked(toy: DataFile, base: str) -> None:
    with pytest.raises(InputError, match="https://"):
        datasets.download(toy, base=base)


def test_a_disk_without_room_is_noticed_before_the_download(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    site.promised["/data/binary/toy.bz2"] = 2**60
    toy = replace(toy, rows=2**60)
    with pytest.raises(datasets.DownloadError, match="MB are free"):
        datasets.download(toy, base=site.address, insecure=True)
    assert left_in_cache() == []


def test_a_disk_that_fills_up_leaves_nothing(
    site: Site, toy: DataFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)

    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(datasets, "open", lambda *_: Full(), raising=False)
    with pytest.raises(datasets.DownloadError, match="the disk is full; nothing was kept"):
        datasets.download(toy, base=site.address, insecure=True)
    assert left_in_cache() == []


@pytest.mark.parametrize("when", ["tell", "tell_check"])
def test_an_interrupt_leaves_nothing(site: Site, toy: DataFile, when: str) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    callbacks: dict[str, Callable[..., None]] = {when: interrupt}
    with pytest.raises(KeyboardInterrupt):
        datasets.download(toy, base=site.address, insecure=True, **callbacks)  # type: ignore[arg-type]
    assert left_in_cache() == []


def test_what_a_killed_download_left_is_cleared_after_a_day(
    site: Site, toy: DataFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    stale = cache_folder() / ".toy.bz2.1.tmp"
    stale.mkdir(parents=True)
    (stale / "toy.bz2").write_bytes(b"half")
    with pytest.raises(InputError, match="not in"):
        find("toy")
    monkeypatch.setattr(datasets, "STALE", -1.0)
    datasets.download(toy, base=site.address, insecure=True)
    assert left_in_cache() == ["toy.bz2"]


def test_nothing_else_is_cleared(
    site: Site, toy: DataFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    folder = tmp_path / "own"
    kept = [".git.tmp", ".toy.bz2.tmp", ".toy.bz2.x1.tmp", ".a9a.1.tmp", "toy.bz2.1.tmp"]
    for name in kept:
        (folder / name).mkdir(parents=True)
    (folder / ".toy.bz2.7.tmp").mkdir()
    (folder / ".toy.bz2.7.tmp" / "mine").touch()
    (folder / ".toy.bz2.8.tmp").symlink_to(tmp_path)
    (folder / ".toy.bz2.9.tmp").write_text("a file")
    monkeypatch.setattr(datasets, "STALE", -1.0)
    datasets.download(toy, folder, base=site.address, insecure=True)
    left = {path.name for path in folder.iterdir()}
    assert left == {*kept, "toy.bz2", *(f".toy.bz2.{i}.tmp" for i in (7, 8, 9))}


def test_a_kept_file_is_checked(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    path = datasets.download(toy, base=site.address, insecure=True)
    path.write_bytes(bz2.compress(TEXT.replace(b"0.5", b"0.6")))
    with pytest.raises(FileFormatError, match=r"digest .* delete this file, and fetch it again"):
        datasets.download(toy, base=site.address, insecure=True)
    assert path.is_file()
    assert datasets.download(toy, base=site.address, insecure=True, unchecked=True) == path


def test_http_is_refused_unless_allowed(site: Site, toy: DataFile) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    with pytest.raises(InputError, match=r"is not https.*--insecure"):
        datasets.download(toy, base=site.address)
    assert site.asked == []


@pytest.mark.parametrize("honest", [True, False])
def test_more_bytes_than_can_be_are_refused(site: Site, toy: DataFile, honest: bool) -> None:
    site.pages["/data/binary/toy.bz2"] = bytes(10_000)
    if not honest:
        site.promised["/data/binary/toy.bz2"] = 100
        toy = replace(toy, rows=-50)  # so that even the promised bytes are too many
    with pytest.raises(datasets.DownloadError, match="more bytes than this data set can have"):
        datasets.download(toy, base=site.address, insecure=True)
    assert left_in_cache() == []


def test_the_cache_folder_may_be_impossible(site: Site, toy: DataFile, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(datasets.DownloadError, match=r"cannot be made .* KERNELITE_CACHE"):
        datasets.download(toy, base=site.address, insecure=True)


def test_find_prefers_the_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("own", "other", "cache"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a9a.t").write_bytes(TEXT)
    assert find("a9a.t").parent.name == "cache"
    assert find("a9a.t", also=[tmp_path / "other"]).parent.name == "other"
    monkeypatch.setenv("KERNELITE_DATA", str(tmp_path / "own"))
    assert find("a9a.t", also=[tmp_path / "other"]).parent.name == "own"


def test_an_absent_file_is_explained() -> None:
    with pytest.raises(InputError, match=r"`kernelite fetch mnist` downloads it, or set KERNELITE"):
        find("mnist.scale")


def test_the_command_fetches_and_lists(
    site: Site, toy: DataFile, capsys: pytest.CaptureFixture[str]
) -> None:
    site.pages["/data/binary/toy.bz2"] = bz2.compress(TEXT)
    assert main(["fetch", "toy", "--from", site.address, "--insecure"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(cache_folder() / "toy.bz2")
    assert err.startswith("toy: ")
    assert main(["fetch"]) == 0
    assert "epsilon_normalized.t" in capsys.readouterr().out
    assert main(["fetch", "--json"]) == 0
    assert '"rows": 91701' in capsys.readouterr().out


def test_the_command_explains_itself(
    site: Site, toy: DataFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "toy", "--from", "http://127.0.0.1:9/", "--insecure"]) == 1
    assert "Without network" in capsys.readouterr().err
    assert main(["fetch", "iris"]) == 1
    assert "known are a9a" in capsys.readouterr().err


@pytest.mark.campaign  # the data are large
@pytest.mark.parametrize("name", ["a9a.t", "ijcnn1"])
def test_the_known_digests_are_those_of_real_files(name: str) -> None:
    path = shared_path("data", f"{name}.bz2")
    (file,) = (f for f in files_of(name) if f.name == name)
    assert check(path, file) == file.digest
