"""Changes inside of containers: of a model's tree and tensors, array headers, table columns."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from kernelite.store.document import content_digest

__all__ = ["change_footer", "change_model", "change_npy", "change_npz", "change_table"]

VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, -1e308, 1e308, 1e-320, 5e-324),
    *(
        True,
        False,
        None,
        "",
        "x",
        "rbf",
        "certified",
        "exact",
        "none",
        "\ud800",
        "\x1b[2J",
        "a" * 5000,
    ),
    *([], {}, [[]], [0], {"": 0}),
)
CHANGES: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda array: array[:-1] if array.ndim else array,
    lambda array: array.T,
    lambda array: array.ravel(),
    np.zeros_like,
    lambda array: array[:0] if array.ndim else array,
    lambda array: np.concatenate([array, array]) if array.ndim else array,
    lambda array: (
        array * -1 if array.dtype.kind in "fi" else ~array if array.dtype == bool else array
    ),
    lambda array: np.full_like(array, 1e308 if array.dtype.kind == "f" else 1),
    lambda array: np.full_like(array, np.nan if array.dtype.kind == "f" else 0),
    lambda array: array.astype(np.float32),
    lambda array: array.astype(np.int8),
    lambda array: array[..., None],
    lambda array: array[::-1] if array.ndim else array,
)


@cache
def _parts(data: bytes) -> tuple[str, dict[str, np.ndarray]]:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header["__metadata__"]["kernelite"], load(data)


def change_model(rng: random.Random, data: bytes, *, renewed: bool) -> bytes:
    """A value of the tree or a tensor is another one; the digest is the old one, or renewed."""
    text, tensors = _parts(data)
    document, tensors = json.loads(text), dict(tensors)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.5:
            _change_tree(rng, document["model"])
        elif tensors:
            _change_tensor(rng, tensors)
    whole = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    try:
        if renewed:
            version = document["version"]
            document["digest"] = content_digest(version, document["model"], whole)
        return save(whole, metadata={"kernelite": json.dumps(document)})
    except ValueError:  # what JSON or safetensors cannot hold
        return data


def _change_tree(rng: random.Random, tree: Any) -> None:
    *way, last = rng.choice(list(_leaves(tree)))
    node = tree
    for step in way:
        node = node[step]
    if rng.random() < 0.85:
        value = node[last]
        if type(value) in (int, float) and rng.random() < 0.4:
            node[last] = type(value)(value * rng.choice((-1, 2, 0.5, 10))) + rng.choice((0, 1, -1))
        else:
            node[last] = deepcopy(rng.choice(VALUES))  # else a list may come to hold itself
    elif isinstance(node, dict) and rng.random() < 0.5:
        node[rng.choice(("x", "", "type", "tensor", "csr", *node))] = deepcopy(node[last])
    else:
        del node[last]


def _leaves(tree: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values of a tree, and to its branches."""
    if way:
        yield way
    if isinstance(tree, dict | list):
        for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(item, (*way, key))


EXTREMES = (0.0, -1.0, 1e-320, 1e150, 1e200, -1e308, 1e308, np.inf, np.nan)


def _change_tensor(rng: random.Random, tensors: dict[str, np.ndarray]) -> None:
    name = rng.choice(sorted(tensors))
    array = tensors[name]
    how = rng.random()
    if how < 0.5 and array.size and array.dtype.kind == "f":
        one = array.copy()
        with np.errstate(all="ignore"):
            one.flat[rng.randrange(one.size)] = rng.choice((*EXTREMES, rng.gauss(0, 9)))
        tensors[name] = one
    elif how < 0.6 and array.size and array.dtype.kind in "iu":
        one = array.copy()
        one.flat[rng.randrange(one.size)] = rng.choice((0, 1, 2, 99, np.iinfo(one.dtype).max))
        tensors[name] = one
    elif how < 0.9:
        with np.errstate(all="ignore"):
            tensors[name] = rng.choice(CHANGES)(array)
    elif how < 0.95:
        del tensors[name]
    else:
        tensors[rng.choice(("x", "", name + "x", *tensors))] = array


SHAPES = ("()", "(3,)", "(3, 4)", "(4, 3)", "(12, 1)", "(0, 4)", "(3, 0)", "(3, 4, 1)", "(-1, 4)")
SHAPES += ("(2**40, 2**40)", "(1099511627776, 4)", "(4611686018427387904, 4)", "(3, 4", "3", "None")
SHAPES += ("(0, 4611686018427387904)", "(1.5, 2)", "(True, 4)", "('a', 4)")
TYPES = (
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<i8",
    "|b1",
    "|i1",
    "|u1",
    "|O",
    "<U8",
    "|S8",
    "<c16",
    "<M8[s]",
)
TYPES += ("<m8[D]", "|V8", "<f16", "<f3", "f8,i4", "[('a', '<f8')]", "", "O", "<f8" * 50)


def change_npy(rng: random.Random, data: bytes) -> bytes:
    """Another header, the old numbers."""
    body = data[10 + int.from_bytes(data[8:10], "little") :]
    kind, order = rng.choice(TYPES), rng.choice(("True", "False", "False", "0", "None"))
    shape = rng.choice(SHAPES)
    if rng.random() < 0.3:
        kind, order = "<f8", "False"
    header = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.1:
        header = rng.choice(("{}", "[]", "{'descr': 1}", "(" * 3000, "x", "{'shape': (1,)}", ""))
    if rng.random() < 0.1:
        header += " " * rng.choice((1, 100, 20_000))
    version = rng.choice((1, 1, 1, 2, 3, 9))
    size = struct.pack("<H" if version == 1 else "<I", min(len(header) + 1, 65535))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode() + b"\n" + body


