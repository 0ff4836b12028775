"""`kernelite demo`: models of digits that scikit-learn ships, timed; then files to go on with.

A small gamma, which a quadratic form answers; a default `SVC()`, which sums its support vectors;
and one row at a time. Labels are compared with scikit-learn's before anything is timed.

examples:
  kernelite demo
  kernelite demo --folder /tmp/digits --json
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from shutil import which
from textwrap import fill
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import add_json
from kernelite.cli.console import note, print_json, print_table
from kernelite.support.errors import KerneliteError, MissingExtraError, require_scikit_learn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernelite.data.rows.inputs import FloatArray
    from kernelite.model import CompiledModel

__all__ = ["configure", "run"]

SMALL_GAMMA = {"gamma": 0.002, "C": 10.0}  # gamma_max of these digits is 0.0192 about the mean
COLUMNS = ["model", "scikit-learn", "kernelite", "faster", "differ"]
TERMINAL_COLUMNS = (
    80  # characters: the table and each line below it fit into a terminal as it opens
)
MOVES = [(i, j) for i in (0, 1, -1) for j in (0, 1, -1)]
SINGLE_ROWS = 100  # that are asked for one by one
DEMO_KERNELS = (  # which its models need, and the commands that it suggests
    *("bounds_remainder_kernel", "densify__scatter_kernel", "densify__take_kernel"),
    *("judging_bound_rows", "judging_judge_rows", "judging_label_rows", "judging_settle_rows"),
    *("judging_take_open", "libsvm_kernel_read_lines", "pairs_walk_rows"),
    *("panel_sums_double_scores", "panel_sums_single_scores", "panel_values_several_scores"),
    *("quadratic_dense_form_kernel", "spectral_dense_spectral_kernel", "tangents_row_tangents"),
    "third_dense_third_kernel",
)


@dataclass(frozen=True)
class Data:
    """Training and test rows, 64 pixels in [0, 1] each, and their digits."""

    X: FloatArray
    y: NDArray[Any]
    X_test: FloatArray
    y_test: NDArray[Any]

    def two_classes(self) -> Data:
        """Even digits against odd ones."""
        return Data(self.X, self.y % 2, self.X_test, self.y_test % 2)


@dataclass(frozen=True)
class Result:
    """One row of the table: microseconds per row, and labels compared."""

    model: str
    support_vectors: int
    scikit_learn: float
    kernelite: float
    one_thread: float
    labels_that_differ: int
    labels: int

    @property
    def times_faster(self) -> float:
        """How much faster than scikit-learn, on all threads here."""
        return self.scikit_learn / self.kernelite


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "--folder", default="kernelite-demo", help="where files are left (default: %(default)s)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Train, compile, compare."""
    require_scikit_learn("the demo needs")
    from sklearn.svm import SVC

    os.makedirs(args.folder, exist_ok=True)
    _build_kernels()
    data = digits()
    two = data.two_classes()
    note(f"training scikit-learn's SVC on {len(data.X):,} images of digits, 64 pixels each: twice")
    small, default = SVC(**SMALL_GAMMA).fit(two.X, two.y), SVC().fit(data.X, data.y)
    form, sums = _compiled({"a small gamma": (small, two), "SVC()": (default, data)})
    results = [
        _compared("small gamma, even or odd", small, form, [two.X_test]),
        _compared("default SVC(), ten digits", default, sums, [data.X_test]),
        _compared("the same, one row a call", default, sums, list(data.X_test[:SINGLE_ROWS, None])),
    ]
    page = _write_files(args.folder, two, small, form, sums)
    if args.json:
        found = [asdict(result) | {"times_faster": result.times_faster} for result in results]
        print_json({"folder": args.folder, "report": page, "results": found})
        return 0
    _tell(results, form, sums)
    print(_next_steps(args.folder, page, _program()))
    return 0


def _tell(results: list[Result], form: CompiledModel, sums: CompiledModel) -> None:
    from kernelite.backends.cpu.threads import thread_count

    print_table(COLUMNS, [_cells(result) for result in results])
    alone = [_time(result.one_thread) for result in results]
    print(
        "\nTimes per row, and labels that differ. scikit-learn predicts on one thread,\n"
        f"kernelite on {thread_count()} here; on one it takes {', '.join(alone[:-1])} and "
        f"{alone[-1]}.\n"
    )
    for name, model in (("small gamma", form), ("default SVC()", sums)):
        line = f"{name}: {str(model.plan).splitlines()[0]}"
        print(fill(line, TERMINAL_COLUMNS, subsequent_indent="  "))
    print(
        "A form is a quadratic function of the row. Where its bound proves the label, no\n"
        "support vector is looked at."
    )


