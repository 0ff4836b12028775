"""The corpus of bad LIBSVM model files: each is refused by a sentence with file, line and token."""

from __future__ import annotations

import bz2
import gzip
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import kernelite as kl
from kernelite.sources.libsvm import defects, read_libsvm
from kernelite.support.errors import (
    FileFormatError,
    InputError,
    KerneliteError,
    UnsupportedModelError,
)

GOOD = b"""svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 4
rho 0.1 -0.2 0.3
label 7 -1 3
probA -1 -2 -3
probB 0 0.1 0.2
nr_sv 2 1 1
SV
1 0.5 1:1 3:-0.25
0.25 -0.75 2:1e-3
-1 2 1:0.5 2:0.5 4:1
-0.5 1 4:2
"""


def swap(old: bytes, new: bytes) -> bytes:
    """The good model with one thing changed."""
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


@dataclass(frozen=True)
class Case:
    """A bad file: its bytes, the line at fault (None: the whole file), and words of the message."""

    content: bytes
    line: int | None
    says: str
    size: int = 0  # if larger, the last byte is repeated up to here

    def write(self, path: Path) -> Path:
        with path.open("wb") as file:
            file.write(self.content)
            block = self.content[-1:] * 2**20
            for _ in range((self.size - len(self.content)) // len(block) if self.size else 0):
                file.write(block)
        return path


CASES = {
    "empty": Case(b"", None, "the file is empty"),
    "one newline": Case(b"\n", 1, "does not begin a LIBSVM model"),
    "binary junk": Case(bytes(range(256)) * 40, 1, "NUL byte"),
    "binary junk without NUL": Case(bytes(range(128, 256)) * 40, 1, "not UTF-8"),
    "non-UTF-8 header": Case(swap(b"gamma 0.5", b"gamma 0.5\xff"), 3, r"0.5\xff` is not UTF-8"),
    "non-UTF-8 vector": Case(swap(b"2:1e-3", b"2:1e-3\xe9"), 13, "not UTF-8"),
    "NUL in a vector": Case(swap(b"2:1e-3", b"2:1\0"), 13, "NUL byte"),
    "not a model": Case(b"hello world\n", 1, "`hello` does not begin a LIBSVM model"),
    "approxsvm model": Case(b"approximated SVM classifier\n", 1, "`approximated`"),
    "data file": Case(b"+1 1:0.5 2:1\n-1 1:0.25\n", 1, "`+1` does not begin"),
    "huge line": Case(b"a", 1, "longer than the limit of 16777216 bytes", 100_000_000),
    "huge vector line": Case(GOOD[:-1] + b"0", 15, "longer than the limit", 100_000_000),
    "a separator as the last line": Case(swap(b"-0.5 1 4:2\n", b"\x1c"), 15, "`\\x1c`"),
    "unknown key": Case(swap(b"nr_class 3", b"nr_klass 3"), 4, "`nr_klass` is not a key"),
    "double key": Case(swap(b"rho", b"gamma 0.5\nrho"), 6, "`gamma` is there twice"),
    "decimal comma in gamma": Case(
        swap(b"gamma 0.5", b"gamma 0,5"), 3, "`0,5` has a decimal comma"
    ),
    "decimal comma in a value": Case(
        swap(b"3:-0.25", b"3:-0,25"), 12, "`-0,25` has a decimal comma"
    ),
    "decimal comma in rho": Case(
        swap(b"0.1 -0.2", b"0,1 -0.2"), 6, "rho `0,1` has a decimal comma"
    ),
    "gamma NaN": Case(swap(b"gamma 0.5", b"gamma nan"), 3, "gamma `nan` is not finite"),
    "gamma zero": Case(swap(b"gamma 0.5", b"gamma 0"), 3, "gamma `0` should be positive"),
    "gamma negative": Case(swap(b"gamma 0.5", b"gamma -1"), 3, "gamma `-1` should be positive"),
    "gamma twice on a line": Case(swap(b"gamma 0.5", b"gamma 0.5 1"), 3, "2 values, expected 1"),
    "gamma without value": Case(swap(b"gamma 0.5", b"gamma"), 3, "0 values, expected 1"),
    "gamma hexadecimal": Case(swap(b"gamma 0.5", b"gamma 0x1p-1"), 3, "`0x1p-1`"),
    "gamma underscore": Case(swap(b"gamma 0.5", b"gamma 1_0"), 3, "`1_0`"),
    "unknown type": Case(swap(b"c_svc", b"d_svc"), 1, "svm_type `d_svc` is unknown"),
    "unknown kernel": Case(swap(b"rbf", b"laplace"), 2, "kernel_type `laplace` is unknown"),
    "nr_class negative": Case(swap(b"nr_class 3", b"nr_class -3"), 4, "nr_class `-3` is out of"),
    "nr_class zero": Case(swap(b"nr_class 3", b"nr_class 0"), 4, "nr_class `0` is out of range"),
    "nr_class huge": Case(swap(b"nr_class 3", b"nr_class 2147483647"), 6, "`rho` has 3 values"),
    "nr_class beyond int": Case(swap(b"nr_class 3", b"nr_class 99999999999"), 4, "out of range"),
    "nr_class of 5000 digits": Case(
        swap(b"nr_class 3", b"nr_class " + b"9" * 5000), 4, "nr_class `9999999999"
    ),
    "nr_class fraction": Case(swap(b"nr_class 3", b"nr_class 3.0"), 4, "`3.0` is not an integer"),
    "total_sv negative": Case(swap(b"total_sv 4", b"total_sv -4"), 5, "total_sv `-4`"),
    "total_sv huge": Case(swap(b"total_sv 4", b"total_sv 2147483647"), 10, "adds up to 4"),
    "total_sv huge, nr_sv too": Case(
        swap(b"total_sv 4", b"total_sv 2000000000").replace(b"nr_sv 2 1", b"nr_sv 1999999998 1"),
        15,
        "the file ends after 4 support vectors, but `total_sv` promises 2000000000",
    ),
    "total_sv small": Case(
        swap(b"total_sv 4", b"total_sv 3").replace(b"nr_sv 2", b"nr_sv 1"),
        15,
        "more support vectors than `total_sv` promises (3)",
    ),
    "rho short": Case(swap(b"0.1 -0.2 0.3", b"0.1 -0.2"), 6, "`rho` has 2 values, expected 3"),
    "rho infinite": Case(swap(b"0.1 -0.2 0.3", b"0.1 inf 0.3"), 6, "rho `inf` is not finite"),
    "rho overflow": Case(swap(b"0.1 -0.2 0.3", b"0.1 1e999 0.3"), 6, "`1e999` is too large"),
    "label short": Case(swap(b"label 7 -1 3", b"label 7 -1"), 7, "`label` has 2 values"),
    "label twice": Case(swap(b"label 7 -1 3", b"label 7 -1 7"), 7, "label `7` is there twice"),
    "label fraction": Case(swap(b"label 7 -1 3", b"label 7 -1.5 3"), 7, "`-1.5` is not an integer"),
    "label beyond int": Case(swap(b"label 7", b"label 2147483648"), 7, "`2147483648` is out of"),
    "nr_sv short": Case(swap(b"nr_sv 2 1 1", b"nr_sv 3 1"), 10, "`nr_sv` has 2 values"),
    "nr_sv negative": Case(swap(b"nr_sv 2 1 1", b"nr_sv 5 -2 1"), 10, "nr_sv `-2` is out of"),
    "nr_sv of another sum": Case(swap(b"nr_sv 2 1 1", b"nr_sv 1 1 1"), 10, "adds up to 3"),
    "probA alone": Case(swap(b"probB 0 0.1 0.2\n", b""), 8, "`probB` is missing"),
    "probB alone": Case(swap(b"probA -1 -2 -3\n", b""), 8, "`probA` is missing"),
    "probA short": Case(swap(b"probA -1 -2 -3", b"probA -1 -2"), 8, "`probA` has 2 values"),
    "probB NaN": Case(swap(b"probB 0 0.1", b"probB nan 0.1"), 9, "probB `nan` is not finite"),
    "no SV line": Case(GOOD[: GOOD.index(b"SV\n")], 10, "ends before the line `SV`"),
    "cut in the header": Case(GOOD[: GOOD.index(b" 3\ntotal")], 4, "ends before the line `SV`"),
    "cut after SV": Case(GOOD[: GOOD.index(b"SV\n") + 3], None, "the file ends after 0 support"),
    "cut between lines": Case(GOOD[: GOOD.index(b"-0.5 1 4")], 14, "the file ends after 3 support"),
    "cut in a value": Case(GOOD[:-2], 15, "feature `4`: value `` is empty"),
    "cut in an index": Case(GOOD[:-3], 15, "`4` is not an `index:value` pair"),
    "cut after a value": Case(GOOD[:-1], 15, "the file ends at `4:2` within a line"),
    "cut after a coefficient": Case(GOOD[:-6], 15, "1 coefficients of 2"),
    "empty line among vectors": Case(swap(b"-1 2 1:0.5", b"\n-1 2 1:0.5"), 14, "an empty line"),
    "unsorted indices": Case(swap(b"2:0.5 4:1", b"4:0.5 2:1"), 14, "index `2` comes after `4`"),
    "double index": Case(swap(b"2:0.5 4:1", b"2:0.5 2:1"), 14, "index `2` appears twice"),
    "index zero": Case(swap(b"1:1 3", b"0:1 3"), 12, "index `0` is out of range"),
    "index negative": Case(swap(b"1:1 3", b"-1:1 3"), 12, "index `-1` is out of range"),
    "index beyond int": Case(swap(b"4:2", b"2147483648:2"), 15, "index `2147483648` is out of"),
    "index of 30 digits": Case(swap(b"4:2", b"9" * 30 + b":2"), 15, "index `99999999999999999999"),
    "index fraction": Case(swap(b"4:2", b"4.0:2"), 15, "index `4.0` is not an integer"),
    "index missing": Case(swap(b"4:2", b":2"), 15, "index `` is not an integer"),
    "value missing": Case(swap(b"4:2", b"4: 2"), 15, "feature `4`: value `` is empty"),
    "two colons": Case(swap(b"4:2", b"4:2:1"), 15, "value `2:1` is not a decimal number"),
    "value NaN": Case(swap(b"4:2", b"4:nan"), 15, "value `nan` is not finite"),
    "value infinite": Case(swap(b"4:2", b"4:-inf"), 15, "value `-inf` is not finite"),
    "value overflow": Case(swap(b"4:2", b"4:1e400"), 15, "value `1e400` is too large"),
    "value word": Case(swap(b"4:2", b"4:two"), 15, "value `two` is not a decimal number"),
    "coefficient NaN": Case(swap(b"-0.5 1 4:2", b"NaN 1 4:2"), 15, "coefficient `NaN`"),
    "coefficient overflow": Case(swap(b"-0.5 1 4", b"-2e308 1 4"), 15, "`-2e308` is too large"),
    "coefficient missing": Case(
        swap(b"-0.5 1 4:2", b"1 4:2"), 15, "`4:2` where coefficient 2 of 2"
    ),
    "coefficient too many": Case(swap(b"-0.5 1 4:2", b"-0.5 1 2 4:2"), 15, "`2` is not an `index"),
}

MISSING = ["svm_type", "kernel_type", "gamma", "nr_class", "total_sv", "rho", "label", "nr_sv"]
for key in MISSING:
    kept = [row for row in GOOD.splitlines(keepends=True) if not row.startswith(key.encode())]
    CASES[f"{key} missing"] = Case(b"".join(kept), 10, f"`{key}` is missing from the header")


@pytest.fixture
def write(tmp_path: Path):
    def write(content: bytes, name: str = "bad.model") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("name", CASES)
def test_bad_files_are_refused_with_file_line_and_token(name, tmp_path):
    case = CASES[name]
    path = case.write(tmp_path / "bad.model")
    with pytest.raises(FileFormatError) as caught:
        read_libsvm(path)
    message = str(caught.value)
    assert case.says in message
    assert caught.value.line == case.line
    assert message.startswith(f"{path}:{case.line}: " if case.line else f"{path}: ")
    assert "\n" not in message
    assert len(caught.value.problem) < 300


@pytest.mark.parametrize("name", CASES)
def test_the_check_finds_what_the_reader_refuses(name, tmp_path):
    case = CASES[name]
    found = defects(case.write(tmp_path / "bad.model"))
    assert any(case.says in defect.problem and defect.line == case.line for defect in found)


@pytest.mark.parametrize("squeeze", [gzip.compress, bz2.compress])
def test_a_cut_compressed_file_is_refused(squeeze, write):
    whole = squeeze(GOOD * 50)
    with pytest.raises(FileFormatError, match="corrupt or cut off"):
        read_libsvm(write(whole[: len(whole) // 2]))


def test_the_good_file_has_no_defects(write):
    assert defects(write(GOOD)) == []
    assert read_libsvm(write(GOOD)).expansion.centers.shape == (4, 4)


def test_every_defect_is_listed_in_order(write):
    content = (
        swap(b"gamma 0.5", b"gamma x").replace(b"label 7 -1 3", b"label 7").replace(b"4:2", b"4:a")
    )
    content = content.replace(b"2:1e-3", b"0:1")
    assert [defect.line for defect in defects(write(content))] == [3, 7, 13, 15]


def test_vectors_are_checked_even_when_the_header_is_broken(write):
    content = swap(b"nr_class 3", b"nr_class x").replace(b"4:2", b"4:a")
    assert [defect.line for defect in defects(write(content))] == [4, 15]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"rbf", b"precomputed", "kernel_type `precomputed` is not served"),
        (b"rbf", b"polynomial\ncoef0 0\ndegree 0", "degree `0` of the polynomial kernel"),
        (b"rbf", b"polynomial\ncoef0 0\ndegree 101", "accepted are 1 to 100"),
    ],
)
def test_sound_models_of_other_kernels_are_refused(old, new, says, write):
    path = write(swap(old, new))
    with pytest.raises(UnsupportedModelError, match=says) as caught:
        read_libsvm(path)
    assert str(path) in str(caught.value)
    assert [says in defect.problem for defect in defects(path)] == [True]


def test_a_model_of_one_class_is_refused(write):
    path = write(
        b"svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 1\ntotal_sv 0\nrho\nlabel 5\n"
        b"nr_sv 0\nSV\n"
    )
    with pytest.raises(UnsupportedModelError, match="one class only"):
        read_libsvm(path)


def test_unfolding_beyond_all_memory_is_refused(write):
    K, n = 1000, 600
    header = f"svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class {K}\ntotal_sv {n}\n"
    header += f"rho {'0 ' * (K * (K - 1) // 2)}\nlabel {' '.join(map(str, range(K)))}\n"
    header += f"nr_sv {n}{' 0' * (K - 1)}\nSV\n"
    path = write((header + ("0 " * (K - 1) + "1:1\n") * n).encode())
    with pytest.raises(UnsupportedModelError, match="499500 pairs"):
        read_libsvm(path)


def test_a_short_line_with_a_huge_index_takes_little_memory(write):
    source = read_libsvm(write(swap(b"4:2", b"2147483647:2")))
    centers = source.expansion.centers
    assert centers.shape == (4, 2147483647)
    assert source.expansion.nbytes < 1000
    from scipy.sparse import csr_array

    row = csr_array(([2.0, 1.0], [2147483646, 7], [0, 2]), shape=(1, 2147483647))
    assert source.expansion.scores(row).shape == (1, 3)


def test_too_many_features_to_plan_with(write, monkeypatch):
    path = write(swap(b"4:2", b"2147483647:2"))
    with pytest.raises(InputError, match=r"2,147,483,647 features: too many .* guarantee='exact'"):
        kl.compile(path)
    with (
        pytest.raises(InputError, match="more than `max_bytes`"),
        pytest.warns(UserWarning, match="only 4"),
    ):
        kl.compile(path, guarantee="none")
    exact = kl.compile(path, guarantee="exact")
    assert exact.n_features_in_ == 2147483647
    rows = csr_array(([1.0, 2.0], [0, 2147483646], [0, 1, 2]), shape=(2, 2147483647))
    expected = read_libsvm(path).expansion.scores(rows)
    np.testing.assert_allclose(exact.decision_function(rows), expected, rtol=1e-12)
    monkeypatch.setattr("kernelite.model.compiler.passes.SAMPLE_NUMBERS", 8)
    assert "measured on 2 support vectors" in str(kl.compile(write(GOOD)).plan)


@pytest.mark.parametrize("name", ["total_sv huge, nr_sv too", "nr_class huge", "huge line"])
def test_promises_are_not_allocated(name, tmp_path):
    import tracemalloc

    path = CASES[name].write(tmp_path / "bad.model")
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError):
            read_libsvm(path)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


SNIPPETS = [
    b"",
    b" ",
    b"\n",
    b":",
    b"-",
    b"0",
    b"nan",
    b"1e999",
    b"\xff",
    b"\0",
    b"SV",
    b"2147483648",
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(GOOD)), st.integers(0, 5), st.sampled_from(SNIPPETS) | st.binary()
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_damage_is_refused_or_harmless(changes):
    """Reader and check agree on damaged files, and neither raises anything else."""
    content = bytearray(GOOD)
    for place, removed, added in changes:
        content[place : place + removed] = added
    with TemporaryDirectory() as folder:
        path = Path(folder, "damaged.model")
        path.write_bytes(content)
        try:
            read_libsvm(path)
            refused = False
        except KerneliteError:
            refused = True
        assert refused == bool(defects(path))