def change_npz(rng: random.Random, data: bytes) -> bytes:
    """Other members, or members with other headers and numbers."""
    members = {
        "data": np.array([1.5, 2.0, 3.0]),
        "indices": np.array([1, 3, 0], dtype=np.int32),
        "indptr": np.array([0, 2, 3, 3], dtype=np.int32),
        "shape": np.array([3, 4]),
        "format": np.array(b"csr"),
    }
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(members))
        array: Any = members[name]
        how = rng.randrange(6)
        if how == 0 and array.size and array.dtype.kind in "fi":
            most = np.iinfo(array.dtype).max if array.dtype.kind == "i" else 2**31 - 1
            array = array.copy()
            array.flat[rng.randrange(array.size)] = min(
                rng.choice((0, -1, 4, 5, 10**6, most)), most
            )
        elif how == 1:
            array = np.array(
                rng.choice((b"csc", b"coo", b"", b"dia", "csr", 1.5, b"csr\0\xff", []))
            )
        elif how == 2 and array.dtype.kind in "fi":
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice((np.int64, np.float32, np.uint8, complex, bool)))
        elif how == 3 and array.dtype.kind in "fi":
            with np.errstate(all="ignore"):
                array = rng.choice(CHANGES)(array)
        elif how == 4:
            array = np.array([2**40, 2**40]) if rng.random() < 0.5 else np.zeros(10**5)
        else:
            del members[name]
            continue
        members[name] = array
    return _zipped(rng, members)


def _zipped(rng: random.Random, members: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, array in members.items():
            content = io.BytesIO()
            np.save(content, array)
            whole = content.getvalue()
            if rng.random() < 0.1:
                whole = change_npy(rng, whole)
            ending = rng.choice((".npy",) * 20 + ("", ".npz", "/../a.npy"))
            archive.writestr(name + ending, whole)
    return file.getvalue()


def change_footer(rng: random.Random, data: bytes) -> bytes:
    """Another byte, or a few, in what the end of a Parquet file states of its columns."""
    end = len(data) - 8
    start = max(4, end - int.from_bytes(data[end : end + 4], "little"))
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(start, end)
        extremes = (0, 1, 127, 255, rng.randrange(256))
        changed[at] = rng.choice((changed[at] ^ 1 << rng.randrange(8), *extremes))
    return bytes(changed)


def change_table(rng: random.Random, format: str) -> bytes:
    """Another table: other types, names, nulls, numbers of rows and columns."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = rng.choice((0, 1, 7, 300))
    names = [
        rng.choice(("a", "b", "c", "d", "label", "", "\x1b[2J", "é", "a" * 300)) for _ in range(6)
    ]
    if rng.random() < 0.7:
        names[:4] = ["a", "b", "c", rng.choice(("d", "Größe"))]
    columns = [_column(rng, rows) for _ in range(rng.choice((0, 3, 4, 4, 4, 6)))]
    if rng.random() < 0.6:
        columns = [pa.array([rng.gauss(0, 1) for _ in range(rows)]), *columns[1:]][: len(columns)]
    table = pa.Table.from_arrays(columns, names=names[: len(columns)])
    file = io.BytesIO()
    try:
        if format == "parquet":
            parquet.write_table(table, file, row_group_size=rng.choice((1, 3, 1000)))
        else:
            with pa.ipc.new_file(file, table.schema) as sink:
                sink.write_table(table, max_chunksize=rng.choice((1, 3, 1000)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # what the format cannot hold
        return b""
    return file.getvalue()


def _column(rng: random.Random, rows: int) -> Any:
    import pyarrow as pa

    numbers = [rng.choice((0, 1, -1, 7, None)) if rng.random() < 0.1 else 3 for _ in range(rows)]
    floats = [rng.choice((float("nan"), float("inf"), 1e308, 0.5)) for _ in range(rows)]
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: pa.array(numbers, pa.float64()),
        lambda: pa.array([0.5] * rows, pa.float32()),
        lambda: pa.array(numbers, pa.int8()),
        lambda: pa.array([2**63 + 1] * rows, pa.uint64()),
        lambda: pa.array(floats, pa.float64()),
        lambda: pa.array([0.5] * rows, pa.float32()).cast(pa.float16()),
        lambda: pa.array([None] * rows),
        lambda: pa.array([True] * rows),
        lambda: pa.array(["1.5"] * rows),
        lambda: pa.array(["x", *["klein"] * rows][:rows]).dictionary_encode(),
        lambda: pa.array([None, *["groß"] * rows][:rows], pa.large_string()),
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([0] * rows, pa.int8()), pa.array(["x"] * 9)
        ),
        lambda: pa.array(["\0" * 99] * rows, pa.string_view()),
        lambda: pa.array([1.5] * rows).dictionary_encode(),
        lambda: pa.array([[1.0]] * rows, pa.list_(pa.float64())),
        lambda: pa.array([{"x": 1.0}] * rows, pa.struct([("x", pa.float64())])),
        lambda: pa.array([b"\xff"] * rows, pa.binary()),
        lambda: pa.array(numbers, pa.int64()).cast(pa.timestamp("s")),
        lambda: pa.array(numbers, pa.int64()).cast(pa.decimal128(25, 3)),
        lambda: pa.array(numbers, pa.int64()).cast(pa.duration("s")),
    )
    return rng.choice(kinds)()
