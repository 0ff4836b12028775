"""Damage to `.kernelite` files is found, and files of format 3 are still read.

A deep run: KERNELITE_FLIPS=10000 pytest tests/store/test_damage.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite
from kernelite.store.document import content_digest
from kernelite.store.files import VERSION, dumps, load, loads, stored_digest
from kernelite.support.errors import FileFormatError
from tests.store.models import HEADS, compiled, proven

OLD = Path(__file__).parent / "format_3"
FLIPS = int(os.environ.get("KERNELITE_FLIPS", "600"))


def test_the_digest_of_a_tensor_is_of_its_type_shape_name_and_numbers() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    same = [rows, np.asfortranarray(rows), rows.astype(">f8")]
    assert len({content_digest(2, {}, {"a": array}) for array in same}) == 1
    others: list[dict[str, Any]] = [
        *({"a": rows}, {"b": rows}, {"a": rows.T.copy()}, {"a": rows.astype("f4")}),
        *({"a": -rows}, {"a": rows, "b": rows}, {"a": rows.ravel()}, {}),
        *({"a": np.zeros(2)}, {"a": np.zeros(2, np.int64)}),  # of the same bytes
    ]
    assert len({content_digest(2, {}, tensors) for tensors in others}) == len(others)


def test_the_digest_of_a_long_tensor_is_of_every_piece() -> None:
    long = np.zeros(400_000)  # three megabytes and a bit
    found = {content_digest(2, {}, {"a": long})}
    for place in (0, 131_071, 131_072, 262_144, 399_999):
        changed = long.copy()
        changed[place] = 1.0
        found.add(content_digest(2, {}, {"a": changed}))
    assert len(found) == 6


def test_damage_is_refused_by_one_sentence(tmp_path: Path) -> None:
    data = bytearray(dumps(compiled()))
    data[-1] ^= 1
    path = tmp_path / "m.kernelite"
    path.write_bytes(data)
    with pytest.raises(
        FileFormatError, match="it is damaged: its content does not agree"
    ) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_flipped_bits_never_change_a_label() -> None:
    files = [*_files()]
    rng = np.random.default_rng(17)
    refused = 0
    for number in range(FLIPS):
        data, rows, labels = files[number % len(files)]
        damaged = bytearray(data)
        bit = int(rng.integers(8 * len(data)))
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            model = loads(bytes(damaged))
        except FileFormatError:
            refused += 1
        else:
            assert model.predict(rows).tolist() == labels, (
                f"bit {bit} of file {number % len(files)}"
            )
    assert refused > 0.9 * FLIPS


def _files() -> Any:
    """Bytes of a model, rows, and what they get."""
    X, y = load_iris(return_X_y=True)
    names = load_iris().target_names[y]
    scaled = make_pipeline(StandardScaler(), SVC(gamma=0.02, C=5)).fit(X, names)
    for model, rows in [
        (kernelite.compile(scaled, X), X),
        (kernelite.compile(SVC(gamma=0.5).fit(X, y), X, guarantee="exact"), X),
        (compiled(HEADS["three"], exact=True, sparse=True), np.eye(4)),
        (proven(), np.random.default_rng(0).normal(size=(40, 3))),
    ]:
        yield dumps(model), rows, model.predict(rows).tolist()


ANSWERS = json.loads((OLD / "answers.json").read_text())


@pytest.mark.parametrize("name", ANSWERS)
def test_files_of_format_3_are_still_read(name: str, tmp_path: Path) -> None:
    path = OLD / f"{name}.kernelite"
    assert stored_digest(path)[0] == 3
    model, rows = load(path), np.array(ANSWERS[name]["rows"])
    # As they were, but for the rounding of another machine's kernels; labels to the letter.
    expected = np.array(ANSWERS[name]["predict"])
    given = model.predict(rows)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(given, expected, rtol=1e-12)
    else:
        assert given.tolist() == expected.tolist()
    model.save(tmp_path / "again.kernelite")
    version, digest = stored_digest(tmp_path / "again.kernelite")
    assert (version, len(digest)) == (VERSION, 32)
    assert load(tmp_path / "again.kernelite").predict(rows).tolist() == given.tolist()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a,b\n1,2\n3,4\n5,6\n", "begins no kind of model"),
        (b"svm_type c_svc\nkernel_type rbf\n", "this is no .kernelite file, so it holds no digest"),
        (b"\xff\xff\xff\xff\xff\0\0\0{}", "its metadata cannot be read"),
        (b"\x02\0\0\0\0\0\0\0{}", "its metadata cannot be read"),
        (b"\x10\0\0\0\0\0\0\0{" + b"[" * 15, "its metadata cannot be read"),
    ],
)
def test_a_digest_is_asked_of_any_file(tmp_path: Path, content: bytes, says: str) -> None:
    """Eight bytes of text are a length of 2^61: it is not believed."""
    path = tmp_path / "any"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=says):
        stored_digest(path)
