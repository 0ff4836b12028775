"""`python -m benchmarks.exports [--sections onnx c] [--models ijcnn1 "a9a 0.01" mnist1]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.exports.graphs import onnx_table
from benchmarks.exports.programs import c_table
from benchmarks.exports.text import document_text
from benchmarks.settings import PRESETS
from benchmarks.workloads import available, load
from kernelite.cli.console import note
from kernelite.support.files import atomic_write

__all__ = ["main"]

PAGE = Path(__file__).parents[2] / "docs" / "exports.md"
MODELS = ("a9a 0.01", "ijcnn1", "mnist1")
IN_C = "ijcnn1"
"""The model small enough for a microcontroller."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the sections, save them and write the page."""
    args = _arguments(argv)
    settings = PRESETS[args.preset]
    content: dict[str, Any] = {section: {} for section in args.sections}
    for name in args.models:
        workload = load(name, sample_rows=settings.sample_rows)
        if "onnx" in args.sections:
            note(f"{name}: ONNX graphs")
            content["onnx"][name] = onnx_table(workload, settings)
        if "c" in args.sections and name == IN_C:
            note(f"{name}: C programs")
            content["c"][name] = c_table(workload, settings, args.gcc_seconds)
    path = results.save("exports", content, settings, args.preset, args.out)
    text = document_text(json.loads(path.read_text(encoding="utf-8")))
    with atomic_write(args.page) as file:
        file.write(text)
    print(text)
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exports", description=__doc__)
    here = [name for name in available() if name in MODELS]
    parser.add_argument("--sections", nargs="+", choices=("onnx", "c"), default=("onnx", "c"))
    parser.add_argument("--models", nargs="+", choices=here, default=here, metavar="NAME")
    parser.add_argument("--preset", choices=PRESETS, default="quick")
    parser.add_argument(
        "--gcc-seconds",
        type=float,
        default=300.0,
        metavar="S",
        help="how long gcc may take for m2cgen's code of the whole model (default: 300)",
    )
    parser.add_argument("--out", type=Path, default=results.FOLDER, help="folder of the JSON")
    parser.add_argument("--page", type=Path, default=PAGE, help="the Markdown to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