def digits() -> Data:
    """Images of digits, each moved by up to one pixel, nine from one; a third is for testing."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    test = np.arange(len(images)) % 3 == 0

    def moved(chosen: NDArray[np.bool_]) -> tuple[FloatArray, NDArray[Any]]:
        framed = np.pad(images[chosen].reshape(-1, 8, 8) / 16, ((0, 0), (1, 1), (1, 1)))
        parts = [framed[:, 1 + i : 9 + i, 1 + j : 9 + j].reshape(-1, 64) for i, j in MOVES]
        return np.concatenate(parts), np.tile(labels[chosen], len(MOVES))

    X, y = moved(~test)
    return Data(X[::2], y[::2], *moved(test))


def _build_kernels() -> None:
    """Build what the demo needs, unless all kernels are there; then nobody waits for numba."""
    from kernelite.backends.cpu.kernels.build import build_if_missing

    if os.environ.get("KERNELITE_KERNELS"):
        return
    try:
        build_if_missing(DEMO_KERNELS)
    except KerneliteError as error:
        note(f"no kernels are built: {error}")


def _compiled(models: dict[str, tuple[Any, Data]]) -> list[CompiledModel]:
    """Compile each, and load its kernels for batches and for single rows."""
    from kernelite.model.compiler import compile
    from kernelite.support.terminal import Progress

    found = []
    with Progress("compiling models", len(models)) as bar:
        for svc, data in models.values():
            found.append(compile(svc, data.X))
            for count in (1, len(data.X_test)):
                found[-1].predict(data.X_test[:count])
            bar.advance()
    return found


def _compared(name: str, svc: Any, fast: CompiledModel, calls: list[FloatArray]) -> Result:
    """Labels, then times, of all calls: a batch, or many of one row."""
    import numpy as np

    from kernelite.backends.cpu.threads import limit_threads

    rows = np.concatenate(calls)
    labels = np.concatenate([fast.predict(call) for call in calls])
    differ = int((labels != svc.predict(rows)).sum())
    theirs, ours = _seconds(svc.predict, calls), _seconds(fast.predict, calls)
    with limit_threads(1):
        alone = _seconds(fast.predict, calls)
    scale = 1e6 / len(rows)
    times = (scale * theirs, scale * ours, scale * alone)
    return Result(name, len(svc.support_), *times, differ, len(rows))


def _seconds(predict: Callable[[Any], Any], calls: list[FloatArray]) -> float:
    """The quickest of up to ten runs in two seconds."""
    seconds: list[float] = []
    while len(seconds) < 10 and sum(seconds) < 2:
        start = perf_counter()
        for rows in calls:
            predict(rows)
        seconds.append(perf_counter() - start)
    return min(seconds)


def _time(microseconds: float) -> str:
    return f"{microseconds:,.0f} µs" if microseconds >= 100 else f"{microseconds:.3g} µs"


def _cells(result: Result) -> list[str]:
    return [
        result.model,
        _time(result.scikit_learn),
        _time(result.kernelite),
        f"{result.times_faster:,.0f}x",
        f"{result.labels_that_differ} of {result.labels:,}",
    ]


# Files that the commands of the README and of the first steps take.


def _write_files(
    folder: str, data: Data, svc: Any, fast: CompiledModel, sums: CompiledModel
) -> str | None:
    """Rows, the LIBSVM model, compiled models, and a report if its libraries are there."""
    from sklearn.datasets import dump_svmlight_file

    from kernelite.support.files import atomic_write

    for name, X, y in (("train", data.X, data.y), ("test", data.X_test, data.y_test)):
        with atomic_write(os.path.join(folder, f"{name}.svm"), "wb") as file:
            dump_svmlight_file(X, y, file, zero_based=False)
    with atomic_write(os.path.join(folder, "svm.model")) as file:
        file.writelines(_libsvm_lines(svc))
    fast.save(os.path.join(folder, "svm.kernelite"))
    sums.save(os.path.join(folder, "digits.kernelite"))
    page = os.path.join(folder, "report.html")
    try:
        fast.report(data.X_test, page, model=svc)
    except MissingExtraError as error:
        note(f"no report page: {error}")
        return None
    return page


def _libsvm_lines(svc: Any) -> Iterator[str]:
    """A fitted SVC of two classes as LIBSVM's text, whose first label has positive scores."""
    import numpy as np

    first, second = (int(label) for label in svc.classes_)
    few, many = (int(count) for count in svc.n_support_)
    yield from (
        "svm_type c_svc\n",
        "kernel_type rbf\n",
        f"gamma {svc._gamma!r}\n",
        "nr_class 2\n",
        f"total_sv {few + many}\n",
        f"rho {-float(svc.intercept_[0])!r}\n",
        f"label {second} {first}\n",
        f"nr_sv {many} {few}\n",
        "SV\n",
    )
    for i in np.roll(np.arange(few + many), -few):  # those of the first label come first
        row = svc.support_vectors_[i]
        entries = (f"{j + 1}:{row[j].item()!r}" for j in np.flatnonzero(row))
        yield f"{svc.dual_coef_[0, i].item()!r} {' '.join(entries)}\n"


def _next_steps(folder: str, page: str | None, program: str = "kernelite") -> str:
    here = shlex.quote(folder)
    report = "" if page is None else f"\nreport: {os.path.abspath(page)}"
    return f"""
left in {folder}: train.svm and test.svm (LIBSVM's format),
svm.model (a LIBSVM model), svm.kernelite and digits.kernelite (compiled){report}

try next:
  {program} compile {here}/svm.model --sample {here}/train.svm -o {here}/svm.kernelite
  {program} predict {here}/test.svm {here}/svm.kernelite {here}/labels.txt
  {program} inspect {here}/svm.kernelite
  {program} export {here}/svm.kernelite -o {here}/svm.h
  {program} check {here}/test.svm --model {here}/svm.kernelite"""


def _program() -> str:
    """How this shell runs this very kernelite: `make demo` leaves it outside of the PATH."""
    own, found = os.path.join(os.path.dirname(sys.executable), "kernelite"), which("kernelite")
    if not os.path.exists(own):
        return f"{shlex.quote(sys.executable)} -m kernelite"
    if found is not None and os.path.samefile(found, own):
        return "kernelite"
    inside = os.path.abspath(own).startswith(os.getcwd() + os.sep)
    return shlex.quote(os.path.relpath(own) if inside else own)
