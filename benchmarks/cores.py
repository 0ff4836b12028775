"""How predictions scale with cores, beside scikit-learn-intelex in the same process.

    python -m benchmarks.cores                       # all cores of this machine: 1, 2, 4, ...
    python -m benchmarks.cores --threads 1 2 --rows 50000

Writes results/cores.json, docs/measured/cores.md and its picture: eight minutes for 1 to 16 cores.
Each number of threads has a process of its own that may use so many cores, and no others. Labels
are compared with scikit-learn's before anything is timed; the best of several turns counts.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, results

__all__ = ["MODELS", "main"]

HERE = Path(__file__).resolve().parent.parent
PAGE, PICTURE = HERE / "docs/measured/cores.md", HERE / "docs/img/cores.svg"
OTHERS_FILE = "others.dump"
SMALL_ROWS, CALLERS, DIFFERENT_ROWS = 1000, 16, 10_000
CALLER_CALLS = 2000  # of each of many callers at most: the start of their threads should not count
CALLER_SECONDS = 0.25  # which they should take together
CALL_ROWS = 8  # of a batch that shows what a call takes besides its rows
SECONDS = 0.6  # for a figure: as many turns as fit, and two at least
FEWEST_ROWS = 4000  # of a large batch, where a call would take longer than that
PEER_SECONDS = 0.6  # that a call of the peer should take at most
# name: rows to fit, features, classes, parameters of the SVC
MODELS: dict[str, tuple[int, int, int, dict[str, float]]] = {
    "two classes, few vectors": (2100, 20, 2, {}),
    "two classes": (8400, 22, 2, {}),
    "two classes, small gamma": (8400, 22, 2, {"gamma": 0.002, "C": 10.0}),
    "two classes, 60 features": (6000, 60, 2, {}),
    "twenty classes": (10500, 16, 20, {}),
}
# Whose other answers are timed, for few rows and for many: rows to fit, features, classes, method.
OTHERS: dict[str, tuple[int, int, int, str]] = {
    "SVR, values": (4000, 22, 2, "predict"),
    "KernelRidge, values": (4000, 22, 2, "predict"),
    "Matern Gaussian process, values": (1500, 22, 2, "predict"),
    "Gaussian process, standard deviations": (1500, 22, 2, "deviations"),
    "OneClassSVM, labels": (4000, 22, 2, "predict"),
    "KernelDensity, log densities": (4000, 5, 2, "score_samples"),
    "SVC of two classes, decision values": (8400, 22, 2, "decision_function"),
    "SVC of ten classes, decision values": (3000, 16, 10, "decision_function"),
    "SVC of ten classes, probabilities": (3000, 16, 10, "predict_proba"),
}
OTHER_ROWS, OTHER_SECONDS = 20_000, 0.3


def main(arguments: list[str] | None = None) -> int:
    """Fit the models, run one process per number of threads, write page and picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads (1, 2, 4, ...)")
    parser.add_argument("--rows", type=int, default=200_000, help="of a large batch (200,000)")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"for each figure ({SECONDS})"
    )
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the figures, write no page")
    parser.add_argument(
        "--page",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="write the page of figures that --json printed",
    )
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(_measure(options.folder, options.one, options.seconds)))
        return 0
    if options.page:
        _write(_joined([json.loads(file.read_text(encoding="utf-8")) for file in options.page]))
        return 0
    cores = len(os.sched_getaffinity(0))
    counts = options.threads or [2**i for i in range(cores.bit_length()) if 2**i <= cores]
    if max(counts) > cores or min(counts) < 1:
        parser.error(f"--threads must be from 1 to the {cores} cores of this process")
    with tempfile.TemporaryDirectory() as folder:
        _fit(Path(folder), options.models, options.rows)
        _fit_others(Path(folder))
        found = [_in_a_process(Path(folder), count, options.seconds) for count in counts]
    whole = {"machine": machine.describe(), "rows": options.rows, "threads": found}
    if options.json:
        print(json.dumps(whole))
        return 0
    _write(whole)
    return 0


