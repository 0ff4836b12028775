"""Small valid files of every format, made by code: what the mutators start from."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.sparse import csr_array, save_npz

from kernelite.store.approxsvm import ApproxText, format_text
from kernelite.store.files import dumps
from tests.fuzz.models import answers_of, models

__all__ = ["ENDINGS", "FORMATS", "TURNS", "Seed", "corpus", "turns"]


@dataclass(frozen=True)
class Seed:
    """A valid file and, of a `.kernelite` file, what it answers for `rows_for` its width."""

    data: bytes
    answers: tuple[object, ...] = ()


ENDINGS = {
    "kernelite": ".kernelite",
    "kernelite, digest renewed": ".kernelite",
    "libsvm model": ".model",
    "libsvm data": ".svm",
    "range": ".range",
    "approxsvm": ".approx",
    "csv": ".csv",
    "npy": ".npy",
    "npz": ".npz",
    "parquet": ".parquet",
    "arrow": ".arrow",
}
"""Format -> the ending of its files."""

TURNS = dict.fromkeys(ENDINGS, 2) | {
    **dict.fromkeys(("kernelite", "libsvm model", "approxsvm", "npy"), 3),
    **dict.fromkeys(("parquet", "arrow"), 1),
}
"""Format -> how often it has its turn: those that are slow to make and read have fewer."""


@cache
def turns(formats: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """One round: at each place a format, and its how manieth turn that is.

    Examples
    --------
    >>> turns(("npy", "arrow"))
    (('npy', 0), ('arrow', 0), ('npy', 1), ('npy', 2))
    """
    most = max(TURNS[name] for name in formats)
    return tuple((name, turn) for turn in range(most) for name in formats if turn < TURNS[name])


MODEL = b"""svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 5
rho 0.1 -0.2 0.3
label 7 -1 3
nr_sv 2 2 1
SV
1 0.5 1:1 3:-0.25
0.25 -0.75 2:1e-3
-1 2 1:0.5 2:0.5 4:1
-0.5 1 4:2
0.5 -1 1:-1 2:3
"""
BINARY = b"""svm_type c_svc
kernel_type polynomial
degree 2
gamma 0.25
coef0 1
nr_class 2
total_sv 3
rho -0.5
label 1 -1
probA -1.5
probB 0.25
nr_sv 2 1
SV
1 1:1 2:0.5
0.5 3:2
-1.5 1:-1 3:0.25
"""
LINEAR = BINARY.replace(b"polynomial\ndegree 2\ngamma 0.25\ncoef0 1\n", b"linear\n")
CUBIC = BINARY.replace(b"degree 2", b"degree 3")
SIGMOID = MODEL.replace(b"rbf\n", b"sigmoid\n").replace(b"gamma 0.5\n", b"gamma 0.5\ncoef0 -1\n")
REGRESSOR = b"""svm_type epsilon_svr
kernel_type rbf
gamma 0.1
nr_class 2
total_sv 2
rho 1.5
SV
3 1:0.5 2:-1
-3 2:2
"""
ONE_CLASS = REGRESSOR.replace(b"epsilon_svr", b"one_class")
DATA = (
    b"+1 1:0.5 3:2\n-1 2:1 4:-3e-5\n+1\n-1 1:7 # why not\n",
    b"1:0.5 2:1\r\n2:0.25\r\n\r\n4:9\r\n",
    b"0.5 1:1 2:2 3:3 4:4\n" * 9,
)
RANGES = (
    b"x\n-1 1\n1 0 4\n2 -3.5 1e6\n4 1 1\n",
    b"y\n-1 1\n0 250\nx\n0 1\n1 0 4\n3 -3 3\n",
)
CSV = (
    b"a,b,c,d,label\n1,2,3,4,yes\n0.5,-2e3,0,1,no\n7,8,9,10,yes\n",
    "a,b,c,Größe\n1,2,3,klein\n0.5,,1e3,groß\n1,1,1,NA\n".encode(),
    b"1;2;3;4\n5;6;7;8\n",
    b"# a comment\n1\t2\t3\t4\n\n5\t6\t7\t8\r\n",
    b'"a","b","c","d"\n"1","2","3","4"\n5,6,7,8\n',
)


@cache
def corpus(name: str) -> tuple[Seed, ...]:
    """The valid files of a format."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(FORMATS[name]())


