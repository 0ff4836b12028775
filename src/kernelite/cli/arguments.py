"""Arguments that several verbs share: how to read data, how to compile, grids of numbers.

argparse turns an `ArgumentTypeError` into a usage line and exit code 2.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import math
import re
from typing import Any

from kernelite.data.tables.parsing import BadNumber, parse_float

__all__ = [
    "COLUMNAR",
    "add_column_options",
    "add_compile_options",
    "add_data_options",
    "add_json",
    "add_pickle",
    "column_list",
    "column_reading",
    "compile_options",
    "data_options",
    "grid",
    "positive",
    "whole",
]

COLUMNAR = ("parquet", "arrow", "csv")
"""Formats that pyarrow reads; `csv` is columns with names, `delimited` a table of numbers."""

_BYTES = re.compile(r"([0-9]+)\s*(k|m|g)?i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def positive(text: str) -> float:
    """A positive number.

    Examples
    --------
    >>> positive("0.5")
    0.5
    """
    try:
        number = parse_float(text.strip())
    except BadNumber as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if number <= 0:
        raise argparse.ArgumentTypeError(f"`{text}` should be positive")
    return number


def whole(low: int) -> Any:
    """A parser of integers from `low` on.

    Examples
    --------
    >>> whole(2)("5")
    5
    """

    def parse(text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()) is None or int(text) < low:
            raise argparse.ArgumentTypeError(f"`{text}` should be an integer, {low} or more")
        return int(text)

    return parse


def grid(text: str) -> list[float]:
    """Numbers with commas between them, or LOW:HIGH:COUNT for a geometric range.

    Examples
    --------
    >>> grid("1,10,100")
    [1.0, 10.0, 100.0]
    >>> [round(value, 6) for value in grid("0.01:1:3")]
    [0.01, 0.1, 1.0]
    """
    if ":" not in text:
        return [positive(part) for part in text.split(",")]
    parts = text.split(":")
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"`{text}` should be numbers `a,b,c` or `LOW:HIGH:COUNT`")
    low, high, count = positive(parts[0]), positive(parts[1]), whole(1)(parts[2])
    if count > 1000:
        raise argparse.ArgumentTypeError(f"`{text}` asks for {count} values, at most 1000 are")
    step = math.log(high / low) / max(count - 1, 1)
    return [low * math.exp(step * i) for i in range(count)]


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON for machines instead")


def add_pickle(parser: argparse.ArgumentParser) -> None:
    """`--allow-pickle`, with its risk."""
    parser.add_argument(
        "--allow-pickle",
        action="store_true",
        help="read MODEL as a scikit-learn pickle or joblib file; WARNING: unpickling runs any "
        "code that the file holds, so only do this with a file that you trust",
    )


def add_data_options(parser: argparse.ArgumentParser, *, columnar: bool = False) -> None:
    """How a data file is read, where its name and content do not tell."""
    more = ", Parquet, Arrow, Feather" if columnar else ""
    group = parser.add_argument_group(f"data files (LIBSVM text, CSV, TSV, .npy, .npz{more})")
    group.add_argument(
        "--data-format",
        choices=(*("libsvm", "delimited", "npy", "npz"), *(COLUMNAR if columnar else ())),
        help="by default told by the name, then by the content",
    )
    group.add_argument(
        "--delimiter", metavar="CHAR", type=_delimiter, help="of delimited text; `tab`, `space`"
    )
    group.add_argument(
        "--label-column",
        metavar="COLUMN",
        type=_column,
        help="name, position from 0 (negative: from the end) or `none`; by default a column "
        "called label, target, class or y",
    )
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of delimited text holds names; by default told by its cells",
    )


def data_options(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `read_data` and `iter_data`: only what was given."""
    options = {"format": args.data_format, "delimiter": args.delimiter, "header": args.header}
    given = {name: value for name, value in options.items() if value is not None}
    if args.label_column is not None:
        given["label_column"] = None if args.label_column == "none" else args.label_column
    return given


def add_column_options(parser: argparse.ArgumentParser) -> Any:
    """Which columns are features; gives the group, for options of the verb's own."""
    group = parser.add_argument_group("columns of Parquet, Arrow, Feather and CSV (extra `arrow`)")
    group.add_argument(
        "--columns",
        metavar="NAMES",
        type=column_list,
        help="features in the model's order: names or ranges with commas between them, such as "
        "age,x1:x9; by default those that the model was fitted on, else all numeric columns",
    )
    return group


def column_reading(args: argparse.Namespace) -> dict[str, Any]:
    """How columnar files are read: `label_column` and `text` of a `Request` or a `Wanted`."""
    from kernelite.data.tables.columnar.reading import TextOptions

    label = "auto" if args.label_column is None else args.label_column
    text = TextOptions(args.delimiter, args.header)
    return {"label_column": None if label == "none" else label, "text": text}


def column_list(text: str) -> list[str]:
    """Names with commas between them, in quotes where they hold one.

    Examples
    --------
    >>> column_list('age,"height, cm",x1:x9')
    ['age', 'height, cm', 'x1:x9']
    """
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names or not all(names):
        raise argparse.ArgumentTypeError(f"`{text}` should be names such as `a,b,c`")
    return names


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """How a model is compiled; the choices and defaults are `kernelite.compile`'s own."""
    from kernelite.model.compiler import GUARANTEES, compile

    default = {name: p.default for name, p in inspect.signature(compile).parameters.items()}
    group = parser.add_argument_group("compiling")
    add = group.add_argument
    add(
        "--guarantee",
        choices=GUARANTEES,
        help=f"what the labels or values promise (default: {default['guarantee']})",
    )
    add(
        "--expansion-point",
        metavar="POINT",
        type=_point,
        help="auto, mean, origin (the paper), or numbers with commas between them "
        f"(default: {default['expansion_point']})",
    )
    add("--tolerance", type=positive, help="largest error of a certified value, in output units")
    add(
        "--max-disagreement",
        metavar="SHARE",
        type=positive,
        help="the most labels that may differ, with --guarantee calibrated "
        f"(default: {default['max_disagreement']:g})",
    )
    add(
        "--confidence",
        type=positive,
        help="how surely they are no more, with --guarantee calibrated "
        f"(default: {default['confidence']:g})",
    )
    add("--max-bytes", metavar="BYTES", type=_bytes, help="the most a form may take, e.g. 512M")
    add("--random-state", metavar="SEED", type=whole(0), help="of random draws (default: 0)")


def compile_options(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `kernelite.compile`: only what was given."""
    names = (
        *("guarantee", "expansion_point", "tolerance", "max_disagreement", "confidence"),
        *("max_bytes", "random_state"),
    )
    values = {name: getattr(args, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _point(text: str) -> str | list[float]:
    if re.fullmatch(r"[a-z]+", text):
        return text
    try:
        return [parse_float(part.strip()) for part in text.split(",")]
    except BadNumber as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _bytes(text: str) -> int:
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"`{text}` should be a number of bytes such as 512M")
    return int(found[1]) * _UNITS[(found[2] or "").lower()]


def _column(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else text


def _delimiter(text: str) -> str:
    named = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ","}
    return named.get(text, text)
