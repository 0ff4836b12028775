"""Which columns are features, kept, labels."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kernelite.data.scoring.selection import expand_columns, select
from kernelite.support.errors import InputError
from tests.data.tables.columnar.tables import NAMES, classifier, regressor, table


def schema(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema(list(kinds.items()))


FOUR = {name: pa.float64() for name in "abcd"}


def test_the_models_own_names_in_any_order() -> None:
    shuffled = table().select(["remark", *NAMES[::-1], "id"]).schema
    chosen = select(classifier(), shuffled, keep=["remark"])
    assert chosen.features == tuple(NAMES)
    assert chosen.read == ["remark", *NAMES]
    with pytest.raises(InputError, match="there is no column `petal width`"):
        select(classifier(), table().drop_columns(["petal width"]).schema)
    with pytest.raises(InputError, match="there is no column") as caught:
        select(classifier(), schema(**{"a" * 10**5: pa.float64()}))
    assert len(str(caught.value)) < 300


def test_all_numeric_columns_beside_ids_labels_and_an_index() -> None:
    model = regressor()
    plain = schema(id=pa.int64(), **FOUR, name=pa.string(), target=pa.int8())
    assert select(model, plain, keep=["id"]).features == tuple("abcd")
    assert select(model, plain, keep=["id"]).label == "target"
    indexed = schema(**FOUR, __index_level_0__=pa.int64())
    assert select(model, indexed, keep="all").features == tuple("abcd")
    with pytest.raises(InputError, match=r"there are 6 numeric columns .`id`, .* `--columns`"):
        select(model, plain, label=None)


def test_a_feature_may_be_called_y() -> None:
    chosen = select(regressor(), schema(x=pa.float64(), y=pa.float64(), z=pa.int8(), w=pa.int8()))
    assert (chosen.features, chosen.label) == (("x", "y", "z", "w"), None)


def test_labels() -> None:
    model = classifier(names=False)
    for label, expected in (("auto", None), ("truth", "truth"), (-1, "truth"), (None, None)):
        chosen = select(model, schema(**FOUR, truth=pa.string()), label=label, columns=list("abcd"))
        assert chosen.label == expected
    # Text is nothing that these classes could be.
    assert select(model, schema(**FOUR, label=pa.string())).label is None
    assert select(model, schema(**FOUR, label=pa.int64())).label == "label"
    two = schema(**FOUR, label=pa.int64(), y=pa.int64())
    assert select(model, two, columns=list("abcd")).label is None
    with pytest.raises(InputError, match="no column `absent` with labels"):
        select(model, two, label="absent")
    with pytest.raises(InputError, match="`label_column` is 9"):
        select(model, two, label=9)


def test_names_that_are_there_twice() -> None:
    twice = pa.schema([*schema(**FOUR), ("a", pa.int64())])
    for options in ({"keep": ["a"]}, {"keep": "all"}, {"columns": list("abcd")}):
        with pytest.raises(InputError, match="there are 2 columns `a`"):
            select(regressor(), twice, **options)
    with pytest.raises(InputError, match="no column `id` to keep"):
        select(regressor(), schema(**FOUR), keep=["id"])


def test_names_that_are_there_twice_among_text() -> None:
    """Found by the fuzzer: types were asked for by name."""
    twice = pa.schema([("a", pa.string()), ("b", pa.float64()), ("a", pa.float64())])
    with pytest.raises(InputError, match="2 numeric columns"):
        select(regressor(), twice, typed=False)
    four = pa.schema([*twice, ("c", pa.float64())])
    with pytest.raises(InputError, match="there are 2 columns `a`"):
        select(regressor(), four, typed=False)


def test_a_cell_that_is_no_number_does_not_make_the_label_a_feature() -> None:
    """In CSV, such a cell makes its column look like text."""
    guessed = schema(**FOUR | {"a": pa.string(), "y": pa.float64()})
    chosen = select(regressor(), guessed, typed=False)
    assert (chosen.features, chosen.label) == (tuple("abcd"), "y")
    assert set(chosen.kinds.values()) == {"number"}
    with pytest.raises(InputError, match="3 numeric columns"):
        select(regressor(), guessed)


def test_ranges() -> None:
    names = ["id", "x1", "x2", "x3", "a:b", "3"]
    assert expand_columns(["x1:x3"], names) == ["x1", "x2", "x3"]
    assert expand_columns(["a:b", "3", "1:2", "0"], names) == ["a:b", "3", "x1", "x2", "id"]
    assert expand_columns(["x9", "x1:x9", "9"], names) == ["x9", "x1:x9", "9"]
    with pytest.raises(InputError, match="x2 comes after x1"):
        expand_columns(["x2:x1"], names)
    with pytest.raises(InputError, match="must be a list"):
        expand_columns("x1", names)