def _texts(*texts: bytes) -> list[Seed]:
    packed = [gzip.compress(texts[0], mtime=0), bz2.compress(texts[-1])]
    packed += [lzma.compress(texts[0])]
    return [Seed(text) for text in (*texts, *packed)]


def _models() -> list[Seed]:
    return [Seed(dumps(model), answers_of(model)) for model in models()]


def _approxsvm() -> list[Seed]:
    v, M = np.array([0.5, -1.0, 0.25]), np.diag([1.0, 2.0, -3.0])
    numbers = (0.05, 3.5, -14.5, 14.25, v, M)
    kinds = [((1, -1), "c_svc"), ((1, -1), "one_svm"), (None, "eps_svr")]
    found = []
    for labels, svm_type in kinds:
        text = ApproxText(labels, 0.0, svm_type, *numbers)
        found.append("".join(f"{line}\n" for line in format_text(text)).encode())
    return _texts(*found)


def _arrays(save: Callable[[io.BytesIO], None]) -> Seed:
    file = io.BytesIO()
    save(file)
    return Seed(file.getvalue())


def _npy() -> list[Seed]:
    X = np.arange(12.0).reshape(3, 4)
    kept = [X, np.asfortranarray(X), X.astype(np.float32), X.astype(">i2"), X > 3]
    return [_arrays(lambda file, one=one: np.save(file, one)) for one in kept]


def _npz() -> list[Seed]:
    X = csr_array(np.array([[0, 1.5, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0]]))
    return [
        _arrays(lambda file, packed=packed: save_npz(file, X, compressed=packed))
        for packed in (True, False)
    ]


def _table() -> object:
    import pyarrow as pa

    rng = np.random.default_rng(3)
    columns = {name: rng.normal(size=7) for name in "abcd"}
    texts = pa.array(["klein", "groß", "", None, "klein", "\u202e", "neu"]).dictionary_encode()
    table = pa.table(columns | {"Größe": texts})
    return table.append_column("n", pa.array([1, None, 3, 4, 5, 6, 7]))


def _parquet() -> list[Seed]:
    from pyarrow import parquet

    options = [{"compression": "none"}, {"compression": "snappy", "row_group_size": 3}, {}]
    return [
        _arrays(lambda file, one=one: parquet.write_table(_table(), file, **one)) for one in options
    ]


def _arrow() -> list[Seed]:
    import pyarrow as pa

    def whole(file: io.BytesIO) -> None:
        table: object = _table()
        with pa.ipc.new_file(file, table.schema) as sink:  # type: ignore[attr-defined]
            sink.write_table(table, max_chunksize=3)

    def stream(file: io.BytesIO) -> None:
        table: object = _table()
        with pa.ipc.new_stream(file, table.schema) as sink:  # type: ignore[attr-defined]
            sink.write_table(table)

    return [_arrays(whole), _arrays(stream)]


FORMATS: dict[str, Callable[[], list[Seed]]] = {
    "kernelite": _models,
    "kernelite, digest renewed": _models,
    "libsvm model": lambda: _texts(MODEL, BINARY, LINEAR, CUBIC, SIGMOID, REGRESSOR, ONE_CLASS),
    "libsvm data": lambda: _texts(*DATA),
    "range": lambda: _texts(*RANGES),
    "approxsvm": _approxsvm,
    "csv": lambda: _texts(*CSV),
    "npy": _npy,
    "npz": _npz,
    "parquet": _parquet,
    "arrow": _arrow,
}
