"""Exports against what others export: onnxruntime on both graphs, C code size and speed.

    python -m benchmarks.exports [--sections onnx c] [--models ijcnn1 "a9a 0.01" mnist1]

Labels are compared with the exact model's before anything is timed; an export without the exact
model inside must only agree where it says `decided`. Contestants take turns, the best turn counts,
and ratios are to skl2onnx's SVMClassifier graph and to m2cgen's C code of the same model. m2cgen
takes minutes for thousands of support vectors (its time grows with their square), and so does gcc
for what it writes; both are kept in the benchmarks' cache.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.contestant import Contestant, verify
from benchmarks.data import cache_path
from benchmarks.modes import compiled
from benchmarks.peers import onnx_runtime
from benchmarks.report import markdown, times
from benchmarks.settings import PRESETS, Settings
from benchmarks.timing import race, rows_within
from benchmarks.workloads import Workload, available, load
from kernelite.cli.console import note
from kernelite.export import to_c, to_onnx
from kernelite.export.c_arrays import constant_bytes

__all__ = ["c_table", "main", "onnx_table"]

BATCH = 4096  # rows a call, as a server would send them
ONNX = {
    "form": ("none", {}),
    "form with decided": ("certified", {"part": "approximation", "decided": True}),
    "certified, exact inside": ("certified", {}),
    "exact": ("certified", {"part": "exact"}),
}
C = {
    "form with decided": ("none", {"part": "approximation", "decided": True}),
    "certified, exact inside": ("certified", {}),
}
TIMER = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 1;
    static double rows[ROWS][FEATURES];
    const size_t count = fread(rows, sizeof rows[0], ROWS, stdin);
    size_t i;
    int r;
    double sum = 0.0;
    clock_t start;
    for (i = 0; i < count; i++)
        printf("%.17g\\n", (double)SCORE(rows[i]));
    start = clock();
    for (r = 0; r < repeats; r++)
        for (i = 0; i < count; i++)
            sum += SCORE(rows[i]);
    printf("%.17g\\n", sum);
    printf("%.17g\\n", (double)(clock() - start) / CLOCKS_PER_SEC / repeats / (double)count);
    return 0;
}
"""


def onnx_table(workload: Workload, settings: Settings) -> list[dict[str, Any]]:
    """A line a graph: microseconds a row, times faster than skl2onnx's, bytes."""
    contestants = [onnx_runtime.prepare(workload)]
    contestants += [_graph(workload, name, *choice) for name, choice in ONNX.items()]
    calls = {}
    counts = {}
    for contestant in contestants:
        predict = contestant.predict
        converted = contestant.convert(workload.rows)
        count = rows_within(predict, converted, settings.seconds)
        verdict = verify(contestant, workload, count)
        counts[contestant.name] = (count, verdict.differences)
        calls[contestant.name] = lambda p=predict, r=converted[:count]: p(r)
    timings = race(calls, rounds=settings.rounds, seconds=settings.seconds)
    first = contestants[0].name
    seconds = {name: timings[name].best / counts[name][0] for name in calls}
    return [
        {
            "graph": contestant.name,
            "microseconds": 1e6 * seconds[contestant.name],
            "ratio": seconds[first] / seconds[contestant.name],
            "labels_differ": counts[contestant.name][1],
            "rows": counts[contestant.name][0],
            "bytes": contestant.nbytes,
        }
        for contestant in contestants
    ]


def _graph(workload: Workload, name: str, guarantee: str, options: dict[str, Any]) -> Contestant:
    import onnxruntime

    extra = {"certificate": True} if guarantee == "none" else {}
    model, _ = compiled(workload, guarantee, **extra)
    if options.get("part") == "approximation" and model.approximation is None:
        options = {"part": "exact"}
    data = to_onnx(model, **options).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])

    def predict(rows: np.ndarray) -> np.ndarray:
        parts = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
        return np.concatenate([session.run(["label"], {"X": part})[0] for part in parts])

    kept = name in ("exact", "certified, exact inside")
    return Contestant(name, "kernelite", predict, must_agree=kept, nbytes=len(data))


def c_table(workload: Workload, settings: Settings) -> list[dict[str, Any]]:
    """A line a program: text, constants and machine code in bytes, nanoseconds a row."""
    with tempfile.TemporaryDirectory() as folder:
        programs = {"m2cgen": _m2cgen(workload)}
        for name, (guarantee, options) in C.items():
            programs[name] = _header(workload, Path(folder), name, guarantee, options)
        calls = {}
        lines: dict[str, dict[str, Any]] = {}
        for name, (program, facts) in programs.items():
            rows = workload.rows[: 200 if name == "m2cgen" else 2000]
            scores, _ = _run(program, rows, 1)
            differ = int(
                np.count_nonzero(_labels(workload, name, scores) != workload.labels[: len(rows)])
            )
            lines[name] = {"program": name, **facts, "labels_differ": differ, "rows": len(rows)}
            calls[name] = lambda p=program, r=rows, n=name: _run(p, r, 1 if n == "m2cgen" else 100)
        nanoseconds: dict[str, float] = {}
        for _ in range(settings.rounds):
            for name, call in calls.items():
                spent = 1e9 * call()[1]
                nanoseconds[name] = min(spent, nanoseconds.get(name, np.inf))
    for name, line in lines.items():
        line["nanoseconds"] = nanoseconds[name]
        line["times_faster"] = nanoseconds["m2cgen"] / nanoseconds[name]
        line["times_smaller"] = lines["m2cgen"]["text"] / line["text"]
    return list(lines.values())