def _joined(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs of several numbers of threads on one machine as one."""
    threads = [one for run in runs for one in run["threads"]]
    return runs[0] | {"threads": sorted(threads, key=lambda one: one["threads"])}


def _write(whole: dict[str, Any]) -> None:
    (results.FOLDER / "cores.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(whole), encoding="utf-8")
    _draw(whole)


def _fit(folder: Path, names: list[str], rows: int) -> None:
    from sklearn.svm import SVC

    import kernelite as kl

    for name in names:
        n, d, k, parameters = MODELS[name]
        X, y = _data(n, d, k)
        svc = SVC(**parameters).fit(X[:n], y[:n])
        few = X[n:]
        given = {"vectors": len(svc.support_), "few": few, "labels": svc.predict(few)}
        given |= {"rows": rows, "peer": _peer(parameters, X[:n], y[:n])}
        given |= {"fast": kl.compile(svc, X[:n])}
        given |= {"exact": kl.compile(svc, X[:n], guarantee="exact")}
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(given))
        print(f"fitted: {name}, {len(svc.support_)} support vectors", file=sys.stderr)


def _data(n: int, d: int, k: int) -> tuple[Any, Any]:
    """Rows of d standardised features and their labels; n to fit, and half as many to predict."""
    from sklearn.datasets import make_classification
    from sklearn.preprocessing import StandardScaler

    X, y = make_classification(
        *(n * 10 // 7, d),
        n_informative=min(d, 15),
        n_redundant=0,
        n_classes=k,
        n_clusters_per_class=1 if k > 2 else 2,
        random_state=3,
    )
    return StandardScaler().fit_transform(X), y


def _fit_others(folder: Path) -> None:
    import warnings

    import kernelite as kl

    given = {}
    for name, (n, d, k, method) in OTHERS.items():
        X, y = _data(n, d, k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SVC(probability=True) goes from scikit-learn some day
            fitted = _other(name.split(",")[0], X[:n], y[:n])
        given[name] = kl.compile(fitted, X[:n]), method, np.resize(X[n:], (OTHER_ROWS, d))
        print(f"fitted: {name}", file=sys.stderr)
    (folder / OTHERS_FILE).write_bytes(pickle.dumps(given))


def _other(name: str, X: Any, y: Any) -> Any:
    """A model of another kind, fitted; values to learn are made of the features."""
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.neighbors import KernelDensity
    from sklearn.svm import SVC, SVR, OneClassSVM

    values = np.sin(X[:, 0]) + X[:, 1] ** 2
    noise = kernels.WhiteKernel(0.1)
    if "Gaussian process" in name:
        own = kernels.Matern(3.0, nu=2.5) if "Matern" in name else kernels.RBF(3.0)
        return GaussianProcessRegressor(own + noise, optimizer=None).fit(X, values)
    if name.startswith("SVC"):
        return SVC(probability="ten" in name).fit(X, y)
    machines = {"SVR": SVR(C=10.0), "OneClassSVM": OneClassSVM(nu=0.2)}
    machines |= {"KernelRidge": KernelRidge(kernel="rbf", gamma=0.05)}
    machines |= {"KernelDensity": KernelDensity(bandwidth=1.0)}
    return machines[name].fit(X, values)


def _peer(parameters: dict[str, float], X: Any, y: Any) -> Any:
    """The same machine of scikit-learn-intelex; None where that is not installed."""
    try:
        from sklearnex.svm import SVC
    except ImportError:
        return None
    return SVC(**parameters).fit(X, y)


def _in_a_process(folder: Path, count: int, seconds: float) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(count)}
    command = [sys.executable, "-m", "benchmarks.cores", "--one", str(count)]
    command += ["--seconds", str(seconds)]
    done = subprocess.run(
        [*command, "--folder", str(folder)],
        env=environment,
        cwd=HERE,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(f"measured with {count} threads", file=sys.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _measure(folder: Path, count: int, seconds: float) -> dict[str, Any]:
    global SECONDS
    SECONDS = seconds
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    files = sorted(folder.glob("*.pickle"), key=lambda file: list(MODELS).index(file.stem))
    models = [_one_model(file) for file in files]
    return {"threads": count, "models": models, "others": _others(folder / OTHERS_FILE)}


def _others(file: Path) -> list[dict[str, Any]]:
    """Nanoseconds per row of other models' answers, for few rows and for many."""
    found = []
    for name, (model, method, X) in pickle.loads(file.read_bytes()).items():
        few, many = np.ascontiguousarray(X[:SMALL_ROWS]), np.ascontiguousarray(X)
        call = _deviations(model) if method == "deviations" else getattr(model, method)
        call(few)
        for_few = _best(lambda: call(few), len(few), OTHER_SECONDS)  # noqa: B023
        for_many = _best(lambda: call(many), len(many), OTHER_SECONDS)  # noqa: B023
        found.append({"name": name, "few": for_few, "many": for_many})
    return found


def _deviations(model: Any) -> Callable[[Any], Any]:
    return lambda X: model.predict(X, return_std=True)[1]


def _one_model(file: Path) -> dict[str, Any]:
    """Nanoseconds per row of each contestant, microseconds per call of single rows."""
    given = pickle.loads(file.read_bytes())  # written by the parent, a moment ago
    few, fast, exact = given["few"], given["fast"], given["exact"]
    X = np.ascontiguousarray(np.resize(few, (given["rows"], few.shape[1])))
    for model in (fast, exact):
        if not (model.predict(few) == given["labels"]).all():
            raise SystemExit(f"cores: labels differ on {file.stem}")
    small, row = X[:SMALL_ROWS], X[:1]
    found = {
        "model": file.stem,
        "support_vectors": given["vectors"],
        "features": few.shape[1],
        "plan": fast.plan.chosen.name,
        "certified": _large(fast.predict, X),
        "exact": _large(exact.predict, X),
        "values": _large(fast.decision_function, X),
        "read": _read(X, len(os.sched_getaffinity(0))),
        "small batch": _best(lambda: fast.predict(small), len(small)),
        "call": _best(lambda: fast.predict(X[:CALL_ROWS]), 1000),
        "callers": _concurrent(fast, small, CALLERS),
        "one caller": _concurrent(fast, small, 1),
        **_each_row(fast.predict, few),
        "one row callers": _concurrent(fast, row, CALLERS) / 1000.0,
    }
    time.sleep(0.1)
    if (peer := given["peer"]) is None:
        return found
    peer.predict(X[:100])
    each = _best(lambda: peer.predict(X[:1000]), 1000, 0.0)
    some = X[: max(1000, int(PEER_SECONDS * 1e9 / each))]
    return found | {"intelex": _best(lambda: peer.predict(some), len(some))}


def _large(call: Callable[[Any], object], X: Any) -> float:
    """Nanoseconds per row of a large batch: of all rows, unless that takes too long."""
    call(X[:FEWEST_ROWS])
    each = _best(lambda: call(X[:FEWEST_ROWS]), FEWEST_ROWS, 0.0)
    some = X[: max(FEWEST_ROWS, int(SECONDS * 1e9 / each))]
    return _best(lambda: call(some), len(some))


def _read(X: Any, count: int) -> float:
    """Nanoseconds per row of nothing but reading: each thread adds up its share of the numbers."""
    parts = np.array_split(X.reshape(-1), count)
    with ThreadPoolExecutor(count) as pool:
        return _best(lambda: list(pool.map(np.add.reduce, parts)), len(X))


def _best(call: Callable[[], object], rows: int, seconds: float | None = None) -> float:
    """Nanoseconds per row of the quickest of several turns."""
    seconds = SECONDS if seconds is None else seconds
    taken: list[float] = []
    while len(taken) < 2 or sum(taken) < seconds:
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return 1e9 * min(taken) / rows


def _each_row(call: Callable[[Any], object], few: Any) -> dict[str, float]:
    """Microseconds of a call with one row: half of all different rows, and all but a hundredth."""
    rng = np.random.default_rng(0)
    rows = np.resize(few, (DIFFERENT_ROWS, few.shape[1]))
    rows = rows + 0.01 * rng.normal(size=rows.shape)
    taken = np.empty(len(rows))
    for i in range(-100, len(rows)):
        started = time.perf_counter()
        call(rows[i : i + 1] if i >= 0 else rows[:1])
        taken[i] = 1e6 * (time.perf_counter() - started)
    half, most = np.percentile(taken, [50, 99])
    return {"one row": float(half), "one row p99": float(most)}


def _concurrent(model: Any, rows: Any, callers: int) -> float:
    """Nanoseconds per row where so many threads ask for the same rows at the same time."""
    each = _best(lambda: model.predict(rows), 1, 0.0) * 1e-9
    calls = min(max(int(CALLER_SECONDS / (CALLERS * each)), 20), CALLER_CALLS) * CALLERS // callers

    def one() -> float:
        ready = threading.Barrier(callers + 1)

        def caller() -> None:
            ready.wait()
            for _ in range(calls):
                model.predict(rows)

        threads = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in threads:
            thread.start()
        ready.wait()
        started = time.perf_counter()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started

    taken: list[float] = []
    while len(taken) < 2 or sum(taken) < SECONDS:
        taken.append(one())
    return 1e9 * min(taken) / (callers * calls * len(rows))


# The page.


def page(found: dict[str, Any]) -> str:
    """The figures as a page of the documentation."""
    most = found["threads"][-1]
    lines = [
        "# All cores",
        "",
        f"Nanoseconds per row in batches of up to {found['rows']:,} rows, of {SMALL_ROWS:,} rows, "
        f"and of {CALLERS} threads that ask for {SMALL_ROWS:,} rows each at the same time; "
        f"microseconds of one row (median and 99th percentile of {DIFFERENT_ROWS:,} different "
        f"ones), and per row where {CALLERS} threads ask for one each. Labels are equal to "
        "scikit-learn's. scikit-learn-intelex runs in the same process, on the same cores. "
        "`python -m benchmarks.cores` measures it again.",
        "",
        "Callers of few rows take turns, each with all threads: to hand Python's interpreter over "
        "takes as long as their work.",
        "",
        "![How much faster more threads are](../img/cores.svg)",
        "",
    ]
    heads = ("threads", "certified", "exact", "values", "1,000 rows", "16 callers")
    heads += ("one row", "p99", "16 callers of one", "intelex", "intelex / certified")
    for number, model in enumerate(most["models"]):
        lines += [f"## {model['model'].capitalize()} ({model['support_vectors']:,} vectors)", ""]
        lines += [f"Plan: {model['plan']}.", ""]
        lines += ["| " + " | ".join(heads) + " |", "|" + "--:|" * len(heads)]
        runs = [(run["threads"], run["models"][number]) for run in found["threads"]]
        lines += [_line(threads, own) for threads, own in runs]
        lines += [""]
        if len(runs) > 1:
            lines += [_scaling(runs), "", _limits(runs), ""]
    lines += [*_other_lines(found["threads"]), ""]
    lines += [f"Measured on {machine.in_words(found['machine'])}.", ""]
    return "\n".join(lines)


def _other_lines(runs: list[dict[str, Any]]) -> list[str]:
    """The table of other answers."""
    counts = [run["threads"] for run in runs]
    lines = ["## Other answers", ""]
    lines += [f"Nanoseconds per row: {SMALL_ROWS:,} rows at a time, then {OTHER_ROWS:,}.", ""]
    heads = [f"{count} thread{'s' * (count > 1)}" for count in counts]
    heads = ["answers", *heads, "times faster", *heads, "times faster"]
    lines += ["| " + " | ".join(heads) + " |", "|--|" + "--:|" * (len(heads) - 1)]
    for number, first in enumerate(runs[0]["others"]):
        cells = [first["name"]]
        for key in ("few", "many"):
            own = [run["others"][number][key] for run in runs]
            cells += [f"{one:,.0f}" for one in own] + [f"{own[0] / own[-1]:.1f}"]
        lines += ["| " + " | ".join(cells) + " |"]
    return lines


def _line(threads: int, own: dict[str, Any]) -> str:
    """A line of a model's table."""
    peer = own.get("intelex")
    cells = [f"{threads}"]
    cells += [f"{own[key]:,.0f}" for key in ("certified", "exact", "values")]
    cells += [f"{own[key]:,.0f}" for key in ("small batch", "callers")]
    cells += [f"{own[key]:,.1f}" for key in ("one row", "one row p99", "one row callers")]
    cells += ["-", "-"] if peer is None else [f"{peer:,.0f}", f"{peer / own['certified']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def _scaling(runs: list[tuple[int, dict[str, Any]]]) -> str:
    """What more threads bring, in a sentence."""
    (few, first), (many, last) = runs[0], runs[-1]
    times = [f"{first[key] / last[key]:.1f} times ({key})" for key in ("certified", "exact")]
    times += [f"{first['small batch'] / last['small batch']:.1f} times (1,000 rows)"]
    return (
        f"{many} threads are faster than {few} by {', '.join(times)}. {CALLERS} callers get "
        f"{last['certified'] / last['callers']:.0%} of the throughput of one large batch, and "
        f"{last['one caller'] / last['callers']:.0%} of that of one caller with all cores."
    )


def _limits(runs: list[tuple[int, dict[str, Any]]]) -> str:
    """What no number of threads can change, in three sentences."""
    (few, first), (many, last) = runs[0], runs[-1]
    around = max(first["call"] - CALL_ROWS * first["certified"] / 1000.0, 0.0)
    whole = SMALL_ROWS * first["small batch"] / 1000.0
    most = whole / (around + (whole - around) * few / many)
    products = first["support_vectors"] * first["features"] / first["exact"] / few
    return (
        f"The limit: a call takes {around:.1f} us besides what its rows take, measured with "
        f"{CALL_ROWS}, so that {SMALL_ROWS:,} rows could gain {most:.1f} times if all threads "
        "began at once. "
        f"Reading a row and nothing else takes {first['read']:.1f} ns with {few} and "
        f"{last['read']:.1f} with {many}. Exact sums do {products:.0f} multiply-adds a nanosecond "
        "in a thread, and an exponential for each vector besides."
    )


def _draw(found: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    counts = [run["threads"] for run in found["threads"]]
    for number, model in enumerate(found["threads"][0]["models"]):
        own = [run["models"][number]["certified"] for run in found["threads"]]
        axes.plot(counts, [own[0] / one for one in own], marker="o", label=model["model"])
    axes.plot(counts, [count / counts[0] for count in counts], color="0.7", linestyle=":")
    axes.set(
        xlabel="threads", ylabel=f"times faster than with {counts[0]}", xscale="log", yscale="log"
    )
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_yticks(
        [count / counts[0] for count in counts],
        labels=[f"{count // counts[0]}" for count in counts],
    )
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
