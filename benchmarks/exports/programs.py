"""C: kernelite's header and m2cgen's code of the same model, sizes and nanoseconds per row.

m2cgen writes one expression of all support vectors. It takes minutes for thousands of them, and gcc
needs longer still for the result: where gcc does not finish in time, m2cgen's code is timed for a
model of the first few hundred vectors, which favours it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import cache_path
from benchmarks.modes import compiled
from benchmarks.rebuild import rebuilt_svc
from benchmarks.settings import Settings
from benchmarks.workloads import Workload
from kernelite.backends.c import to_c
from kernelite.cli.console import note
from kernelite.machine.expansion import KernelExpansion
from kernelite.sources import Machine
from kernelite.support.files import atomic_write
from tests.model.export.cases import constant_bytes

__all__ = ["HEADERS", "c_table"]

HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "form that says what is proven (--with-decided)": (
        "none",
        {"part": "approximation", "decided": True},
    ),
    "certified, exact model inside (default)": ("certified", {}),
}
FEW = 500  # support vectors of the model that gcc can compile from m2cgen's code
ROWS, FEW_ROWS = 2000, 200
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


def c_table(workload: Workload, settings: Settings, gcc_seconds: float) -> list[dict[str, Any]]:
    """A line a program: text, constants and machine code in bytes, nanoseconds per row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, program = _m2cgen(workload, gcc_seconds)
        lines = [_line("m2cgen", workload, text, program)]
        if program is None:
            few = _with_few_vectors(workload)
            lines.append(_line(f"m2cgen, {FEW} support vectors", few, *_m2cgen(few, gcc_seconds)))
        for title, (guarantee, options) in HEADERS.items():
            model, _ = compiled(workload, guarantee, **_certificate(guarantee))
            text = to_c(model, name="m", **options)
            score = "static double score(double *x) { double s; m_score(x, &s); return s; }\n"
            program = folder / f"{len(lines)}"
            _build(text + score, workload, program, gcc_seconds)
            lines.append(_line(title, workload, text, program, constant_bytes(text)))
        for _ in range(settings.rounds):
            for line in lines:
                _time(line, workload.rows)
    return _compared(lines)


def _compared(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    peer = next(line for line in lines if line["nanoseconds"] is not None)
    for line in lines:
        spent = line["nanoseconds"]
        line["times_faster"] = None if spent is None else peer["nanoseconds"] / spent
        line["times_smaller"] = lines[0]["text"] / line["text"]
        del line["path"]
    return lines


def _certificate(guarantee: str) -> dict[str, Any]:
    return {"certificate": True} if guarantee == "none" else {}


def _line(
    title: str, workload: Workload, text: str, program: Path | None, constants: int | None = None
) -> dict[str, Any]:
    """Sizes, and labels compared with those of the model that the program was made of."""
    rows = workload.rows[: FEW_ROWS if title.startswith("m2cgen") else ROWS]
    differ = None
    if program is not None:
        scores, _ = _run(program, rows, 1)
        answers = _labels(workload, title.startswith("m2cgen"), scores)
        differ = int(np.count_nonzero(answers != workload.labels[: len(rows)]))
    return {
        "program": title,
        "path": program,
        "text": len(text),
        "constants": constants,
        "code": None if program is None else _code_bytes(program),
        "support_vectors": workload.expansion.n_centers,
        "labels_differ": differ,
        "rows": len(rows),
        "nanoseconds": None,
    }


def _time(line: dict[str, Any], rows: np.ndarray) -> None:
    if line["path"] is None:
        return
    repeats = 1 if line["program"].startswith("m2cgen") else 100
    spent = 1e9 * _run(line["path"], rows[: line["rows"]], repeats)[1]
    line["nanoseconds"] = min(spent, line["nanoseconds"] or np.inf)


def _with_few_vectors(workload: Workload) -> Workload:
    """A model of the first vectors of both signs: as quick a program as m2cgen could hope for."""
    whole = workload.expansion
    weights = whole.coefficients[:, 0]
    chosen = [np.flatnonzero(weights > 0)[: FEW // 2], np.flatnonzero(weights < 0)[: FEW // 2]]
    kept = np.concatenate(chosen)
    expansion = KernelExpansion(
        whole.dense_centers()[kept], weights[kept], whole.intercept, gamma=whole.gamma
    )
    source: Machine = replace(workload.source, expansion=expansion)
    return Workload(f"{workload.name}, cut", source, workload.rows, workload.sample)


def _m2cgen(workload: Workload, gcc_seconds: float) -> tuple[str, Path | None]:
    """m2cgen's text, and its program if gcc manages; both are kept in the benchmarks' cache."""
    arrays = (workload.expansion.dense_centers(), workload.expansion.coefficients)
    key = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]
    text_file, program = cache_path(f"m2cgen-{key}.c"), cache_path(f"m2cgen-{key}")
    if not text_file.exists():
        note(f"m2cgen is writing {workload.expansion.n_centers:,} support vectors as C")
        with atomic_write(text_file) as file:
            file.write(_with_deep_stack(lambda: _export(rebuilt_svc(workload.source))))
    text = text_file.read_text(encoding="utf-8")
    if not program.exists():
        note(f"gcc is compiling m2cgen's code, for at most {gcc_seconds:.0f} s")
        if not _build(text, workload, program, gcc_seconds):
            return text, None
    return text, program


def _export(svc: Any) -> str:
    import m2cgen

    return str(m2cgen.export_to_c(svc))


def _with_deep_stack(work: Callable[[], str]) -> str:
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


def _build(text: str, workload: Workload, program: Path, seconds: float) -> bool:
    """Compile C text that defines `score` with a timer around it; False if time runs out."""
    timer = TIMER.replace("ROWS", str(ROWS))
    timer = timer.replace("FEATURES", str(workload.expansion.n_features)).replace("SCORE", "score")
    with tempfile.TemporaryDirectory() as name:
        source, made = Path(name, "timer.c"), Path(name, "timer")
        source.write_text(text + timer, encoding="utf-8")
        command = ["gcc", "-std=c99", "-O2", source, "-o", made, "-lm"]
        # A group of its own: the compiler proper is a child of the command.
        process = subprocess.Popen(command, start_new_session=True)
        try:
            code = process.wait(seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return False
            raise
        if code:
            raise RuntimeError(f"gcc ended with {code}")
        with atomic_write(program, "wb") as file:
            file.write(made.read_bytes())
    program.chmod(0o755)
    return True


def _code_bytes(program: Path) -> int:
    """Machine code and constants of a program, as `size` counts them."""
    out = subprocess.run(["size", program], capture_output=True, text=True, check=True).stdout
    return int(out.splitlines()[1].split()[0])


def _run(program: Path, rows: np.ndarray, repeats: int) -> tuple[np.ndarray, float]:
    """Scores of the rows, and seconds per row."""
    data = np.ascontiguousarray(rows).tobytes()
    command = [program, str(repeats)]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    numbers = np.array(done.stdout.split(), dtype=float)
    return numbers[: len(rows)], float(numbers[-1])


def _labels(workload: Workload, from_sklearn: bool, scores: np.ndarray) -> np.ndarray:
    if from_sklearn:  # its sign: positive means the second class
        return np.asarray(workload.source.head.classes)[(scores > 0).astype(int)]
    return np.asarray(workload.source.head.predict(scores[:, None]))