def _header(
    workload: Workload, folder: Path, name: str, guarantee: str, options: dict[str, Any]
) -> tuple[Path, dict[str, Any]]:
    extra = {"certificate": True} if guarantee == "none" else {}
    model, _ = compiled(workload, guarantee, **extra)
    text = to_c(model, name="m", **options)
    score = "static double score(double *x) { double s; m_score(x, &s); return s; }\n"
    program = _build(text + score, workload, folder / name.replace(" ", "_").replace(",", ""))
    return program, {
        "text": len(text),
        "constants": constant_bytes(text),
        "code": _code_bytes(program),
    }


def _m2cgen(workload: Workload) -> tuple[Path, dict[str, Any]]:
    arrays = (workload.expansion.dense_centers(), workload.expansion.coefficients)
    key = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]
    text_file, program = cache_path(f"m2cgen-{key}.c"), cache_path(f"m2cgen-{key}")
    if not text_file.exists():
        note("m2cgen is writing its code; this takes minutes")
        text_file.write_text(_with_deep_stack(lambda: _export(workload.svc)), encoding="utf-8")
    text = text_file.read_text(encoding="utf-8")
    if not program.exists():
        note("gcc is compiling m2cgen's code; this takes minutes")
        _build(text, workload, program)
    return program, {"text": len(text), "constants": None, "code": _code_bytes(program)}


def _export(svc: Any) -> str:
    import m2cgen

    return str(m2cgen.export_to_c(svc))


def _with_deep_stack(work: Any) -> str:
    """m2cgen nests an expression per support vector."""
    out: list[str] = []
    limit, size = sys.getrecursionlimit(), threading.stack_size(512 * 2**20)
    sys.setrecursionlimit(10**6)
    thread = threading.Thread(target=lambda: out.append(work()))
    thread.start()
    thread.join()
    sys.setrecursionlimit(limit)
    threading.stack_size(size)
    return out[0]


def _build(text: str, workload: Workload, program: Path) -> Path:
    """Compile C text that defines `score` with a timer around it."""
    timer = TIMER.replace("ROWS", "2000").replace("FEATURES", str(workload.expansion.n_features))
    source = program.with_suffix(".timer.c")
    source.write_text(text + timer.replace("SCORE", "score"), encoding="utf-8")
    subprocess.run(["gcc", "-std=c99", "-O2", source, "-o", program, "-lm"], check=True)
    source.unlink()
    return program


def _code_bytes(program: Path) -> int:
    """Machine code and constants of a program, as `size` counts them."""
    out = subprocess.run(["size", program], capture_output=True, text=True, check=True).stdout
    return int(out.splitlines()[1].split()[0])


def _run(program: Path, rows: np.ndarray, repeats: int) -> tuple[np.ndarray, float]:
    """Scores of the rows, and seconds a row."""
    data = np.ascontiguousarray(rows).tobytes()
    command = [program, str(repeats)]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    numbers = np.array(done.stdout.split(), dtype=float)
    return numbers[: len(rows)], float(numbers[-1])


def _labels(workload: Workload, name: str, scores: np.ndarray) -> np.ndarray:
    if name == "m2cgen":  # scikit-learn's sign: positive means the larger label
        classes = np.sort(workload.source.head.classes)
        return classes[(scores > 0).astype(int)]
    return np.asarray(workload.source.head.predict(scores[:, None]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections and print Markdown tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exports", description=__doc__)
    here = [name for name in available() if name in ("a9a 0.01", "ijcnn1", "mnist1")]
    parser.add_argument("--sections", nargs="+", choices=("onnx", "c"), default=("onnx", "c"))
    parser.add_argument("--models", nargs="+", choices=here, default=here, metavar="NAME")
    parser.add_argument("--preset", choices=PRESETS, default="quick")
    parser.add_argument("--out", type=Path, default=results.FOLDER)
    args = parser.parse_args(argv)
    settings = PRESETS[args.preset]
    content: dict[str, Any] = {}
    for name in args.models:
        workload = load(name, sample_rows=settings.sample_rows)
        if "onnx" in args.sections:
            content[f"onnx {name}"] = table = onnx_table(workload, settings)
            print(f"\nONNX, {name}, batches of {BATCH}\n")
            print(_onnx_text(table))
        if "c" in args.sections and name == "ijcnn1":
            content[f"c {name}"] = table = c_table(workload, settings)
            print(f"\nC, {name}, gcc -O2\n")
            print(_c_text(table))
    results.save("exports", content, settings, args.preset, args.out)
    return 0


def _onnx_text(table: list[dict[str, Any]]) -> str:
    columns = ["graph", "us a row", "skl2onnx", "labels differ", "rows", "bytes"]
    rows = [
        [
            line["graph"],
            f"{line['microseconds']:.3g}",
            times(line["ratio"]),
            f"{line['labels_differ']:,}",
            f"{line['rows']:,}",
            f"{line['bytes']:,}",
        ]
        for line in table
    ]
    return markdown(columns, rows)


def _c_text(table: list[dict[str, Any]]) -> str:
    columns = [
        "program",
        "text bytes",
        "constants",
        "code",
        "smaller",
        "ns a row",
        "faster",
        "differ",
    ]
    rows = [
        [
            line["program"],
            f"{line['text']:,}",
            "-" if line["constants"] is None else f"{line['constants']:,}",
            f"{line['code']:,}",
            times(line["times_smaller"]),
            f"{line['nanoseconds']:,.0f}",
            times(line["times_faster"]),
            f"{line['labels_differ']} of {line['rows']}",
        ]
        for line in table
    ]
    return markdown(columns, rows)


if __name__ == "__main__":
    sys.exit(main())
