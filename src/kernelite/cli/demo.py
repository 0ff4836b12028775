"""`kernelite demo`: train on digits that scikit-learn ships, compile, compare, leave the files."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from shutil import which
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kernelite.cli.arguments import add_json
from kernelite.cli.console import note, print_json, print_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernelite.rows.inputs import FloatArray

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  kernelite demo
  kernelite demo --folder /tmp/digits --json
"""
GAMMA, COST = 0.01, 100.0  # gamma_max of these digits: 0.0108 about the origin, 0.0192 the mean
COLUMNS = [
    *("predictor", "µs per row", "faster", "labels differ", "outside bound", "bytes", "accuracy")
]
MOVES = [(i, j) for i in (0, 1, -1) for j in (0, 1, -1)]


@dataclass(frozen=True)
class Data:
    """Training and test rows, 64 pixels in [0, 1] each, and their digits."""

    X: FloatArray
    y: NDArray[Any]
    X_test: FloatArray
    y_test: NDArray[Any]


@dataclass(frozen=True)
class Result:
    """One row of the table; `outside` is None where there is no validity bound."""

    predictor: str
    microseconds_per_row: float
    times_faster: float
    labels_that_differ: int
    rows_outside_validity: int | None
    bytes_on_disk: int
    accuracy: float


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--folder", default="kernelite-demo", help="where files are left (default: %(default)s)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Train, compile, compare."""
    from sklearn.svm import SVC

    from kernelite.cli.inspect import plan_text

    os.makedirs(args.folder, exist_ok=True)
    data = digits()
    svc = SVC(gamma=GAMMA, C=COST).fit(data.X, data.y)
    note(
        f"trained scikit-learn's SVC on {len(data.X):,} images of digits (10 classes, 64 pixels, "
        f"gamma {GAMMA}, C {COST:g}): {len(svc.support_):,} support vectors"
    )
    results, plan = _compare(svc, data, args.folder)
    _write_data(data, args.folder)
    if args.json:
        print_json({"folder": args.folder, "results": [asdict(result) for result in results]})
        return 0
    print_table(COLUMNS, [_cells(result) for result in results])
    print(f"\n{plan_text(plan, most=2)}")
    print(_next_steps(args.folder, _program()))
    return 0


def digits() -> Data:
    """Every third image is for testing; each is moved by up to one pixel, nine images from one."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    test = np.arange(len(images)) % 3 == 0

    def moved(chosen: NDArray[np.bool_]) -> tuple[FloatArray, NDArray[Any]]:
        framed = np.pad(images[chosen].reshape(-1, 8, 8) / 16, ((0, 0), (1, 1), (1, 1)))
        parts = [framed[:, 1 + i : 9 + i, 1 + j : 9 + j].reshape(-1, 64) for i, j in MOVES]
        return np.concatenate(parts), np.tile(labels[chosen], len(MOVES))

    return Data(*moved(~test), *moved(test))


def _compare(svc: Any, data: Data, folder: str) -> tuple[list[Result], Any]:
    import joblib

    from kernelite.compiler import compile

    reference, slow = _timed(svc.predict, data.X_test)
    pickled = os.path.join(folder, "svc.joblib")
    joblib.dump(svc, pickled)
    results = [_result("scikit-learn", reference, slow, slow, None, pickled, reference, data)]
    default = compile(svc, data.X)
    models = {
        "kernelite, exact": ("exact.kernelite", compile(svc, guarantee="exact")),
        "kernelite, none (the paper)": ("paper.kernelite", compile(svc, data.X, guarantee="none")),
        f"kernelite, {default.guarantee}": ("svc.kernelite", default),
    }
    for name, (file, model) in models.items():
        path = os.path.join(folder, file)
        model.save(path)
        predict = _silent(model)
        labels, seconds = _timed(predict, data.X_test)
        outside = int((~model.valid(data.X_test)).sum()) if model.guarantee == "none" else None
        results.append(_result(name, labels, seconds, slow, outside, path, reference, data))
    _write_labels(labels, folder)
    return results, default.plan


def _silent(model: Any) -> Callable[[Any], Any]:
    return lambda rows: model.predict(rows, on_invalid="ignore")


def _result(
    name: str,
    labels: NDArray[Any],
    seconds: float,
    slow: float,
    outside: int | None,
    path: str,
    reference: NDArray[Any],
    data: Data,
) -> Result:
    return Result(
        name,
        1e6 * seconds / len(labels),
        slow / seconds,
        int((labels != reference).sum()),
        outside,
        os.path.getsize(path),
        float((labels == data.y_test).mean()),
    )


def _timed(predict: Callable[[Any], Any], rows: Any) -> tuple[Any, float]:
    """Answers, and the quickest of up to ten runs in two seconds, after a first small one."""
    predict(rows[:200])
    seconds: list[float] = []
    while len(seconds) < 10 and sum(seconds) < 2:
        start = perf_counter()
        answers = predict(rows)
        seconds.append(perf_counter() - start)
    return answers, min(seconds)


def _cells(result: Result) -> list[str]:
    outside = result.rows_outside_validity
    return [
        result.predictor,
        f"{result.microseconds_per_row:,.1f}",
        f"{result.times_faster:,.1f}x",
        f"{result.labels_that_differ}",
        "-" if outside is None else f"{outside}",
        f"{result.bytes_on_disk:,}",
        f"{100 * result.accuracy:.2f}%",
    ]


def _write_data(data: Data, folder: str) -> None:
    from sklearn.datasets import dump_svmlight_file

    from kernelite.support.files import atomic_write

    for name, X, y in (("train", data.X, data.y), ("test", data.X_test, data.y_test)):
        with atomic_write(os.path.join(folder, f"{name}.svm"), "wb") as file:
            dump_svmlight_file(X, y, file, zero_based=False)


def _write_labels(labels: NDArray[Any], folder: str) -> None:
    from kernelite.support.files import atomic_write

    with atomic_write(os.path.join(folder, "labels.txt")) as file:
        file.writelines(f"{label}\n" for label in labels)


def _next_steps(folder: str, program: str = "kernelite") -> str:
    here = shlex.quote(folder)
    return f"""
left in {folder}: train.svm and test.svm (LIBSVM format), svc.joblib (scikit-learn's model),
svc.kernelite, paper.kernelite and exact.kernelite (compiled), labels.txt (predictions)

try next:
  {program} predict {here}/test.svm {here}/svc.kernelite {here}/labels.txt
  {program} inspect {here}/svc.kernelite
  {program} analyse {here}/train.svm --gamma {GAMMA}
  {program} compile {here}/svc.joblib --allow-pickle -o {here}/origin.kernelite \\
      --guarantee none --expansion-point origin
  {program} check {here}/test.svm"""


def _program() -> str:
    """How this shell runs this very kernelite: `make demo` leaves it outside of the PATH."""
    own, found = os.path.join(os.path.dirname(sys.executable), "kernelite"), which("kernelite")
    if not os.path.exists(own):
        return f"{shlex.quote(sys.executable)} -m kernelite"
    if found is not None and os.path.samefile(found, own):
        return "kernelite"
    inside = os.path.abspath(own).startswith(os.getcwd() + os.sep)
    return shlex.quote(os.path.relpath(own) if inside else own)
